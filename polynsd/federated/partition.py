"""A graph divided among clients: what each of them has, and nothing else.

    partition = partition_graph(load("cora"), clients=10, method="louvain", seed=0)
    partition.to_frame()                # nodes, edges, cut edges, classes, homophily of every client
    partition.save("clients")           # client-0.npz, …: graph archives; partition.json seals them
    Partition.load("clients");          load_client("clients", 3)

A client has the subgraph that its nodes induce, so edges between clients belong to nobody. Its nodes are
divided into train, val and test class by class: ⌊r_train·n_c⌋, ⌊r_val·n_c⌋, and the rest. Where clients
share nodes, these are divided once, in the whole graph: no client is tested on what another was trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.describe import class_sizes, heterophily
from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS, SUM_TOLERANCE, Fractions, Masks
from polynsd.data.transforms import apply
from polynsd.documents import read_bytes, read_json
from polynsd.errors import ConfigError, DataError
from polynsd.federated.communities import Nodes, divide_nodes, induced_subgraph, split_by_class
from polynsd.runs.files import encode_json, make_folder, to_json, write_durably

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
MANIFEST = "partition.json"

PLANETOID = (0.2, 0.4, 0.4)  # and Questions
USUAL = (0.5, 0.2, 0.3)
FRACTIONS: Mapping[str, Fractions] = dict.fromkeys(("cora", "citeseer", "pubmed", "questions"), PLANETOID)


@dataclass(frozen=True, eq=False)
class Partition:
    """The graphs of all clients.

    Args:
        name: of the graph that was divided.
        graphs: of the clients: features, labels, masks `default` of one split, ids of the whole graph.
        nodes: of every client, their numbers in the whole graph.
        num_classes: of the whole graph; a client may lack some.
        num_edges: of the whole graph.
        cut_edges: of every client, edges between one of its nodes and a node that it has not.
        settings: how it was made.
        source: the file of the graph that was divided; None where its name is that of a benchmark.
    """

    name: str
    graphs: tuple[Graph, ...]
    nodes: tuple[Nodes, ...]
    num_classes: int
    num_edges: int
    cut_edges: tuple[int, ...]
    settings: Mapping[str, Any]
    source: str | None = None

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def digest(self) -> str:
        """SHA-256 of nodes and masks of all clients, and of the rule of their features: equal for equal
        partitions, on every machine.
        """
        found = hashlib.sha256(str(self.settings.get("features", "")).encode())
        for nodes, graph in zip(self.nodes, self.graphs, strict=True):
            found.update(np.ascontiguousarray(nodes, dtype="<i8").tobytes())
            for part in PARTS:
                found.update(np.packbits(getattr(graph.masks["default"], part)).tobytes())
        return found.hexdigest()

    @property
    def split_digest(self) -> str:
        """SHA-256 of the nodes that are trained on, validated and tested, whichever client has them."""
        found = hashlib.sha256()
        for part in PARTS:
            chosen = [
                nodes[getattr(graph.masks["default"], part)[0]]
                for nodes, graph in zip(self.nodes, self.graphs, strict=True)
            ]
            found.update(np.unique(np.concatenate(chosen)).astype("<i8").tobytes() + b"|")
        return found.hexdigest()

    def statistics(self) -> list[dict[str, Any]]:
        """What `to_frame` tells, by client."""
        rows = []
        for client, (graph, cut) in enumerate(zip(self.graphs, self.cut_edges, strict=True)):
            sizes, masks = class_sizes(graph), graph.masks["default"]
            rows.append(
                {
                    "client": client,
                    "nodes": graph.num_nodes,
                    "edges": graph.num_edges,
                    "cut_edges": cut,
                    "classes": int((sizes > 0).sum()),
                    "largest_class": float(sizes.max() / sizes.sum()) if sizes.any() else float("nan"),
                    "homophily": 1 - heterophily(graph),
                    **{part: int(getattr(masks, part).sum()) for part in PARTS},
                }
            )
        return rows

    def to_frame(self) -> pd.DataFrame:
        """A row per client: nodes, edges, cut edges, classes, share of the largest, homophily, parts."""
        from polynsd.diagnostics.result import make_frame

        return make_frame(self.statistics())

    def plot(self, path: str | Path | None = None) -> Any:
        """Nodes of every class (left), edges kept and cut (middle), homophily (right), by client."""
        from polynsd.diagnostics.result import finish_figure, new_figure
        from polynsd.palette import ACCENT, COLOURS, OURS

        rows, names = self.statistics(), np.arange(len(self))
        figure, (left, middle, right) = new_figure(3)
        counts = np.zeros((len(self), self.num_classes))
        for client, graph in enumerate(self.graphs):
            counts[client, : graph.num_classes] = class_sizes(graph)
        kinds = self.graphs[0].class_names or tuple(str(label) for label in range(self.num_classes))
        below = np.zeros(len(self))
        for label in range(self.num_classes):
            colour = COLOURS[label % len(COLOURS)]
            left.bar(names, counts[:, label], bottom=below, color=colour, label=kinds[label])
            below += counts[:, label]
        beside = {"loc": "upper left", "bbox_to_anchor": (1, 1), "ncols": 1 + self.num_classes // 20}
        left.legend(title="class", title_fontsize=7, fontsize=7, frameon=False, **beside)
        edges, cut = ([row[key] for row in rows] for key in ("edges", "cut_edges"))
        middle.bar(names, edges, color=OURS, label="inside")
        middle.bar(names, cut, bottom=edges, color=ACCENT, label="cut")
        middle.legend(fontsize=7, frameon=False)
        right.bar(names, [row["homophily"] for row in rows], color=OURS)
        left.set(title="labelled nodes, by class", ylabel="nodes")
        middle.set(title="edges", ylabel="edges")
        right.set(title="edges between nodes of one class", ylim=(0, 1))
        for axis in (left, middle, right):
            axis.set_xlabel("client")
            axis.set_xticks(names)
        return finish_figure(figure, f"{self.name}, {len(self)} clients", path)

    def save(self, folder: str | Path) -> Path:
        """Writes an archive per client, then `partition.json` with their hashes; refuses a folder in use."""
        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise ConfigError(f"{folder} holds a partition already; choose another folder or delete it.")
        make_folder(folder)
        files = {}
        for client, graph in enumerate(self.graphs):
            extras = {**graph.extras, "node_numbers": self.nodes[client]}
            path = save_graph(folder / f"client-{client}.npz", replace(graph, extras=extras))
            files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        content = {
            "format": FORMAT,
            "name": self.name,
            "digest": self.digest,
            "num_classes": self.num_classes,
            "num_edges": self.num_edges,
            "cut_edges": list(self.cut_edges),
            "settings": to_json(dict(self.settings), "settings"),
            "source": self.source,
            "files": files,
        }
        write_durably(folder / MANIFEST, encode_json(content))
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Partition:
        """The partition that `save` has written; files that were changed since are refused."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        graphs = tuple(_read_client(folder, manifest, client) for client in range(len(manifest["files"])))
        nodes = tuple(graph.extras["node_numbers"] for graph in graphs)
        found = cls(
            manifest["name"],
            graphs,
            nodes,
            manifest["num_classes"],
            manifest["num_edges"],
            tuple(manifest["cut_edges"]),
            manifest["settings"],
            manifest.get("source"),
        )
        if found.digest != manifest["digest"]:
            raise DataError(f"{folder / MANIFEST} is damaged: its digest is not that of the clients.")
        return found


def load_client(folder: str | Path, client: int) -> Graph:
    """The graph of one client; the archives of the others need not be there."""
    return _read_client(Path(folder), _read_manifest(Path(folder)), client)


def partition_dataset(
    dataset: str, features: str | None = None, seeds: Sequence[int] = (0,), **options: Any
) -> list[Partition]:
    """Divides a benchmark or a graph file among clients, once for every seed.

    Args:
        dataset: a name, or a path that the partition remembers.
        features: how they are preprocessed; as the benchmark's are, or not at all, unless given.
        seeds: of the partitions.
        options: of `partition_graph`.
    """
    graph, entry, _ = open_graph(dataset)
    rule = features or ("raw" if entry is None else entry.preprocessing)
    source = None if entry is not None else str(Path(dataset).resolve())
    return [
        replace(partition_graph(graph, seed=seed, features=rule, **options), source=source) for seed in seeds
    ]


def partition_graph(
    graph: Graph,
    clients: int = 10,
    method: str = "louvain",
    seed: int = 0,
    *,
    delta: int = 20,
    alpha: float = 0.5,
    fractions: Fractions | None = None,
    features: str | None = None,
) -> Partition:
    """Divides a graph among clients.

    Args:
        graph: with class labels.
        clients: K.
        method: `louvain`, `metis`, `labels` or `overlapping`; see `polynsd.federated.communities`.
        seed: of nodes and splits; the same seed gives the same partition on every machine.
        delta: of `louvain`, how far the sizes of clients may be from ⌊N/K⌋.
        alpha: of `labels`, the concentration of Dirichlet's distribution.
        fractions: train, val, test; (0.2, 0.4, 0.4) for citation graphs and (0.5, 0.2, 0.3) for others unless
            given.
        features: how features are preprocessed before (`polynsd.data.transforms`), kept among the settings;
            they stay as they are, and nothing is said of them, unless given.

    Raises:
        ConfigError: an argument is out of its domain.
        DataError: the graph has no classes, or a client would have no node of a part.
    """
    if not graph.num_classes:
        raise DataError(f"federated training needs class labels; '{graph.name}' has none.")
    fractions = FRACTIONS.get(graph.name, USUAL) if fractions is None else fractions
    _check_fractions(fractions)
    graph = graph if features is None else apply(features, graph)
    nodes = divide_nodes(graph, clients, method, seed, delta, alpha)
    shared = split_by_class(graph, fractions, np.random.default_rng([seed, clients]))
    is_shared = sum(map(len, nodes)) > len(np.unique(np.concatenate(nodes)))
    graphs, cuts = [], []
    for client, some in enumerate(nodes):
        subgraph, cut = induced_subgraph(graph, some)
        if is_shared:
            masks = Masks(*(mask[None, some] for mask in shared))
        else:
            rng = np.random.default_rng([seed, client])
            masks = Masks(*(mask[None] for mask in split_by_class(subgraph, fractions, rng)))
        _require_parts(client, masks)
        graphs.append(replace(subgraph, name=f"{graph.name}-{client}", masks={"default": masks}))
        cuts.append(cut)
    settings = {"clients": clients, "method": method, "seed": seed, "fractions": list(fractions)}
    settings |= {"delta": delta} if method == "louvain" else {}
    settings |= {"alpha": alpha} if method == "labels" else {}
    settings |= {} if features is None else {"features": features}
    return Partition(
        graph.name, tuple(graphs), tuple(nodes), graph.num_classes, graph.num_edges, tuple(cuts), settings
    )


def _check_fractions(fractions: Sequence[float]) -> None:
    is_valid = len(fractions) == len(PARTS) and all(fraction > 0 for fraction in fractions)
    if not is_valid or abs(sum(fractions) - 1) > SUM_TOLERANCE:
        raise ConfigError(
            f"fractions must be three positive numbers (train, val, test) of sum 1; got {tuple(fractions)!r}."
        )


def _require_parts(client: int, masks: Masks) -> None:
    for part in PARTS:
        if not getattr(masks, part).any():
            raise DataError(
                f"client {client} would have no {part} node: it has too few nodes of every class. Ask for "
                "fewer clients, other fractions or another method."
            )


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{folder} holds no partition: there is no {MANIFEST}. Make one: polynsd federated partition."
        )
    manifest = read_json(path)
    names = manifest.get("files")
    is_right = (
        manifest.get("format") == FORMAT
        and isinstance(names, dict)
        and {f"client-{client}.npz" for client in range(len(names))} == set(names)
        and all(isinstance(manifest.get(key), dict) for key in ("settings", "files"))
        and isinstance(manifest.get("cut_edges"), list)
        and len(manifest["cut_edges"]) == len(names)
        and all(isinstance(manifest.get(key), int) for key in ("num_classes", "num_edges"))
        and all(isinstance(manifest.get(key), str) for key in ("name", "digest"))
        and isinstance(manifest.get("source"), str | None)
    )
    if not is_right:
        raise DataError(f"{path} is damaged: it describes no partition of format {FORMAT}.")
    return manifest


def _read_client(folder: Path, manifest: Mapping[str, Any], client: int) -> Graph:
    files = manifest["files"]
    if not 0 <= client < len(files):
        raise ConfigError(f"{folder} holds {len(files)} clients, numbered from 0; got {client}.")
    path = folder / f"client-{client}.npz"
    if hashlib.sha256(read_bytes(path)).hexdigest() != files[path.name]:
        raise DataError(f"{path} is damaged: it is not the file that {MANIFEST} names.")
    graph = load_graph(path, extras=True)
    if "default" not in graph.masks or "node_numbers" not in graph.extras:
        raise DataError(f"{path} has no split or no node numbers. Make the partition again.")
    return graph
