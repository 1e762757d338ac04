"""What every model of the zoo keeps: replicas train together as they would alone, by `torch.vmap`."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from polynsd import ConfigError, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.testing.samples import GRAPHS
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training.replicas import _Training

ACCURACY = get_task("accuracy")
IN, OUT = 5, 3


def graph(name):
    """Features in double precision, edges, and the dense adjacency matrix of a simple graph."""
    edges, N = GRAPHS[name]
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    A = torch.zeros(N, N, dtype=torch.float64)
    A[edge_index[0], edge_index[1]] = A[edge_index[1], edge_index[0]] = 1.0
    x = torch.randn(N, IN, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, edge_index, A.fill_diagonal_(0.0)


def smoothing(A):
    """D̃^{−1/2} (A + I) D̃^{−1/2}."""
    looped = A + torch.eye(len(A), dtype=A.dtype)
    scale = looped.sum(1).rsqrt()
    return scale[:, None] * looped * scale


def made(build, seed=0):
    """The model in double precision, evaluating."""
    torch.manual_seed(seed)
    return build().double().eval()


def check_replicas(build):
    """Two replicas, trained together by vmap, become what they become alone."""
    check_no_looks(build)
    data = heterophilous_graph(30, OUT, IN, 4, heterophily=0.9, seed=3).to_pyg()
    data.x = data.x.double()  # the rounding of batch norms is another in company
    config = TrainConfig(epochs=3, patience=3)
    replicas = [
        Replica(lambda: build().double(), stratified_split(data.y, seed=s), s, config) for s in range(2)
    ]
    assert _Training(replicas, data, ACCURACY, None).is_vectorised
    for mine, replica in zip(fit_replicas(replicas, data, ACCURACY), replicas, strict=True):
        (alone,) = fit_replicas([replica], data, ACCURACY)
        assert mine.best_epoch == alone.best_epoch
        for a, b in zip(mine.model.state_dict().values(), alone.model.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def check_parameters(build):
    """Gradients reach every parameter, reset draws all random ones anew, and weights of edges are refused."""
    x, edge_index, _ = graph("path")
    model = made(build).train()
    output = model(x, edge_index)
    assert output.shape == (len(x), OUT)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    (weights * output).sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.reset_parameters()
    for name, p in model.named_parameters():
        is_constant = bool((before[name] == before[name].flatten()[0]).all())  # a norm's, or a zero bias
        assert torch.equal(p, before[name]) == is_constant, name
    with pytest.raises(ConfigError, match="no use for edge_weight"):
        model(x, edge_index, torch.ones(edge_index.size(1)))


def check_options(kind, base, others):
    """Every option changes what the model says."""
    x, edge_index, _ = graph("isolated nodes")

    def said(**options):
        torch.manual_seed(0)
        model = kind(IN, 8, 2, OUT, **{**base, **options}).double().train()
        return model(x, edge_index).detach()

    for name, values in others.items():
        for value in values:
            assert not torch.allclose(said(), said(**{name: value})), name


class _NoLooks(TorchDispatchMode):
    """Refuses what would make the host wait for a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not any(
            word in str(func) for word in ("nonzero", "_local_scalar_dense", "unique", "masked_select")
        )
        return func(*args, **(kwargs or {}))


def check_no_looks(build):
    """After the first call a pass neither looks at values nor builds shapes from them."""
    x, edge_index, _ = graph("path")
    model = made(build).train()
    model(x, edge_index)
    with _NoLooks():
        model(x, edge_index).sum().backward()
