"""Experiments as data: every cell has a file of its own, and what it trains can be built."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

import polynsd
from polynsd import NSD, LayerConfig, ModelConfig, PolyNSD, PolyNSDError, TrainConfig
from polynsd.data.datasets.entries import ENTRIES
from polynsd.federated.methods import build_method
from polynsd.search.space import Space, check_space
from polynsd.training.configuration import Configuration, configure
from polynsd.zoo import build_model
from polynsd_paper.experiment import published_space
from polynsd_paper.experiments import EXPERIMENTS, get_experiment
from polynsd_paper.experiments.federated import ROWS, Federation
from polynsd_paper.experiments.models import MODEL_ROWS, WITH_ADJACENCY
from polynsd_paper.published import parse_cell, published
from polynsd_paper.records import RECORD_COLUMNS, SCORE_COLUMNS, SUMMARY_COLUMNS

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
    kinds = {type(cell.plan) for cell in cells}
    assert kinds in ({Space}, {Configuration}, {Federation})


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
    check_space(published_space({**MODEL_ROWS, **WITH_ADJACENCY}[model].space()))


@pytest.mark.parametrize("model", MODEL_ROWS)
def test_deeper_spaces_hold_models_that_can_be_built(model):
    check_space(published_space(get_experiment("platonov").configure("minesweeper", model=model).plan))


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
        assert budget.trials >= budget.batch
        assert budget.splits >= 1
        rules = cell.plan.rules
        assert {"training.learning_rate", "training.weight_decay", "model.layer.dropout"} <= set(rules)


@pytest.mark.parametrize("name", SEARCHED)
def test_all_models_of_a_table_are_trained_by_the_same_rules(name):
    shared = ("training.learning_rate", "training.epochs", "training.patience", "training.select")
    for dataset in EXPERIMENTS[name].datasets:
        cells = EXPERIMENTS[name].cells((dataset,))
        assert len({tuple(repr(cell.plan.rules[option]) for option in shared) for cell in cells}) == 1


@every
def test_datasets_are_known_or_generated(name):
    for cell in EXPERIMENTS[name].cells():
        for source in cell.sources:
            assert source.dataset is None or source.dataset in {*ENTRIES, "la"}


@every
def test_printed_numbers_belong_to_cells_that_are_named_alike(name):
    kinds = {frozenset(cell.options) for cell in EXPERIMENTS[name].cells()}
    assert all(frozenset(parse_cell(cell)) in kinds for cell in published(name)["cell"])


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
        assert (layer.dropout, model.input_dropout, layer.edge_weights) == (0.2, 0.2, True)
        assert (training.epochs, training.patience, training.select) == (500, 200, "loss")
        assert (training.weight_decay, training.sheaf_decay) == (5e-4, None)
        small = cell.dataset in ("texas", "wisconsin", "cornell")
        assert training.learning_rate == (0.02 if small else 0.01)
        assert model.second_linear == (cell.dataset in ("chameleon", "squirrel"))
        assert layer.degree == cell.options["K"]


def test_there_are_no_circles_between_reports_and_experiments():
    files = [*(PACKAGE / "report").rglob("*.py"), *(PACKAGE / "stats").rglob("*.py")]
    assert files
    assert not [path.name for path in files if "polynsd_paper" in path.read_text(encoding="utf-8")]


def test_an_unknown_experiment_is_guessed():
    with pytest.raises(PolyNSDError, match="Did you mean 'k-sweep'"):
        get_experiment("k-swep")
