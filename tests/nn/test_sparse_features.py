"""Encoding sparse features by way of their graph is the dense product."""

from functools import partial

import pytest
import torch
from scipy.sparse import csr_array
from torch import nn
from torch.func import functional_call
from torch_geometric.data import Data
from torch_geometric.nn.dense import Linear

from polynsd import DataError, PolyNSD, ShapeError, Topology, TrainConfig, kernels
from polynsd.data import random_split
from polynsd.nn import features
from polynsd.nn.features import encode_features
from polynsd.sparse import to_tensor
from polynsd.testing import assert_close, random_tensor
from polynsd.training import Replica, fit_replicas, get_task

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
    assert features._find_entries(x).entries.numel() == x.count_nonzero() < first.entries.numel()
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


LAYOUTS = {
    "dense": lambda x: x,
    "csr": lambda x: to_tensor(csr_array(x.numpy()), x.dtype),
    "coo": lambda x: x.to_sparse_coo(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_replicas_under_vmap(layout):
    x = bag_of_words()
    module = Encode(LAYOUTS[layout](x))
    weights = random_tensor(3, 7, F, seed=5)
    found = torch.vmap(lambda weight: functional_call(module, {"inner.weight": weight}, ()))(weights)
    assert_close(found, x @ weights.mT, "replicas", 1e-12)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_a_training_on_a_sparse_tensor_is_that_on_a_dense_one(layout):
    """Replicas, input dropout, early stopping: to the bit, because entries are dropped in the same order."""
    generator = torch.Generator().manual_seed(0)
    x, y = bag_of_words(dtype=torch.float32), torch.randint(3, (N,), generator=generator)
    data = Data(x=x, y=y, edge_index=torch.randint(N, (2, 600), generator=generator))
    split = random_split(N)

    def train(features):
        data.x = features
        config = TrainConfig(epochs=4, patience=4)
        build = partial(PolyNSD, F, 4, 1, 3, degree=2, input_dropout=0.5, dropout=0.2)
        replicas = [Replica(build, split, seed, config) for seed in (1, 2)]
        return [result.model.state_dict() for result in fit_replicas(replicas, data, get_task("accuracy"))]

    for dense, sparse in zip(train(x), train(LAYOUTS[layout](x)), strict=True):
        for name, value in dense.items():
            assert torch.equal(value, sparse[name]), name


def test_sparse_tensors_are_checked_and_have_no_gradient():
    x = LAYOUTS["coo"](bag_of_words())
    with pytest.raises(ShapeError, match="without a gradient"):
        encode_features(encoder(), x.requires_grad_(), 0.0, True)
    x = LAYOUTS["csr"](torch.where(bag_of_words() > 0, torch.nan, 0.0))
    with pytest.raises(DataError, match="finite"):
        PolyNSD(F, 4, 1, 3).double()(x, torch.zeros(2, 0, dtype=torch.long))


def test_the_number_of_features_is_seen_at_the_first_call():
    lazy, x = Linear(-1, 5).double(), bag_of_words()
    assert_close(encode_features(lazy, LAYOUTS["csr"](x), 0.0, True), lazy(x), "encoder", 1e-12)


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
