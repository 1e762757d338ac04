"""`ReadOptions`: what each column of a user's tables means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from polynsd.errors import ConfigError, require_choice, unknown_name

TASKS = ("auto", "classification", "regression")
NODE_OPTIONS = ("label", "id_column", "features")
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
        categorical: columns to encode one-hot although they hold numbers or text that hardly repeats.
        task: `classification`, `regression`, or `auto`, which looks at the label column.
        missing: `error`, or `mean` to fill gaps in features with the mean and mark them.
    """

    label: str | None = None
    id_column: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    edge_features: Sequence[str] = ()
    features: Sequence[str] | None = None
    categorical: Sequence[str] | None = None
    task: str = "auto"
    missing: str = "error"

    def __post_init__(self) -> None:
        require_choice("task", self.task, TASKS)
        require_choice("rule for missing values", self.missing, ("error", "mean"))
        for name in ("edge_features", "features", "categorical"):
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
