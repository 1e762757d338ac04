"""Findings on the paper's claims, and how checks are registered.

    @check("C31")
    def check_hardware() -> Finding:
        return Finding(REFUTED, "the text names two ...")

claims.csv has the statement of every claim and the experiments that its check needs. A check that reads
records takes them as a table, any other takes nothing. A claim of several parts is confirmed only where all
of them are, and too few records decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from polynsd.errors import require_choice

if TYPE_CHECKING:
    import pandas as pd

CONFIRMED, REFUTED, PARTLY, NOT_TESTABLE = "confirmed", "refuted", "partly", "not testable here"
VERDICTS = (CONFIRMED, REFUTED, PARTLY, NOT_TESTABLE)
KINDS = ("theory", "efficiency", "protocol", "data", "accuracy", "diagnostic", "design")
MIN_COVERAGE = 0.8  # share of a claim's cells that must be there: 8 of 9 graphs, 22 of 27 cells


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, or on a part of one.

    Args:
        verdict: one of `VERDICTS`.
        evidence: the numbers that it rests on.
        is_decisive: of a part: where it is refuted, the whole claim is.
    """

    verdict: str
    evidence: str
    is_decisive: bool = False

    def __post_init__(self) -> None:
        require_choice("verdict", self.verdict, VERDICTS)

    def require(
        self,
        available: int,
        total: int,
        what: str,
        *,
        share: float = MIN_COVERAGE,
        has_counterexample: bool = False,
    ) -> Finding:
        """This finding, or "not testable here" where fewer than a share of its cells have been run.

        A statement about all cells is refuted by one counterexample, however few cells there are.
        """
        needed = ceil(share * total - 1e-9)
        is_refuted = available > 0 and has_counterexample and self.verdict == REFUTED
        if available >= needed or is_refuted:
            return self
        missing = f"needs {needed} of {total} {what}, has {available}"
        evidence = f"{missing} (so far: {self.evidence})" if available else missing
        return replace(self, verdict=NOT_TESTABLE, evidence=evidence)


def confirm_if(holds: bool, evidence: str, otherwise: str = REFUTED) -> Finding:
    """Confirmed where the statement holds."""
    return Finding(CONFIRMED if holds else otherwise, evidence)


def combine(*parts: Finding) -> Finding:
    """Confirmed only where all parts are, refuted where a decisive one is, untestable where that is."""
    if len(parts) == 1:
        return parts[0]
    decisive = {part.verdict for part in parts if part.is_decisive}
    verdicts = {part.verdict for part in parts}
    if REFUTED in decisive:
        verdict = REFUTED
    elif NOT_TESTABLE in decisive:
        verdict = NOT_TESTABLE
    else:
        verdict = verdicts.pop() if len(verdicts) == 1 else PARTLY
    lines = dict.fromkeys(f"{part.evidence} → {part.verdict}" for part in parts)  # no line twice
    return Finding(verdict, "; ".join(lines))


def judge_counts(yes: int, no: int, total: int) -> str:
    """The verdict on "in all cases": refuted where at least half of them say no."""
    if not yes + no:
        return NOT_TESTABLE
    return CONFIRMED if yes == total else REFUTED if 2 * no >= total else PARTLY


@dataclass(frozen=True)
class Claim:
    """One statement of the paper.

    Args:
        id: C01 to C70.
        statement: in our words.
        kind: one of `KINDS`.
        needs: experiments whose records the check reads; without any of them it is not run.
        uses: experiments whose records add to the evidence where they are there.
        untestable: why there is no check; empty where there is one.
    """

    id: str
    statement: str
    kind: str
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    untestable: str = ""

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Claim:
        """From a row of claims.csv, where names of experiments are separated by spaces."""
        lists = {name: tuple(row[name].split()) for name in ("needs", "uses")}
        return cls(row["id"], row["statement"], row["kind"], **lists, untestable=row["untestable"])

    @property
    def experiments(self) -> tuple[str, ...]:
        """All that the check reads."""
        return self.needs + self.uses

    @property
    def command(self) -> str:
        """The command line that computes the evidence."""
        return "; ".join([*(f"polynsd reproduce {name}" for name in self.needs), f"polynsd claims {self.id}"])

    def examine(self, records: pd.DataFrame) -> Finding:
        """What the check finds, or why it cannot be run.

        Args:
            records: a row per record, as `polynsd_paper.records.summarize` makes it.
        """
        available = set(records["experiment"])
        missing = [f"polynsd reproduce {name}" for name in self.needs if name not in available]
        if self.untestable or (self.needs and len(missing) == len(self.needs)):
            return Finding(NOT_TESTABLE, self.untestable or f"needs: {', '.join(missing)}")
        if not self.experiments:
            return CHECKS[self.id]()
        finding = CHECKS[self.id](records)
        note = f" (without: {', '.join(missing)})" if missing else ""
        return replace(finding, evidence=finding.evidence + note)


Check = Callable[..., Finding]

CHECKS: dict[str, Check] = {}  # by the id of the claim


def check(claim_id: str) -> Callable[[Check], Check]:
    """Registers the decorated function as the check of a claim."""

    def register(function: Check) -> Check:
        CHECKS[claim_id] = function
        return function

    return register
