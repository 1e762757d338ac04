"""What a user asks of the ledger: some findings to read, or all of them in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polynsd.errors import require_choice
from polynsd_paper.claims import CLAIMS, Evidence, examine, ledger


def report(ids: Sequence[str] = (), results: Path = Path("results")) -> str:
    """The findings of some claims, or where the ledger of all has been written."""
    known = {claim.id: claim for claim in CLAIMS}
    for name in ids:
        require_choice("claim", name, known)
    text = ledger(examine(Evidence(results), [known[name] for name in ids] or CLAIMS))
    if ids:
        return text
    (results / "tables").mkdir(parents=True, exist_ok=True)
    path = results / "tables" / "claims.md"
    path.write_text(text, encoding="utf-8")
    return f"ledger: {path}\n"
