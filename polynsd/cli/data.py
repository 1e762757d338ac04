"""`polynsd data …`: what there is, what a graph is like, and ways in and out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from polynsd.data.describe import Description, describe_graph
from polynsd.errors import ConfigError
from polynsd.report import ProgressReporter, graph_figure, print_table

if TYPE_CHECKING:
    from polynsd.data.datasets.entries import Entry
    from polynsd.data.graph import Graph


@dataclass(frozen=True)
class DataList:
    """List the benchmark graphs: sizes, metric, protocols and where each was found."""

    def run(self) -> None:
        """Prints the catalogue."""
        from polynsd.data.datasets.catalogue import locate
        from polynsd.data.datasets.entries import ENTRIES

        rows = []
        for entry in ENTRIES.values():
            found = locate(entry.name)
            rows.append(
                (
                    entry.name,
                    *(_count(n) for n in (entry.nodes, entry.edges, entry.features, entry.classes)),
                    entry.metric,
                    ", ".join(entry.protocols),
                    "at hand" if found is not None else "to fetch",
                    "!" if entry.warning else "",
                )
            )
        header = ("name", "nodes", "edges", "features", "classes", "metric", "protocols", "", "")
        print_table("graphs of the catalogue (! read: polynsd data show NAME)", header, rows)


@dataclass(frozen=True)
class TableOptions:
    """What tables of your own mean."""

    nodes: Path | None = None
    """The node table that belongs to an edge list."""
    label: str | None = None
    """The column of the node table that holds the labels."""
    weight: str | None = None
    """The column of the edge list that holds the weights."""


@dataclass(frozen=True)
class DataShow:
    """Show what a graph is like: counts, degrees, components, agreement of neighbours, splits."""

    name: Positional[str]
    """A name of the catalogue, or a file (.npz, .csv, .tsv, .parquet, .graphml)."""
    picture: Path | None = None
    """A PNG file for degree distribution and class mixing."""
    tables: TableOptions = TableOptions()
    """For edge lists."""

    def run(self) -> Description:
        """Prints the facts."""
        if self.picture is not None and self.picture.suffix != ".png":
            raise ConfigError(f"pictures are PNG files; got {self.picture}. Let the name end in .png.")
        graph, entry = read_any(self.name, self.tables)
        facts = describe_graph(graph)
        print_table(graph.name, ("", ""), _fact_rows(graph, facts))
        _print_splits(graph)
        if entry is not None:
            _print_entry(entry)
        if self.picture is not None:
            print(f"picture: {graph_figure(self.picture, graph)}")
        return facts


@dataclass(frozen=True)
class DataCheck:
    """Check that a file holds a valid graph; ends with exit code 2 and the reason where it does not."""

    path: Positional[Path]
    """An archive (.npz), an edge list (.csv, .tsv, .parquet) or a .graphml file."""
    tables: TableOptions = TableOptions()
    """For edge lists."""

    def run(self) -> None:
        """Reads and validates everything."""
        from polynsd.data.schema import check

        graph, _ = read_any(str(self.path), self.tables)
        check(graph)
        print(f"{self.path}: {graph} is valid")


@dataclass(frozen=True)
class DataConvert:
    """Convert a graph between .npz, .csv, .tsv, .parquet and .graphml."""

    source: Positional[Path]
    """What to read; for tables the edge list."""
    target: Positional[Path]
    """What to write; for tables the edge list, with the node table beside it as NAME_nodes."""
    tables: TableOptions = TableOptions()
    """For edge lists that are read."""

    def run(self) -> Path:
        """Reads, validates and writes."""
        from polynsd.data.schema import check
        from polynsd.data.tables import write_graph

        graph, _ = read_any(str(self.source), self.tables, extras=True)
        check(graph)
        written = write_graph(graph, self.target)
        print(f"{graph} written to {', '.join(map(str, written))}")
        return self.target


@dataclass(frozen=True)
class DataFetch:
    """Download a graph of the catalogue into the cache, unless it is at hand."""

    name: Positional[str]
    """A name of the catalogue."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Graph:
        """Finds or downloads it, and checks it against the catalogue."""
        from polynsd.data.datasets.catalogue import load, locate

        with ProgressReporter(None, unit="KiB", quiet=self.quiet) as reporter:
            graph = load(self.name, progress=lambda new, task: reporter.advance(new // 1024, task))
        print(f"{graph} at {locate(self.name)}")
        return graph


@dataclass(frozen=True)
class DataMake:
    """Generate a synthetic graph: heterophily, minesweeper, streets, chain."""

    name: Positional[str]
    """Of the generator."""
    arguments: Positional[tuple[str, ...]] = ()
    """key=value pairs, e.g. rows=50 cols=50 seed=3."""
    out: Path | None = None
    """Where to write it (.npz, .csv, .parquet, .graphml); nothing is written unless given."""

    def run(self) -> Graph:
        """Generates, describes and writes it."""
        from polynsd.data.generators.embedded import make_graph, parse_arguments
        from polynsd.data.tables import write_graph

        graph = make_graph(self.name, **parse_arguments(self.name, self.arguments))
        print_table(graph.name, ("", ""), _fact_rows(graph, describe_graph(graph)))
        if self.out is not None:
            print(f"written to {', '.join(map(str, write_graph(graph, self.out)))}")
        return graph


def read_any(
    name: str, tables: TableOptions | None = None, extras: bool = False
) -> tuple[Graph, Entry | None]:
    """A graph from a file, or from the catalogue together with its entry there."""
    from polynsd.data.datasets.reading import find_graph

    tables = tables or TableOptions()
    graph, entry, report = find_graph(name, tables.nodes, tables.label, tables.weight, extras)
    if report is not None:
        print(report)
    return graph, entry


def _fact_rows(graph: Graph, facts: Description) -> list[tuple[str, str]]:
    agreement = {
        "edge homophily": facts.edge_homophily,
        "node homophily": facts.node_homophily,
        "adjusted homophily": facts.adjusted_homophily,
        "label informativeness": facts.label_informativeness,
    }
    return [
        ("nodes", f"{facts.nodes:,}"),
        ("edges", f"{facts.edges:,}"),
        ("features", f"{facts.features:,}"),
        ("classes", _class_list(graph, facts)),
        ("unlabelled nodes", f"{facts.unlabelled:,}"),
        (
            "degree (min, median, mean, max)",
            f"{facts.min_degree}, {facts.median_degree:g}, {facts.mean_degree:.2f}, {facts.max_degree:,}",
        ),
        ("isolated nodes", f"{facts.isolated:,}"),
        ("components (largest)", f"{facts.components:,} ({facts.largest_component:,} nodes)"),
        *((name, f"{value:.4f}") for name, value in agreement.items()),
    ]


def _class_list(graph: Graph, facts: Description) -> str:
    names = graph.class_names or tuple(str(c) for c in range(len(facts.class_sizes)))
    sizes = [f"{name}: {size:,}" for name, size in zip(names, facts.class_sizes, strict=False)]
    shown = ", ".join(sizes[:8]) + (", …" if len(sizes) > 8 else "")
    return f"{len(sizes)} ({shown})" if sizes else "none"


def _print_splits(graph: Graph) -> None:
    rows = []
    for protocol, masks in graph.masks.items():
        for index in range(len(masks)):
            parts = (masks.train[index], masks.val[index], masks.test[index])
            digest = (
                masks.split(index).fingerprint[:12]
                if all(part.any() for part in parts)
                else "a part is empty"
            )
            rows.append((f"{protocol} {index}", *(f"{int(part.sum()):,}" for part in parts), digest))
    if rows:
        print_table("splits that come with the data", ("split", "train", "val", "test", "hash"), rows)


def _print_entry(entry: Entry) -> None:
    print(f"metric: {entry.metric}; features: {entry.preprocessing}; licence: {entry.licence}")
    print(f"protocols: {', '.join(entry.protocols)}\ncitation: {entry.citation}")
    if entry.warning:
        print(f"warning: {entry.warning}")


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
