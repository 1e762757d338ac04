"""The kernels of a training step, compiled in parallel before the first pass needs one after the other."""

from __future__ import annotations

import copy
import logging
from contextvars import copy_context

import torch
from torch import nn

from polynsd import kernels
from polynsd.kernels.ops.training import adam, copy_rows, dropout
from polynsd.memo import skip_value_checks
from polynsd.nn.precision import autocast
from polynsd.training.dropout import DropoutRates
from polynsd.training.probe import Predict

logger = logging.getLogger("polynsd")

_compiled: set[tuple[object, ...]] = set()  # models seen in this process


def compile_step(model: nn.Module, predict: Predict, precision: str) -> None:
    """Compiles what training a model needs on a GPU; neither the model nor anything else changes.

    A pass in which nothing is computed shows what that is. Where it fails, kernels are compiled as they are
    launched, and a model that cannot run says so then.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    key = (type(model), device, precision, *((p.shape, p.dtype) for p in parameters))
    if device.type != "cuda" or kernels.active() not in ("auto", "gpu") or key in _compiled:
        return
    _compiled.add(key)
    try:
        copy_context().run(_compile, model, predict, precision)  # Triton's mode may outlive an error
    except Exception as error:
        logger.debug("kernels are compiled one by one: %s", error)


def _compile(model: nn.Module, predict: Predict, precision: str) -> None:
    from polynsd.kernels.gpu.compiling import compile_only  # needs Triton

    twin = copy.deepcopy(model).train()
    parameters = [p for p in twin.parameters() if p.requires_grad]
    row = parameters[0].new_zeros(1, 16)
    zero, wanted = torch.zeros(1, dtype=torch.long, device=row.device), row[:, 0] > 0
    with skip_value_checks(), compile_only():
        with DropoutRates(), autocast(precision, row.device):
            output = predict(twin)
        torch.autograd.grad(output.sum(), parameters, allow_unused=True)
        dropout(row, zero[0], row[0, 0].double())
        adam(row, row, row, row, row, row, row[:, 0].double(), zero[0])
        copy_rows(row, row, wanted)
