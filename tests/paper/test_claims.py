"""The ledger of the paper's claims: complete, in order, and right where mathematics decides."""

from pathlib import Path

import numpy as np
import pytest

from polynsd.cli import main
from polynsd.nn import NSD, PolyNSD
from polynsd.spectral import heat_kernel
from polynsd.testing import example_graph, random_tensor
from polynsd_paper.claims import (
    CLAIMS,
    VERDICTS,
    Claim,
    Evidence,
    Finding,
    approximation,
    cost,
    efficiency,
    examine,
    ledger,
)
from polynsd_paper.claims.approximation import LAM, TIMES, best_fit, gram_condition
from polynsd_paper.claims.claim import KINDS, because
from polynsd_paper.claims.filters import DEGREE, reach
from polynsd_paper.commands.claims import Claims

BY_ID = {claim.id: claim for claim in CLAIMS}
NONE = Evidence(Path("no such folder"))

DECIDED = {
    "confirmed": ("C08", "C09", "C10", "C11", "C14", "C16", "C17", "C20", "C24"),
    "refuted": ("C12", "C15", "C18", "C19", "C30", "C31"),
    "partly": ("C07", "C13", "C21", "C22", "C23", "C27", "C28", "C32", "C69"),
}
NUMBERS = {  # what must stand in the findings
    "C07": ("16 of 16",),
    "C09": ("hops on 40 sheaves: 0", "3 hops with fixed maps and 4"),
    "C12": ("chebyshev2 17", "chebyshev3 33", "chebyshev4 33", "gegenbauer(1.5) 153", "1.0000"),
    "C15": ("0.632", "0.865", "0.982"),
    "C18": ("0.249 > bound 0.101", "0.100 > 0.082", "0 violations"),
    "C27": ("28 parameters", "14 printed", "5 of 5"),
    "C30": ("27 of 27", "8 test means"),
}


def test_every_claim_stands_once_and_in_order():
    assert [claim.id for claim in CLAIMS] == [f"C{number:02d}" for number in range(1, 71)]
    assert all(claim.kind in KINDS and claim.claim.endswith(".") for claim in CLAIMS)
    assert len({claim.claim for claim in CLAIMS}) == 70


@pytest.mark.parametrize(("verdict", "name"), [(v, name) for v, names in DECIDED.items() for name in names])
def test_what_needs_no_training_is_decided(verdict, name):
    finding = BY_ID[name].examine(NONE)
    assert finding.verdict == verdict
    assert all(number in finding.numbers for number in NUMBERS.get(name, ()))


@pytest.mark.parametrize("t", TIMES)
@pytest.mark.parametrize("K", [2, 8])
def test_convex_weights_keep_a_floor_under_the_heat_kernel_and_free_ones_do_not(t, K):
    target = heat_kernel(t)(LAM)
    assert best_fit(target, K) == pytest.approx(1 - np.exp(-2 * t), abs=1e-6)
    assert best_fit(target, 12, convex=False) < 1e-6


def test_a_layer_is_never_worse_than_its_filter():
    target = np.exp(-LAM)
    assert best_fit(target, 8, "r") <= best_fit(target, 8, "m") + 1e-9 <= best_fit(target, 8, "p") + 2e-9


def test_monomials_are_badly_conditioned_and_orthogonal_bases_are_not():
    assert gram_condition("monomial", 16) > 1e10
    assert gram_condition("legendre", 16) == pytest.approx(33)  # (2K + 1), diagonal


def test_learned_maps_look_one_hop_further():
    assert (reach("identity"), reach("general")) == (DEGREE, DEGREE + 1)


@pytest.mark.parametrize("K", [1, 5])
def test_products_are_counted(K):
    graph, x = example_graph("star"), random_tensor(6, 3).float()
    assert cost.products_of(PolyNSD(3, 2, 3, 2, degree=K), x, graph) == 3 * K
    assert cost.products_of(NSD(3, 2, 3, 2), x, graph) == 3


@pytest.mark.parametrize("name", ["C25", "C26", "C38", "C55", "C70"])
def test_costs_are_measured_now(name, monkeypatch):
    monkeypatch.setattr(efficiency, "GRAPH", "random-100")
    monkeypatch.setattr(efficiency, "LARGER", "random-200")
    monkeypatch.setattr(efficiency, "JUNCTIONS", 200)
    monkeypatch.setattr(cost, "REPEATS", 1)
    finding = BY_ID[name].examine(NONE)
    assert finding.verdict != "not testable here"
    assert name != "C25" or "1, 2, 4, 8, 16 (the" in finding.numbers
    assert name != "C26" or finding.verdict == "partly"


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.needs], ids=lambda claim: claim.id)
def test_a_missing_record_is_named(claim):
    finding = claim.examine(NONE)
    assert finding.verdict == "not testable here"
    assert all(f"polynsd reproduce {name}" in finding.numbers for name in claim.needs)
    assert all(f"polynsd reproduce {name}" in claim.command for name in claim.needs)


def test_the_ledger_has_a_row_per_claim_and_counts_verdicts():
    claims = (Claim("C01", "|x| grows.", "theory", because("no reason")), BY_ID["C31"])
    text = ledger(examine(NONE, claims))
    assert "2 claims: 0 confirmed, 1 refuted, 0 partly, 1 not testable here." in text
    assert r"| C01 | \|x\| grows. | not testable here | no reason | `polynsd claims C01` |" in text
    assert [line[2:5] for line in text.splitlines() if line.startswith("| C")] == ["C01", "C31"]


def test_the_command_prints_some_and_writes_all(tmp_path, capsys, monkeypatch):
    Claims(("C31", "C32"), tmp_path).run()
    assert "| C32 |" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("polynsd_paper.claims.report.CLAIMS", (BY_ID["C31"],))
    Claims(results=tmp_path / "new").run()
    assert "1 claims" in (tmp_path / "new" / "tables" / "claims.md").read_text(encoding="utf-8")


def test_an_unknown_claim_is_a_message_and_no_traceback(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["claims", "C71"])
    assert ended.value.code == 2
    assert "unknown claim 'C71'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["C23", "C31", "C32"])
def test_what_is_read_from_the_text_says_so(name):
    assert "documentary" in BY_ID[name].examine(NONE).numbers


def test_monomials_that_are_not_worse_refute_the_claim(monkeypatch):
    monkeypatch.setattr(approximation, "gram_condition", lambda name, degree: 10.0)
    assert BY_ID["C21"].examine(NONE).verdict == "refuted"


@pytest.mark.parametrize(("error", "verdict"), [(0.0, "confirmed"), (0.5, "refuted")])
def test_the_layer_decides_which_responses_can_be_learned(error, verdict, monkeypatch):
    fit = lambda target, degree, part="p", convex=True: error if part == "r" else 1.0  # noqa: E731
    monkeypatch.setattr(approximation, "best_fit", fit)
    assert BY_ID["C13"].examine(NONE).verdict == verdict


def test_an_unknown_verdict_is_refused():
    with pytest.raises(ValueError, match="verdict"):
        Finding("perhaps", "")
    assert len(VERDICTS) == 4
