"""Findings on the paper's claims, and how checks are registered.

    @check("C31")
    def check_hardware() -> Finding:
        return Finding(REFUTED, "the text names two ...")

claims.csv has the statement of every claim and the experiments that its check needs. A check that reads
records takes them as a table, any other takes nothing. A claim of several parts is confirmed only where all
of them are. Too few records and intervals that hold both answers leave it undecided, which is not refuted.
Not testable is what needs data that cannot be had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from polynsd.errors import require_choice

if TYPE_CHECKING:
    import pandas as pd

CONFIRMED, REFUTED, PARTLY, UNDECIDED = "confirmed", "refuted", "partly", "undecided"
NOT_TESTABLE = "not testable here"
VERDICTS = (CONFIRMED, REFUTED, PARTLY, UNDECIDED, NOT_TESTABLE)
KINDS = ("theory", "efficiency", "protocol", "data", "accuracy", "diagnostic", "design")
MIN_COVERAGE = 0.8  # share of a claim's cells that must be there: 8 of 9 graphs, 22 of 27 cells


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, or on a part of one.

    Args:
        verdict: one of `VERDICTS`.
        evidence: the numbers that it rests on.
        is_decisive: of a part: where it is refuted, the whole claim is.
        number: the one that says most, for the ledger; the evidence has all.
    """

    verdict: str
    evidence: str
    is_decisive: bool = False
    number: str = ""

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
        is_lacking: bool = False,
    ) -> Finding:
        """This finding, or "undecided" where fewer than a share of its cells have been run.

        A statement about all cells is refuted by one counterexample, however few cells there are. Where the
        data of the cells cannot be had (`is_lacking`), it is not testable.
        """
        needed = ceil(share * total - 1e-9)
        is_refuted = available > 0 and has_counterexample and self.verdict == REFUTED
        if available >= needed or is_refuted:
            return self
        missing = f"needs {needed} of {total} {what}, has {available}"
        evidence = f"{missing} (so far: {self.evidence})" if available else missing
        verdict = NOT_TESTABLE if is_lacking else UNDECIDED
        return replace(
            self, verdict=verdict, evidence=evidence, number=f"{available} of {total} {what} trained"
        )


def confirm_if(holds: bool, evidence: str, otherwise: str = REFUTED, *, number: str = "") -> Finding:
    """Confirmed where the statement holds."""
    return Finding(CONFIRMED if holds else otherwise, evidence, number=number)


def combine(*parts: Finding) -> Finding:
    """Confirmed only where all parts are, refuted where a decisive one is, open where that is.

    Partly needs parts that hold and parts that do not; a part that holds beside an open one decides nothing.
    """
    if len(parts) == 1:
        return parts[0]
    decisive = {part.verdict for part in parts if part.is_decisive}
    verdicts = {part.verdict for part in parts}
    open_parts = [verdict for verdict in (NOT_TESTABLE, UNDECIDED) if verdict in decisive]
    if REFUTED in decisive:
        verdict = REFUTED
    elif open_parts:
        verdict = open_parts[0]
    elif len(verdicts) == 1:
        verdict = verdicts.pop()
    else:
        is_mixed = PARTLY in verdicts or {CONFIRMED, REFUTED} <= verdicts
        verdict = PARTLY if is_mixed else UNDECIDED
    lines = dict.fromkeys(f"{part.evidence} → {part.verdict}" for part in parts)  # no line twice
    main = next((part for part in parts if part.is_decisive), parts[0])
    return Finding(verdict, "; ".join(lines), number=main.number)


def judge_counts(yes: int, no: int, total: int) -> str:
    """The verdict on "in all cases": refuted where half of them say no, undecided where few say anything."""
    if yes == total and total:
        return CONFIRMED
    if total and 2 * no >= total:
        return REFUTED
    return PARTLY if 2 * (yes + no) > total else UNDECIDED


@dataclass(frozen=True)
class Claim:
    """One statement of the paper.

    Args:
        id: C01 to C70.
        statement: in our words.
        kind: one of `KINDS`.
        needs: experiments whose records the check reads; without any of them it is not run.
        uses: experiments whose records add to the evidence where they are there.
        untestable: the data that its check would need and that cannot be had; empty where there is a check.
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
        if self.untestable:
            return Finding(NOT_TESTABLE, self.untestable)
        if self.needs and len(missing) == len(self.needs):
            return Finding(UNDECIDED, f"needs: {', '.join(missing)}", number="no records yet")
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
