"""`polynsd claims`: what the paper states, and what was found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True)
class Claims:
    """Examine the claims of the paper: print some findings, or write the ledger of all."""

    ids: Positional[tuple[str, ...]] = ()
    """Only these, e.g. C07 C15, printed; without any, all are written to the ledger."""
    results: Path = Path("results")
    """The folder of `polynsd reproduce`; the ledger is its tables/claims.md."""

    def run(self) -> None:
        from polynsd_paper.claims import report_claims

        sys.stdout.write(report_claims(self.ids, self.results))
