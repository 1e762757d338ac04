"""The ledger: one row per claim, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from polynsd_paper.claims.claim import VERDICTS, Claim, Finding

HEAD = "| id | claim | verdict | numbers | command |\n|---|---|---|---|---|"


def ledger(findings: Mapping[Claim, Finding]) -> str:
    """Markdown: how many claims met which verdict, and the table."""
    counts = Counter(finding.verdict for finding in findings.values())
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    rows = [_row(claim, finding) for claim, finding in findings.items()]
    return "\n".join(
        ["# Claims of the paper", "", f"{len(findings)} claims: {summary}.", "", HEAD, *rows, ""]
    )


def _row(claim: Claim, finding: Finding) -> str:
    cells = (claim.id, claim.claim, finding.verdict, finding.numbers, f"`{claim.command}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
