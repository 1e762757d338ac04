"""The ledger of the paper's claims: complete, in order, and right where mathematics decides."""

import pytest
from invented_cells import BY_ID, NOTHING

from polynsd import kernels
from polynsd.cli import main
from polynsd_paper.claims import (
    CLAIMS,
    VERDICTS,
    Claim,
    Finding,
    cost,
    examine,
    filters,
    format_evidence,
    format_ledger,
)
from polynsd_paper.claims.claim import CHECKS, KINDS
from polynsd_paper.commands.claims import Claims

MEASURED = ("C25", "C26", "C38", "C55", "C70")  # times and memory of this machine
DECIDED = {
    "confirmed": ("C08", "C09", "C10", "C11", "C14", "C16", "C17", "C20", "C24"),
    "refuted": ("C12", "C15", "C18", "C19", "C30", "C31"),
    "partly": ("C07", "C13", "C21", "C22", "C23", "C27", "C28", "C32", "C69"),
}
EVIDENCE = {  # numbers that the findings must name
    "C07": ("16 of 16",),
    "C09": ("hops on 40 sheaves: 0", "3 hops with fixed maps and 4"),
    "C12": ("chebyshev2 17", "chebyshev3 33", "chebyshev4 33", "gegenbauer(1.5) 153", "1.0000"),
    "C15": ("0.632", "0.865", "0.982"),
    "C18": ("0.249 > bound 0.101", "0.100 > 0.082", "0 violations"),
    "C23": ("read in its tables",),
    "C27": ("28 parameters", "14 printed", "5 of 5"),
    "C30": ("27 of 27", "8 test means"),
    "C31": ("read in the text",),
    "C32": ("read in the text",),
}


def test_every_claim_is_listed_once_in_order_with_a_check_or_a_reason():
    assert [claim.id for claim in CLAIMS] == [f"C{number:02d}" for number in range(1, 71)]
    assert all(claim.kind in KINDS and claim.statement.endswith(".") for claim in CLAIMS)
    assert len({claim.statement for claim in CLAIMS}) == 70
    assert all((claim.id in CHECKS) != bool(claim.untestable) for claim in CLAIMS)
    assert set(CHECKS) <= set(BY_ID)


@pytest.mark.parametrize(("verdict", "name"), [(v, name) for v, names in DECIDED.items() for name in names])
def test_what_needs_no_training_is_decided(verdict, name):
    finding = BY_ID[name].examine(NOTHING)
    assert finding.verdict == verdict
    assert 0 < len(finding.number) < 60
    assert all(number in finding.evidence for number in EVIDENCE.get(name, ()))


def test_every_claim_without_records_is_tried():
    tried = {*MEASURED, *(name for names in DECIDED.values() for name in names)}
    assert {claim.id for claim in CLAIMS if not claim.needs and not claim.untestable} == tried


@pytest.mark.parametrize("name", MEASURED)
def test_costs_are_measured_now(name, monkeypatch):
    sizes = {
        "GRAPH": "random-100",
        "LARGER_GRAPH": "random-200",
        "JUNCTIONS": 200,
        "REPEATS": 1,
        "WARM_UP": 1,
    }
    for constant, value in sizes.items():
        monkeypatch.setattr(cost, constant, value)
    with kernels.use("auto" if name == "C26" else "reference"):  # nothing is compiled for a few nodes
        finding = BY_ID[name].examine(NOTHING)
    assert finding.verdict != "not testable here"
    assert name != "C25" or "1, 2, 4, 8, 16 (the" in finding.evidence
    assert name != "C26" or finding.verdict == "partly"


def test_the_ledger_has_a_row_per_claim_and_counts_verdicts():
    claims = (Claim("C01", "|x| grows.", "theory", untestable="no reason"), BY_ID["C31"])
    text = format_ledger(examine(NOTHING, claims))
    assert "2 claims: 0 confirmed, 1 refuted, 0 partly, 0 undecided, 1 not testable here." in text
    assert r"| [C01](claims-evidence.md#c01) | \|x\| grows. | not testable here | – |" in text
    assert [line[3:6] for line in text.splitlines() if line.startswith("| [C")] == ["C01", "C31"]
    evidence = format_evidence(examine(NOTHING, claims))
    assert "## C01\n\n|x| grows. **Not testable here**.\n\nno reason\n\n`polynsd claims C01`\n" in evidence


def test_few_claims_cannot_be_tested_and_each_for_want_of_data():
    lacking = [claim.id for claim in CLAIMS if BY_ID[claim.id].untestable]
    assert len(lacking) <= 8


def test_the_command_prints_some_and_writes_all(tmp_path, capsys, monkeypatch):
    Claims(("C31", "C32"), tmp_path).run()
    assert "## C32" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("polynsd_paper.claims.ledger.CLAIMS", (BY_ID["C31"],))
    Claims(results=tmp_path / "new").run()
    tables = tmp_path / "new" / "tables"
    assert "1 claims" in (tables / "claims.md").read_text(encoding="utf-8")
    assert "## C31" in (tables / "claims-evidence.md").read_text(encoding="utf-8")


def test_an_unknown_claim_is_a_message_and_no_traceback(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["claims", "C71"])
    assert ended.value.code == 2
    assert "unknown claim 'C71'" in capsys.readouterr().err


def test_monomials_that_are_not_worse_refute_the_claim(monkeypatch):
    monkeypatch.setattr(filters, "gram_condition", lambda name, degree: 10.0)
    assert BY_ID["C21"].examine(NOTHING).verdict == "refuted"


@pytest.mark.parametrize(("error", "verdict"), [(0.0, "confirmed"), (0.5, "refuted")])
def test_the_layer_decides_which_responses_can_be_learned(error, verdict, monkeypatch):
    fit = lambda target, degree, part="p", convex=True: error if part == "r" else 1.0  # noqa: E731
    monkeypatch.setattr(filters, "best_fit", fit)
    assert BY_ID["C13"].examine(NOTHING).verdict == verdict


def test_an_unknown_verdict_is_refused():
    with pytest.raises(ValueError, match="verdict"):
        Finding("perhaps", "")
    assert len(VERDICTS) == 5
