"""Contract of a graph layer or model: `layer(x, edge_index, batch=batch) → [N, out]`."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from polynsd.testing.compare import assert_close
from polynsd.testing.samples import random_edges, random_tensor

Call = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]

SIZES = (9, 6)  # nodes of the two graphs that are batched


def call_with_batch(layer: nn.Module, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    """How this library's layers are called."""
    return layer(x, edge_index, batch=batch)


def check_layer(make: Callable[[], nn.Module], in_channels: int, call: Call = call_with_batch) -> None:
    """Gradients everywhere, permutation equivariance, batching, dtypes and `reset_parameters`.

    Args:
        make: builds a fresh layer; called once.
        in_channels: features per node that it expects.
        call: how to call it, if not with `batch` as a keyword.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = make().double().eval()
        x, edge_index, batch = _two_graphs(in_channels)
        call(layer, x, edge_index, batch)  # lazy parameters take shape
        assert_every_parameter_learns(layer, in_channels, call)
        assert_permutation_equivariant(layer, in_channels, call)
        assert_batch_equals_single(layer, in_channels, call)
        assert_dtypes_agree(layer, in_channels, call)
        assert_reset_redraws(layer)


def assert_every_parameter_learns(layer: nn.Module, in_channels: int, call: Call = call_with_batch) -> None:
    """No parameter is left without a nonzero gradient, at a generic point near the present one."""
    layer = deepcopy(layer)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.add_(0.1 * random_tensor(*parameter.shape, seed=seed, dtype=parameter.dtype))
    y = call(layer, *_two_graphs(in_channels))
    parameters = dict(layer.named_parameters())
    gradients = torch.autograd.grad(
        y,
        list(parameters.values()),
        random_tensor(*y.shape, seed=5),
        allow_unused=True,
        materialize_grads=True,
    )
    idle = [name for name, g in zip(parameters, gradients, strict=True) if not bool(g.any())]
    assert not idle, f"no gradient reaches {', '.join(idle)}"


def assert_permutation_equivariant(layer: nn.Module, in_channels: int, call: Call = call_with_batch) -> None:
    """Renumbering the nodes and shuffling the edges permutes the rows of the output."""
    x, edge_index, _ = _graph(0, in_channels)
    zeros = torch.zeros(x.size(0), dtype=torch.long)
    order = torch.randperm(x.size(0), generator=torch.Generator().manual_seed(1))
    columns = torch.randperm(edge_index.size(1), generator=torch.Generator().manual_seed(2))
    renumbered = order.argsort()[edge_index][:, columns]
    assert_close(
        call(layer, x[order], renumbered, zeros), call(layer, x, edge_index, zeros)[order], "permuted nodes"
    )


def assert_batch_equals_single(layer: nn.Module, in_channels: int, call: Call = call_with_batch) -> None:
    """Graphs in a batch get what they get alone."""
    singles = [call(layer, *_graph(i, in_channels)) for i in range(len(SIZES))]
    assert_close(call(layer, *_two_graphs(in_channels)), torch.cat(singles), "batch of two graphs")


def assert_dtypes_agree(layer: nn.Module, in_channels: int, call: Call = call_with_batch) -> None:
    """float32 keeps its dtype and gives the float64 result to rounding."""
    x, edge_index, batch = _two_graphs(in_channels)
    y = call(deepcopy(layer).float(), x.float(), edge_index, batch)
    assert y.dtype == torch.float32, f"float32 became {y.dtype}"
    assert_close(y, call(layer, x, edge_index, batch), "float32")


def assert_reset_redraws(layer: nn.Module) -> None:
    """`reset_parameters` overwrites every parameter, follows the seed, and draws something."""
    layer = deepcopy(layer)
    first, repeated, other = (_reset(layer, seed, fill) for seed, fill in ((0, 7.0), (0, -9.0), (1, 7.0)))
    kept = [name for name in first if not torch.equal(first[name], repeated[name])]
    assert not kept, f"reset_parameters leaves {', '.join(kept)} as it was"
    assert any(not torch.equal(first[name], other[name]) for name in first), "nothing is drawn at random"


def _reset(layer: nn.Module, seed: int, fill: float) -> dict[str, Tensor]:
    """The parameters after a reset, starting from a constant that no initialisation would choose."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(fill)
    torch.manual_seed(seed)
    layer.reset_parameters()  # type: ignore[operator]
    return {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}


def _graph(index: int, in_channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """(x, edge_index, batch) of one of two small graphs."""
    size = SIZES[index]
    return (
        random_tensor(size, in_channels, seed=10 + index),
        random_edges(size, 2 * size, seed=20 + index),
        torch.zeros(size, dtype=torch.long),
    )


def _two_graphs(in_channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both graphs as one, in PyG's way."""
    (x0, edges0, batch0), (x1, edges1, batch1) = (_graph(i, in_channels) for i in (0, 1))
    return (
        torch.cat([x0, x1]),
        torch.cat([edges0, edges1 + SIZES[0]], dim=1),
        torch.cat([batch0, batch1 + 1]),
    )
