"""What each column of the owner's tables means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from polynsd.data.tables.labels import TASKS
from polynsd.data.tables.tables import ID, SOURCE, TARGET
from polynsd.errors import ConfigError, require_choice, unknown_name

NODE_OPTIONS = ("label", "id_column", "features")


@dataclass(frozen=True)
class ReadOptions:
    """What each column means; the defaults ask for nothing but ids and features.

    Args:
        label: the column of the node table to predict, where a gap, or −1 among whole numbers, is no label;
            none by default.
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
    def of(cls, **options: Any) -> ReadOptions:
        """From keywords; a name that does not exist is an error with a guess at the one meant."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise unknown_name("option", name, known)
        return cls(**options)

    def with_reserved_ids(self) -> ReadOptions:
        """The options for tables of attributes, whose id columns are not the owner's to name."""
        return replace(self, id_column=ID, source=SOURCE, target=TARGET)

    def require_no_node_options(self) -> None:
        """Raises if something is asked of a node table that was not given."""
        asked = [name for name in NODE_OPTIONS if getattr(self, name)]
        if asked:
            raise ConfigError(
                f"{', '.join(asked)} needs a node table, but only edges were given; pass nodes=…."
            )
