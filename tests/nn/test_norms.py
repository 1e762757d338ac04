"""Norms of the state and one matrix for a whole node: their formulas, alone and as replicas."""

import pytest
import torch
from published_block import published
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, close, features, shaken
from torch.func import functional_call
from torch.nn.functional import elu

from polynsd import ConfigError, LayerConfig, PolyNSD, ShapeError, Topology
from polynsd.nn import SheafLayer
from polynsd.nn.batch_norm import BatchNorm
from polynsd.published import PUBLISHED_LAYER

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
CHANNELS, D = 3, 2
NORMS = ("layer", "batch")


def plain_layer(channels=CHANNELS, **options):
    return SheafLayer(channels, LayerConfig(**PUBLISHED_LAYER | {"stalk_dim": D} | options))


def make_layer(**options):
    torch.manual_seed(0)
    return shaken(plain_layer(**options))


def state(seed=0, num_nodes=NUM_NODES):
    return 3 * features(num_nodes, D * CHANNELS, seed).reshape(num_nodes, D, CHANNELS) + 1


def standardised(x, dim, mean=None, variance=None, eps=1e-5):
    """(x − mean) / √(variance + ε) of the flat state."""
    flat = x.flatten(1)
    mean = flat.mean(dim, keepdim=True) if mean is None else mean
    variance = flat.var(dim, correction=0, keepdim=True) if variance is None else variance
    return (flat - mean) / (variance + eps).sqrt()


def normed(layer, x, y):
    """Scale and shift of the norm, in the shape of the state."""
    return (y * layer.norm.weight + layer.norm.bias).reshape(x.shape)


def updated(layer, x, y):
    """A layer on x whose learner and filter see y: without norm it sees them both there."""
    plain = plain_layer().double()
    plain.load_state_dict({name: v for name, v in layer.state_dict().items() if not name.startswith("norm")})
    h = plain.stalk_mixing @ y @ plain.channel_mixing.mT
    return (1 + plain.epsilon.tanh()) * x - elu(plain.filter(plain.laplacian(y, TOPOLOGY), h))


@pytest.mark.parametrize(("norm", "dim"), [("layer", 1), ("batch", 0)])
def test_learner_and_filter_see_the_normed_state_and_the_residual_does_not(norm, dim):
    layer, x = make_layer(norm=norm).train(), state()
    y = normed(layer, x, standardised(x, dim))
    assert close(layer(x, TOPOLOGY), updated(layer, x, y))


def test_running_statistics_count_a_state_once_and_serve_in_evaluation():
    layer, x = make_layer(norm="batch").train(), state()
    layer(x, TOPOLOGY)
    mean, variance = 0.1 * x.flatten(1).mean(0), 0.9 + 0.1 * x.flatten(1).var(0)
    assert close(layer.norm.running_mean, mean)
    assert close(layer.norm.running_var, variance)
    layer, other = layer.eval(), state(seed=1)
    y = normed(layer, other, standardised(other, 0, mean, variance))
    assert close(layer(other, TOPOLOGY), updated(layer, other, y))
    assert close(layer.norm.running_mean, mean)


def test_the_layer_norm_takes_leading_dimensions():
    layer, both = make_layer(norm="layer"), torch.stack([state(0), state(1)])
    assert close(layer(both, TOPOLOGY), torch.stack([layer(x, TOPOLOGY) for x in both]))


@pytest.mark.parametrize("num_nodes", [NUM_NODES, D * CHANNELS])  # as many nodes as columns, too
def test_the_batch_norm_refuses_leading_dimensions(num_nodes):
    topology = Topology.from_edge_index(EDGE_INDEX[:, :1], num_nodes)
    both = torch.stack([state(0, num_nodes), state(1, num_nodes)])
    for layer in (make_layer(norm="batch"), make_layer(norm="batch", maps="identity").train()):
        with pytest.raises(ShapeError, match=r"norm='batch' takes one state .* got 1 leading"):
            layer(both, topology)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("is_training", [True, False])
def test_replicas_are_what_they_are_alone(norm, is_training):
    layers = [make_layer(norm=norm).train(is_training), shaken(make_layer(norm=norm), 1).train(is_training)]
    if norm == "batch":
        layers[1].norm.running_mean += 1.0
    own = [{k: v.detach().clone() for k, v in layer.state_dict().items()} for layer in layers]
    rows, x = {name: torch.stack([one[name] for one in own]) for name in own[0]}, state()
    together = torch.vmap(lambda one: functional_call(layers[0], one, (x, TOPOLOGY)))(rows)
    assert close(together, torch.stack([layer(x, TOPOLOGY) for layer in layers]))
    for index, layer in enumerate(layers):  # running statistics are each one's own
        assert all(close(rows[k][index].double(), v.double()) for k, v in layer.state_dict().items())


@pytest.mark.parametrize("maps", ["identity", "diagonal", "orthogonal", "general"])
@pytest.mark.parametrize("options", [{"norm": "layer"}, {"norm": "batch"}, {"mixing": "full"}])
def test_every_parameter_learns(maps, options):
    layer = make_layer(maps=maps, **options).train()
    layer(state(), TOPOLOGY).square().sum().backward()
    assert [n for n, p in layer.named_parameters() if p.grad is None or not p.grad.abs().max() > 0] == []


@pytest.mark.parametrize("norm", NORMS)
def test_a_reset_forgets_scale_shift_and_statistics(norm):
    layer = make_layer(norm=norm).train()
    layer(state(), TOPOLOGY)
    layer.reset_parameters()
    fresh = plain_layer(norm=norm).double().norm.state_dict()
    assert all(torch.equal(value, fresh[name]) for name, value in layer.norm.state_dict().items())


@pytest.mark.parametrize("norm", NORMS)
def test_shared_maps_are_learned_from_the_normed_state(norm):
    torch.manual_seed(0)
    model = shaken(published(NUM_FEATURES, CHANNELS, 2, 3, stalk_dim=D, norm=norm, shared_maps=True))
    x = model.encode(features())
    L = model.layers[0].laplacian(x, TOPOLOGY)
    for layer in model.layers:
        x = layer.diffuse(x, L)
    assert close(model(features(), EDGE_INDEX), model.decoder(x.flatten(1)))


def test_no_state_is_counted_twice_by_checkpoints():
    with pytest.raises(ConfigError, match="norm='batch' would count its state twice; use norm='layer'"):
        PolyNSD(NUM_FEATURES, CHANNELS, 2, 3, norm="batch", checkpoint_layers=True)
    PolyNSD(NUM_FEATURES, CHANNELS, 2, 3, norm="layer", checkpoint_layers=True)


@pytest.mark.parametrize("channels", [CHANNELS, 80])  # `both` multiplies narrow and wide states in two ways
@pytest.mark.parametrize("maps", ["diagonal", "general"])
def test_the_full_matrix_holds_the_pair_as_a_kronecker_product(maps, channels):
    torch.manual_seed(0)
    pair = shaken(plain_layer(channels, maps=maps))
    full = plain_layer(channels, maps=maps, mixing="full").double()
    weights = {name: value for name, value in pair.state_dict().items() if "mixing" not in name}
    weights["full_mixing"] = torch.kron(pair.stalk_mixing, pair.channel_mixing)
    full.load_state_dict(weights)
    x = features(NUM_NODES, D * channels).reshape(NUM_NODES, D, channels)
    assert close(full(x, TOPOLOGY), pair(x, TOPOLOGY))
    assert full.full_mixing.numel() == (D * channels) ** 2


def test_the_full_matrix_begins_orthogonal():
    W = plain_layer(mixing="full").full_mixing
    assert torch.allclose(W @ W.mT, torch.eye(D * CHANNELS), atol=1e-6)
    assert not torch.allclose(W, torch.eye(D * CHANNELS))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("is_training", [True, False])
def test_the_batch_norm_is_that_of_pytorch_for_replicas_too(dtype, is_training):
    torch.manual_seed(0)
    ours, theirs = BatchNorm(6).train(is_training), torch.nn.BatchNorm1d(6).train(is_training)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    ours, theirs = ours.to(wide), theirs.to(wide)
    with torch.no_grad():
        for p in ours.parameters():
            p.normal_()
        ours.running_mean.normal_()
    theirs.load_state_dict(ours.state_dict())
    x = (3 * torch.randn(2, 20, 6, dtype=wide) + 5).to(dtype).requires_grad_()
    state = {name: t.expand(2, *t.shape).clone() for name, t in ours.state_dict().items()}
    y = torch.vmap(lambda s, x: functional_call(ours, s, (x,)))(state, x)
    expected = torch.stack([theirs(each.to(wide)).to(dtype) for each in x])
    (found,), (wanted,) = (torch.autograd.grad(t.pow(3).sum(), x) for t in (y, expected))
    tolerance = {"rtol": 1e-10, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 0.05, "atol": 0.5}
    torch.testing.assert_close(
        y, expected, **tolerance if dtype == torch.float64 else {"rtol": 0.02, "atol": 0.02}
    )
    torch.testing.assert_close(found, wanted, **tolerance)


def test_the_batch_norm_needs_two_nodes_to_train():
    with pytest.raises(ShapeError, match="needs two nodes or more"):
        BatchNorm(3).train()(torch.zeros(1, 3))
