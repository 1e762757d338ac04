"""What the models of the zoo share: their base class, products with features, convolutions, search ranges.

The first layer of a convolution is linear in the features up to its bias, S (x W) = (S x) W. So features
meet the weights first, by a sparse product where they are sparse (`feature_products`), and S multiplies the
narrower x W. Layers therefore have two ways in: `layer(h, …)` from signals, and `layer.after_weights(z, …)`
from z = h W.

Parameters are drawn as in PyG: `Linear` draws when it is made, and a layer draws all its parameters again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import glorot

from polynsd.errors import require_fraction
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.nn.features import multiply_features
from polynsd.zoo.matrices import SparseMatrix
from polynsd.zoo.neighbours import Neighbourhood, softmax

# Ranges of several spaces. Depths and widths hold what is published, as far as a graph like pubmed allows.
CONVOLUTIONS = [2, 3, 4]  # depths of plain convolutions
PERCEPTRON = [2, 3]  # depths of an MLP
WIDE = [64, 256, 512]  # widths of models that are published with hundreds of channels
INPUT_DROPOUT = {"low": 0.0, "high": 0.8, "step": 0.1}

Options = dict[str, Any]

NEGATIVE_SLOPE = 0.2  # of LeakyReLU in attention


class ZooModel(nn.Module):
    """Base of the models: the arguments that all of them have, dropout, and `reset_parameters`.

    A subclass has a method `forward(x, edge_index, edge_weight=None)` from `[N, in_channels]` to logits
    `[N, out_channels]`.

    Args:
        in_channels: features per node, or -1 to infer them at the first call where the model allows it.
        hidden_channels: width.
        num_layers: depth; its meaning is the model's.
        out_channels: classes or targets.
        dropout: rate between layers.
        input_dropout: rate of the features, where a model has it.

    Attributes:
        space: what a search varies: `num_layers`, `hidden_channels` where other widths than the usual 32, 64
            and 128 are wanted, and options.
        published: the configuration that a search begins with.
    """

    space: ClassVar[Options]
    published: ClassVar[Options]
    layers: Any  # an `nn.ModuleList`, of whose items type checkers know nothing

    def __init__(self, dropout: float, input_dropout: float = 0.0) -> None:
        super().__init__()
        require_fraction("dropout", dropout)
        require_fraction("input_dropout", input_dropout)
        self.dropout, self.input_dropout = dropout, input_dropout

    def reset_parameters(self) -> None:
        """Draws all parameters anew; a subclass with parameters of its own adds those."""
        for child in self.children():
            reset(child)

    def drop(self, h: Tensor) -> Tensor:
        return functional.dropout(h, self.dropout, self.training)

    def hidden_masks(self, x: Tensor, widths: Iterable[int]) -> list[Tensor]:
        """Dropout masks `[N, width]` of hidden layers.

        They are drawn before that of the features, so that a seed gives the same ones with and without
        `input_dropout`.
        """
        return [self.drop(torch.ones(x.size(0), width, dtype=x.dtype, device=x.device)) for width in widths]

    def feature_products(self, maps: Iterable[Any], x: Tensor) -> tuple[Tensor, ...]:
        """dropout(x) W for the weights of several linear maps, which all see the same features dropped."""
        maps = list(maps)
        for linear in maps:
            set_inputs(linear, x.size(-1))
        weights = [linear.weight for linear in maps]
        products = multiply_features(torch.cat(weights), x, self.input_dropout, self.training)
        return products.split([len(W) for W in weights], -1)


def reset(module: nn.Module) -> None:
    """Draws the parameters of a module anew, or those of its children where it has no method for that."""
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()  # type: ignore[operator]
    else:
        for child in module.children():
            reset(child)


def set_inputs(linear: Any, in_channels: int) -> None:
    """Gives a linear map that was built with in_channels=-1 its weights."""
    if is_lazy(linear.weight):
        linear.initialize_parameters(linear, (torch.empty(0, in_channels),))


class GCNLayer(nn.Module):
    """S h W + b, with a matrix S of the graph."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.linear = Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()
        nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, S: SparseMatrix) -> Tensor:
        return self.after_weights(self.linear(h), S)

    def after_weights(self, z: Tensor, S: SparseMatrix) -> Tensor:
        return S(z) + self.bias


class SAGELayer(nn.Module):
    """W₁ h_i + W₂ mean_{j∈N(i)} h_j + b."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.neighbour = Linear(in_channels, out_channels)
        self.root = Linear(in_channels, out_channels, bias=False)
        reset(self)

    def forward(self, h: Tensor, S: Callable[[Tensor], Tensor]) -> Tensor:
        return self.neighbour(S(h)) + self.root(h)

    def after_weights(self, neighbour: Tensor, root: Tensor, S: SparseMatrix) -> Tensor:
        """From h W₂ and h W₁ with S = D^{−1} A."""
        return S(neighbour) + self.neighbour.bias + root


class GATLayer(nn.Module):
    """‖_heads Σ_j α_ij W h_j + b,    α_ij = softmax_j e_ij.

    e_ij = LeakyReLU(a·W h_j + a'·W h_i), or a·LeakyReLU(W h_j + W' h_i) for v2; here W and W' have biases.

    Args:
        in_channels: channels of h.
        out_channels: channels of every head.
        heads: number of heads.
        v2: which e_ij.
        mean: whether to take the mean of the heads instead of ‖.
        bias: whether there is b.
        dropout: rate of the α_ij.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int,
        *,
        v2: bool = False,
        mean: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.v2, self.mean, self.dropout = heads, v2, mean, dropout
        self.maps = nn.ModuleList(  # W, W'
            Linear(in_channels, heads * out_channels, bias=v2, weight_initializer="glorot")
            for _ in range(2 if v2 else 1)
        )
        self.attention = nn.ParameterList(  # a, a'
            torch.empty(1, heads, out_channels) for _ in range(1 if v2 else 2)
        )
        self.bias = nn.Parameter(torch.empty(out_channels * (1 if mean else heads))) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset(self.maps)
        for a in self.attention:
            glorot(a)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, near: Neighbourhood) -> Tensor:
        return self._attend([linear(h) for linear in self.maps], near)

    def after_weights(self, products: Sequence[Tensor], near: Neighbourhood) -> Tensor:
        """From W h, and W' h for v2, without biases."""
        maps: Any = self.maps
        return self._attend([z + W.bias if self.v2 else z for z, W in zip(products, maps, strict=True)], near)

    def _attend(self, mapped: Sequence[Tensor], near: Neighbourhood) -> Tensor:
        parts = [z.unflatten(-1, (self.heads, -1)) for z in mapped]
        alpha = softmax(self._scores(parts[0], parts[-1], near), near)
        alpha = functional.dropout(alpha, self.dropout, self.training)
        sums = sum_at_nodes(alpha.unsqueeze(-1) * at_columns(parts[0], near.pattern), near.pattern)
        sums = sums.mean(1) if self.mean else sums.flatten(-2)
        return sums if self.bias is None else sums + self.bias

    def _scores(self, source: Tensor, target: Tensor, near: Neighbourhood) -> Tensor:
        """e_ij `[H, heads]` from W h_j and W h_i or W' h_i `[N, heads, C]`."""
        if self.v2:
            there, here = at_columns(source, near.pattern), at_rows(target, near.pattern)
            return (functional.leaky_relu(here + there, NEGATIVE_SLOPE) * self.attention[0]).sum(-1)
        there = at_columns((source * self.attention[0]).sum(-1), near.pattern, -2)
        here = at_rows((target * self.attention[1]).sum(-1), near.pattern, -2)
        return functional.leaky_relu(here + there, NEGATIVE_SLOPE)
