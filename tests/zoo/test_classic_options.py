"""Every option of the classics changes something, is searched, and is refused where it is impossible."""

import pytest
import torch
from classic_formulas import DROPPING, NAMES, RING, SIZES, build_zoo, built, graph

from polynsd import ConfigError
from polynsd.zoo import model_class, model_options

CHANGES = {
    "sgc": {"hops": 3},
    "gat": {"heads": 4},
    "gatv2": {"heads": 4},
    "gin": {"train_eps": True, "norm": "batch"},
    "mixhop": {"hops": 1},
    "gcnii": {"alpha": 0.3, "theta": 1.0},
    "pairnorm": {"scale": 2.0, "individually": True},
    "dropedge": {"drop_edge": 0.7},
    "chebnet": {"degree": 3},
}
for name in DROPPING:
    CHANGES.setdefault(name, {})["input_dropout"] = 0.5


def said(name, **options):
    """What a model says with parameters and edges drawn from the same seeds."""
    x, edge_index, *_ = graph(RING)
    model = built(name, **options).train()
    torch.manual_seed(4)
    return model(x, edge_index)


@pytest.mark.parametrize(("name", "option"), [(name, o) for name in CHANGES for o in CHANGES[name]])
def test_every_option_changes_something(name, option):
    assert not torch.allclose(said(name), said(name, **{option: CHANGES[name][option]}))


def test_the_second_version_of_attention_is_another():
    assert not torch.allclose(said("gat"), said("gatv2"))


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_changed_above_and_searched(name):
    searched = set(model_class(name).space) - {"num_layers", "hidden_channels"}
    assert set(model_options(name)) - {"v2"} == set(CHANGES.get(name, {})) == searched


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sgc", {"hops": -1}, "hops must be an integer of at least 0"),
        ("mixhop", {"hops": -1}, "hops must be an integer of at least 0"),
        ("gat", {"heads": 3}, "hidden_channels=8 must be a multiple of heads=3"),
        ("gat", {"heads": 0}, "heads must be an integer of at least 1"),
        ("gin", {"norm": "bach"}, "Did you mean 'batch'"),
        ("gcnii", {"alpha": 1.5}, r"alpha must lie in \[0, 1\]"),
        ("gcnii", {"theta": 0.0}, "theta must be positive"),
        ("pairnorm", {"scale": -1.0}, "scale must be positive"),
        ("dropedge", {"drop_edge": 1.0}, "drop_edge must lie in"),
        ("chebnet", {"degree": -1}, "degree must be an integer of at least 0"),
    ],
)
def test_impossible_options_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        build_zoo(name, SIZES, 0.0, options)
