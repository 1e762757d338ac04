"""`FeatureRecipe`: how a column became features, so that it does so again in another table.

The categories and the mean are those of the first table. A category that it did not have is an error,
or a row of zeros if that is asked for. A gap is an error or the first table's mean, as it was there; it
is marked if the first table had gaps too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNSEEN_RULES = ("error", "ignore")


@dataclass(frozen=True)
class FeatureRecipe:
    """What has to be known of a column of the first table.

    Args:
        column: its name.
        categories: their names in the order of their features; None for numbers.
        mean: of the numbers, which stands in for missing ones.
        marks_missing: whether a last feature marks the missing values.
    """

    column: str
    categories: tuple[str, ...] | None = None
    mean: float = 0.0
    marks_missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        values = [self.column]
        if self.categories is not None:
            values = [f"{self.column}={category}" for category in self.categories]
        return (*values, f"{self.column} is missing") if self.marks_missing else tuple(values)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FeatureRecipe:
        """From plain data."""
        categories = plain["categories"]
        return cls(**{**plain, "categories": None if categories is None else tuple(categories)})
