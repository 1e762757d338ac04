"""A network run with other parameters than its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from polynsd.federated.backbones import Backbone, Output


class _Run(nn.Module):
    """Calls `run`, because `functional_call` knows `forward` only."""

    def __init__(self, model: Backbone) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any) -> Output:
        return self.model.run(*inputs)


def run_with(model: Backbone, parameters: Mapping[str, Tensor], *inputs: Any) -> Output:
    """`model.run(*inputs)` with these parameters, by name; those that are not given are its own."""
    state = {f"model.{name}": p for name, p in parameters.items()}
    output: Output = functional_call(_Run(model), state, inputs)
    return output
