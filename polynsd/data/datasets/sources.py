"""What the sources of the catalogue deliver, made into a `Graph`.

PyG's classes store both directions of an edge, some with loops, masks as [N], as [N, S] or as node
numbers; Planetoid gives the nodes without a label the class 0. Here all of that becomes one form:
edges once, masks [S, N], label −1 for none. For files of your own see `polynsd.data.tables`.

PyG reads pickles of some sources and does not check certificates; on a network you do not trust
put archives into the folder named by POLYNSD_DATA in place of downloading.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.datasets.download import TIMEOUT_SECONDS, fetch
from polynsd.data.datasets.entries import ArchiveOnly, NpzFile, PygDataset
from polynsd.data.graph import Features, Graph, Masks
from polynsd.data.splits import PARTS
from polynsd.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Array = NDArray[Any]

SPARSE_BELOW = 0.125  # share of non-zero features under which they are kept as CSR


@singledispatch
def obtain(source: object, name: str, cache: Path) -> Graph:
    """The graph `name` from its source; `cache` is a folder for what is downloaded on the way."""
    raise TypeError(f"no way to obtain a graph from a {type(source).__name__}.")


@obtain.register
def _(source: ArchiveOnly, name: str, cache: Path) -> Graph:
    raise DataError(f"it cannot be downloaded: {source.reason}")


@obtain.register
def _(source: NpzFile, name: str, cache: Path) -> Graph:
    file = fetch(source.url, cache / "downloads" / f"{name}.source.npz")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            masks = Masks(*(arrays[f"{part}_masks"].astype(bool) for part in PARTS))
            return make_graph(
                name, arrays["edges"].T, arrays["node_features"], arrays["node_labels"], {"default": masks}
            )
    finally:
        file.unlink()


@obtain.register
def _(source: PygDataset, name: str, cache: Path) -> Graph:
    # In a folder of its own each time: PyG takes a file left by a broken download for a whole one.
    with TemporaryDirectory(dir=cache, prefix=f"{name}-") as folder, _impatience():
        found = {key: _pyg_data(source, folder, extra) for key, extra in source.masks.items()}
    data = next(iter(found.values()))
    masks = {key: _pyg_masks(version) for key, version in found.items() if "train_mask" in version}
    graph = make_graph(name, data.edge_index.numpy(), data.x.numpy(), data.y.numpy(), masks)
    return _without_planetoid_fillers(graph) if source.dataset == "Planetoid" else graph


def make_graph(name: str, edges: Array, x: Array, y: Array, masks: Mapping[str, Masks]) -> Graph:
    """A graph of edges [2, *] in any direction and number, features [N, F] and class numbers."""
    return Graph(
        name=name,
        edge_index=edges_once(edges),
        num_nodes=len(x),
        x=_compact(x.astype(np.float32, copy=False)),
        y=np.ascontiguousarray(y.reshape(-1), dtype=np.int64),
        masks=masks,
    )


def edges_once(edges: Array) -> NDArray[np.int32]:
    """Every undirected edge once as u < v, in order, without loops."""
    low, high = np.sort(edges[:, edges[0] != edges[1]].astype(np.int64), axis=0)
    base = int(high.max(initial=0)) + 1
    numbers = np.unique(low * base + high)
    return np.stack(np.divmod(numbers, base)).astype(np.int32)


def as_masks(values: Array, num_nodes: int) -> NDArray[np.bool_]:
    """Masks [S, N] from masks [N] or [N, S] of any type, or from one list of node numbers."""
    if values.shape[:1] == (num_nodes,) and values.ndim <= 2 and np.isin(values, (0, 1)).all():
        return np.ascontiguousarray(values.reshape(num_nodes, -1).T, dtype=np.bool_)
    are_numbers = values.ndim == 1 and np.issubdtype(values.dtype, np.integer)
    if not are_numbers or (values.size and not 0 <= values.min() <= values.max() < num_nodes):
        raise DataError(
            f"expected masks of shape [{num_nodes}] or [{num_nodes}, S], or node numbers below {num_nodes}; "
            f"got {values.dtype} of shape {list(values.shape)}. The source has changed its format."
        )
    mask = np.zeros((1, num_nodes), dtype=np.bool_)
    mask[0, values] = True
    return mask


@contextmanager
def _impatience() -> Iterator[None]:
    """Bounds the wait for a silent server, for which PyG would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _pyg_data(source: PygDataset, folder: str, extra: Mapping[str, str]) -> Data:
    import torch_geometric.datasets

    dataset = getattr(torch_geometric.datasets, source.dataset, None)
    if dataset is None:
        raise DataError(
            f"the installed torch_geometric has no dataset {source.dataset}; update it with "
            "pip install -U torch_geometric"
        )
    return dataset(root=folder, **source.arguments, **extra)[0]


def _pyg_masks(data: Data) -> Masks:
    return Masks(*(as_masks(data[f"{part}_mask"].numpy(), int(data.num_nodes)) for part in PARTS))


def _compact(x: NDArray[np.float32]) -> Features:
    return sparse.csr_matrix(x) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x


def _without_planetoid_fillers(graph: Graph) -> Graph:
    """The graph with the label −1 for the rows that PyG fills in between the test nodes.

    Test nodes have consecutive numbers but for those that exist as names in the citation list only.
    """
    tested = graph.masks["public"].test[0]
    filler = ~tested
    filler[: tested.argmax()] = False
    filler[len(tested) - tested[::-1].argmax() :] = False
    masks = {
        key: Masks(*(getattr(masks, part) & ~filler for part in PARTS)) for key, masks in graph.masks.items()
    }
    labels = np.where(filler, -1, np.asarray(graph.y))
    return replace(graph, y=labels, masks=masks)
