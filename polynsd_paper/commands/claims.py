"""`polynsd claims`: what the paper says, and what was found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True)
class Claims:
    """Examine the claims of the paper: print some findings, or write the ledger of all."""

    ids: Positional[tuple[str, ...]] = ()
    """Only these, e.g. C07 C15, and print what was found; all of them and write the ledger unless given."""
    results: Path = Path("results")
    """Where records are, and where claims.md goes."""

    def run(self) -> None:
        """Computes or reads the evidence."""
        from polynsd_paper.claims.report import report

        sys.stdout.write(report(self.ids, self.results))
