"""Encoding sparse features by way of their graph is the dense product."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from polynsd import PolyNSD, Topology, kernels
from polynsd.nn import features
from polynsd.nn.features import encode_features
from polynsd.testing import assert_close, random_tensor

N, F = 300, 1000


def bag_of_words(density=0.01, dtype=torch.float64):
    kept = torch.rand(N, F, generator=torch.Generator().manual_seed(1)) < density
    return torch.where(kept, random_tensor(N, F, dtype=dtype), 0.0)


def encoder(bias=True):
    torch.manual_seed(0)
    return nn.Linear(F, 7, bias=bias).double()


def gradients(output, module):
    weight = random_tensor(*output.shape, seed=3)
    return torch.autograd.grad((weight * output).sum(), list(module.parameters()))


@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_those_of_the_dense_product(bias):
    x, module = bag_of_words(), encoder(bias)
    assert features._find_entries(x) is not None
    sparse, dense = encode_features(module, x, 0.0, True), module(x)
    assert_close(sparse, dense, "encoder", 1e-12)
    for found, expected in zip(gradients(sparse, module), gradients(dense, module), strict=True):
        assert_close(found, expected, "gradient", 1e-12)


def test_empty_rows_and_columns():
    x = torch.zeros(N, F).double()
    x[3, 5] = 2.0
    module = encoder()
    assert_close(encode_features(module, x, 0.0, True), module(x), "encoder", 1e-12)
    assert_close(encode_features(module, torch.zeros_like(x), 0.0, True), module(0 * x), "encoder", 1e-12)


def test_dropout_drops_entries_and_keeps_the_mean():
    x, module = bag_of_words(), encoder(bias=False)
    torch.manual_seed(0)
    mean = torch.stack([encode_features(module, x, 0.5, True) for _ in range(400)]).mean(0)
    assert (mean - module(x)).norm() < 0.1 * module(x).norm()
    assert torch.equal(encode_features(module, x, 0.5, False), encode_features(module, x, 0.0, True))
    dropped = encode_features(module, x, 1.0, True)
    assert torch.equal(dropped, torch.zeros_like(dropped))


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (random_tensor(N, F), "dense"),
        (bag_of_words()[:, :100], "small"),
        (bag_of_words().requires_grad_(), "differentiated"),
        (bag_of_words().bfloat16(), "another kind"),
        (bag_of_words()[None], "a stack"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_features_stay_dense(x, why):
    assert features._find_entries(x) is None, why


def test_the_published_way_is_dense():
    with kernels.use("assembled"):
        assert features._find_entries(bag_of_words()) is None


def test_features_are_looked_at_once_and_again_when_they_change():
    x = bag_of_words()
    first = features._find_entries(x)
    assert features._find_entries(x) is first
    x[0] = 0.0
    assert features._find_entries(x).positions.numel() == x.count_nonzero() < first.positions.numel()
    assert_close(encode_features(encoder(), x, 0.0, True), encoder()(x), "encoder", 1e-12)


def test_values_are_read_anew_in_every_call():
    x, module = bag_of_words(), encoder()
    encode_features(module, x, 0.0, True)
    x.data.mul_(3.0)  # which PyTorch does not notice
    assert_close(encode_features(module, x, 0.0, True), module(x), "encoder", 1e-12)


class Encode(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.inner, self.x = encoder(bias=False), x

    def forward(self):
        return encode_features(self.inner, self.x, 0.0, True)


def test_replicas_under_vmap():
    module = Encode(bag_of_words())
    weights = random_tensor(3, 7, F, seed=5)
    found = torch.vmap(lambda weight: functional_call(module, {"inner.weight": weight}, ()))(weights)
    assert_close(found, module.x @ weights.mT, "replicas", 1e-12)


def test_a_model_on_sparse_features_is_the_model_on_dense_ones(monkeypatch):
    x = bag_of_words(dtype=torch.float64)
    topology = Topology.from_edge_index(
        torch.randint(0, N, (2, 900), generator=torch.Generator().manual_seed(0)), N
    )
    torch.manual_seed(0)
    model = PolyNSD(F, 4, 2, 3, degree=3, dropout=0.0).double()
    sparse = model(x, topology)
    monkeypatch.setattr(features, "DENSITY", 0.0)
    assert_close(sparse, model(x.clone(), topology), "logits", 1e-12)
