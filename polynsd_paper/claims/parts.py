"""A claim of several parts: each is judged by itself, and together they decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from polynsd_paper.claims.claim import CONFIRMED, NOT_TESTABLE, PARTLY, REFUTED, Finding

LEAST = 0.8  # of what a claim is about must be there: 8 of 9 graphs, 22 of 27 cells


@dataclass(frozen=True)
class Part:
    """What is found about one part of a claim.

    Args:
        verdict: one of `VERDICTS`.
        numbers: what it rests on.
        decisive: without this part the claim falls.
    """

    verdict: str
    numbers: str
    decisive: bool = False


def combine(*parts: Part) -> Finding:
    """Confirmed only where all parts are, refuted where a decisive one is, untestable where that is."""
    told = dict.fromkeys(f"{part.numbers} → {part.verdict}" for part in parts)  # what is missing is told once
    return Finding(_verdict(parts), "; ".join(told) if len(parts) > 1 else parts[0].numbers)


def _verdict(parts: tuple[Part, ...]) -> str:
    decisive = {part.verdict for part in parts if part.decisive}
    for verdict in (REFUTED, NOT_TESTABLE):
        if verdict in decisive:
            return verdict
    verdicts = {part.verdict for part in parts}
    return verdicts.pop() if len(verdicts) == 1 else PARTLY


def covered(part: Part, has: int, whole: int, what: str, *, least: float = LEAST) -> Part:
    """The part, or that too little is there to judge it, and what there is."""
    needed = ceil(least * whole - 1e-9)
    if has >= needed:
        return part
    missing = f"needs {needed} of {whole} {what}, has {has}"
    numbers = f"{missing} (so far: {part.numbers})" if has else missing
    return replace(part, verdict=NOT_TESTABLE, numbers=numbers)


def universal(
    part: Part, has: int, whole: int, what: str, *, counterexample: bool, least: float = 1.0
) -> Part:
    """Like `covered`, but a counterexample refutes wherever it is; what is undecided is none."""
    if has and counterexample and part.verdict == REFUTED:
        return part
    return covered(part, has, whole, what, least=least)


def counted(yes: int, no: int, total: int) -> str:
    """Of a statement about all: confirmed where every case says yes, refuted where half of them say no."""
    if not yes + no:
        return NOT_TESTABLE
    return CONFIRMED if yes == total else REFUTED if 2 * no >= total else PARTLY
