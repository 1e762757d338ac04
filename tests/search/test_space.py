"""Spaces are data: they round-trip, refuse what cannot be, and hold nothing that cannot be built."""

import math
from functools import cache

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.config import LayerConfig, ModelConfig, ODEConfig, TrainConfig
from polynsd.errors import ConfigError
from polynsd.search import Choice, Fixed, Range, Space, get_space
from polynsd.search.spaces import PUBLISHED
from polynsd.search.trials import FREE_IN_TRIALS
from polynsd.training.configuration import FREE, configure, option_types
from polynsd.zoo import ALL_MODELS, all_model_options, build_model

LEARNED = ("diagonal", "orthogonal", "general")


@cache
def paper_space(dataset, maps):
    """Making one builds a model of every choice."""
    return get_space("paper", dataset, "polynsd", maps)


def samples(space, count, seed=0):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    for _ in range(count):
        yield study.ask(space.distributions()).params


def through_yaml(space, folder):
    space.save(folder / "space.yaml")
    return Space.load(folder / "space.yaml")


numbers = st.floats(1e-6, 0.4)
rules = st.fixed_dictionaries(
    {},
    optional={
        "model.layer.degree": st.lists(st.integers(1, 16), min_size=1, unique=True),
        "model.layer.dropout": numbers.map(lambda low: {"low": low, "high": low + 0.5}),
        "model.input_dropout": st.just({"low": 0.0, "high": 0.9, "step": 0.1}),
        "model.hidden_channels": st.integers(1, 9).map(
            lambda low: {"low": low, "high": 2 * low, "log": True}
        ),
        "model.second_linear": st.booleans(),
        "model.layer.fixed_channels": st.sampled_from([[[]], [["laplacian"]], [[], ["signless"]]]),
        "training.weight_decay": numbers.map(lambda low: {"low": low, "high": 1.0, "log": True}),
        "training.sheaf_decay": st.sampled_from([None, [None, 0.1]]),
    },
)


@given(rules)
def test_a_space_is_what_it_was_after_yaml(tmp_path_factory, plain):
    space = Space.from_dict(plain)
    assert Space.from_dict(space.to_dict()) == space
    if plain:
        assert through_yaml(space, tmp_path_factory.mktemp("space")) == space


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(
    ("dataset", "maps"),
    [*((name, "diagonal") for name in PUBLISHED), *(("texas", maps) for maps in LEARNED[1:])],
)
def test_the_papers_spaces_round_trip_and_build(dataset, maps, tmp_path):
    space = paper_space(dataset, maps)
    assert through_yaml(space, tmp_path) == space
    for params in samples(space, 10):
        model, training = space.configuration(params)
        assert (model.layer.maps, training.select, model.shared_filter) == (maps, "loss", True)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("model", ALL_MODELS)
def test_everything_in_the_default_space_builds(model):
    space = get_space("default", model=model)
    for params in samples(space, 100 if model == "polynsd" else 15):
        configuration = space.configuration(params)
        assert isinstance(configuration.training, TrainConfig)
        assert configuration.model.model == model
    build_model(configuration.model, 3, 2)


def test_the_papers_numbers():
    """The published searches, option by option."""
    squirrel = get_space("paper", "squirrel").rules
    assert squirrel["model.layer.degree"] == Choice((2, 3, 4, 5, 8, 12, 16))
    assert squirrel["model.layer.stalk_dim"] == Choice((2, 3, 4, 5))
    assert squirrel["model.num_layers"] == Choice((2, 3, 4, 5, 6, 7, 8))
    assert squirrel["model.hidden_channels"] == Choice((8, 16, 32))
    assert squirrel["model.layer.dropout"] == squirrel["model.input_dropout"] == Range(0.0, 0.9, step=0.1)
    assert squirrel["model.second_linear"] == Fixed(True)
    assert squirrel["training.learning_rate"] == Fixed(0.01)
    assert (squirrel["training.epochs"], squirrel["training.patience"]) == (Fixed(500), Fixed(200))
    decays = squirrel["training.weight_decay"], squirrel["training.sheaf_decay"]
    for decay, low in zip(decays, (-9.2, -11.0), strict=True):
        assert decay.log
        assert (math.log(decay.low), math.log(decay.high)) == pytest.approx((low, -6.8))
    both = ("signless", "laplacian")
    assert set(squirrel["model.layer.fixed_channels"].values) == {(), both[:1], both[1:], both}


def test_what_differs_between_datasets_in_the_paper():
    spaces = {name: paper_space(name, "diagonal").rules for name in PUBLISHED}
    depth = {name: rules["model.num_layers"].values for name, rules in spaces.items()}
    assert depth["texas"] == (*range(1, 9), 16)
    assert depth["wisconsin"] == depth["cornell"] == (*range(2, 9), 16)
    assert depth["cora"] == depth["citeseer"] == (*range(2, 9), 16, 32, 64)
    assert depth["film"] == depth["pubmed"] == depth["chameleon"] == tuple(range(2, 9))
    assert depth["roman_empire"] == depth["amazon_ratings"] == tuple(range(3, 9))
    roman, ratings = spaces["roman_empire"], spaces["amazon_ratings"]
    assert roman["model.hidden_channels"].values == (16, 32, 64)
    assert ratings["model.hidden_channels"].values == (32, 64, 128)
    assert roman["model.layer.dropout"].high == ratings["model.input_dropout"].high == 0.8
    assert (roman["training.epochs"].value, roman["training.patience"].value) == (1000, 100)
    assert (ratings["training.epochs"].value, ratings["training.patience"].value) == (800, 100)
    rates = {name: rules["training.learning_rate"].value for name, rules in spaces.items()}
    fast = {"texas", "wisconsin", "cornell", "cornell_fixed"}
    assert rates == {name: 0.02 if name in fast else 0.01 for name in PUBLISHED}
    second = {name for name, rules in spaces.items() if rules["model.second_linear"].value}
    assert second == {"squirrel", "chameleon", "roman_empire", "amazon_ratings"}


def test_the_paper_follows_each_familys_published_order():
    def rules(maps):
        space = get_space("paper", "texas", maps=maps)
        return space.configuration(next(samples(space, 1))).model.layer

    assert rules("diagonal").mixing == "idle"
    assert rules("orthogonal").edge_weights
    assert rules("general").correction_state == "residual"


def test_nsd_has_no_filter_to_search():
    assert "model.layer.degree" not in get_space("paper", "texas", "nsd").rules
    assert "model.layer.basis" not in get_space("default", model="nsd").rules


def test_every_option_has_a_dotted_name_and_free_ones_exist():
    names = option_types()
    assert set(names) >= FREE
    assert names["model.layer.map_dropout"] is float
    assert names["model.layer.fixed_channels"] is tuple
    counts = [len(vars(kind())) for kind in (ModelConfig, LayerConfig, ODEConfig, TrainConfig)]
    of_zoo = [name for name in names if name.startswith("model.options.")]
    assert len(names) - len(of_zoo) == sum(counts) - 3  # `layer`, `ode` and `options` themselves are none
    assert sorted(of_zoo) == sorted(f"model.options.{name}" for name in all_model_options())
    assert names["model.options.heads"] is int


def test_options_of_the_zoo_are_searched_in_their_types():
    space = Space.from_dict({"model.model": "gcnii", "model.options.alpha": [0.1, 1], "model.num_layers": 2})
    seen = {space.configuration(params).model.options["alpha"] for params in samples(space, 20)}
    assert seen == {0.1, 1.0}
    assert {type(value) for value in seen} == {float}


def test_a_choice_of_tuples_survives_a_storage():
    space = Space.from_dict({"model.layer.fixed_channels": [[], ["laplacian", "signless"]]})
    seen = {space.configuration(params).model.layer.fixed_channels for params in samples(space, 20)}
    assert seen == {(), ("laplacian", "signless")}


def test_steps_are_round_numbers_and_numbers_are_those_of_yaml_1_2(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "model.input_dropout: {low: 0.0, high: 0.9, step: 0.1}\n"
        "training.weight_decay: {low: 1e-4, high: 1e-2, log: true}\n"
    )
    space = Space.load(tmp_path / "s.yaml")
    for params in samples(space, 30):
        model, training = space.configuration(params)
        assert len(str(model.input_dropout)) <= 3
        assert 1e-4 <= training.weight_decay <= 1e-2


def test_shape_leaves_out_what_replicas_may_differ_in():
    space = get_space("default")
    shape = space.shape(next(samples(space, 1)))
    assert "model.num_layers" in shape
    assert not FREE_IN_TRIALS & set(shape)
    assert FREE_IN_TRIALS > FREE


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"model.layer.degre": [1, 2]}, "Did you mean 'model.layer.degree'"),
        ({"degree": [1, 2]}, "unknown option"),
        ({"model.layer.degree": []}, "one or more different choices"),
        ({"model.layer.degree": [2, 2]}, "one or more different choices"),
        ({"model.layer.degree": {"low": 4, "high": 2}}, "low < high"),
        ({"model.layer.degree": {"low": 4}}, "low < high"),
        ({"model.layer.degree": {"low": 1, "hi": 2}}, "unknown key"),
        ({"model.layer.degree": [1.5, 2]}, "degree must be an integer; got 1.5"),
        ({"model.layer.degree": True}, "degree must be an integer; got True"),
        ({"model.layer.degree": None}, "degree must be an integer; got None"),
        ({"model.layer.dropout": ["0.5"]}, "dropout must be a number; got '0.5'"),
        ({"model.options.head": [1, 2]}, "Did you mean 'model.options.heads'"),
        ({"model.options.heads": [1, 2.5]}, "model.options.heads must be an integer; got 2.5"),
        ({"model.options": [{"heads": 1}]}, "unknown option 'model.options'"),
        ({"model.layer.basis": {"low": 0, "high": 1}}, "not a number"),
        ({"training.weight_decay": {"low": 0.0, "high": 1.0, "log": True}}, "low > 0"),
        ({"model.layer.dropout": {"low": 0.0, "high": 0.5, "step": 0.2}}, "whole steps"),
    ],
)
def test_a_bad_space_is_refused(plain, message):
    with pytest.raises(ConfigError, match=message):
        Space.from_dict(plain)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"model.layer.dropout": [0.5, 1.5]}, "dropout must lie in"),
        (
            {"model.layer.maps": ["identity", "diagonal"], "model.layer.edge_weights": [False, True]},
            "identity",
        ),
        ({"model.layer.maps": "orthogonal(euler)", "model.layer.stalk_dim": {"low": 2, "high": 5}}, "euler"),
        ({"model.model": ["polynsd", "gnc"], "model.layer.degree": [1, 2]}, "unknown model 'gnc'"),
        ({"model.model": "gcn", "model.layer.degree": [1, 2]}, "no use for degree"),
        (
            {"model.model": "resnet-sgc", "model.options.hops": [1, 2]},
            "resnet-sgc has no options of its own; got hops=1",
        ),
        ({"model.model": "gat", "model.options.alpha": [0.1, 0.2]}, "unknown option of gat 'alpha'"),
        ({"model.options.heads": [1, 2]}, "polynsd has its options under layer"),
        ({"model.layer.degree": 2}, "nothing to search"),
        ({"model.layer.stalk_dim": {"low": 2, "high": 2**62}}, "cannot be built"),
        ({"model.layer.degree": {"low": 2, "high": 10**9}}, "degree must be at most 4,096"),
        ({"model.model": "mlp", "model.hidden_channels": [8, 2**62]}, "cannot be built"),
    ],
)
def test_what_cannot_be_built_is_seen_before_the_first_trial(plain, message, tmp_path):
    Space.from_dict(plain).save(tmp_path / "space.yaml")
    with pytest.raises(ConfigError, match=message):
        get_space(str(tmp_path / "space.yaml"))


def test_options_of_the_command_must_not_contradict_a_file(tmp_path):
    Space.from_dict({"model.layer.maps": "diagonal", "model.layer.degree": [1, 2]}).save(tmp_path / "s.yaml")
    assert get_space(str(tmp_path / "s.yaml"), maps="diagonal", model="polynsd").rules["model.model"]
    with pytest.raises(ConfigError, match="contradicts"):
        get_space(str(tmp_path / "s.yaml"), maps="general")


def test_unknown_spaces_datasets_and_models():
    with pytest.raises(ConfigError, match=r"unknown space 'papper'.*'paper'"):
        get_space("papper")
    with pytest.raises(ConfigError, match="no search space for minesweeper"):
        get_space("paper", "minesweeper")
    with pytest.raises(ConfigError, match="no search space for a generated graph"):
        get_space("paper")
    with pytest.raises(ConfigError, match="polynsd and nsd, not gcn"):
        get_space("paper", "texas", "gcn")
    with pytest.raises(ConfigError, match="unknown model"):
        get_space("default", model="polynds")


def test_an_empty_file_is_no_space(tmp_path):
    (tmp_path / "s.yaml").write_text("")
    with pytest.raises(ConfigError, match="must hold option names"):
        get_space(str(tmp_path / "s.yaml"))


def test_unnamed_options_keep_their_defaults():
    model, training = configure({"model.layer.degree": 3})
    assert model == ModelConfig(layer=LayerConfig(degree=3, dropout=0.5))
    assert training == TrainConfig()
