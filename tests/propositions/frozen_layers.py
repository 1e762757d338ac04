"""Layers without mixing under a given Laplacian: the setting of the paper's statements about one layer."""

import torch

from polynsd import LayerConfig
from polynsd.nn import SheafLayer


def frozen_layer(L, seed=None, **options):
    """A layer for signals on L with one channel; random θ, α and ε when a seed is given."""
    plain = {"mixing": "none", "activation": "identity", "stalk_dim": L.stalk_dim, "maps": "identity"}
    layer = SheafLayer(1, LayerConfig(**{**plain, **options})).double().requires_grad_(False)
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    return layer


def set_filter(layer, theta=None, alpha=None, epsilon=None):
    """Writes given numbers into a layer's filter and gate."""
    for parameter, value in (
        (layer.filter.theta, theta),
        (layer.filter.alpha, alpha),
        (layer.epsilon, epsilon),
    ):
        if value is not None:
            parameter.copy_(torch.as_tensor(value).expand_as(parameter))
    return layer


def only(k, degree):
    """Logits whose softmax puts all weight on degree k."""
    return torch.full((degree + 1,), -800.0).index_fill(0, torch.tensor(k), 0.0)
