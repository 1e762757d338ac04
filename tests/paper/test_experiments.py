"""Experiments as data: every cell has a file of its own, and what it trains can be built."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import polynsd
from polynsd import NSD, LayerConfig, ModelConfig, PolyNSD, PolyNSDError, TrainConfig
from polynsd.data.datasets.entries import ENTRIES
from polynsd.federated.methods import build_method
from polynsd.nn import count_parameters
from polynsd.optional import load_optuna
from polynsd.published import published_layer, published_model, published_training
from polynsd.search.space import Space, check_space
from polynsd.training.configuration import Configuration, configure
from polynsd.zoo import build_model
from polynsd_paper.experiment import Matched, published_space
from polynsd_paper.experiments import EXPERIMENTS, get_experiment
from polynsd_paper.experiments.block import CHOSEN, own_space, own_starts
from polynsd_paper.experiments.federated import ROWS, Federation
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS, WITH_ADJACENCY
from polynsd_paper.experiments.reference import reference_space
from polynsd_paper.records import RECORD_COLUMNS, SCORE_COLUMNS, SUMMARY_COLUMNS
from polynsd_paper.tables.printed_numbers import parse_cell, read_printed

pytestmark = pytest.mark.usefixtures("no_tracer")  # other tests cover the same code

PACKAGE = Path(polynsd.__file__).parent
every = pytest.mark.parametrize("name", EXPERIMENTS)
SEARCHED = [name for name, experiment in EXPERIMENTS.items() if isinstance(experiment.cells()[0].plan, Space)]


def small(model):
    """Quick to build, and of a width that heads divide."""
    return replace(model, hidden_channels=8, num_layers=min(model.num_layers, 2))


@every
def test_every_cell_has_a_record_of_its_own(name):
    cells = EXPERIMENTS[name].cells()
    paths = [cell.path for cell in cells]
    assert len({str(path).lower() for path in paths}) == len(cells) > 0
    for path in paths:
        assert len(path.parts) == 2
        assert not set(path.name) & set(':*?"<>|\\')
    assert all(isinstance(cell.plan, Configuration | Space | Matched | Federation) for cell in cells)
    is_searched = {isinstance(cell.plan, Space) for cell in cells if not isinstance(cell.plan, Matched)}
    assert len(is_searched) == 1


@every
def test_no_option_of_a_cell_is_named_like_another_column_of_the_records(name):
    assert not {*RECORD_COLUMNS, *SCORE_COLUMNS, *SUMMARY_COLUMNS} & set(EXPERIMENTS[name].axes)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in SEARCHED])
def test_what_is_fixed_can_be_built(name):
    plans = [cell.plan for cell in EXPERIMENTS[name].cells()]
    if isinstance(plans[0], Federation):
        for plan in plans[: len(ROWS)]:
            build_method(plan.config).build(plan.config, 7, 3)
        return
    for model in {repr(small(plan.model)): small(plan.model) for plan in plans}.values():
        build_model(model, 7, 3)


@pytest.mark.parametrize("model", [*MODEL_ROWS, *WITH_ADJACENCY])
def test_every_space_holds_models_that_can_be_built(model):
    check_space(published_space(get_experiment("leaderboard").configure("chameleon", model=model).plan))


OTHERS = ("tuned", "polynormer", "gcn")
DEEPER = [name for name, row in MODEL_ROWS.items() if row.is_sheaf or name.startswith(OTHERS)]


@pytest.mark.parametrize("model", DEEPER)
def test_deeper_spaces_hold_models_that_can_be_built(model):
    check_space(published_space(get_experiment("platonov").configure("minesweeper", model=model).plan))


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_can_draw_what_they_begin_with(name):
    for cell in EXPERIMENTS[name].cells():
        if isinstance(cell.plan, Space):
            varying = published_space(cell.plan).distributions()
            for start in cell.starts:
                known = {option: value for option, value in start.items() if option in varying}
                assert cell.plan.contains(known), (str(cell), known)


def test_every_polynsd_of_a_searched_table_has_its_control():
    for name in ("leaderboard", "filtered", "platonov", "malignant", "long-search"):
        cells = EXPERIMENTS[name].cells(EXPERIMENTS[name].datasets[:1])
        ours = {c.path: c for c in cells if c.options["model"].startswith("polynsd")}
        controls = [cell for cell in cells if isinstance(cell.plan, Matched)]
        assert {control.plan.winner.path for control in controls} == set(ours)
        for control in controls:
            winner = ours[control.plan.winner.path]
            assert control.options["model"] == f"control of {winner.options['model']}"
            assert control.sources == winner.sources


@pytest.mark.parametrize("maps", FAMILIES)
def test_a_control_differs_in_its_maps_alone(maps):
    layer = published_layer(maps)
    winner = Configuration(published_model(hidden_channels=8, layer=layer), published_training())
    control = Matched.control_of(winner)
    assert control.training == winner.training
    changed = {n for n, value in vars(control.model.layer).items() if value != getattr(winner.model.layer, n)}
    assert changed == {"maps"} | ({"edge_weights"} if maps == "orthogonal" else set())
    build_model(control.model, 7, 3)


@pytest.mark.parametrize("model", ["polynsd", "nsd"])
def test_reference_rows_are_the_published_architecture(model):
    """Whatever is drawn: the model is `PolyNSD.reference` or `NSD.reference` with the same options."""
    space = published_space(reference_space(f"{model}-reference", "squirrel"))
    study = load_optuna().create_study(sampler=load_optuna().samplers.RandomSampler(0))
    seen = set()
    for _ in range(12):
        config = small(space.configuration(study.ask(space.distributions()).params).model)
        reference = {"polynsd": PolyNSD, "nsd": NSD}[model].reference(
            7, 8, config.num_layers, 3, input_dropout=config.input_dropout, second_linear=True,
            **{name: getattr(config.layer, name) for name in
               ("maps", "stalk_dim", "fixed_channels", "dropout", "degree", "basis")
               if model == "polynsd" or name not in ("degree", "basis")},
        )  # fmt: skip
        ours = build_model(config, 7, 3)
        assert ours.config == reference.config
        assert count_parameters(ours) == count_parameters(reference)
        seen.add(config.layer.maps)
    assert seen == set(FAMILIES)


def test_the_published_space_is_whole():
    rules = reference_space("polynsd-reference", "cora").to_dict()
    assert rules["model.layer.degree"] == [2, 3, 4, 5, 8, 12, 16]
    assert rules["model.hidden_channels"] == [8, 16, 32]
    assert rules["model.num_layers"][-3:] == [16, 32, 64]
    assert rules["model.layer.dropout"]["high"] == rules["model.input_dropout"]["high"] == 0.9
    assert sorted(map(tuple, rules["model.layer.fixed_channels"])) == [
        (), ("laplacian",), ("signless",), ("signless", "laplacian"),
    ]  # fmt: skip
    assert (rules["training.patience"], rules["training.select"]) == (200, ["metric", "loss"])
    assert get_experiment("leaderboard").budget("cora").trials >= 48


PRINTED = {  # parameters, of the paper's tables of depth, width and degree
    ("pubmed", 500, 3): {
        "nsd-diagonal-layers=2": 48_655, "nsd-diagonal-hidden=256": 2_436_415,
        "nsd-orthogonal-layers=8": 58_051, "nsd-orthogonal-hidden=64": 281_215,
        "nsd-general-layers=16": 92_339, "nsd-general-hidden=128": 806_591,
        "polynsd-diagonal-K=2": 48_659, "polynsd-orthogonal-K=4": 49_621, "polynsd-general-K=8": 52_505,
    },
    ("chameleon", 2_325, 5): {
        "nsd-diagonal-layers=4": 196_669, "nsd-orthogonal-hidden=32": 405_313,
        "nsd-general-layers=32": 284_037, "polynsd-diagonal-K=6": 194_825,
        "polynsd-orthogonal-K=16": 195_795, "polynsd-general-K=2": 198_661,
    },
    ("squirrel", 2_089, 5): {
        "nsd-diagonal-hidden=128": 1_794_113, "nsd-orthogonal-layers=16": 196_581,
        "nsd-general-hidden=64": 801_857, "polynsd-orthogonal-K=2": 176_901, "polynsd-general-K=6": 179_785,
    },
}  # fmt: skip


@pytest.mark.parametrize("graph", PRINTED, ids=lambda graph: graph[0])
def test_published_comparisons_have_the_printed_numbers_of_parameters(graph):
    dataset, features, classes = graph
    cells = {cell.name: cell.plan.model for cell in get_experiment("nsd-vs-poly").cells((dataset,))}
    with torch.device("meta"):
        counts = {
            name: count_parameters(build_model(cells[name], features, classes)) for name in PRINTED[graph]
        }
    assert counts == PRINTED[graph]


def trained(experiment):
    """What the cells of the first dataset train; of a space the first configuration."""
    plans = [cell.plan for cell in experiment.cells(experiment.datasets[:1])]
    spaces = [published_space(plan) for plan in plans if isinstance(plan, Space)]
    firsts = [{name: rule.examples[0] for name, rule in space.rules.items()} for space in spaces]
    return [plan for plan in plans if isinstance(plan, Configuration)] + [configure(one) for one in firsts]


def built(configurations):
    """The layers of the sheaf models among them, of NSD and of the published architecture."""
    models = [build_model(small(one.model), 7, 3) for one in configurations]
    models += [kind.reference(7, 8, 2, 3) for kind in (NSD, PolyNSD)]
    return [model.config for model in models if isinstance(model, PolyNSD)]


OTHER_LAYER = {
    "stalk_dim": 2, "maps": "general", "normalization": "sheaf", "degree": 1, "coefficients": "free",
    "correction": "none", "mixing": "full", "norm": "layer", "gate": "shortcut", "activation": "relu",
    "dropout": 0.3,
}  # fmt: skip
OTHER_DEFAULTS = {
    LayerConfig: OTHER_LAYER,
    ModelConfig: {"hidden_channels": 64, "num_layers": 6, "layer": LayerConfig(**OTHER_LAYER)},
    TrainConfig: {"epochs": 7, "patience": 3, "learning_rate": 0.1, "weight_decay": 0.0, "select": "loss"},
}


def test_no_default_decides_what_the_paper_trains(monkeypatch):
    """Were the defaults others, cells would train the same models by the same rules."""
    before = [trained(experiment) for experiment in EXPERIMENTS.values()]
    layers = [built(plans[:10]) for plans in before]
    for kind, others in OTHER_DEFAULTS.items():
        defaults = [others.get(field.name, getattr(kind(), field.name)) for field in fields(kind)]
        monkeypatch.setattr(kind.__init__, "__defaults__", tuple(defaults))
    assert ModelConfig().layer.maps == PolyNSD(7, 8, 2, 3).config.maps == "general"
    assert [trained(experiment) for experiment in EXPERIMENTS.values()] == before
    assert [built(plans[:10]) for plans in before] == layers


@pytest.mark.parametrize("name", SEARCHED)
def test_budgets_are_those_of_the_dataset_whatever_the_model(name):
    experiment = EXPERIMENTS[name]
    assert set(experiment.datasets) <= set(experiment.budgets)
    for cell in experiment.cells():
        budget = experiment.budget(cell.dataset)
        assert budget == experiment.budgets[cell.dataset]
        assert budget.trials >= budget.batch == 16
        assert budget.finalists > 1
        assert budget.starts <= 0.25
        assert budget.splits >= 1
        if isinstance(cell.plan, Matched):
            continue
        rules = cell.plan.rules
        assert {"training.learning_rate", "training.weight_decay", "model.layer.dropout"} <= set(rules)


@pytest.mark.parametrize("name", SEARCHED)
def test_all_models_of_a_table_are_trained_by_the_same_rules(name):
    """But for rows as published, and for longer trainings of tuned rows and our own block on some graphs."""
    shared = ("training.epochs", "training.patience", "training.select")
    others = ("polynsd-reference", "nsd-reference", "polynsd", "polynormer")
    for dataset in EXPERIMENTS[name].datasets:
        cells = [cell for cell in EXPERIMENTS[name].cells((dataset,)) if isinstance(cell.plan, Space)]
        rows = {cell.options["model"]: cell.plan.rules for cell in cells}
        alike = {row: r for row, r in rows.items() if row not in others and not row.startswith("tuned-")}
        assert len({tuple(repr(rules[option]) for option in shared) for rules in alike.values()}) == 1
        rates = [rules["training.learning_rate"] for row, rules in rows.items() if "reference" not in row]
        assert max(rate.low for rate in rates) == 1e-4


@every
def test_datasets_are_known_or_generated(name):
    for cell in EXPERIMENTS[name].cells():
        for source in cell.sources:
            assert source.dataset is None or source.dataset in {*ENTRIES, "la"}


@every
def test_printed_numbers_belong_to_cells_that_are_named_alike(name):
    kinds = {frozenset(cell.options) for cell in EXPERIMENTS[name].cells()}
    assert all(frozenset(parse_cell(cell)) in kinds for cell in read_printed(name)["cell"])


@every
def test_the_list_has_something_to_say(name):
    experiment = EXPERIMENTS[name]
    assert experiment.title
    assert experiment.minutes


def test_cells_of_a_part():
    sweep = get_experiment("k-sweep")
    part = sweep.cells(("texas",), {"maps": ("general",), "K": (2, 4)})
    assert [str(cell) for cell in part] == ["texas, general, K=2", "texas, general, K=4"]
    assert [str(cell.path) for cell in part] == ["texas/general-K=2.yaml", "texas/general-K=4.yaml"]


def test_the_k_sweep_is_nine_graphs_three_families_and_six_degrees():
    cells = get_experiment("k-sweep").cells()
    assert len(cells) == 9 * 3 * 6
    for cell in cells:
        model, training = cell.plan
        layer = model.layer
        assert (layer.total_stalk_dim, model.num_layers, model.hidden_channels) == (6, 2, 32)
        assert (layer.dropout, model.input_dropout, model.shared_filter) == (0.2, 0.2, True)
        assert layer.edge_weights == (layer.maps == "orthogonal")
        assert (training.epochs, training.patience, training.select) == (500, 200, "loss")
        assert (training.weight_decay, training.sheaf_decay) == (5e-4, None)
        small = cell.dataset in ("texas", "wisconsin", "cornell")
        assert training.learning_rate == (0.02 if small else 0.01)
        assert model.second_linear == (cell.dataset in ("chameleon", "squirrel", "pubmed"))
        assert layer.degree == cell.options["K"]


def test_there_are_no_circles_between_reports_and_experiments():
    files = [*(PACKAGE / "report").rglob("*.py"), *(PACKAGE / "stats").rglob("*.py")]
    assert files
    assert not [path.name for path in files if "polynsd_paper" in path.read_text(encoding="utf-8")]


def test_an_unknown_experiment_is_guessed():
    with pytest.raises(PolyNSDError, match="Did you mean 'k-sweep'"):
        get_experiment("k-swep")


@pytest.mark.parametrize("dataset", CHOSEN)
def test_own_starts_are_in_the_own_space(dataset: str) -> None:
    space = own_space()
    varying = space.distributions()
    for start in own_starts(dataset):
        assert space.contains({name: value for name, value in start.items() if name in varying})
