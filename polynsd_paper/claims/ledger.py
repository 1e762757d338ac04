"""The ledger: all claims in order, examined on the records of a folder, as a table in Markdown."""

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

if TYPE_CHECKING:
    from pandas import DataFrame

with files(__package__).joinpath("claims.csv").open(encoding="utf-8") as _file:
    CLAIMS = tuple(Claim.from_row(row) for row in csv.DictReader(_file))
HEAD = "| id | claim | verdict | numbers | command |\n|---|---|---|---|---|"


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
    """Markdown: how many claims got which verdict, and the table."""
    counts = Counter(finding.verdict for finding in findings.values())
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lines = ["# Claims of the paper", "", f"{len(findings)} claims: {summary}.", "", HEAD]
    for claim, finding in findings.items():
        cells = (claim.id, claim.statement, finding.verdict, finding.evidence, f"`{claim.command}`")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def report_claims(ids: Sequence[str], results: Path) -> str:
    """The findings of some claims, or where the ledger of all has been written."""
    by_id = {claim.id: claim for claim in CLAIMS}
    for name in ids:
        require_choice("claim", name, by_id)
    claims = [by_id[name] for name in ids] or CLAIMS
    experiments = dict.fromkeys(name for claim in claims for name in claim.experiments)
    text = format_ledger(examine(load_cells(results, experiments), claims))
    if ids:
        return text
    path = results / "tables" / "claims.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return f"ledger: {path}\n"
