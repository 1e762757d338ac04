"""Claims and records of one kind: too few, of several devices, of parts that disagree."""

from dataclasses import replace

import pytest
from test_claims_readers import BY_ID, NO, of, record
from test_claims_records import BAD, EQUAL, GOOD, cells, cost_of, is_ours, made

from polynsd.training.configuration import plain_configuration
from polynsd_paper.claims import Evidence
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.sweeps import ABLATIONS
from polynsd_paper.records import cell_settings

READERS = [claim for claim in BY_ID.values() if claim.needs]


@pytest.mark.parametrize("claim", READERS, ids=lambda claim: claim.id)
def test_records_that_do_not_bear_on_the_claim_say_so(claim):
    finding = claim.examine(of(record(name, "nowhere", cell={"model": "none"}) for name in claim.needs))
    assert finding.verdict == NO
    assert "needs" in finding.numbers


FEW = {"C02": "8 of 9 datasets, has 3", "C01": "4 of 4 suites, has 1", "C46": "22 of 27 cells, has 9"}


@pytest.mark.parametrize(("name", "missing"), FEW.items())
def test_few_graphs_decide_nothing_and_what_is_missing_is_named(name, missing):
    graphs = ("cora", "texas", "film")
    finding = BY_ID[name].examine(of(one for one in made(name, GOOD) if one.dataset in graphs))
    assert (finding.verdict, f"needs {missing}" in finding.numbers) == (NO, True), finding.numbers


def test_a_counterexample_to_a_claim_about_all_counts_though_graphs_are_missing():
    few = [one for one in made("C46", BAD) if one.dataset in ("cora", "texas")]
    assert BY_ID["C46"].examine(of(few)).verdict == "refuted"


def unclear(name):
    """Records of a claim in which nothing can be told from noise."""
    return [
        record(one.experiment, one.dataset, one.mean, cell=one.cell, own=0.05, **cost_of(one.cell))
        for one in made(name, EQUAL)
    ]


def few_of(name):
    """Of some graphs only, or where the claim is about a single one, of some maps."""
    datasets = list(dict.fromkeys(one.dataset for one in made(name, EQUAL)))[:1]
    return lambda one: "orthogonal" in str(one.cell) if name == "C52" else one.dataset in datasets


@pytest.mark.parametrize("name", ["C36", "C39", "C40", "C46", "C52"])
def test_what_is_undecided_refutes_no_claim_about_all_until_all_is_there(name):
    rows, is_there = unclear(name), few_of(name)
    finding = BY_ID[name].examine(of(filter(is_there, rows)))
    assert (finding.verdict, "refuted" in finding.numbers) == (NO, False), finding.numbers
    assert BY_ID[name].examine(of(rows)).verdict in ("refuted", "partly")


@pytest.mark.parametrize("name", ["C36", "C40", "C46", "C52"])
def test_what_is_decided_refutes_a_claim_about_all_at_once(name):
    assert BY_ID[name].examine(of(filter(few_of(name), made(name, BAD)))).verdict == "refuted"


def test_places_within_noise_decide_nothing_while_graphs_are_missing():
    graphs = ("cora", "texas", "film")
    lower = [
        replace(one, scores=tuple(s._replace(test=s.test - 1e-4) for s in one.scores))
        if is_ours(one.cell)
        else one
        for one in unclear("C02")
        if one.dataset in graphs
    ]
    finding = BY_ID["C02"].examine(of(lower))
    assert (finding.verdict, "refuted" in finding.numbers) == (NO, False), finding.numbers


def test_other_street_graphs_are_told_but_decide_nothing_about_cities():
    finding = BY_ID["C53"].examine(of(replace(one, dataset=f"x{one.dataset}") for one in made("C53", GOOD)))
    assert finding.verdict == NO
    assert "needs 4 of 4 cities, has 0" in finding.numbers
    assert "polynsd 90." in finding.numbers


def test_an_mlp_far_ahead_is_no_keeping_up():
    rows = (
        replace(one, scores=tuple(s._replace(test=s.test + 0.25) for s in one.scores))
        if one.cell["model"] == "mlp"
        else one
        for one in made("C36", GOOD)
    )
    finding = BY_ID["C36"].examine(of(rows))
    assert finding.verdict == "partly"
    assert finding.numbers.endswith("→ refuted")


def test_second_place_is_not_best():
    gcn = [
        replace(one, scores=tuple(s._replace(test=s.test + 0.2) for s in one.scores))
        if one.cell["model"] == "gcn"
        else one
        for one in made("C39", GOOD)
    ]
    finding = BY_ID["C39"].examine(of(gcn))
    assert (finding.verdict, "chameleon_filtered 2 of 12" in finding.numbers) == ("partly", True)


def test_where_nothing_can_be_told_nothing_is_always_better():
    assert BY_ID["C52"].examine(of(unclear("C52"))).verdict == "refuted"


def test_gains_that_are_far_from_twenty_points_are_a_part_of_the_claim():
    rows = [
        record("nsd-vs-poly", dataset, 0.6 + 0.05 * is_ours(cell), cell=cell)
        for dataset, _, cell in cells("nsd-vs-poly")
    ]
    assert BY_ID["C50"].examine(of(rows)).verdict == "partly"


def test_a_gcn_that_recovers_is_no_gcn_that_sinks():
    rows = [
        replace(one, scores=tuple(s._replace(test=s.test + 0.1) for s in one.scores))
        if one.cell["model"] == "gcn"
        else one
        for one in made("C66", GOOD)
    ]
    finding = BY_ID["C66"].examine(of(rows))
    assert (finding.verdict, finding.numbers[-9:]) == ("refuted", "→ refuted")


def test_seconds_are_compared_on_one_device_only():
    rows = [replace(one, device="gpu") if is_ours(one.cell) else one for one in made("C05", GOOD)]
    finding = BY_ID["C05"].examine(of(rows))
    assert (finding.verdict, "needs pairs on one device" in finding.numbers) == ("partly", True)


@pytest.mark.parametrize(("score", "part"), [(0.8, "refuted"), (0.2, "partly")])
def test_a_gat_that_learned_nothing_has_not_trained(score, part):
    rows = [
        record("depth", dataset, score, cell={"model": model, "layers": layers})
        for dataset in get_experiment("depth").datasets
        for model, layers in (("gat", 16), ("gat", 32), ("h2gcn", 4))
    ]
    finding = BY_ID["C43"].examine(of(rows))
    assert finding.verdict == "partly"
    assert f"→ {part}; H2GCN is not run beyond 4 layers" in finding.numbers
    assert "leaves no record" in finding.numbers


def test_an_h2gcn_that_runs_with_many_layers_refutes_its_part():
    rows = [
        record("depth", dataset, 0.8, cell={"model": model, "layers": layers})
        for dataset in get_experiment("depth").datasets
        for model, layers in (("gat", 16), ("gat", 32), ("h2gcn", 16))
    ]
    assert BY_ID["C43"].examine(of(rows)).verdict == "refuted"


def test_records_are_found_on_the_disk_where_they_answer_the_experiment_of_today(tmp_path):
    sweep = get_experiment("k-sweep")
    places = {(cell.dataset, *cell.options.values()): cell for cell in sweep.cells()}
    for one in made("C46", GOOD):
        cell = places[one.dataset, one.cell["maps"], one.cell["K"]]
        asked = {"settings": cell_settings(sweep, cell), "configuration": plain_configuration(cell.plan)}
        replace(one, **asked).save(tmp_path / "now" / "records" / "k-sweep" / cell.path)
        one.save(tmp_path / "then" / "records" / "k-sweep" / cell.path)
    assert BY_ID["C46"].examine(Evidence(tmp_path / "now")).verdict == "confirmed"
    assert BY_ID["C46"].examine(Evidence(tmp_path / "then")).verdict == NO


@pytest.mark.parametrize(
    ("name", "with_it", "without"),
    [
        ("C21", {"base": 0.9, "degree 16": 0.9}, {"monomials": 0.8, "monomials, degree 16": 0.8}),
        ("C23", {"convex, correction linear": 0.9}, {"coefficients convex": 0.8}),
    ],
)
def test_ablations_are_a_part_of_the_finding(name, with_it, without):
    def finding(turned, graphs=ABLATIONS.datasets):
        means = {**with_it, **without}
        means = {change: 1.7 - mean if turned else mean for change, mean in means.items()}
        rows = [
            record("ablations", graph, mean, cell={"change": change})
            for graph in graphs
            for change, mean in means.items()
        ]
        return BY_ID[name].examine(of(rows)).numbers

    assert "needs: polynsd reproduce ablations" in BY_ID[name].examine(of([])).numbers
    assert "(95 %, paired) → confirmed" in finding(turned=False)
    assert "(95 %, paired) → refuted" in finding(turned=True)
    few = finding(turned=True, graphs=("texas",))
    assert "needs 4 of 4 graphs of the ablations, has 1 (so far: " in few
    assert "→ refuted" not in few
