"""Claims that are read from records: what favourable, equal, unfavourable, mixed and missing ones say."""

from dataclasses import replace

import pytest
from invented_cells import BY_ID, examine, invent_cell, raise_scores

from polynsd_paper.claims import load_cells
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.agnostic import GRAPHS, HOSTS, WITH_FILTER
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.synthetic import PANELS
from polynsd_paper.tables.leaderboards import OURS

NO, UNSURE = "not testable here", "undecided"
GOOD, EQUAL, BAD, MIXED = "good", "equal", "bad", "mixed"

SHEAVES = (*OURS, *(f"nsd-{maps}" for maps in FAMILIES))
BOARD = (
    *SHEAVES, "poly-spectral", "identity-sheaf", "mlp", "gcn", "sgc", "sage", "gat", "h2gcn", "gprgnn",
    "gcnii",
)  # fmt: skip
SIZES = [*(("layers", L) for L in (2, 4, 8, 16, 32)), *(("hidden", C) for C in (32, 64, 128, 256))]
CELLS = {  # what every dataset of an experiment has
    "leaderboard": [{"model": m} for m in BOARD],
    "filtered": [{"model": m} for m in BOARD],
    "platonov": [{"model": m} for m in (*SHEAVES, "gcn")],
    "malignant": [
        {"rule": r, "model": m} for r in ("luan-60-20-20", "random-60-20-20") for m in (*SHEAVES, "mlp")
    ],
    "stalk": [{"maps": m, "stalk_dim": d} for m in FAMILIES for d in (2, 3, 4, 5)],
    "bases": [{"maps": m, "basis": b} for m in FAMILIES for b in get_experiment("bases").axes["basis"]],
    "depth": [{"model": m, "layers": n} for m in (*SHEAVES, "gcn", "pairnorm") for n in (2, 8, 32)],
    "k-sweep": [{"maps": m, "K": K} for m in FAMILIES for K in (1, 2, 4, 8, 12, 16)],
    "nsd-vs-poly": [
        *({"model": m, option: n} for m in SHEAVES for option, n in SIZES),
        *({"model": m, "K": K} for m in OURS for K in (2, 4, 6, 8, 16)),
    ],
    "continuous": [{"model": f"{m}-ode-{maps}"} for m in ("polynsd", "nsd") for maps in FAMILIES],
    "agnostic": [{"model": f"{host}{end}"} for host in HOSTS for end in ("", WITH_FILTER)],
    "city": [{"model": m} for m in ("polynsd-diagonal", "nsd-diagonal", "sage", "chebnet", "sgformer")],
}


def cells(experiment):
    """(dataset, its number, options) of all cells that a claim may ask of an experiment."""
    if experiment == "synthetic":
        for number, (panel, grid) in enumerate(PANELS.items()):
            for each in grid.cells():
                setting = (
                    f"noise={each['feature_noise']} heterophily={each['heterophily']} N={each['num_nodes']}"
                    f" C={each['num_classes']} degree={each['degree']}"
                )
                for model in (*OURS, "nsd-diagonal", "jdsnn", "gcn", "mlp"):
                    yield panel, number, {"setting": setting, "model": model}
        return
    cities = ("paris", "shanghai", "la", "london")
    datasets = cities if experiment == "city" else get_experiment(experiment).datasets
    for number, dataset in enumerate(datasets):
        for options in CELLS[experiment]:
            yield dataset, number, options


def is_ours(options):
    return options.get("model", "").startswith("polynsd")


def gain(amount, base=0.6):
    """PolyNSD is better by an amount."""
    return lambda options, dataset, sign: base + amount * sign * is_ours(options)


def best_range(options, dataset, sign):
    low, high = (4, 8) if dataset in ("cora", "citeseer", "pubmed") else (8, 16)
    return 0.7 + 0.05 * sign * (low <= options["K"] <= high)


def deep(options, dataset, sign):
    """PolyNSD stays and the others fall; or nobody falls; or PolyNSD does."""
    falls = max(-sign, 0) if is_ours(options) else max(sign, 0)
    return 0.8 - 0.3 * falls * (options["layers"] - 2) / 30


def read_setting(options, name):
    return float(options["setting"].split(f"{name}=")[1].split()[0])


def heterophily(options, dataset, sign):
    level = read_setting(options, "heterophily")
    return 0.6 + 0.2 * sign * is_ours(options) + 0.1 * (1 - level) * (options["model"] == "gcn")


def noisy(options, dataset, sign):
    falls = 0.2 if not is_ours(options) else 0.1 if options["model"] == "polynsd-diagonal" else 0.0
    return 0.8 - sign * read_setting(options, "noise") * falls


def new_suite(options, dataset, sign):
    return 0.93 + 0.06 * sign * is_ours(options) + 0.003 * (options["model"] == "polynsd-general")


Y, N, P, U = "confirmed", "refuted", "partly", "undecided"
SCENARIOS = {  # the mean of a cell by what the claim says; verdicts of good, equal, bad and mixed records
    "C01": (gain(0.05), Y, N, N, P),
    "C02": (gain(0.05), Y, U, N, N),
    "C03": (lambda o, d, s: 0.6 + 0.05 * s * (o["model"] == "polynsd-diagonal"), Y, Y, N, P),
    "C04": (gain(0.08), Y, N, N, N),
    "C05": (gain(0.05), Y, N, N, P),
    "C06": (lambda o, d, s: 0.7 + 0.05 * s * o["model"].endswith(WITH_FILTER), Y, N, N, N),
    "C33": (lambda o, d, s: 0.8 + (0.005 if s > 0 else 0.05) * s * (o["stalk_dim"] < 4), Y, P, N, N),
    "C34": (lambda o, d, s: 0.8 + 0.05 * min(s, 0) * (o["basis"] != "chebyshev1"), Y, Y, N, N),
    "C35": (lambda o, d, s: 0.8 + 0.02 * s * (o["basis"] == "chebyshev1"), Y, U, N, U),
    "C36": (gain(0.05), Y, N, N, N),
    "C37": (gain(0.05), Y, N, N, P),
    "C39": (gain(0.06), Y, N, N, P),
    "C40": (new_suite, Y, P, N, N),
    "C41": (deep, Y, P, N, N),
    "C42": (deep, Y, N, N, N),
    "C46": (lambda o, d, s: 0.7 + 0.05 * s * (o["K"] > 1), Y, N, N, N),
    "C47": (best_range, Y, N, N, P),
    "C48": (lambda o, d, s: 0.7 + 0.1 * min(s, 0) * ("K" in o), Y, Y, N, P),
    "C49": (gain(0.08), Y, N, N, N),
    "C50": (gain(0.18), Y, N, N, N),
    "C51": (gain(0.05), Y, N, N, N),
    "C52": (gain(0.05), Y, N, N, N),
    "C53": (gain(0.3), Y, U, N, U),
    "C54": (gain(0.05), Y, N, N, U),
    "C62": (gain(0.05), Y, N, N, N),
    "C66": (heterophily, Y, N, N, N),
    "C67": (gain(0.05, base=0.93), Y, N, N, N),
    "C68": (noisy, Y, N, N, N),
}
MIXED_SIGNS = {  # where "the other way on every second dataset" would not do
    "C37": lambda number, options: 1 if options.get("rule") == "luan-60-20-20" else -1,
    "C52": lambda number, options: 1 if options["model"].endswith("diagonal") else -1,
    "C53": lambda number, options: 1 if number < 3 else -1,
    "C54": lambda number, options: 1 if number < 3 else -1,
}
SHAPES = {"synthetic": (5, 1), "city": (1, 3)}


def cost_of(options):
    """PolyNSD is smaller and faster than NSD, which grows with its width."""
    width = options.get("hidden", 16)
    return {
        "parameters": (90 if is_ours(options) else 100) * width // 16,
        "seconds": 0.5 if is_ours(options) else 1.0,
    }


def invent(claim_id, scenario, **noise):
    """The cells of a claim's experiments, in which its effect goes as the scenario says."""
    mean = SCENARIOS[claim_id][0]
    mixed = MIXED_SIGNS.get(claim_id, lambda number, options: 1 if number % 2 == 0 else -1)
    for experiment in BY_ID[claim_id].needs:
        for dataset, number, options in cells(experiment):
            sign = mixed(number, options) if scenario == MIXED else {GOOD: 1, EQUAL: 0, BAD: -1}[scenario]
            spread = 0.005 if sign > 0 and is_ours(options) else 0.01
            more = {"shape": SHAPES.get(experiment, (10, 1)), "spread": spread, **cost_of(options), **noise}
            yield invent_cell(experiment, dataset, mean(options, dataset, sign), cell=options, **more)


def on(rows, *datasets):
    return [row for row in rows if row["dataset"] in datasets]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_verdict_follows_the_records(name):
    findings = {scenario: examine(name, invent(name, scenario)) for scenario in (GOOD, EQUAL, BAD, MIXED)}
    assert [finding.verdict for finding in findings.values()] == list(SCENARIOS[name][1:]), findings


LACKING = ("C40", "C53", "C54")  # graphs that cannot be had
READERS = [claim for claim in BY_ID.values() if claim.needs]
MEASURED = {
    "C29",
    "C44",
    "C45",
    *(f"C{number}" for number in range(56, 62)),
    "C63",
    "C64",
    "C65",
}  # elsewhere


def test_every_claim_that_reads_records_is_tried():
    assert {claim.id for claim in READERS} == {*SCENARIOS, *MEASURED, "C43"}


@pytest.mark.parametrize("claim", READERS, ids=lambda claim: claim.id)
def test_missing_records_and_those_of_other_cells_decide_nothing(claim):
    finding = examine(claim.id, [])
    assert finding.verdict == UNSURE
    assert all(f"polynsd reproduce {name}" in finding.evidence for name in claim.needs)
    assert all(f"polynsd reproduce {name}" in claim.command for name in claim.needs)
    others = (invent_cell(name, "nowhere", cell={"model": "none"}) for name in claim.needs)
    finding = examine(claim.id, others)
    unsure = NO if claim.id in LACKING else UNSURE
    assert (finding.verdict, "needs" in finding.evidence) == (unsure, True)


@pytest.mark.parametrize(
    ("name", "missing"),
    [("C02", "7 of 8 datasets, has 3"), ("C01", "4 of 4 suites, has 2"), ("C46", "20 of 24 cells, has 9")],
)
def test_few_graphs_decide_nothing_and_what_is_missing_is_named(name, missing):
    finding = examine(name, on(invent(name, GOOD), "cora", "texas", "film"))
    assert (finding.verdict, f"needs {missing}" in finding.evidence) == (UNSURE, True), finding.evidence


def unclear(name):
    """Records of a claim in which nothing can be distinguished from noise."""
    return list(invent(name, EQUAL, spread=0.01, own=0.05))


def first_dataset(name, rows):
    """A part of the records: of one graph, or where the claim is about a single one, of some maps."""
    rows = list(rows)
    if name == "C52":
        return [row for row in rows if "orthogonal" in row["cell"]]
    return on(rows, rows[0]["dataset"])


@pytest.mark.parametrize("name", ["C36", "C39", "C40", "C46", "C52"])
def test_what_is_undecided_refutes_nothing(name):
    rows = unclear(name)
    finding = examine(name, first_dataset(name, rows))
    unsure = NO if name in LACKING else UNSURE
    assert (finding.verdict, "refuted" in finding.evidence) == (unsure, False), finding.evidence
    assert examine(name, rows).verdict in ("undecided", "partly")


@pytest.mark.parametrize("name", ["C36", "C40", "C46", "C52"])
def test_a_counterexample_refutes_a_claim_about_all_at_once(name):
    assert examine(name, first_dataset(name, invent(name, BAD))).verdict == "refuted"


def test_ranks_within_noise_decide_nothing_while_graphs_are_missing():
    rows = on(unclear("C02"), "cora", "texas", "film")
    finding = examine("C02", (raise_scores(row, -1e-4) if is_ours(row) else row for row in rows))
    assert (finding.verdict, "refuted" in finding.evidence) == (UNSURE, False), finding.evidence


def test_other_street_graphs_are_listed_but_decide_nothing_about_cities():
    finding = examine("C53", ({**row, "dataset": f"x{row['dataset']}"} for row in invent("C53", GOOD)))
    assert finding.verdict == NO
    assert "needs 4 of 4 cities, has 0" in finding.evidence
    assert "polynsd 90." in finding.evidence


@pytest.mark.parametrize(
    ("name", "model", "amount", "verdict", "text"),
    [
        ("C36", "mlp", 0.25, "partly", "→ refuted"),  # an MLP far ahead
        ("C39", "gcn", 0.2, "partly", "chameleon_filtered 2 of 12"),  # second is not best
        ("C66", "gcn", 0.1, "refuted", "→ refuted"),  # a GCN that recovers does not sink
    ],
)
def test_a_strong_rival_refutes_its_part(name, model, amount, verdict, text):
    rows = (raise_scores(row, amount) if row["model"] == model else row for row in invent(name, GOOD))
    finding = examine(name, rows)
    assert (finding.verdict, text in finding.evidence) == (verdict, True)


@pytest.mark.parametrize(("noise", "verdict"), [(0.05, "partly"), (1e-3, "refuted")])
def test_one_network_without_a_gain_refutes_that_all_have_one_unless_it_is_noise(noise, verdict):
    rows = [row for row in invent("C06", GOOD) if row["model"] != f"san{WITH_FILTER}"]
    options = {"model": f"san{WITH_FILTER}"}
    rows += [invent_cell("agnostic", graph, 0.7, cell=options, own=noise) for graph in GRAPHS]
    finding = examine("C06", rows)
    assert finding.verdict == verdict, finding.evidence
    assert "conn-nsd +4.97 points (6 wins, 0 losses, 0 ties)" in finding.evidence
    alone = [row for row in rows if row["model"].startswith("san")]
    assert examine("C06", alone).verdict == (UNSURE if verdict == "partly" else verdict)
    assert examine("C06", [row for row in alone if row["dataset"] in GRAPHS[:4]]).verdict == UNSURE


def test_gains_that_are_far_from_twenty_points_are_a_part_of_the_claim():
    rows = (
        invent_cell("nsd-vs-poly", dataset, 0.6 + 0.05 * is_ours(options), cell=options)
        for dataset, _, options in cells("nsd-vs-poly")
    )
    assert examine("C50", rows).verdict == "partly"


def test_seconds_are_compared_on_one_device_only():
    rows = ({**row, "device": "gpu"} if is_ours(row) else row for row in invent("C05", GOOD))
    finding = examine("C05", rows)
    assert (finding.verdict, "needs pairs on one device" in finding.evidence) == ("undecided", True)


@pytest.mark.parametrize(
    ("score", "h2gcn_layers", "verdict", "text"),
    [
        (0.8, 4, "partly", "→ refuted; H2GCN is not run beyond 4 layers"),
        (0.2, 4, "partly", "→ partly; H2GCN is not run beyond 4 layers"),  # it learned nothing
        (0.8, 16, "refuted", "H2GCN trained with 16 layers or more"),
    ],
)
def test_deep_gat_and_h2gcn(score, h2gcn_layers, verdict, text):
    finding = examine(
        "C43",
        (
            invent_cell("depth", dataset, score, cell={"model": model, "layers": layers})
            for dataset in get_experiment("depth").datasets
            for model, layers in (("gat", 16), ("gat", 32), ("h2gcn", h2gcn_layers))
        ),
    )
    assert finding.verdict == verdict
    assert text in finding.evidence
    assert "leaves no record" in finding.evidence


def test_only_current_records_on_the_disk_are_read(tmp_path):
    from invented_records import invent as invent_record

    from polynsd.training.configuration import plain_configuration
    from polynsd_paper.records import cell_settings

    sweep = get_experiment("k-sweep")
    for cell in sweep.cells(("texas",)):
        old = invent_record("k-sweep", "texas", cell.options, 0.8)
        settings, configuration = cell_settings(sweep, cell), plain_configuration(cell.plan)
        current = replace(old, settings=settings, configuration=configuration)
        current.save(tmp_path / "now" / "records" / "k-sweep" / cell.path)
        old.save(tmp_path / "then" / "records" / "k-sweep" / cell.path)
    count = len(sweep.cells(("texas",)))
    assert len(load_cells(tmp_path / "now", ["k-sweep", "stalk"])) == count
    assert len(load_cells(tmp_path / "then", ["k-sweep"])) == len(load_cells(tmp_path, ["stalk"])) == 0
