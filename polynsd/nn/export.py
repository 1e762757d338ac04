"""`export_model`: a trained model as a program of plain PyTorch operations, by `torch.export`.

    program = export_model(model, data)
    torch.export.save(program, "model.pt2")
    torch.export.load("model.pt2").module()(x=x, edge_index=edge_index)     # without this library

Kernels are replaced by the reference operations. Where the edges are an input, the structure of half-edges
has to be found inside the program, and a program knows no shapes that depend on values: nothing can be
dropped or merged. Instead every column becomes two half-edges, and weights do the rest: a self-loop weighs 0,
one of m parallel half-edges 1/m.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polynsd import kernels
from polynsd.config import ADAPTIVE_SOLVERS
from polynsd.errors import ConfigError
from polynsd.kernels.ops.autograd import spelt_out
from polynsd.kernels.ops.operator import Pattern
from polynsd.memo import skip_value_checks
from polynsd.nn.inputs import GraphInput
from polynsd.nn.models import PolyNSD
from polynsd.nn.ode import SheafODE
from polynsd.nn.sheaf_model import SheafModel
from polynsd.topology import Topology, TopologyReport, as_topology


def export_model(model: PolyNSD, data: Any, *, fixed_graph: bool = False) -> torch.export.ExportedProgram:
    """The model in evaluation mode, on the CPU and in the dtype of its parameters.

    `torch.export.passes.move_to_device_pass` moves a program to another device.

    Args:
        model: trained.
        data: PyG's `Data` like those that the program will be called with: `x`, `edge_index` and, where the
            model is to take them, `edge_weight` and `edge_attr`.
        fixed_graph: whether the graph becomes part of the program, which then takes x alone. Otherwise it
            takes x, edge_index and, if `data` has them, edge_weight and edge_attr, of any number of nodes
            and edges.
    """
    if not isinstance(model, SheafModel):
        raise ConfigError(
            f"export_model takes a model such as PolyNSD; got {type(model).__name__}. A module of your own "
            "with sheaf layers is exported by torch.export where it holds the graph as a Topology."
        )
    solver = model.ode.solver if isinstance(model, SheafODE) else None
    if solver in ADAPTIVE_SOLVERS:
        raise ConfigError(f"solver='{solver}' chooses its steps by values; export a model with solver='rk4'.")
    if isinstance(model.in_channels, int) and model.in_channels < 0:
        raise ConfigError("the model does not know its features yet; call it once before it is exported.")
    if getattr(data, "edge_index", None) is None:
        raise ConfigError("the data has no edge_index; PyG's ToUndirected or adj_t.coo() give one.")
    if not fixed_graph and (data.num_nodes < 2 or data.edge_index.size(1) < 2):
        raise ConfigError(
            "a program for any graph is traced on an example of two nodes and two columns of edge_index at "
            f"least; got {data.num_nodes} and {data.edge_index.size(1)}."
        )
    if model.config.lambda_max == "lanczos":
        raise ConfigError("a model with lambda_max='lanczos' cannot be exported; use lambda_max='analytic'.")
    still = copy.deepcopy(model).cpu().eval()
    still.edge_mask = None
    parameter = next(still.parameters())
    x = (data.x.to_dense() if data.x.layout != torch.strided else data.x).to(parameter)
    extra = {
        name: value.to(parameter)
        for name in ("edge_weight", "edge_attr")
        if (value := getattr(data, name, None)) is not None
    }
    edge_index = data.edge_index.cpu().long()
    nodes, columns = torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC
    shapes: dict[str, Any] = {"x": None}
    if fixed_graph:
        whole: nn.Module = OnFixedGraph(still, x, edge_index, extra)
        arguments = {"x": x}
    else:
        whole = OnAnyGraph(still)
        arguments = {"x": x, "edge_index": edge_index, **extra}
        shapes = {"x": {0: nodes}, "edge_index": {1: columns}, **{name: {0: columns} for name in extra}}
    with torch.no_grad(), kernels.use("reference"), spelt_out(), skip_value_checks():
        return torch.export.export(whole, (), arguments, dynamic_shapes=shapes, strict=False)


class OnFixedGraph(nn.Module):
    """A model and the only graph that it is called with."""

    def __init__(self, model: PolyNSD, x: Tensor, edge_index: Tensor, extra: dict[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        self._graph = _on_half_edges(as_topology(edge_index, x.size(0)), **extra)

    def forward(self, x: Tensor) -> Tensor:
        return self.model.propagate(self.model.encode(x), self._graph)


class OnAnyGraph(nn.Module):
    """A model that finds the half-edges of its graph without a step whose shape depends on values."""

    def __init__(self, model: PolyNSD) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        topology = UnmergedTopology.from_edge_index(edge_index, x.size(0))
        graph = _on_half_edges(topology, edge_weight, edge_attr)
        weight = topology.share.to(x.dtype)
        weight = weight if graph.edge_weight is None else weight * graph.edge_weight
        return self.model.propagate(self.model.encode(x), graph._replace(edge_weight=weight))


def _on_half_edges(
    topology: Topology, edge_weight: Tensor | None = None, edge_attr: Tensor | None = None
) -> GraphInput:
    weight = None if edge_weight is None else topology.symmetric_weight(edge_weight)
    if edge_attr is not None:
        edge_attr = topology.per_half_edge(edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr)
    return GraphInput(topology, weight, edge_attr, None)


@dataclass(frozen=True, eq=False)
class UnmergedTopology(Topology):
    """Two half-edges for every column of an edge list, self-loops and parallel ones included."""

    share: Tensor  # [H] float64: 0 for a self-loop, 1/m for one of m parallel half-edges
    first: Tensor  # [H] the first of the parallel half-edges

    def __post_init__(self) -> None:
        rowptr, row, col, twin = (t.int() for t in (self.rowptr, self.row, self.col, self.twin))
        object.__setattr__(self, "pattern", Pattern(rowptr, row, col, twin, rowptr, rowptr))  # no GPU's tasks

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | None = None) -> UnmergedTopology:
        """Without a step whose shape depends on values."""
        assert num_nodes is not None
        source, target = edge_index.unbind(0)
        E = edge_index.size(1)
        # column (source, target) is the half-edge (row, col) = (target, source), and its twin
        row, col = torch.cat([target, source]), torch.cat([source, target])
        key, order = torch.sort(row * num_nodes + col, stable=True)
        row, col = row[order], col[order]
        place = torch.argsort(order)
        first, end = (torch.searchsorted(key, key, right=right) for right in (False, True))
        return cls(
            rowptr=torch.searchsorted(row, torch.arange(num_nodes + 1, device=row.device)),
            row=row,
            col=col,
            twin=place[(order + E) % (2 * E)],
            edge=order % E,
            half_of_input=first[place[:E]],
            report=TopologyReport(0, 0, 0, 0),
            share=(row != col) / (end - first).double(),
            first=first,
        )

    @property
    def degree(self) -> Tensor:
        """[N] number of neighbours, every one counted once."""
        return self.share.new_zeros(self.num_nodes).index_add(0, self.row, self.share).round().long()

    def per_half_edge(self, values: Tensor) -> Tensor:
        """Values `[E_in, ...]` on half-edges, parallel ones averaged; see `Topology.per_half_edge`."""
        shape = (self.num_half_edges, *[1] * (values.dim() - 1))
        count = values.new_zeros(self.num_half_edges)
        count = count.index_add(0, self.half_of_input, torch.ones_like(self.half_of_input).to(values))
        total = values.new_zeros(self.num_half_edges, *values.shape[1:])
        total = total.index_add(0, self.half_of_input, values)
        count, total = count[self.first].reshape(shape), total[self.first]
        mean = total / count.clamp(min=1)
        return torch.where(count > 0, mean, mean[self.twin])
