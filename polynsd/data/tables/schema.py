"""What reading tables takes and gives: `ReadOptions`, `ReadReport`, `TableSchema`, `ReadResult`.

The options say what each column means; the schema is what was learned from the tables (categories, means,
classes), by which other tables are read in the same way; the report says what became of all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.edges import AGGREGATES, EdgeReport
from polynsd.data.graph import Graph
from polynsd.data.tables.encoder import FeatureEncoder
from polynsd.data.tables.features import describe_columns
from polynsd.data.tables.files import TextFormat
from polynsd.errors import ConfigError, require_choice, unknown_name
from polynsd.fields import fit_fields

logger = logging.getLogger("polynsd")

TASKS = ("auto", "classification", "regression")
NODE_OPTIONS = ("label", "id_column", "features", "group", "time")
ID, SOURCE, TARGET = "@id", "@source", "@target"  # id columns beside attributes of any name


@dataclass(frozen=True)
class ReadOptions:
    """What each column means. By default there are ids and features, and nothing to predict.

    Args:
        label: the column of the node table to predict, where a gap, or −1 among whole numbers, is no label.
        id_column: the column of ids in the node table; the first by default.
        source: the column of the edge table where an edge begins; the first by default.
        target: the column where it ends; the second by default.
        weight: the column of edge weights; none by default.
        edge_features: the columns of edge features.
        features: the columns of node features; all that are left by default, `()` for none.
        exclude: columns of either table that are not used.
        categorical: columns to encode one-hot although they hold numbers or text that hardly repeats.
        group: a column of the node table; nodes of one group belong to the same part of a split.
        time: a column of numbers or dates of the node table, by which a split may separate past and future.
        task: `classification`, `regression`, or `auto`, which looks at the label column.
        missing: `mean` to fill gaps in features with the mean and mark them, or `error`.
        aggregate: what becomes of the values of edges that are given several times: `mean` or `sum`.
        delimiter: between the fields of text files; a comma in .csv and a tab in .tsv files by default.
        encoding: of text files.
        decimal: what stands before the decimals of numbers in text files, `.` or `,`.
    """

    label: str | None = None
    id_column: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    edge_features: Sequence[str] = ()
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    categorical: Sequence[str] | None = None
    group: str | None = None
    time: str | None = None
    task: str = "auto"
    missing: str = "mean"
    aggregate: str = "mean"
    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."

    def __post_init__(self) -> None:
        require_choice("task", self.task, TASKS)
        require_choice("rule for missing values", self.missing, ("error", "mean"))
        require_choice("way to aggregate edges", self.aggregate, AGGREGATES)
        for name in ("edge_features", "features", "categorical", "exclude"):
            if isinstance(getattr(self, name), str):
                raise ConfigError(
                    f"{name} must be a list of columns; got the string {getattr(self, name)!r}."
                )

    @classmethod
    def from_keywords(cls, **options: Any) -> ReadOptions:
        """Like the constructor, but an unknown name is an error with a guess at the one meant."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise unknown_name("option", name, names)
        return cls(**options)

    @property
    def text_format(self) -> TextFormat:
        """How text files are written."""
        return TextFormat(self.delimiter, self.encoding, self.decimal)

    def with_reserved_ids(self) -> ReadOptions:
        """For GraphML and NetworkX, whose ids are no attributes that a user could name."""
        return replace(self, id_column=ID, source=SOURCE, target=TARGET)

    def require_no_node_options(self) -> None:
        """Raises if something is asked of a node table that was not given."""
        names = [name for name in NODE_OPTIONS if getattr(self, name)]
        if names:
            raise ConfigError(
                f"{', '.join(names)} needs a node table, but only edges were given; pass nodes=…."
            )


@dataclass(frozen=True)
class ReadReport:
    """What became of every row and column that was given."""

    edges: EdgeReport
    num_nodes: int
    isolated: int = 0  # nodes without an edge
    task: str | None = None  # None without labels
    unlabelled: int = 0  # rows to predict
    numbers: tuple[str, ...] = ()  # columns that are features as they are
    one_hot: Mapping[str, int] = field(default_factory=dict)  # column -> number of categories
    pooled: Mapping[str, int] = field(default_factory=dict)  # column -> rare categories that share a feature
    words: Mapping[str, int] = field(default_factory=dict)  # column of sentences -> number of words
    dates: tuple[str, ...] = ()  # columns that became days since 1970
    filled: Mapping[str, int] = field(default_factory=dict)  # column -> missing values that were filled
    edge_feature_names: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # columns that no option names
    left_out: Mapping[str, str] = field(default_factory=dict)  # column -> why no feature could be made of it

    def __str__(self) -> str:
        parts = [f"{self.num_nodes} nodes, {self.isolated} without an edge", str(self.edges)]
        if self.task is not None:
            parts.append(f"{self.task} with {self.unlabelled} unlabelled nodes")
        parts += describe_columns(
            self.numbers, self.one_hot, self.pooled, self.words, self.dates, self.filled
        )
        if self.left_out:
            parts.append("columns left out: " + ", ".join(self.left_out))
        if self.unused:
            parts.append("columns not used: " + ", ".join(self.unused))
        return "; ".join(parts)

    def log(self, name: str) -> None:
        """Logs the report on the graph `name`, and as a warning the columns that went unused."""
        logger.info("%s: %s", name, self)
        for reason in self.left_out.values():
            logger.warning("%s: left out: %s", name, reason)
        if self.unused:
            logger.warning(
                "%s: columns not used: %s. Name those you want in weight, edge_features or features.",
                name,
                ", ".join(self.unused),
            )


@dataclass(frozen=True)
class TableSchema:
    """What was learned from the tables a model was trained on, to read others in the same way.

    Args:
        options: what each column means, every one by its name.
        node_features: how the columns of node features are encoded, in the order of the features.
        edge_features: likewise for edges.
        task: `classification`, `regression`, or None without labels.
        class_names: the classes in the order of their numbers.
    """

    options: ReadOptions
    node_features: tuple[FeatureEncoder, ...]
    edge_features: tuple[FeatureEncoder, ...] = ()
    task: str | None = None
    class_names: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """From the result of `to_dict`, also after JSON."""
        return fit_fields(cls, values)


@dataclass(frozen=True, eq=False)
class ReadResult:
    """A graph, the report, and the schema by which other tables can be read.

    Args:
        graph: the graph of the tables.
        report: what became of their rows and columns.
        schema: of these tables, or the one that was given.
        unseen: column → rows whose category the given schema does not know.
        unknown_labels: labels that are none of the given schema's classes.
        groups: `[N]` the number of every node's group, −1 where it has none; None without `group`.
        times: `[N]` the number or the day of every node; None without `time`.
    """

    graph: Graph
    report: ReadReport
    schema: TableSchema
    unseen: Mapping[str, int]
    unknown_labels: int
    groups: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
