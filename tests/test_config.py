"""Configurations validate themselves and round-trip through plain data."""

import inspect
import json
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Unpack

from polynsd import (
    NSD,
    ConfigError,
    IdentitySheaf,
    LayerConfig,
    ModelConfig,
    PolyNSD,
    PolySheafConv,
    PolySpectralGNN,
    TrainConfig,
)
from polynsd.config import (
    LayerOptions,
    ModelOptions,
    ODEConfig,
    from_options,
    load_config,
    save_config,
    to_dict,
)
from polynsd.published import (
    PUBLISHED_LAYER,
    PUBLISHED_MODEL,
    PUBLISHED_ODE,
    PUBLISHED_TRAINING,
    published_layer,
    published_model,
    published_training,
)


@given(
    st.builds(
        LayerConfig,
        stalk_dim=st.integers(2, 3),
        maps=st.sampled_from(["diagonal", "general", "orthogonal(euler)"]),
        fixed_channels=st.sampled_from([(), ("laplacian",), ("laplacian", "signless")]),
        degree=st.integers(0, 32),
        basis=st.sampled_from(["legendre", "jacobi(0.5, 0)", "gegenbauer(1.5)"]),
        dropout=st.floats(0, 0.99),
    )
)
def test_json_round_trip(config):
    assert from_options(LayerConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_the_defaults_fit_together():
    """They are not checked when a configuration is made of them."""
    LayerConfig().check_parts()
    ModelConfig().layer.check_parts()


def test_nested_configurations_round_trip_too():
    config = ModelConfig("nsd", num_layers=3, layer=LayerConfig(maps="general", dropout=0.3))
    assert from_options(ModelConfig, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stalk_dim": 0}, "stalk_dim must be an integer of at least 1; got 0"),
        ({"stalk_dim": True}, "stalk_dim must be an integer"),
        ({"degree": -1}, "degree must be an integer of at least 0; got -1"),
        ({"degree": 2.5}, "degree must be an integer"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\); got 1.0"),
        ({"map_dropout": -0.1}, "map_dropout must lie"),
        ({"maps": "diagnal"}, "unknown maps 'diagnal'.*Did you mean 'diagonal'"),
        ({"maps": "orthogonal(caley)"}, "unknown orthogonal method 'caley'.*cayley"),
        ({"maps": "orthogonal", "stalk_dim": 1}, "stalk_dim of at least 2"),
        ({"maps": "orthogonal(euler)", "stalk_dim": 4}, "stalk_dim from 2 to 3; got 4"),
        ({"maps": "identity", "edge_weights": True}, "learns nothing from edges"),
        ({"basis": "chebychev1"}, "unknown basis 'chebychev1'.*chebyshev1"),
        ({"basis": "jacobi(-1, 0)"}, "alpha > -1 and beta > -1; got alpha=-1.0"),
        ({"basis": "jacobi(1)"}, "does not take the arguments"),
        ({"basis": "jacobi(1"}, "expected a name such as"),
        ({"basis": "gegenbauer(0)"}, "lambda > 0"),
        ({"coefficients": "softmax"}, "unknown coefficients 'softmax'; choose from: convex, free"),
        ({"correction": "lowpass"}, "unknown correction"),
        ({"normalization": "sym"}, "unknown normalization"),
        ({"lambda_max": "power"}, "unknown lambda_max 'power'; choose from: analytic, lanczos"),
        ({"fixed_channels": ("hp",)}, "unknown fixed channel 'hp'; choose from: laplacian, signless"),
        ({"correction_state": "residual", "correction": "none"}, "needs correction='linear'"),
        ({"stalkdim": 3}, "unknown option 'stalkdim'.*Did you mean 'stalk_dim'"),
    ],
)
def test_bad_layer_options(options, words):
    with pytest.raises(ConfigError, match=words):
        from_options(LayerConfig, options)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (ModelConfig, {"num_layers": 0}, "num_layers"),
        (ModelConfig, {"hidden_channels": -3}, "hidden_channels"),
        (ModelConfig, {"input_dropout": 1.5}, "input_dropout"),
        (TrainConfig, {"epochs": 0}, "epochs"),
        (TrainConfig, {"patience": 0}, "patience"),
        (TrainConfig, {"learning_rate": 0.0}, "learning_rate must be a positive finite number"),
        (TrainConfig, {"weight_decay": -1.0}, "weight_decay must not be negative"),
        (TrainConfig, {"sheaf_decay": -1.0}, "sheaf_decay must not be negative"),
        (TrainConfig, {"sheaf_rate": float("inf")}, "sheaf_rate must not be negative"),
        (TrainConfig, {"select": "test"}, "unknown select 'test'; choose from: acc, auc, loss, metric"),
    ],
)
def test_bad_model_and_training_options(kind, options, words):
    with pytest.raises(ConfigError, match=words):
        kind(**options)


def test_errors_are_value_errors():
    with pytest.raises(ValueError, match="degree"):
        LayerConfig(degree=-1)


def test_published_orders_of_operations_differ_between_families():
    assert published_layer("diagonal")["mixing"] == "idle"
    assert published_layer("orthogonal")["edge_weights"]
    assert published_layer("general")["correction_state"] == "residual"
    assert published_layer("general", "diffusion")["correction_state"] == "filtered"


@pytest.mark.parametrize(
    ("published", "kind", "others"),
    [
        (PUBLISHED_LAYER, LayerConfig, set()),
        (PUBLISHED_MODEL, ModelConfig, {"model", "layer", "ode", "options"}),
        (PUBLISHED_ODE, ODEConfig, set()),
        (PUBLISHED_TRAINING, TrainConfig, set()),
    ],
)
def test_published_values_name_every_option(published, kind, others):
    """So that no default decides what the paper means."""
    assert set(published) == {option.name for option in fields(kind)} - others


def test_options_that_are_given_replace_published_ones():
    model = published_model("nsd", num_layers=6, layer={"maps": "general", "fixed_channels": ["laplacian"]})
    assert to_dict(model) == {
        **PUBLISHED_MODEL, "model": "nsd", "num_layers": 6, "options": {}, "ode": PUBLISHED_ODE,
        "layer": {**PUBLISHED_LAYER, "maps": "general", "fixed_channels": ("laplacian",)},
    }  # fmt: skip
    assert to_dict(published_training(epochs=7)) == {**PUBLISHED_TRAINING, "epochs": 7}
    assert to_dict(NSD(3, 2, 1, 2).config) == {**PUBLISHED_LAYER, **NSD.preset}
    reference = to_dict(PolyNSD.reference(3, 2, 1, 2, dropout=0.3).config)
    assert reference == {**published_layer("diagonal"), "dropout": 0.3}


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml"])
def test_files_hold_configurations(tmp_path, suffix):
    config = ModelConfig("nsd", layer=LayerConfig(maps="general", fixed_channels=("laplacian",)))
    save_config(tmp_path / f"model{suffix}", config)
    assert load_config(tmp_path / f"model{suffix}", ModelConfig) == config


def test_files_that_hold_none(tmp_path):
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ConfigError, match="must hold the options of a LayerConfig; got list"):
        load_config(tmp_path / "list.json", LayerConfig)
    with pytest.raises(ConfigError, match=r"unknown configuration file type '.toml'"):
        save_config(tmp_path / "x.toml", LayerConfig())


def test_numpy_integers_are_integers():
    assert LayerConfig(degree=np.int64(3)).degree == 3


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_rates_that_are_not_finite(value):
    with pytest.raises(ConfigError, match="learning_rate must be a positive finite number"):
        TrainConfig(learning_rate=value)
    with pytest.raises(ConfigError, match="weight_decay must not be negative"):
        TrainConfig(weight_decay=value)


def test_one_channel_still_needs_a_tuple():
    with pytest.raises(ConfigError, match="tuple of names; got 'laplacian'"):
        LayerConfig(fixed_channels="laplacian")


@pytest.mark.parametrize("kind", [PolyNSD, NSD, IdentitySheaf, PolySpectralGNN, PolySheafConv])
def test_editors_know_every_option_of_a_layer(kind):
    """One list of typed keyword arguments, and it is the fields of `LayerConfig`."""
    assert get_type_hints(LayerOptions) == get_type_hints(LayerConfig)
    assert get_type_hints(kind.__init__)["options"] == Unpack[LayerOptions]


def test_editors_know_every_option_of_a_model():
    named = set(inspect.signature(PolyNSD).parameters) - {"options"}
    sizes = {"in_channels", "hidden_channels", "num_layers", "out_channels"}
    assert set(get_type_hints(ModelOptions)) == named - sizes | set(get_type_hints(LayerOptions))
    assert get_type_hints(PolyNSD.reference)["options"] == Unpack[ModelOptions]


def test_a_list_is_as_good_as_a_tuple():
    assert LayerConfig(fixed_channels=["laplacian"]) == LayerConfig(fixed_channels=("laplacian",))
