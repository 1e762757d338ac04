"""Where a client's graph comes from: an archive of a partition, or tables of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polynsd.data.graph import Graph
from polynsd.data.protocols import get_split
from polynsd.data.splits import PARTS, Masks
from polynsd.data.tables import ReadOptions, TableSchema, TextFormat, read_tables_like
from polynsd.data.tables.encoder import FeatureEncoder
from polynsd.data.tables.files import read_table
from polynsd.documents import read_json
from polynsd.errors import DataError
from polynsd.federated.partition import MANIFEST, load_client
from polynsd.federated.payload import ClientData
from polynsd.runs.files import compact_json

if TYPE_CHECKING:
    from polynsd.federated.site import Site

OWN_SPLIT = "stratified(0.6, 0.2, 0.2)"


def open_archive(path: str | Path, name: str | None = None, device: str = "cpu") -> Site:
    """A client of `polynsd federated partition`; its folder must hold `partition.json` too."""
    from polynsd.federated.site import Site  # needs Flower, which finished runs do not

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
    """
    from polynsd.federated.site import Site

    names = [name for name in list(read_table(nodes, TextFormat()).frame.columns)[1:] if name != label]
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
