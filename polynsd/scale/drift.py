"""What shallow halos cost: outputs and gradients against the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from polynsd.errors import ConfigError
from polynsd.scale.halo import Halo, Halos
from polynsd.scale.inference import core_output
from polynsd.scale.partition import members
from polynsd.scale.reach import receptive_field
from polynsd.training import Task
from polynsd.training.replica import eval_mode

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class HaloDrift:
    """Errors of one depth of halos, compared with the exact outputs at the same nodes."""

    depth: int
    """Depth of the halos, in hops."""
    nodes: float
    """Mean size of a part with its halo, as a share of the graph."""
    output: float
    """‖y − y*‖ / ‖y*‖ over the core nodes."""
    largest: float
    """max |y − y*|."""
    gradient: float | None
    """‖g − g*‖ / ‖g*‖ of an epoch's gradient; None without a task."""


def halo_drift(
    model: nn.Module,
    data: Data,
    parts: Tensor | Sequence[Tensor],
    depths: Sequence[int],
    *,
    task: Task | None = None,
    train: Tensor | None = None,
) -> list[HaloDrift]:
    """How far halos of the given depths are from the truth, without dropout.

    Args:
        model: on data's device.
        data: a PyG graph; with labels, if gradients are compared.
        parts: the part of every node, or the nodes of some parts: on a large graph a few say enough.
        depths: in hops.
        task: compares gradients of its loss too.
        train: `[N]` mask of the nodes in that loss; all core nodes unless given.

    The truth are halos of exact depth, or the whole graph where the model is not local.
    """
    cores = members(parts) if isinstance(parts, Tensor) else list(parts)
    halos, mask = Halos(data), None
    if task is not None:
        mask = torch.ones(halos.num_nodes, dtype=torch.bool) if train is None else train.cpu()
    with eval_mode(model):
        true_outputs, true_gradient = _measure(model, _exact_halos(model, halos, cores), task, mask)
        rows = []
        for depth in depths:
            parts_with_halos = [halos.around(core, depth) for core in cores]
            outputs, gradient = _measure(model, parts_with_halos, task, mask)
            nodes = sum(halo.nodes.numel() for halo in parts_with_halos)
            rows.append(
                HaloDrift(
                    depth=depth,
                    nodes=nodes / (len(cores) * halos.num_nodes),
                    output=_relative_error(outputs, true_outputs),
                    largest=float((outputs - true_outputs).abs().max()),
                    gradient=None if gradient is None else _relative_error(gradient, true_gradient),
                )
            )
    return rows


def _exact_halos(model: nn.Module, halos: Halos, cores: Sequence[Tensor]) -> list[Halo]:
    try:
        depth = receptive_field(model)
    except ConfigError:  # the whole graph, the core nodes first
        core = torch.cat(list(cores))
        rest = torch.ones(halos.num_nodes, dtype=torch.bool, device=core.device)
        rest[core] = False
        whole = halos.around(torch.cat([core, rest.nonzero().squeeze(-1)]), 0)
        return [Halo(whole.data, whole.nodes, core.numel(), halos.num_nodes)]
    return [halos.around(core, depth) for core in cores]


def _measure(
    model: nn.Module, halos: Sequence[Halo], task: Task | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """(outputs of all cores, gradient of the mean loss over their training nodes)."""
    outputs, gradient, count = [], None, 0
    for halo in halos:
        with torch.set_grad_enabled(task is not None):
            output = core_output(model, halo, halo.data.edge_index.device)
        outputs.append(output.detach())
        if task is None or mask is None:
            continue
        chosen = mask.to(halo.core.device)[halo.core]
        number = int(chosen.sum())
        if number:
            loss = number * task.loss(output[chosen], halo.data.y[: halo.num_core][chosen])
            parameters = [p for p in model.parameters() if p.requires_grad]
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            part = torch.cat([g.flatten() for g in gradients])
            gradient = part if gradient is None else gradient + part
            count += number
    return torch.cat(outputs), None if gradient is None else gradient / count


def _relative_error(value: Tensor, truth: Tensor | None) -> float:
    assert truth is not None
    return float((value - truth).norm() / truth.norm())
