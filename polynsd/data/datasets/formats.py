"""The files that publishers offer, read into graphs; no reader executes anything that a file holds.

    read_files("geom-gcn", {"nodes": path, "edges": path, "split 0": path, …}).to_graph("texas")

Publishers give edges in one direction or both, some with loops, and masks as rows or as node numbers; here
all of that becomes one form: edges once, masks [S, N], label −1 for none.

| reader              | files                                                             | publisher       |
|---------------------|-------------------------------------------------------------------|-----------------|
| `geom-gcn`          | two texts, a `.npz` file per split                                | Geom-GCN        |
| `geom-gcn-words`    | the same; a node has a list of its words in place of numbers      | Geom-GCN        |
| `planetoid`         | pickles of arrays and matrices, a text; splits of Geom-GCN        | Planetoid       |
| `heterophilous`     | one `.npz` file with splits                                       | Platonov et al. |
| `shchur`, `twitch`  | one `.npz` file                                                   | Shchur, MUSAE   |
| `facebook`          | a MATLAB file; for Penn94 splits as a pickle                      | LINKX           |
| `city`              | a `.tar.gz` file of tensors                                       | City-Networks   |
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.datasets.matlab import read_matlab
from polynsd.data.datasets.npz import NpzReader
from polynsd.data.datasets.pickles import read_object_array, read_pickle
from polynsd.data.edges import merge_edges
from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS, Masks, mask_keys
from polynsd.errors import DataError
from polynsd.memory import memory_budget, require_memory
from polynsd.sparse import check_pointers

Array = NDArray[Any]
Files = Mapping[str, Path]
NUM_VALIDATION = 500  # of Planetoid's public split, right after the training nodes
LINE_BYTES = 50  # of a byte of text that is split into numbers, measured
PAIR_BYTES = 150  # of a pair of numbers in a list of Python
NODE_BYTES = 100  # of a node, in the arrays of a split
SPARSE_BELOW = 0.125  # share of non-zero features under which they are kept as CSR
PIECE = 1 << 14  # bytes that are unpacked together
TENSOR_COPIES = 4  # the packed bytes, the unpacked ones, a tensor, an array
CITY_TENSORS = {
    "x": "node_features_augmented.pt",
    "edges": "edge_indices.pt",
    "y": "10-chunk_16-hop_node_labels.pt",
    **dict(zip(PARTS, ("train_mask.pt", "valid_mask.pt", "test_mask.pt"), strict=True)),
}


@dataclass
class RawGraph:
    """Edges [2, *] in any direction and number, features [N, F], class numbers [N] or −1, and splits."""

    edges: Array
    x: Any
    y: Array
    masks: dict[str, Masks] = field(default_factory=dict)

    def check(self) -> None:
        """Raises unless all refers to the same N nodes."""
        num_nodes = self.x.shape[0]
        if self.edges.ndim != 2 or len(self.edges) != 2 or self.edges.dtype.kind not in "iu":
            raise DataError(
                f"expected pairs of node numbers; got {self.edges.dtype}{list(self.edges.shape)}."
            )
        if self.x.ndim != 2 or self.y.size != num_nodes or self.y.dtype.kind not in "iuf":
            raise DataError(f"expected a class for each of {num_nodes} nodes; got {list(self.y.shape)}.")
        if self.edges.size and not 0 <= self.edges.min() <= self.edges.max() < num_nodes:
            raise DataError(f"expected node numbers below {num_nodes}; got {self.edges.max()}.")

    def to_graph(self, name: str) -> Graph:
        x = sparse.csr_matrix(self.x, dtype=np.float32)
        x.sum_duplicates()
        x.eliminate_zeros()
        num_nodes, num_features = x.shape
        return Graph(
            name=name,
            edge_index=merge_edges(self.edges, num_nodes).edge_index.astype(np.int32),
            num_nodes=num_nodes,
            x=x if x.nnz < SPARSE_BELOW * num_nodes * num_features else x.toarray(),
            y=np.ascontiguousarray(self.y.reshape(-1), dtype=np.int64),
            masks=self.masks,
        )


def read_files(reader: str, files: Files) -> RawGraph:
    """The graph in these files; damage of any kind is a `DataError`."""
    try:
        raw = READERS[reader](files)
        raw.check()
        return raw
    except DataError:
        raise
    except Exception as error:  # parsers raise anything on damaged files
        raise DataError(
            f"expected files of the kind '{reader}'; reading failed with {type(error).__name__}: "
            f"{' '.join(str(error).split())[:160]}. They are damaged, or their publisher has changed them."
        ) from error


def _read_geom_gcn(files: Files, words: bool = False) -> RawGraph:
    """A line per node (number, features, class) and per edge, each under a header."""
    rows = sorted((int(node), values, int(label)) for node, values, label in _read_lines(files["nodes"]))
    if [node for node, *_ in rows] != list(range(len(rows))):
        raise DataError(f"nodes must be numbered from 0 to {len(rows) - 1}, each once.")
    lists = [values.split(",") for _, values, _ in rows]
    if words:
        columns = [np.array(values, dtype=np.int64) for values in lists]
        indptr = np.cumsum([0, *map(len, columns)])
        x = sparse.csr_matrix((np.ones(indptr[-1], np.float32), np.concatenate(columns), indptr))
        x.sum_duplicates()
        x.data[:] = 1
    else:
        x = np.array(lists, dtype=np.float32)
    edges = np.array(list(_read_lines(files["edges"])), dtype=np.int64).T
    return RawGraph(edges, x, np.array([label for *_, label in rows]), {"default": _read_splits(files)})


def _read_lines(path: Path) -> list[list[str]]:
    require_memory(LINE_BYTES * path.stat().st_size, path.name)
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]


def _read_splits(files: Files) -> Masks:
    """The files `split 0`, `split 1`, …: numbers or booleans, one for each node."""
    count = sum(name.startswith("split ") for name in files)
    splits = [_read_arrays(files[f"split {number}"], mask_keys("default")) for number in range(count)]
    parts = zip(*splits, strict=True)
    return Masks(*(np.stack([mask.reshape(-1) for mask in masks]).astype(bool) for masks in parts))


def _read_planetoid(files: Files) -> RawGraph:
    """Test nodes have consecutive numbers but for those that exist as names in the citation list only.

    Those get no features and the label −1, and belong to no split.
    """
    tx, allx = (read_pickle(files[name], sparse.csr_matrix).astype(np.float32) for name in ("tx", "allx"))
    train, ty, ally = (read_pickle(files[name], np.ndarray) for name in ("y", "ty", "ally"))
    tested = np.array(files["test.index"].read_text(encoding="ascii").split(), dtype=np.int64)
    num_nodes, num_others = int(tested.max()) + 1, allx.shape[0]
    if tested.min() != num_others or len(tested) != tx.shape[0]:
        raise DataError(f"expected {tx.shape[0]} test nodes from number {num_others} on; got {len(tested)}.")
    require_memory(NODE_BYTES * num_nodes, f"a graph of {num_nodes:,} nodes")
    order = np.full(num_nodes - num_others, -1)
    order[tested - num_others] = np.arange(len(tested))
    blank = sparse.csr_matrix((1, tx.shape[1]), dtype=np.float32)
    x = sparse.vstack([allx, sparse.vstack([tx, blank]).tocsr()[order]]).tocsr()
    labels = np.where(order < 0, -1, ty.argmax(1)[order])
    nodes = np.arange(num_nodes)
    test = np.isin(nodes, tested)
    validation = (nodes >= len(train)) & (nodes < len(train) + NUM_VALIDATION)
    public = Masks(*(mask[None] for mask in (nodes < len(train), validation, test)))
    is_real, splits = (nodes < num_others) | test, _read_splits(files)
    default = Masks(*(mask & is_real for mask in splits.parts))
    citations = read_pickle(files["graph"], dict)
    num_pairs = sum(map(len, citations.values()))
    require_memory(PAIR_BYTES * num_pairs, f"{num_pairs:,} citations")
    pairs = [(source, target) for source, targets in citations.items() for target in targets]
    return RawGraph(
        np.array(pairs, dtype=np.int64).T,
        x,
        np.concatenate([ally.argmax(1), labels]),
        {"default": default, "public": public},
    )


def _read_heterophilous(files: Files) -> RawGraph:
    names = ["edges", "node_features", "node_labels", *(f"{part}_masks" for part in PARTS)]
    edges, x, y, *masks = _read_arrays(files["data"], names)
    return RawGraph(edges.T, x, y, {"default": Masks(*(mask.astype(bool) for mask in masks))})


def _read_shchur(files: Files) -> RawGraph:
    """Two matrices in CSR form; as PyG does, an attribute is there or not."""
    parts = ("data", "indices", "indptr", "shape")
    names = ["labels", *(f"{matrix}_{part}" for matrix in ("attr", "adj") for part in parts)]
    y, *arrays = _read_arrays(files["data"], names)
    x, adjacency = (_to_csr(*arrays[start : start + 4]) for start in (0, 4))
    x.data = np.where(x.data > 0, 1, x.data)
    return RawGraph(np.stack(adjacency.nonzero()), x, y)


def _to_csr(data: Array, indices: Array, indptr: Array, shape: Array) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
    check_pointers(matrix)
    return matrix


def _read_twitch(files: Files) -> RawGraph:
    edges, x, y = _read_arrays(files["data"], ["edges", "features", "target"])
    return RawGraph(edges.T, x, y)


def _read_arrays(path: Path, names: Sequence[str]) -> list[Array]:
    return list(NpzReader(path, only=names).read(names).values())


def _read_facebook(files: Files) -> RawGraph:
    """Column 1 of the table is the gender, 0 where it is missing; the others are categories."""
    content = read_matlab(files["data"], ("A", "local_info"))
    table = content["local_info"].astype(np.int64)
    rows = np.arange(len(table))
    columns = [
        sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, np.unique(column, return_inverse=True)[1])))
        for column in np.delete(table, 1, axis=1).T
    ]
    raw = RawGraph(np.stack(content["A"].nonzero()), sparse.hstack(columns).tocsr(), table[:, 1] - 1)
    if "splits" in files:
        splits = read_object_array(files["splits"])
        keys = ("train", "valid", "test")
        raw.masks["default"] = Masks(
            *(np.stack([_to_mask(_to_array(split[key]), len(rows)) for split in splits]) for key in keys)
        )
    return raw


def _read_city(files: Files) -> RawGraph:
    """Tensors; masks as booleans or as lists of node numbers."""
    tensors: dict[str, Array] = {}
    _require_unpacked_memory(files["data"])
    with tarfile.open(files["data"], "r:gz") as archive:
        for member in archive:
            name = next((key for key, file in CITY_TENSORS.items() if Path(member.name).name == file), None)
            stream = archive.extractfile(member) if name and member.isfile() else None
            if name is None or stream is None:
                continue
            tensors[name] = _read_tensor(stream.read(), member.name)
    missing = [file for key, file in CITY_TENSORS.items() if key not in tensors]
    if missing:
        raise DataError(f"the archive has no {', '.join(missing)}. The publisher has changed it.")
    x = tensors["x"]
    masks = Masks(*(_to_mask(tensors[part], len(x))[None] for part in PARTS))
    return RawGraph(tensors["edges"], x, tensors["y"], {"default": masks})


def _require_unpacked_memory(path: Path) -> None:
    """Unpacks a `.gz` file of tensors, as far as the memory budget goes."""
    budget, total = memory_budget(), 0
    with gzip.open(path) as stream:
        while piece := stream.read(PIECE):
            total += len(piece)
            budget.require(TENSOR_COPIES * total, f"{path.name}, as far as it was read,")


def _read_tensor(content: bytes, name: str) -> Array:
    """The array in a file of `torch.save`, which may be a compressed zip file."""
    if is_zipfile(io.BytesIO(content)):
        with ZipFile(io.BytesIO(content)) as archive:
            total = sum(member.file_size for member in archive.infolist())
        require_memory(TENSOR_COPIES * total, name)
    tensor = torch.as_tensor(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    require_memory(tensor.numel() * tensor.element_size(), name)  # one value can stand for many
    return np.asarray(tensor.numpy())


def _to_array(values: Any) -> Array:
    """An array, or a flat list of whole numbers as one."""
    return values if isinstance(values, np.ndarray) else np.fromiter(values, np.int64)


def _to_mask(values: Array, num_nodes: int) -> NDArray[np.bool_]:
    """[N] booleans of a mask, or of a list of node numbers."""
    if values.shape == (num_nodes,) and np.isin(values, (0, 1)).all():
        return values.astype(bool)
    if values.ndim != 1 or values.dtype.kind not in "iu" or ((values < 0) | (values >= num_nodes)).any():
        raise DataError(
            f"expected a mask of shape [{num_nodes}] or node numbers below {num_nodes}; got "
            f"{values.dtype} of shape {list(values.shape)}. The publisher has changed the format."
        )
    mask = np.zeros(num_nodes, dtype=bool)
    mask[values] = True
    return mask


READERS: Mapping[str, Callable[[Files], RawGraph]] = {
    "geom-gcn": _read_geom_gcn,
    "geom-gcn-words": partial(_read_geom_gcn, words=True),
    "planetoid": _read_planetoid,
    "heterophilous": _read_heterophilous,
    "shchur": _read_shchur,
    "twitch": _read_twitch,
    "facebook": _read_facebook,
    "city": _read_city,
}
