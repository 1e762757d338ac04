"""Edges that PyG's explainers can mask.

`GNNExplainer` and `CaptumExplainer` look for modules of the class `MessagePassing` and give each a number per
column of `edge_index`, by which its messages are to be multiplied. A sheaf layer has no messages, but it has
weights of edges; so a model has one such module, which only holds the numbers, and multiplies its weights
with them. The two directions of an edge have one weight and take the mean of their numbers.

The other explainers look into single messages, which are never stored, and are refused; so is `to_hetero`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from polynsd.errors import ConfigError, ShapeError
from polynsd.nn.inputs import ONE_KIND, GraphInput

REFUSAL = (
    "this looks into single messages or attention, which a sheaf layer does not have; use PyG's "
    "GNNExplainer or CaptumExplainer, or polynsd.estimator.explain_node."
)


class _RefusedAttributeError(ConfigError, AttributeError):
    """Says why an attribute is missing; to `hasattr` it is missing."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise ConfigError(REFUSAL)


def _is_traced_by_pyg(value: Proxy) -> bool:
    return type(value.tracer).__module__.startswith("torch_geometric.")


class MaskableEdges(nn.Module):
    """A model whose edges PyG's explainers can mask."""

    edge_mask: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_module("edge_mask", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As everywhere, but not while PyG takes the model around it apart by types (`to_hetero`).

        There the arguments stand for features and edges of any type. PyG would take what comes out for values
        of edges, as it knows no other module with edges than `MessagePassing`.
        """
        if any(isinstance(value, Proxy) and _is_traced_by_pyg(value) for value in (*args, *kwargs.values())):
            raise ShapeError(ONE_KIND)
        return super().__call__(*args, **kwargs)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """As everywhere; where PyG is loaded, with the module that its explainers look for."""
        if self.edge_mask is None and "torch_geometric.explain" in sys.modules:
            self.edge_mask = make_edge_mask()
        yield from super().named_modules(memo, prefix, remove_duplicate)

    def mask_edges(self, graph: GraphInput, x: Tensor) -> GraphInput:
        """The graph with masked weights, where an explainer has set a mask."""
        mask = None if self.edge_mask is None else self.edge_mask.numbers()
        if mask is None:
            return graph
        topology = graph.topology
        half = topology.per_half_edge(mask.to(x.dtype))
        half = (half + half[topology.twin]) / 2
        return graph._replace(edge_weight=half if graph.edge_weight is None else half * graph.edge_weight)


def make_edge_mask() -> nn.Module:
    """A module that holds what an explainer sets."""
    return _edge_mask_class()()


@cache
def _edge_mask_class() -> type[nn.Module]:
    """Made when it is needed: PyG takes seconds to load."""
    from torch_geometric.nn.conv import MessagePassing

    class EdgeMask(MessagePassing):  # type: ignore[misc]
        """Holds what an explainer sets; copies and pickles are empty."""

        register_message_forward_hook = _refuse  # what AttentionExplainer asks for first

        def register_forward_hook(self, hook: Any, **options: Any) -> Any:
            """As everywhere, but not for PGExplainer, which looks for the outputs of convolutions."""
            if getattr(hook, "__module__", "") == "torch_geometric.utils.embedding":
                _refuse()
            return super().register_forward_hook(hook, **options)

        def __getattr__(self, name: str) -> Any:
            if name == "in_channels":  # what GraphMaskExplainer asks for first
                raise _RefusedAttributeError(REFUSAL)
            return super().__getattr__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            """The mask is the explainer's, no parameter of the model."""
            if name == "_edge_mask":
                object.__setattr__(self, name, value)
            else:
                super().__setattr__(name, value)

        def __reduce__(self) -> tuple[Any, tuple[()]]:
            return make_edge_mask, ()

        def numbers(self) -> Tensor | None:
            """A number per column of `edge_index`, or None."""
            mask = self._edge_mask
            if mask is None or not self.explain:
                return None
            return torch.sigmoid(mask) if self._apply_sigmoid else mask

    return EdgeMask
