"""The zoo by name: options that are told, typed, kept in files, and never ignored."""

import json
from pathlib import Path

import pytest
import torch
from zoo_laws import IN, OUT, build, built, graph

from polynsd import ConfigError, ModelConfig, ShapeError, TrainConfig, heterophilous_graph
from polynsd.cli import main
from polynsd.config import from_options, load_config, save_config, to_dict
from polynsd.nn.models import sheaf_parameters
from polynsd.runs import read_run
from polynsd.scale.fit import _parameter_groups
from polynsd.training.optimizer import weight_decays
from polynsd.training.probe import begin_like, build_undrawn
from polynsd.zoo import (
    ALL_MODELS,
    SHEAF_MODELS,
    ZOO,
    all_model_options,
    build_model,
    model_class,
    model_options,
)

PAGE = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text(encoding="utf-8")
OTHER = {int: 2, float: 0.7}
WORDS = {  # other values of options that are words
    "features": "sgc", "norm": "layer", "maps": "diagonal", "dual_norm": "degree", "map_activation": "tanh",
    "normalization": "sheaf", "solver": "euler", "basis": "legendre", "coefficients": "convex",
}  # fmt: skip
NEEDED = {"basis": {"degree": 3, "coefficients": "convex"}}  # what gives an option a meaning
GIVEN = [(name, option) for name in ZOO for option in model_options(name)]
WITH_MAPS = [name for name in ZOO if hasattr(model_class(name), "sheaf_parameters")]


def default(name, option):
    return ZOO[name].preset.get(option, model_class(name).__init__.__kwdefaults__[option])


def another(name, option):
    """A value that is not the default."""
    usual = default(name, option)
    if isinstance(usual, bool):
        return not usual
    if isinstance(usual, str):
        return "batch" if (name, option) == ("gin", "norm") else WORDS[option]
    return 1 if usual == OTHER[type(usual)] else OTHER[type(usual)]


# names


def test_names_are_of_one_kind_only():
    assert not set(SHEAF_MODELS) & set(ZOO)
    assert set(ALL_MODELS) == set(SHEAF_MODELS) | set(ZOO)
    assert set(all_model_options().values()) <= {int, float, bool, str}


@pytest.mark.parametrize("name", ZOO)
def test_defaults_and_presets_have_the_types_of_their_options(name):
    known = model_class(name).__init__.__kwdefaults__
    assert set(known) == {*model_options(name), *ZOO[name].preset, *ZOO[name].unused, "dropout"}
    assert all(type(default(name, option)) is kind for option, kind in model_options(name).items())


@pytest.mark.parametrize(("name", "option"), GIVEN)
def test_no_option_is_decoration(name, option):
    """It changes the parameters or, in training, what the model says."""
    data = heterophilous_graph(30, OUT, IN, 4, heterophily=0.9, seed=3).to_pyg()

    def said(**options):
        model = build(name, num_layers=3, **options).train()
        torch.manual_seed(1)
        output = model(data.x.double(), data.edge_index).detach()
        return sum(p.numel() for p in model.parameters()), output

    needed = NEEDED.get(option, {})
    (count, usual), (other_count, other) = said(**needed), said(**needed, **{option: another(name, option)})
    assert count != other_count or not torch.allclose(usual, other)


# searches

WIDTHS = [32, 64, 128]  # of a space that names none


def holds(rule, value):
    return value in rule if isinstance(rule, list) else rule["low"] <= value <= rule["high"]


@pytest.mark.parametrize("name", ZOO)
def test_a_search_may_find_what_is_published(name):
    kind, settled = model_class(name), {*ZOO[name].preset, *ZOO[name].unused}
    space, published = {"hidden_channels": WIDTHS, **kind.space}, kind.published
    sizes = {"num_layers", "hidden_channels"}
    assert sizes <= set(published)
    assert set(space) | set(published) <= sizes | set(model_options(name)) | settled
    assert "num_layers" in space
    for option in space.keys() & published.keys():
        assert holds(space[option], published[option]), option
    options = {o: v for o, v in published.items() if o in model_options(name)}
    config = ModelConfig(name, published["hidden_channels"], published["num_layers"], options=options)
    assert build_model(config, IN, OUT)


@pytest.mark.parametrize("name", ZOO)
def test_values_of_a_space_have_the_types_of_their_options(name):
    for option, kind in model_options(name).items():
        rule = model_class(name).space.get(option, [])
        values = rule if isinstance(rule, list) else (rule["low"], rule["high"])
        assert all(type(value) is kind for value in values), option


# values


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gat", {"heads": "eight"}, "heads of gat must be of type int; got 'eight'"),
        ("gat", {"heads": 2.5}, r"heads of gat must be of type int; got 2\.5"),
        ("gat", {"heads": True}, "heads of gat must be of type int; got True"),
        ("gcnii", {"alpha": "much"}, "alpha of gcnii must be of type float; got 'much'"),
        ("gcnii", {"alpha": True}, "alpha of gcnii must be of type float; got True"),
        ("gin", {"train_eps": 1}, "train_eps of gin must be of type bool; got 1"),
        ("gin", {"norm": None}, "options must be a mapping of names, each to .* got {'norm': None}"),
        (
            "gat",
            {"head": 8},
            r"unknown option of gat 'head'; choose from: heads, input_dropout, v2\. Did you mean 'heads'\?",
        ),
        ("gatv2", {"v2": False}, "gatv2 means v2=True; leave it out"),
        ("tuned-gcn", {"heads": 2}, "unknown option of tuned-gcn 'heads'"),
        ("resnet-sgc", {"heads": 2}, "resnet-sgc has no options of its own; got heads=2"),
        ("polynsd", {"heads": 2}, "polynsd has its options under layer"),
    ],
)
def test_mistakes_are_told(name, options, message):
    with pytest.raises(ConfigError, match=message):
        build(name, **options)


def test_a_whole_number_is_a_float_where_one_is_wanted():
    x, edge_index, _ = graph("path")
    assert torch.equal(build("gcnii", theta=1)(x, edge_index), build("gcnii", theta=1.0)(x, edge_index))


def test_options_must_be_a_mapping():
    with pytest.raises(ConfigError, match=r"options must be a mapping of names, .*; got \['heads', 4\]"):
        ModelConfig("gat", options=["heads", 4])


# files and the command line


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_options_survive_a_file(suffix, tmp_path):
    config = ModelConfig("tuned-gat", options={"heads": 4, "norm": "layer", "residual": False, "x": 0.5})
    save_config(tmp_path / f"model{suffix}", config)
    found = load_config(tmp_path / f"model{suffix}", ModelConfig)
    assert found == config
    assert [type(value) for value in found.options.values()] == [int, str, bool, float]
    assert from_options(ModelConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_configurations_are_told_apart_by_their_options():
    one, other = ModelConfig("gat", options={"heads": 4}), ModelConfig("gat", options={"heads": 8})
    assert one != other
    assert len({one, other, ModelConfig("gat", options={"heads": 4})}) == 2


GRAPH = [
    "--data",
    "num_nodes=40",
    "num_classes=2",
    "num_features=4",
    "--splits",
    "1",
    "--epochs",
    "2",
    "--quiet",
]


def test_the_command_line_takes_names_and_values_in_turn(tmp_path):
    words = ["--model", "tuned-gat", "--options", "heads", "4", "norm", "layer", "residual", "False"]
    main(["train", *GRAPH, *words, "--out", str(tmp_path / "run")])
    run = read_run(tmp_path / "run")
    assert run.result["model"] == "tuned-gat"
    assert run.config["model"]["options"] == {"heads": 4, "norm": "layer", "residual": False}


def test_options_of_layers_are_those_of_a_model_of_the_zoo_that_has_them(tmp_path):
    begun = tmp_path / "best.yaml"
    begun.write_text("model: {model: risnn, options: {maps: diagonal}}\n")
    for number, (words, expected) in enumerate(
        [
            (["--model", "conn-nsd", "--degree", "4", "--stalk-dim=2"], {"degree": 4, "stalk_dim": 2}),
            (
                ["--model", "ansd", "--basis", "legendre", "--options", "degree", "2"],
                {"basis": "legendre", "degree": 2},
            ),
            (["--config", str(begun), "--degree", "3"], {"maps": "diagonal", "degree": 3}),
        ]
    ):
        main(["train", *GRAPH, *words, "--out", str(tmp_path / str(number))])
        assert read_run(tmp_path / str(number)).config["model"]["options"] == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heads", "eight"], "heads of gat must be of type int; got 'eight'"),
        (["hedas", "4"], "Did you mean 'heads'?"),
        (["heads", "3"], "--hidden-channels 16 must be a multiple of heads=3"),
        (["heads"], "expected names and values in turn, such as heads 4; got 'heads'"),
    ],
)
def test_mistakes_on_the_command_line_are_told(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *GRAPH, "--model", "gat", "--hidden-channels", "16", "--options", *words])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--options NAME VALUE …" in text
    assert "options of a model of the zoo, e.g. heads 4" in text


def test_a_file_of_options_is_begun_with_and_replaced(tmp_path):
    (tmp_path / "best.yaml").write_text("model: {model: gat, options: {heads: 2}}\n")
    for words, heads in (([], 2), (["--options", "heads", "4"], 4)):
        out = tmp_path / str(heads)
        main(["train", *GRAPH, "--config", str(tmp_path / "best.yaml"), *words, "--out", str(out)])
        assert read_run(out).config["model"]["options"] == {"heads": heads}


# decays


@pytest.mark.parametrize("name", WITH_MAPS)
def test_the_decay_of_sheaves_reaches_those_who_have_one(name):
    model = build(name, **({"maps": "diagonal"} if name.startswith("jdsnn") else {}))
    own = {id(p) for p in sheaf_parameters(model)}
    assert 0 < len(own) < len(list(model.parameters()))
    config = TrainConfig(weight_decay=0.25, sheaf_decay=0.5)
    expected = [(0.5 if id(p) in own else 0.25) for p in model.parameters()]
    assert weight_decays(model, config) == expected
    groups = {g["weight_decay"]: {id(p) for p in g["params"]} for g in _parameter_groups(model, config)}
    assert groups[0.5] == own


def test_models_without_maps_have_one_decay():
    model = build("gat")
    assert sheaf_parameters(model) == []
    assert set(weight_decays(model, TrainConfig(weight_decay=0.25, sheaf_decay=0.5))) == {0.25}


# models that begin alike


@pytest.mark.parametrize("name", sorted(set(ALL_MODELS) - {"resnet-adj", "glognn"}))  # these are lazy
def test_a_model_built_alike_computes_the_same(name):
    x, edge_index, _ = graph("multigraph")
    model = built(name, x, edge_index)
    other = begin_like(build_undrawn(lambda: build(name), torch.device("cpu")), model)
    assert torch.equal(model(x, edge_index), other.eval()(x, edge_index))


# the page


@pytest.mark.parametrize("name", ZOO)
def test_the_page_has_every_model_with_its_options(name):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    for option, kind in model_options(name).items():
        assert f"`{option}` {kind.__name__} {default(name, option)}" in row


def test_the_example_of_the_page_runs(capsys):
    found = {}
    exec(PAGE.split("```python\n")[1].split("```")[0], found)
    assert isinstance(found["model"], model_class("gat"))
    assert found["model"].layers[0].heads == 4
    printed = "{'input_dropout': <class 'float'>, 'heads': <class 'int'>, 'v2': <class 'bool'>}"
    assert capsys.readouterr().out == f"{printed}\n"
    assert f"# {printed}\n" in PAGE


@pytest.mark.parametrize("name", ALL_MODELS)
def test_edge_weights_change_the_answer_or_are_refused(name):
    """Only the perceptron has a use for neither edges nor weights; the page says who takes them."""
    (sentence,) = [line for line in PAGE.split("\n\n") if line.startswith("Edge weights are taken by ")]
    x, edge_index, _ = graph("path")
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    weights = 1.0 + torch.arange(edge_index.size(1) // 2, dtype=x.dtype).repeat(2)
    model = build(name)
    if f"`{name}`" in sentence or name in SHEAF_MODELS:
        assert torch.allclose(model(x, edge_index, weights), model(x, edge_index)) == (name == "mlp")
        return
    with pytest.raises((ConfigError, ShapeError), match="no use for edge_weight"):
        model(x, edge_index, weights)


def test_the_page_has_no_other_models():
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(ZOO)
