"""Influence by distance: how far a prediction listens.

    G_uv = ‖∂ s_v / ∂ x_u‖₂,      I(d) = mean over targets v of the mean of G_uv over u at distance d
                                   T(d) = mean over targets v of the sum of G_uv over u at distance d

Distances are hops of the graph. s_v is by default the margin, the logit of the true class minus the largest
other one: a log-probability has no gradient left where a prediction is certain. With `of="jacobian"` G is
that of City-Networks, G_uv = Σ_{c,j} |∂f_c(v)/∂x_uj|. `range` is R = mean_v Σ_d d T_v(d) / Σ_d T_v(d), the
distance that influence comes from on average. A node influences another through the states that are filtered
and through the maps that are learned from them; `frozen` takes the maps as given.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn

from polynsd.diagnostics.result import finish_figure, make_frame, new_figure
from polynsd.diagnostics.trace import as_data, graph_input
from polynsd.errors import DataError, require_at_least, require_choice
from polynsd.nn import SheafLayer, SheafODE, hook_layers
from polynsd.nn.assembly import Laplacian
from polynsd.nn.features import encode_features
from polynsd.nn.sheaf_model import SheafModel
from polynsd.palette import COLOURS
from polynsd.sparse import require_dense
from polynsd.topology import as_topology
from polynsd.training.replica import call_model, eval_mode

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]

SCORES = ("margin", "logit", "log-prob", "jacobian")
PATHS = {"full": "in full", "frozen": "through states alone (maps frozen)"}
NO_FROZEN = "all paths together; that through states alone is not measured in continuous time"
SILENT = 1e-12  # I(0) below it: a target whose score depends on nothing
CHUNK = 2**27  # numbers of gradients that are held at once
SEVERAL = 16  # backward passes in one, on a GPU


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of nodes at distances 0, 1, …; see the module.

    Attributes:
        of: the score that is differentiated.
        targets: `[T]` the nodes whose score it is.
        shell_sizes: `[T, n]` how many nodes there are at every distance.
        totals: by path (`full`, `frozen`): `[T, n]` the sum of G_uv over each shell.
        note: what has to be known to read the numbers.
    """

    of: str
    targets: NDArray[np.int64]
    shell_sizes: NDArray[np.int64]
    totals: dict[str, Numbers]
    note: str = ""

    def means(self, path: str = "full") -> Numbers:
        """I(d) `[n]`; NaN where no target has a node at that distance."""
        sizes = self.shell_sizes
        each = np.divide(self.totals[path], sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)
        reached = (sizes > 0).any(0)
        return np.where(reached, np.nansum(each, 0) / np.maximum((sizes > 0).sum(0), 1), np.nan)

    def relative(self, path: str = "full") -> Numbers:
        """I(d) / I(0), of the averaged curves."""
        curve = self.means(path)
        return curve / curve[0] if curve[0] > 0 else np.full_like(curve, np.nan)

    def range(self, path: str = "full") -> float:
        """R, the mean distance that influence comes from; NaN where no target has any."""
        totals = self.totals[path]
        sums = totals.sum(1)
        heard = sums > 0
        if not heard.any():
            return float("nan")
        return float((totals[heard] @ np.arange(totals.shape[1]) / sums[heard]).mean())

    @property
    def silent(self) -> float:
        """The share of targets whose score does not even depend on their own features."""
        return float((self.totals["full"][:, 0] < SILENT).mean())

    def to_frame(self) -> pd.DataFrame:
        """A row per path and distance."""
        rows = []
        for path in self.totals:
            mean, relative, total = self.means(path), self.relative(path), self.totals[path].mean(0)
            rows += [
                {
                    "path": path,
                    "distance": d,
                    "mean": mean[d],
                    "relative": relative[d],
                    "total": total[d],
                    "relative_total": total[d] / total[0] if total[0] > 0 else np.nan,
                    "nodes": self.shell_sizes[:, d].mean(),
                    "range": self.range(path),
                }
                for d in range(len(mean))
            ]
        return make_frame(rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """I(d) / I(0) (left) and T(d) / T(0) (right) by distance, on logarithmic scales."""
        figure, (left, right) = new_figure(2)
        for colour, name in zip(COLOURS, self.totals, strict=False):
            label = f"{PATHS[name]}, R = {self.range(name):.2f} hops"
            total = self.totals[name].mean(0)
            for axis, curve in ((left, self.relative(name)), (right, total / total[0])):
                shown = np.where(curve > 0, curve, np.nan)  # what is 0 has no place on such a scale
                axis.plot(shown, "o-" if name == "full" else "s--", color=colour, markersize=4, label=label)
        left.set(ylabel="I(d) / I(0)", title="of one node")
        right.set(ylabel="T(d) / T(0)", title="of all nodes at a distance")
        for axis in (left, right):
            axis.set(xlabel="distance d in hops", yscale="log")
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside lower center", frameon=False, fontsize=8
        )
        return finish_figure(figure, f"Influence on the {self.of} of {len(self.targets)} nodes", path)


def measure_influence(
    model: nn.Module,
    graph: Any,
    *,
    targets: int = 64,
    among: Tensor | None = None,
    of: str = "margin",
    max_distance: int = 10,
    seed: int = 0,
) -> Influence:
    """How much the features of nodes at each distance move what a model says of a node.

    Args:
        model: any model of the library, trained.
        graph: PyG's `Data`, or a `polynsd.data.Graph`; classes `y` are needed for the margin of the true one,
            otherwise it is that of the predicted class.
        targets: how many nodes to look from; at most all.
        among: `[N]` mask of the nodes that may be targets, such as the test nodes; all unless given.
        of: `margin`, `logit`, `log-prob`, or `jacobian` for the measure of City-Networks.
        max_distance: the farthest shell; what is farther is left out.
        seed: of the targets.
    """
    require_choice("of", of, SCORES)
    require_at_least("targets", targets, 1)
    require_at_least("max_distance", max_distance, 0)
    data = as_data(graph, model)
    nodes = _draw_targets(data.num_nodes, targets, among, seed)
    topology = as_topology(data.edge_index, data.num_nodes)
    row, col = (t.cpu().numpy() for t in (topology.row, topology.col))
    adjacency = sparse.csr_array((np.ones(len(row), np.float32), (row, col)), shape=(data.num_nodes,) * 2)
    has_frozen = any(_learns_maps(module) for module in model.modules())
    note = NO_FROZEN if has_frozen and isinstance(model, SheafODE) else ""
    paths = list(PATHS) if has_frozen and not note else ["full"]
    with eval_mode(model), torch.no_grad():  # of parameters; vjp has its own
        norms = {path: Gradients(model, data, of, is_frozen=path == "frozen") for path in paths}
        totals: dict[str, list[Numbers]] = {path: [] for path in paths}
        sizes = []
        for some in np.array_split(nodes, max(1, len(nodes) // SEVERAL)):
            shells = _shells(adjacency, some, max_distance)
            sizes.append(_sum_shells(np.ones((len(some), data.num_nodes)), shells, max_distance))
            for path in paths:
                totals[path].append(_sum_shells(norms[path](some), shells, max_distance))
    shell_sizes = np.concatenate(sizes).astype(np.int64)
    return Influence(of, nodes, shell_sizes, {path: np.concatenate(totals[path]) for path in paths}, note)


def _learns_maps(module: nn.Module) -> bool:
    return isinstance(module, SheafLayer) and module.config.family.is_learned and module.learner is not None


def _draw_targets(num_nodes: int, count: int, among: Tensor | None, seed: int) -> NDArray[np.int64]:
    if among is not None and among.shape != (num_nodes,):
        raise DataError(f"among must be a mask of the {num_nodes} nodes; got shape {list(among.shape)}.")
    allowed = np.arange(num_nodes) if among is None else among.cpu().nonzero().squeeze(-1).numpy()
    if not len(allowed):
        raise DataError("there is no node to look from: the mask of targets, or the graph, is empty.")
    return np.sort(np.random.default_rng(seed).choice(allowed, min(count, len(allowed)), replace=False))


def _shells(adjacency: Any, nodes: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """`[t, N]` the distance of every node, limit + 1 where it is farther."""
    hops = dijkstra(adjacency, unweighted=True, indices=nodes, limit=limit)
    return np.where(np.isfinite(hops), hops, limit + 1).astype(np.int64)


def _sum_shells(values: Numbers, shells: NDArray[np.int64], limit: int) -> Numbers:
    """`[t, limit + 1]` sums of values `[t, N]` over nodes of equal distance."""
    pairs = zip(shells, values, strict=True)
    return np.stack([np.bincount(at, one, minlength=limit + 2)[: limit + 1] for at, one in pairs])


class Gradients:
    """G_uv `[t, N]` of targets, from one forward pass and a backward pass per target.

    A model that begins with a linear map, pre = X Wᵀ + b, is differentiated by pre: with g = ∂s/∂pre,
    ‖∂s/∂x_u‖² = g_uᵀ (W Wᵀ) g_u, and nothing of size N × F is made.
    """

    def __init__(self, model: nn.Module, data: Any, of: str, is_frozen: bool) -> None:
        self.of, self.y = of, data.get("y")
        # on a CPU one pass after the other is faster; steps in time are computed again, one pass at a time
        self.is_batched = data.x.is_cuda and not hasattr(model, "ode")
        start, rest, self.weight = _split_model(model, data)

        def freeze(layer: SheafLayer, x: Tensor, L: Laplacian, trunk: Tensor | None) -> Tensor:
            return layer.update(x, L.detach(), trunk)

        def call(pre: Tensor) -> Tensor:
            if not is_frozen:
                return rest(pre)
            with hook_layers(model, freeze):
                return rest(pre)

        self.output, self.pull_back = torch.func.vjp(call, start)  # type: ignore[misc]
        self.gram = None if self.weight is None else self.weight @ self.weight.mT

    def __call__(self, nodes: NDArray[np.int64]) -> Numbers:
        targets = torch.from_numpy(nodes).to(self.output.device)
        norms = [self._norms(self._at_nodes(targets, slopes)) for slopes in self._slopes(targets)]
        return torch.stack(norms).sum(0).cpu().double().numpy()

    def _slopes(self, nodes: Tensor) -> list[Tensor]:
        """∂s_v/∂f(v) `[t, O]`; of the Jacobian one for each output."""
        values = self.output.detach()[nodes]
        eye = torch.eye(values.size(-1), dtype=values.dtype, device=values.device)
        if self.of == "jacobian":
            return [row.expand_as(values) for row in eye]
        if len(eye) == 1 or (self.y is not None and self.y.is_floating_point()):
            return [torch.ones_like(values)]
        known = values.argmax(-1) if self.y is None else self.y[nodes]
        chosen = torch.where(known >= 0, known, values.argmax(-1))
        slopes = eye[chosen]
        if self.of == "margin":
            slopes = slopes - eye[values.masked_fill(slopes.bool(), -torch.inf).argmax(-1)]
        if self.of == "log-prob":
            slopes = slopes - values.softmax(-1)
        return [slopes]

    def _at_nodes(self, nodes: Tensor, slopes: Tensor) -> Tensor:
        """The cotangents `[t, N, O]`."""
        whole = slopes.new_zeros(len(nodes), *self.output.shape)
        whole[torch.arange(len(nodes), device=nodes.device), nodes] = slopes
        return whole

    def _norms(self, cotangents: Tensor) -> Tensor:
        """`[t, N]`."""
        if self.is_batched:
            return self._norm(torch.vmap(lambda one: self.pull_back(one)[0])(cotangents))
        return torch.stack([self._norm(self.pull_back(one)[0]) for one in cotangents])

    def _norm(self, g: Tensor) -> Tensor:
        """From ∂s/∂pre `[..., N, P]` to the norm of ∂s/∂x `[..., N]`."""
        if self.of == "jacobian":
            if self.weight is None:
                return g.abs().sum(-1)
            rows = max(1, CHUNK // self.weight.size(1))
            flat = torch.cat([(part @ self.weight).abs().sum(-1) for part in g.flatten(0, -2).split(rows)])
            return flat.reshape(g.shape[:-1])
        if self.gram is None:
            return g.norm(dim=-1)
        return ((g @ self.gram) * g).sum(-1).clamp(min=0).sqrt()


def _split_model(model: nn.Module, data: Any) -> tuple[Tensor, Callable[[Tensor], Tensor], Tensor | None]:
    """(pre, what follows it, W) of a PolyNSD or SheafODE; (x, the model, None) of others."""
    if isinstance(model, SheafModel) and isinstance(model.encoder, nn.Linear):
        graph = graph_input(model, data)
        with torch.no_grad():
            pre = encode_features(model.encoder, data.x, 0.0, False)
        return pre, lambda pre: model.propagate(model.start(pre), graph), model.encoder.weight.detach()
    require_dense(data.x)

    def call(x: Tensor) -> Tensor:
        other = copy.copy(data)
        other.x = x
        return call_model(model, other)

    return data.x, call, None
