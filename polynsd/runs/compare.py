"""Groups of runs beside each other: mean ± std, and differences over the splits they share.

Only what has the same dataset, protocol and metric is compared. A difference is taken split by split (equal
fingerprints of the masks; equal numbers where there are none; seeds on one split are averaged first), so that
easy and hard splits do not count as a difference of models.
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
from polynsd.runs.table import SPLITS, Row, average_scores

BLOCK = ("dataset", "protocol", "metric")
CONFIG = "config."


@dataclass(frozen=True)
class Group:
    """Rows of splits that are averaged."""

    block: tuple[str | None, ...]
    label: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return " / ".join(self.label)

    @cached_property
    def tests(self) -> dict[str, float]:
        """Test metric by split, averaged over seeds."""
        by_split: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            by_split[_split_key(row)].append(row["test"])
        return {split: fmean(values) for split, values in by_split.items()}

    @property
    def val(self) -> float | None:
        """Mean of the validation metric."""
        return average_scores(self.rows)["val"]

    def summarise(self) -> Row:
        num_runs = len({row["folder"] for row in self.rows})
        return {"runs": num_runs, "n": len(self.rows), **average_scores(self.rows)}

    def compare_with(self, baseline: Group | None) -> Row:
        """The paired difference; no numbers for the baseline itself and where no split is shared."""
        row: Row = dict.fromkeys(("against", "difference", "difference_std", "pairs", "wins"))
        if baseline is None or self is baseline:
            return row
        differences = [test - baseline.tests[s] for s, test in self.tests.items() if s in baseline.tests]
        row |= {"against": baseline.name, "pairs": len(differences)}
        if differences:
            row |= {"difference": fmean(differences), "wins": sum(each > 0 for each in differences)}
        if len(differences) > 1:  # one says nothing of its spread
            row["difference_std"] = pstdev(differences)
        return row


def compare_rows(rows: Sequence[Row], by: Sequence[str], baseline: str | None = None) -> list[Row]:
    """One row per group, with its difference to the baseline of its block.

    Args:
        rows: of `split_rows`.
        by: columns that make a group, also `config.KEY.KEY`; dataset, protocol and metric always do.
        baseline: a label; the group that is best on validation unless given.
    """
    columns = [column for column in by if column not in BLOCK]
    blocks: dict[tuple[str | None, ...], list[Group]] = defaultdict(list)
    for group in group_rows(rows, by):
        blocks[group.block].append(group)
    baselines = {block: _find_baseline(groups, baseline) for block, groups in blocks.items()}
    if baseline is not None and not any(baselines.values()):
        names = {group.name for groups in blocks.values() for group in groups}
        raise unknown_name("baseline", baseline, names)
    return [
        {
            **dict(zip(BLOCK, group.block, strict=True)),
            **dict(zip(columns, group.label, strict=True)),
            **group.summarise(),
            **group.compare_with(baselines[block]),
        }
        for block, groups in blocks.items()
        for group in groups
    ]


def require_comparable(rows: Sequence[Row]) -> None:
    """Raises, in words, if runs that a user wants to compare with each other have nothing to compare."""
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        runs[row["folder"]].append(row)
    first, *others = runs.items()
    problems = [
        f"{name} has no score on unseen rows (it is {members[0]['state']})"
        for name, members in runs.items()
        if all(row["test"] is None for row in members)
    ]
    for name, members in others if not problems else ():
        for column in BLOCK:
            ours, theirs = first[1][0][column], members[0][column]
            if ours != theirs:
                problems.append(f"the {column} is {ours} in {first[0]}, {theirs} in {name}")
    if problems:
        raise ConfigError(
            f"these runs cannot be compared: {'; '.join(problems)}. Compare runs of one dataset, protocol "
            "and metric."
        )
    for name, members in others:
        if not {_split_key(row) for row in members} & {_split_key(row) for row in first[1]}:
            raise ConfigError(
                f"these runs cannot be compared: {first[0]} and {name} were tested on different rows. "
                "Fit both with the same tables, test share and seed."
            )


def _split_key(row: Row) -> str:
    return row["fingerprint"] or f"split {row['split']}"


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
            groups[block, tuple(_get_label(row, column) for column in columns)].append(row)
    if not groups:
        raise ConfigError("there is no finished run with a test metric to compare. See: polynsd runs list")
    return [Group(block, label, tuple(members)) for (block, label), members in groups.items()]


def _get_label(row: Row, column: str) -> str:
    if not column.startswith(CONFIG):
        return str(row[column])
    value = json.loads(row["config"] or "{}")
    for key in column.removeprefix(CONFIG).split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value)


def _find_baseline(groups: Sequence[Group], name: str | None) -> Group | None:
    if name is not None:
        return next((group for group in groups if name in (*group.label, group.name)), None)
    return max(groups, key=lambda group: -float("inf") if group.val is None else group.val)
