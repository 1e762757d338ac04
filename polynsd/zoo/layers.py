"""PyG's layers with the library's products.

PyG's layers gather a message per edge and scatter the sums. Where the messages are S x with a matrix S
that does not change, one sparse product does the same without an array of messages: `by_product` gives
a layer that product, and the layer is then called with the matrix where PyG has `edge_index`.

What the first layer does to features is linear up to its bias, S (x W) = (S x) W. So features meet the
weights first, by a sparse product where they are sparse (`feature_products`), and the layer itself is
called with x W (`after_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polynsd.nn.features import encode_features


def by_product(conv: Any) -> Any:
    """PyG's layer, which then takes a matrix, or any function of a signal, for `edge_index`."""
    conv.propagate = _propagate
    return conv


def _propagate(edge_index: Callable[[Tensor], Tensor], size: Any = None, *, x: Any, **_: Any) -> Tensor:
    return edge_index(x[0] if isinstance(x, tuple) else x)


def after_weights(*maps: Any) -> None:
    """Linear maps of a first layer are then called with x W, and add their biases alone."""
    for linear in maps:
        linear.forward = partial(_with_bias, linear)


def _with_bias(linear: Any, z: Tensor) -> Tensor:
    return z if linear.bias is None else z + linear.bias


def feature_products(maps: Sequence[Any], x: Tensor, dropout: float, training: bool) -> tuple[Tensor, ...]:
    """dropout(x) W for the weights of several linear maps, which all see the same features dropped."""
    for linear in maps:
        if is_lazy(linear.weight):  # PyG's in_channels=-1
            linear.initialize_parameters(linear, (x,))
    weights = [linear.weight for linear in maps]
    product = encode_features(_borrowing(torch.cat(weights)), x, dropout, training)
    return product.split([len(W) for W in weights], -1)


def _borrowing(weight: Tensor) -> nn.Linear:
    """A linear map without bias whose weight may be any tensor."""
    linear = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(linear)
    linear.weight, linear.bias = weight, None  # type: ignore[assignment]
    return linear
