"""`python -m polynsd.experiments.claims`: the ledger, or the findings of some claims."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from polynsd.errors import require_choice
from polynsd.experiments.claims import CLAIMS, Evidence, examine, ledger


@dataclass(frozen=True)
class Ask:
    """Examine the claims of the paper."""

    ids: Positional[tuple[str, ...]] = ()
    """Only these, e.g. C07 C15, and print what was found; all of them and write the ledger unless given."""
    results: Path = Path("results")
    """Where records are, and where claims.md goes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints findings or writes the ledger."""
    ask = tyro.cli(Ask, args=arguments)
    known = {claim.id: claim for claim in CLAIMS}
    for name in ask.ids:
        require_choice("claim", name, known)
    text = ledger(examine(Evidence(ask.results), [known[name] for name in ask.ids] or CLAIMS))
    if ask.ids:
        sys.stdout.write(text)
        return
    ask.results.mkdir(parents=True, exist_ok=True)
    path = ask.results / "claims.md"
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"ledger: {path}\n")


if __name__ == "__main__":
    main()
