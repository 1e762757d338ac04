"""Groups of runs beside each other: mean ± std, and differences over the splits they share.

Only what has the same dataset, protocol and metric is compared. A difference is taken split by split (equal
fingerprints of the masks; equal numbers where there are none; seeds on one split are averaged first), so that
the luck of a split does not count.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, pstdev
from typing import Any

from polynsd.errors import ConfigError, unknown_name
from polynsd.runs.table import SPLITS, Row

BLOCK = ("dataset", "protocol", "metric")
CONFIG = "config."


@dataclass(frozen=True)
class Group:
    """Splits that are averaged."""

    block: tuple[str | None, ...]
    label: tuple[str, ...]
    rows: tuple[Row, ...]

    @cached_property
    def tests(self) -> dict[str, float]:
        """Test metric by split."""
        by_split: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            by_split[row["fingerprint"] or f"split {row['split']}"].append(row["test"])
        return {split: fmean(values) for split, values in by_split.items()}

    @property
    def val(self) -> float | None:
        """Mean of the validation metric."""
        values = [row["val"] for row in self.rows if row["val"] is not None]
        return fmean(values) if values else None


def compare_rows(rows: Sequence[Row], by: Sequence[str], baseline: str | None = None) -> list[Row]:
    """One row per group, with its difference to the baseline of its block.

    Args:
        rows: of `split_rows`.
        by: columns that make a group, also `config.KEY.KEY`; dataset, protocol and metric always do.
        baseline: a label; the group that is best on validation unless given.
    """
    groups = group_rows(rows, by)
    if baseline is not None and not any(_is_called(group, baseline) for group in groups):
        raise unknown_name("baseline", baseline, {" / ".join(group.label) for group in groups})
    blocks: dict[tuple[str | None, ...], list[Group]] = defaultdict(list)
    for group in groups:
        blocks[group.block].append(group)
    columns = [column for column in by if column not in BLOCK]
    return [
        {
            **dict(zip(BLOCK, group.block, strict=True)),
            **dict(zip(columns, group.label, strict=True)),
            **_numbers(group),
            **_against(group, _baseline(block, baseline)),
        }
        for block in blocks.values()
        for group in block
    ]


def group_rows(rows: Sequence[Row], by: Sequence[str]) -> list[Group]:
    """The groups of all rows that have a test metric, in the order of the rows."""
    for column in by:
        if column not in SPLITS and not column.startswith(CONFIG):
            raise unknown_name("column", column, SPLITS)
    columns = [column for column in by if column not in BLOCK]
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row["test"] is not None:
            block = tuple(row[key] for key in BLOCK)
            groups[block, tuple(_value(row, column) for column in columns)].append(row)
    if not groups:
        raise ConfigError("there is no finished run with a test metric to compare. See: polynsd runs list")
    return [Group(block, label, tuple(members)) for (block, label), members in groups.items()]


def _value(row: Row, column: str) -> str:
    if not column.startswith(CONFIG):
        return str(row[column])
    value = json.loads(row["config"] or "{}")
    for key in column.removeprefix(CONFIG).split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value)


def _is_called(group: Group, name: str) -> bool:
    return name in (*group.label, " / ".join(group.label))


def _baseline(block: Sequence[Group], name: str | None) -> Group | None:
    if name is not None:
        return next((group for group in block if _is_called(group, name)), None)
    return max(block, key=lambda group: -float("inf") if group.val is None else group.val)


def _numbers(group: Group) -> Row:
    tests = [row["test"] for row in group.rows]
    return {
        "runs": len({row["folder"] for row in group.rows}),
        "n": len(tests),
        "val": group.val,
        "test": fmean(tests),
        "std": pstdev(tests),
    }


def _against(group: Group, baseline: Group | None) -> Row:
    """The paired difference; no numbers for the baseline itself and where no split is shared."""
    empty: Row = dict.fromkeys(("against", "difference", "difference_std", "pairs", "wins"))
    if baseline is None or group is baseline:
        return empty
    shared = [split for split in group.tests if split in baseline.tests]
    found = [group.tests[split] - baseline.tests[split] for split in shared]
    empty |= {"against": " / ".join(baseline.label), "pairs": len(found)}
    if not found:
        return empty
    wins = sum(difference > 0 for difference in found)
    return empty | {"difference": fmean(found), "difference_std": pstdev(found), "wins": wins}
