"""`trace_layers`: states and Laplacians of a model on a graph, as its layers expose them (`nn/hooks.py`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polynsd.config import ADAPTIVE_SOLVERS
from polynsd.errors import ConfigError, DataError, ShapeError
from polynsd.nn import PolyNSD, SheafLayer, SheafODE, hook_layers
from polynsd.nn.assembly import Laplacian
from polynsd.nn.inputs import GraphInput, prepare_graph
from polynsd.nn.sheaf_model import SheafModel
from polynsd.training.replica import call_model, eval_mode

STOPS = 4  # times at which an adaptive solver is looked at
MOST_PIECES = 16  # states of a layer in continuous time that are kept


@dataclass(frozen=True, eq=False)
class Trace:
    """What L layers saw and did.

    Attributes:
        states: X_0 … X_L, each `[N, D, C]`: what the encoder gave, and what every layer made of it.
        laplacians: L + 1 operators. The one at ℓ acts on X_ℓ; the last is what the last layer would see in
            X_L.
        layers: the layers.
        output: `[N, O]` of the model.
        piece: of a model in continuous time, the time between two states; its layers are then pieces of time,
            and one layer comes as often as it has pieces.
    """

    states: tuple[Tensor, ...]
    laplacians: tuple[Laplacian, ...]
    layers: tuple[SheafLayer, ...]
    output: Tensor
    piece: float | None = None

    @property
    def note(self) -> str:
        """What has to be known to read numbers by layer."""
        if self.piece is None:
            return ""
        return f"a model in continuous time: what is called a layer is a time of {self.piece:g}"

    @property
    def learned_dim(self) -> int:
        """How many coordinates of a stalk have learned maps; those of fixed channels follow them."""
        return self.layers[0].config.stalk_dim


def trace_layers(model: nn.Module, graph: Any) -> Trace:
    """Calls a model on a graph in evaluation mode and keeps what its layers see.

    States carry gradients where gradients are enabled.

    Args:
        model: `PolyNSD`, one of its controls, `SheafODE`, or another model with sheaf layers.
        graph: PyG's `Data`, or a `polynsd.data.Graph`.

    Raises:
        ConfigError: the model has no sheaf layers.
        ShapeError: the graph has other features than the model takes.
        DataError: a state is not finite.
    """
    data = as_data(graph, model)
    if isinstance(model, SheafODE):
        return _trace_time(model, data)
    states: list[Tensor] = []
    laplacians: list[Laplacian] = []
    layers: list[SheafLayer] = []

    def look(layer: SheafLayer, x: Tensor, L: Laplacian, trunk: Tensor | None) -> Tensor:
        result = layer.update(x, L, trunk)
        states.extend((x, result) if not states else (result,))
        laplacians.append(L)
        layers.append(layer)
        return result

    with eval_mode(model), hook_layers(model, look):
        output = call_model(model, data)
        if not layers:
            raise ConfigError(
                f"{type(model).__name__} has no sheaf layers to look into. Use PolyNSD, NSD or "
                "IdentitySheaf; the influence of distant nodes can be measured of any model."
            )
        _check_finite(states)
    with eval_mode(model):
        laplacians.append(_sheaf_seen_next(model, states, laplacians, data))
    return Trace(tuple(states), tuple(laplacians), tuple(layers), output)


def _trace_time(model: SheafODE, data: Any) -> Trace:
    """The states of a model in continuous time after every step of its solver, or of a few steps.

    A solver that chooses its steps is stopped at `STOPS` equal times.
    """
    ode = model.ode
    steps = STOPS if ode.solver in ADAPTIVE_SOLVERS else ode.steps
    pieces = max(n for n in range(1, MOST_PIECES + 1) if steps % n == 0)
    with eval_mode(model):
        seen = list(model.trajectory(model.encode(data.x), graph_input(model, data), pieces))
        layers, states, laplacians = zip(*seen, strict=True)
        _check_finite(states)
        return Trace(states, laplacians, layers[:-1], model.decode(states[-1]), ode.horizon / pieces)


def _check_finite(states: Sequence[Tensor]) -> None:
    for number, state in enumerate(states):
        if not bool(torch.isfinite(state).all()):
            raise DataError(
                f"the state X_{number} of the model holds NaN or infinity, so nothing can be measured "
                "from there on; its training has diverged, or its features are too large."
            )


def _sheaf_seen_next(
    model: nn.Module, states: list[Tensor], laplacians: list[Laplacian], data: Any
) -> Laplacian:
    """The operator that the last layer would see in its own output."""
    if not isinstance(model, PolyNSD) or model.shared_maps:
        return laplacians[-1]
    last: Any = model.layers[-1]
    if last.learner is None:
        return laplacians[-1]
    context = states[0].flatten(-2) if model.config.trunk_sees("features") else None
    return last.laplacian(states[-1], *graph_input(model, data), context)


def graph_input(model: SheafModel, data: Any) -> GraphInput:
    """The graph of `as_data` on half-edges, with the edge features that the model takes."""
    attr = data.edge_attr if model.config.edge_dim else None
    return prepare_graph(data.x, data.edge_index, data.edge_weight, attr)


def as_data(graph: Any, model: nn.Module) -> Any:
    """PyG's `Data` on the device and in the precision of a model, whose features it must have."""
    data = copy.copy(graph.to_pyg() if hasattr(graph, "to_pyg") else graph)
    like = next((p for p in model.parameters() if p.is_floating_point()), None)
    if data.x is None:
        raise DataError("the graph has no features x; a model is called with them.")
    if like is not None:
        data = data.to(like.device)
        data.x = data.x.to(like.dtype)
        for name in ("edge_weight", "edge_attr"):
            if data.get(name) is not None:
                data[name] = data[name].to(like.dtype)
    wanted = getattr(model, "in_channels", -1)
    if isinstance(wanted, int) and wanted >= 0 and data.x.size(-1) != wanted:
        raise ShapeError(
            f"the model takes {wanted} features per node, the graph has {data.x.size(-1)}: it is a model of "
            "another graph, or the features were treated otherwise."
        )
    return data


def untrained_copy(model: nn.Module, seed: int = 0) -> nn.Module:
    """The same model with parameters drawn anew: what a measure says before anything is learned."""
    control = copy.deepcopy(model)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        control.reset_parameters()  # type: ignore[operator]
    return control
