"""The hook of sheaf layers: how to see, or change, what a model computes inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from polynsd.nn.assembly import Laplacian
from polynsd.nn.layer import SheafLayer

LayerHook = Callable[[SheafLayer, Tensor, Laplacian, Tensor | None], Tensor]


@contextmanager
def hook_layers(model: nn.Module, hook: LayerHook) -> Iterator[None]:
    """Inside the `with` block, every sheaf layer of a model calls `hook(layer, x, L, trunk)` for its update.

    The hook sees the state x `[N, D, C]`, the Laplacian L, whose maps it holds, and what the trunk adds. It
    returns the next state, usually `layer.update(x, L, trunk)`; it may look on, or pass something else:

        seen = []
        def look(layer, x, L, trunk):
            seen.append((x, L))
            return layer.update(x, L, trunk)
        with hook_layers(model, look):
            model(x, edge_index)

    `polynsd.diagnostics.trace_layers` is made so.
    """
    layers = [module for module in model.modules() if isinstance(module, SheafLayer)]
    before = [layer.hook for layer in layers]
    try:
        for layer in layers:
            layer.hook = hook
        yield
    finally:
        for layer, earlier in zip(layers, before, strict=True):
            layer.hook = earlier
