"""The graph of a client: of a partition, of an archive, or of tables of its own; and all clients as one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from torch import Tensor

from polynsd.data.graph import Graph
from polynsd.data.protocols import get_split
from polynsd.data.splits import PARTS, Masks
from polynsd.data.tables import ReadOptions, TableSchema, TextFormat, read_tables_like
from polynsd.data.tables.encoder import FeatureEncoder
from polynsd.data.tables.files import read_table
from polynsd.documents import read_json
from polynsd.errors import DataError, guess_name
from polynsd.federated.partition import MANIFEST, Partition, load_client, partition_graph
from polynsd.runs.files import compact_json

if TYPE_CHECKING:
    from polynsd.federated.client_app import Site

OWN_SPLIT = "stratified(0.6, 0.2, 0.2)"


@dataclass(frozen=True)
class ClientData:
    """The graph of one client; nothing of it ever leaves the client."""

    x: Tensor  # [n, F]
    edge_index: Tensor  # [2, m] both directions of every edge
    y: Tensor  # [n] int64 classes, −1 where there is none
    train: Tensor  # [n] bool, as the two below
    val: Tensor
    test: Tensor
    num_classes: int  # of all clients

    def __post_init__(self) -> None:
        n = len(self.x)
        for name in ("y", "train", "val", "test"):
            if getattr(self, name).shape != (n,):
                raise DataError(f"{name} must have shape [{n}]; got {list(getattr(self, name).shape)}.")
        if not bool(self.train.any()):
            raise DataError("the client has no training node; use fewer clients or another partition.")

    @classmethod
    def of(cls, graph: Graph, num_classes: int) -> ClientData:
        """From a graph with labels and the masks `default`, of which the first split counts.

        Args:
            graph: e.g. one of a `Partition`.
            num_classes: of all clients.
        """
        if graph.y is None or graph.is_regression or "default" not in graph.masks:
            raise DataError(f"{graph.name} needs classes and masks 'default' to be a client's graph.")
        edges = torch.as_tensor(np.ascontiguousarray(graph.edge_index), dtype=torch.long)
        train, val, test = (
            torch.as_tensor(getattr(graph.masks["default"], part)[0].copy()) for part in PARTS
        )
        return cls(
            torch.as_tensor(graph.dense_x).clone(),
            torch.cat([edges, edges.flip(0)], 1),
            torch.as_tensor(graph.y).long().clone(),
            train,
            val,
            test,
            num_classes,
        )

    @property
    def num_nodes(self) -> int:
        return len(self.x)

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    def to(self, device: torch.device | str) -> ClientData:
        """The same on another device."""
        names = ("x", "edge_index", "y", "train", "val", "test")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def open_archive(path: str | Path, name: str | None = None, device: str = "cpu") -> Site:
    """A client of `polynsd federated partition`; its folder must hold `partition.json` too."""
    from polynsd.federated.client_app import Site  # needs Flower, which finished runs do not

    path = Path(path)
    number = path.stem.removeprefix("client-")
    if not number.isdigit():
        raise DataError(f"the archive of a client is called client-NUMBER.npz; got {path.name}.")
    graph = load_client(path.parent, int(number))
    classes = read_json(path.parent / MANIFEST)["num_classes"]
    names, kinds = (digest_columns(found or ()) for found in (graph.feature_names, graph.class_names))
    return Site(name or path.stem, ClientData.of(graph, classes), names, kinds, device)


def open_tables(
    edges: str | Path,
    nodes: str | Path,
    label: str,
    classes: Sequence[str],
    name: str | None = None,
    device: str = "cpu",
) -> Site:
    """A client with tables of its own. All columns of features must be numbers: their encoding is then the
    same for all clients without any of them telling what it holds.

    Args:
        edges: a table with a row per edge.
        nodes: a table with a row per node.
        label: its column of classes.
        classes: all classes of all clients, in an order that they agree on.
        name: of the client; that of the folder of its tables unless given.
        device: where it trains.

    Raises:
        DataError: there is no such column of classes, or a column of features is not of numbers.
    """
    from polynsd.federated.client_app import Site

    table = read_table(nodes, TextFormat())
    columns = table.columns[1:]
    if label not in columns:
        raise DataError(
            f"there is no column '{label}' in {nodes}; name the one of classes with --label: "
            f"{', '.join(columns) or 'it has ids alone'}.{guess_name(label, columns)}"
        )
    names = [name for name in columns if name != label]
    text = [name for name in names if table.column(name).read_numbers(None) is None]
    if text:
        shown = f"{', '.join(text[:5])}{', …' if text[5:] else ''}"
        raise DataError(
            f"columns of features must be numbers, so that all clients encode them alike; {nodes} has text "
            f"in {shown}. Leave these columns out, or encode them as numbers, at every client."
        )
    graph = read_like(edges, nodes, names, label, classes)
    split = get_split(graph, OWN_SPLIT, 0)
    masks = Masks(*(np.asarray(getattr(split, part))[None] for part in PARTS))
    data = ClientData.of(replace(graph, masks={"default": masks}), len(classes))
    name = name or Path(edges).resolve().parent.name
    return Site(name, data, digest_columns(names), digest_columns(classes), device)


def read_like(
    edges: str | Path | None,
    nodes: str | Path,
    names: Sequence[str],
    label: str | None = None,
    classes: Sequence[str] = (),
) -> Graph:
    """A graph whose features are these columns as they are, and whose classes have this order.

    Args:
        edges: a table with a row per edge; None for nodes without edges.
        nodes: a table with a row per node, whose first column holds ids.
        names: the columns of features.
        label: the column of classes; labels are not read unless given.
        classes: their names, in the order of their numbers.
    """
    ids = next(iter(read_table(nodes, TextFormat()).frame.columns))
    task = None if label is None else "classification"
    options = ReadOptions(label=label, id_column=ids, features=tuple(names), task=task or "auto")
    encoders = tuple(FeatureEncoder(name) for name in names)
    schema = TableSchema(options, encoders, task=task, class_names=tuple(classes) or None)
    result = read_tables_like(schema, edges, nodes)
    if result.report.filled:
        raise DataError(
            f"{nodes} has gaps in {', '.join(result.report.filled)}; fill them, all clients in the same way."
        )
    if result.unknown_labels:
        raise DataError(
            f"{result.unknown_labels} labels of {nodes} are none of the classes {', '.join(classes)}; name "
            "all classes of all clients, in the same order at every client."
        )
    return replace(result.graph, class_names=tuple(classes) or None)


def digest_columns(names: Sequence[str]) -> str:
    """A hash of names, to see whether clients have the same without telling them."""
    return hashlib.sha256(compact_json(list(names)).encode()).hexdigest()


def pool_clients(partition: Partition, graph: Graph | None = None) -> Partition:
    """All clients as one, for the centralised training that federated ones are compared with. It has their
    nodes and their splits, so that scores are on the same nodes.

    Args:
        partition: the clients.
        graph: the one that was divided: its edges between clients count too. Without it they stay cut.

    Raises:
        DataError: the graph is not the one that was divided, or some of its nodes belong to no client.
    """
    together = np.concatenate(partition.nodes)
    numbers, first = np.unique(together, return_index=True)  # where clients share a node, its split is one

    def collect(parts: Sequence[Any]) -> Any:
        if parts[0] is None:
            return None
        joined = vstack(parts).tocsr() if issparse(parts[0]) else np.concatenate(parts)
        return joined[first]

    graphs = partition.graphs
    masks = Masks(*(collect([getattr(g.masks["default"], part)[0] for g in graphs])[None] for part in PARTS))
    y = collect([client.y for client in graphs])
    edges: NDArray[np.integer[Any]]
    if graph is None:
        ends = [nodes[client.edge_index] for nodes, client in zip(partition.nodes, graphs, strict=True)]
        edges = np.unique(np.searchsorted(numbers, np.concatenate(ends, 1)), axis=1)  # clients may overlap
    else:
        if len(numbers) != graph.num_nodes or not np.array_equal(np.asarray(graph.y), y):
            raise DataError(
                f"the {len(numbers)} nodes of the clients are not the {graph.num_nodes} of '{graph.name}'; "
                "name the graph that was divided, or pool the clients without their cut edges."
            )
        edges = graph.edge_index
    pooled = replace(
        graphs[0],
        name=partition.name,
        edge_index=edges.astype(np.int64),
        num_nodes=len(numbers),
        x=collect([client.x for client in graphs]),
        y=y,
        masks={"default": masks},
        edge_weight=None,
        edge_attr=None,
        node_ids=collect([client.ids for client in graphs]),
        extras={},
    )
    settings = {**partition.settings, "division": "union" if graph is None else "whole"}
    cut = 0 if graph is not None else partition.num_edges - edges.shape[1]
    return replace(partition, graphs=(pooled,), nodes=(numbers,), cut_edges=(cut,), settings=settings)


def repeat_partition(graph: Graph, settings: Mapping[str, Any]) -> Partition:
    """The partition of a graph that has these settings, pooled or not."""
    options = dict(settings)
    division, fractions = options.pop("division", "clients"), tuple(options.pop("fractions"))
    partition = partition_graph(graph, fractions=fractions, **options)
    if division == "clients":
        return partition
    return pool_clients(partition, graph if division == "whole" else None)
