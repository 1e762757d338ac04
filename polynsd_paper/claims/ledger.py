"""The ledger: all claims in order, examined on the records of a folder.

`tables/claims.md` has a short row per claim, `tables/claims-evidence.md` all numbers behind it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from polynsd.errors import require_choice
from polynsd.optional import load_optional
from polynsd_paper.claims import (  # noqa: F401  (their checks register themselves)
    accuracy,
    agnostic,
    continuous,
    federated,
    filters,
    inside,
    layers,
    nsd_trade_off,
    protocol,
    responses,
    spectra,
    sweeps,
    synthetic,
)
from polynsd_paper.claims.claim import VERDICTS, Claim, Finding
from polynsd_paper.claims.cost import one_thread
from polynsd_paper.tables.formatting import markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame

with files(__package__).joinpath("claims.csv").open(encoding="utf-8") as _file:
    CLAIMS = tuple(Claim.from_row(row) for row in csv.DictReader(_file))
RULE = (
    "Undecided: the records or their intervals do not tell yet. Not testable: the data cannot be had. Counts "
    "over cells are Holm-adjusted ([statistics.md](../../docs/statistics.md))."
)
LEDGER, EVIDENCE = "claims.md", "claims-evidence.md"


def load_cells(results: Path, experiments: Iterable[str]) -> DataFrame:
    """A row per current record of these experiments, as `polynsd_paper.records.summarize` makes it."""
    pandas = load_optional("pandas", "tables of records need", "paper")

    from polynsd_paper.records import load_records, records_table, summarize

    tables = [load_records(results, name) for name in experiments]
    cells = [summarize(table[table["is_current"]]) for table in tables if len(table)]
    return pandas.concat(cells, ignore_index=True) if cells else summarize(records_table([]))


def examine(records: DataFrame, claims: Iterable[Claim] = CLAIMS) -> dict[Claim, Finding]:
    """The findings, in the order of the claims."""
    with one_thread():
        return {claim: claim.examine(records) for claim in claims}


def format_ledger(findings: Mapping[Claim, Finding]) -> str:
    """Markdown: how many claims got which verdict, and a row per claim with the number that says most."""
    rows = [
        (
            f"[{claim.id}]({EVIDENCE}#{claim.id.lower()})",
            claim.statement,
            finding.verdict,
            finding.number or "–",
        )
        for claim, finding in findings.items()
    ]
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    table = markdown_table(("", "claim", "verdict", "in one number"), escaped, left=4)
    return f"# Claims of the paper\n\n{_count_verdicts(findings)} {RULE}\n\n{table}\n"


def _count_verdicts(findings: Mapping[Claim, Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings.values())
    return f"{len(findings)} claims: {', '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICTS)}."


def format_evidence(findings: Mapping[Claim, Finding]) -> str:
    """Markdown: a section per claim, with all numbers and the command that computes them."""
    sections = [
        f"## {claim.id}\n\n{claim.statement} **{finding.verdict.capitalize()}**"
        f"{f' ({finding.number})' if finding.number else ''}.\n\n{finding.evidence}\n\n"
        f"`{claim.command}`\n"
        for claim, finding in findings.items()
    ]
    return "\n".join(["# The evidence on the claims of the paper\n", *sections])


def report_claims(ids: Sequence[str], results: Path) -> str:
    """The findings of some claims, or where the ledger of all has been written."""
    by_id = {claim.id: claim for claim in CLAIMS}
    for name in ids:
        require_choice("claim", name, by_id)
    claims = [by_id[name] for name in ids] or CLAIMS
    experiments = dict.fromkeys(name for claim in claims for name in claim.experiments)
    findings = examine(load_cells(results, experiments), claims)
    if ids:
        return format_evidence(findings)
    folder = results / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EVIDENCE).write_text(format_evidence(findings), encoding="utf-8")
    (folder / LEDGER).write_text(format_ledger(findings), encoding="utf-8")
    return f"ledger: {folder / LEDGER}\n"
