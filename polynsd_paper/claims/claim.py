"""What a claim is, what may be known about it, and what is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from polynsd.errors import require_choice

if TYPE_CHECKING:
    from polynsd_paper.published import Published
    from polynsd_paper.records import Record

CONFIRMED, REFUTED, PARTLY, NOT_TESTABLE = "confirmed", "refuted", "partly", "not testable here"
VERDICTS = (CONFIRMED, REFUTED, PARTLY, NOT_TESTABLE)
KINDS = ("theory", "efficiency", "protocol", "data", "accuracy", "diagnostic", "design")


@dataclass(frozen=True)
class Finding:
    """A verdict and the numbers that it rests on."""

    verdict: str
    numbers: str

    def __post_init__(self) -> None:
        require_choice("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class Evidence:
    """Records of experiments in a folder, and the numbers printed in the paper."""

    folder: Path = Path("results")
    _read: dict[str, list[Record]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def records(self, experiment: str) -> list[Record]:
        """What answers the experiment as it is now; nothing where it has not run. Files are read once."""
        from polynsd_paper.experiments import get_experiment
        from polynsd_paper.records import current_records

        if experiment not in self._read:
            self._read[experiment], _ = current_records(
                get_experiment(experiment), self.folder / "records" / experiment
            )
        return self._read[experiment]

    def published(self, experiment: str) -> list[Published]:
        """The paper's numbers for an experiment."""
        from polynsd_paper.published import published

        return list(published(experiment))


Check = Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper.

    Args:
        id: C01 to C70.
        claim: the statement in our words.
        kind: one of `KINDS`.
        check: computes or reads the evidence.
        needs: experiments whose records the check reads.
    """

    id: str
    claim: str
    kind: str
    check: Check
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)

    @property
    def command(self) -> str:
        """What computes the evidence."""
        examine = f"polynsd claims {self.id}"
        return "; ".join([*(f"polynsd reproduce {name}" for name in self.needs), examine])

    def examine(self, evidence: Evidence) -> Finding:
        """The check's finding, or which records it lacks."""
        missing = [f"polynsd reproduce {name}" for name in self.needs if not evidence.records(name)]
        if self.needs and len(missing) == len(self.needs):
            return untestable(f"needs: {', '.join(missing)}")
        finding = self.check(evidence)
        lacking = f" (without: {', '.join(missing)})" if missing else ""
        return replace(finding, numbers=finding.numbers + lacking)


def decided(holds: bool, numbers: str, otherwise: str = REFUTED) -> Finding:
    """Confirmed where the statement holds."""
    return Finding(CONFIRMED if holds else otherwise, numbers)


def untestable(reason: str) -> Finding:
    """Nothing can be said, and why."""
    return Finding(NOT_TESTABLE, reason)


def because(reason: str) -> Check:
    """A check that can only give a reason why there is none."""
    return lambda evidence: untestable(reason)
