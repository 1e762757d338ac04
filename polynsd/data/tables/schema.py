"""`TableSchema`: what was learned from the tables a model was trained on, to read others in the same way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.recipe import FeatureRecipe


@dataclass(frozen=True)
class TableSchema:
    """Columns, categories, means and classes of a pair of tables.

    Args:
        options: what each column means, every one by its name.
        node_features: the columns of node features, in the order of the features.
        edge_features: the columns of edge features.
        task: `classification`, `regression`, or None without labels.
        class_names: the classes in the order of their numbers.
    """

    options: ReadOptions
    node_features: tuple[FeatureRecipe, ...]
    edge_features: tuple[FeatureRecipe, ...] = ()
    task: str | None = None
    class_names: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TableSchema:
        """From plain data, also from JSON."""
        names = plain["class_names"]
        return cls(
            ReadOptions.of(**plain["options"]),
            tuple(map(FeatureRecipe.from_dict, plain["node_features"])),
            tuple(map(FeatureRecipe.from_dict, plain["edge_features"])),
            plain["task"],
            None if names is None else tuple(names),
        )
