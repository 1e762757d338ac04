"""Whether stored tensors are the state of the model that a configuration describes.

A file may claim any size. Before memory is taken for it, the model is built on the meta device, where tensors
have shapes and no values, and these are compared with the tensors that are there.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from polynsd.config import ModelConfig
from polynsd.errors import DataError
from polynsd.zoo.registry import build_model

SMALL = 64  # sizes and numbers of layers up to this one are believed
MOST_TABLES = 2**25  # entries of the changes of basis of all layers, which no tensor shows


def check_state(config: ModelConfig, sizes: tuple[int, int], state: Mapping[str, Tensor]) -> None:
    """Raises unless the tensors are the state of the model with these sizes of input and output.

    Raises:
        DataError: a tensor is missing, unknown or of another shape, or a size is that of no tensor.
    """
    _check_sizes(config, sizes, state)
    with torch.device("meta"):
        expected = build_model(config, *sizes).state_dict()
    for name in sorted(expected.keys() ^ state.keys()):
        raise DataError(f"the tensor {name} {'is missing' if name in expected else 'does not belong to it'}")
    for name, tensor in state.items():
        shape, is_float = expected[name].shape, expected[name].is_floating_point()
        if tensor.shape != shape or tensor.is_floating_point() != is_float:
            raise DataError(
                f"the tensor {name} holds {tensor.dtype} of shape {list(tensor.shape)}; "
                f"the configuration has {list(shape)}"
            )


def _check_sizes(config: ModelConfig, sizes: tuple[int, int], state: Mapping[str, Tensor]) -> None:
    """Raises where a size is larger than all there is, so that building a model without values is quick."""
    layer = config.layer
    longest = max((max(tensor.shape, default=0) for tensor in state.values()), default=0)
    widths = {
        "in_channels": sizes[0],
        "out_channels": sizes[1],
        "hidden_channels": config.hidden_channels,
        **{name: getattr(layer, name) for name in ("stalk_dim", "learner_width", "edge_dim")},
        **{name: value for name, value in config.options.items() if isinstance(value, int)},
    }
    depths = {"num_layers": config.num_layers, "learner_hops": layer.learner_hops}
    for named, most in ((widths, longest), (depths, len(state))):
        for name, value in named.items():
            if value > max(most, SMALL):
                raise DataError(f"{name} is {value:,}; its tensors are those of a smaller model")
    if config.num_layers * (layer.degree + 1) ** 2 > MOST_TABLES:
        raise DataError(f"degree {layer.degree:,} in {config.num_layers:,} layers is too large")
