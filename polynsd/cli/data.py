"""`polynsd data …`: list, show, check, convert, fetch and make graphs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from polynsd.cli.help import explain_error, wrap_text
from polynsd.cli.options import DELIMITERS, MemoryOption
from polynsd.errors import ConfigError, PolyNSDError

if TYPE_CHECKING:
    from polynsd.data import Graph
    from polynsd.data.datasets.catalogue import OpenedGraph
    from polynsd.data.datasets.entries import DatasetEntry
    from polynsd.data.describe import Description
    from polynsd.data.tables import TextFormat

MAX_CLASSES_SHOWN = 8


@dataclass(frozen=True)
class DataList:
    """List the benchmark graphs: sizes, metric, protocols and whether each is on this machine."""

    def run(self) -> None:
        from polynsd.data.datasets.catalogue import locate
        from polynsd.data.datasets.entries import ENTRIES
        from polynsd.report import print_table

        rows = []
        for entry in ENTRIES.values():
            counts = (entry.nodes, entry.edges, entry.features, entry.classes)
            rows.append(
                (
                    entry.name,
                    *("?" if count is None else f"{count:,}" for count in counts),
                    entry.metric,
                    ", ".join(entry.protocols),
                    "to fetch" if locate(entry.name) is None else "at hand",
                    "!" if entry.warning else "",
                )
            )
        header = ("name", "nodes", "edges", "features", "classes", "metric", "protocols", "", "")
        print_table("graphs of the catalogue (! read: polynsd data show NAME)", header, rows)


@dataclass(frozen=True)
class TableOptions:
    """The columns of an edge list and its node table."""

    nodes: Path | None = None
    """The node table that belongs to an edge list."""
    label: str | None = None
    """The column of the node table that holds the labels."""
    weight: str | None = None
    """The column of the edge list that holds the weights."""
    exclude: Annotated[tuple[str, ...], arg(metavar="COLUMN …")] = ()
    """Columns of either table that are not used."""
    delimiter: Annotated[str | None, arg(metavar="CHARACTER")] = None
    """Between the fields of text files; a comma in .csv and a tab in .tsv files unless given."""
    encoding: str = "utf-8"
    """Of text files, e.g. latin-1."""
    decimal: Annotated[str, arg(metavar="CHARACTER")] = "."
    """What stands before the decimals of numbers in text files: a point or a comma."""

    @property
    def text_format(self) -> TextFormat:
        """How text files are written."""
        from polynsd.data.tables import TextFormat

        return TextFormat(DELIMITERS.get(self.delimiter or "", self.delimiter), self.encoding, self.decimal)

    def open(self, name: str, extras: bool = False) -> OpenedGraph:
        """The graph of that name or path; prints what was done to tables."""
        from polynsd.data.datasets.catalogue import open_graph

        options = {"label": self.label, "weight": self.weight, "exclude": self.exclude}
        opened = open_graph(name, self.nodes, extras=extras, **options, **vars(self.text_format))
        if opened.report is not None:
            print(wrap_text(str(opened.report)))
        return opened


@dataclass(frozen=True)
class DataShow(MemoryOption):
    """Show what a graph is like: counts, degrees, components, homophily, splits."""

    name: Positional[str]
    """A name of the catalogue, or a file (.npz, .csv, .tsv, .parquet, .graphml): a graph, or any table."""
    picture: Path | None = None
    """A PNG file for degree distribution and class mixing."""
    tables: TableOptions = TableOptions()
    """For edge lists."""

    def run(self) -> Description | None:
        """Prints what there is; the description of the graph, None where a table is not one."""
        from polynsd.data import describe_graph
        from polynsd.data.tables.files import TABLE_EXTENSIONS, extension_of
        from polynsd.report import graph_figure

        if self.picture is not None and self.picture.suffix != ".png":
            raise ConfigError(f"pictures are PNG files; got {self.picture}. Let the name end in .png.")
        is_table = extension_of(self.name) in TABLE_EXTENSIONS
        if is_table and not self._show_tables():
            return None
        try:
            graph, entry, _ = self.tables.open(self.name)
        except PolyNSDError as error:
            if not is_table:
                raise
            reason = explain_error(DataShow, error)
            print(wrap_text(f"As it is, no graph can be made of it: {reason}"))
            return None
        description = describe_graph(graph)
        _print_description(graph, description)
        _print_splits(graph)
        if entry is not None:
            _print_entry(entry)
        if self.picture is not None:
            print(f"picture: {graph_figure(self.picture, graph)}")
        return description

    def _show_tables(self) -> bool:
        """Prints the columns of the tables; whether the first of them can be one of edges."""
        from polynsd.data.tables.files import read_table
        from polynsd.data.tables.summary import looks_like_edges, summarize_columns
        from polynsd.report import print_table

        for path in (self.name, self.tables.nodes):
            if path is not None:
                table = read_table(path, self.tables.text_format)
                rows = [
                    (column.name, column.kind, f"{column.distinct:,}", f"{column.missing:,}", column.values)
                    for column in summarize_columns(table)
                ]
                title = f"{Path(path).name}: {len(table.frame):,} rows"
                print_table(title, ("column", "kind", "different", "missing", "values"), rows)
        if self.tables.nodes is None and not looks_like_edges(read_table(self.name, self.tables.text_format)):
            print(
                wrap_text(
                    "Its first two columns do not name the same things, so it is not shown as a table of "
                    "edges. If its rows are nodes:"
                )
            )
            print(f"polynsd data show EDGES --nodes {self.name}")
            return False
        return True


@dataclass(frozen=True)
class DataCheck(MemoryOption):
    """Check that a file holds a valid graph; ends with exit code 2 and the reason where it does not."""

    path: Positional[Path]
    """An archive (.npz), an edge list (.csv, .tsv, .parquet) or a .graphml file."""
    tables: TableOptions = TableOptions()
    """For edge lists."""

    def run(self) -> None:
        from polynsd.data import check_arrays

        graph = self.tables.open(str(self.path)).graph
        check_arrays(graph)
        print(f"{self.path}: {graph} is valid")


@dataclass(frozen=True)
class DataConvert(MemoryOption):
    """Convert a graph between .npz, .csv, .tsv, .parquet and .graphml."""

    source: Positional[Path]
    """What to read; for tables the edge list."""
    target: Positional[Path]
    """What to write; for tables the edge list, with the node table beside it as NAME_nodes."""
    tables: TableOptions = TableOptions()
    """For edge lists that are read."""

    def run(self) -> Path:
        from polynsd.data import check_arrays
        from polynsd.data.tables import write_graph

        graph = self.tables.open(str(self.source), extras=True).graph
        check_arrays(graph)
        written = write_graph(graph, self.target)
        print(f"{graph} written to {', '.join(map(str, written))}")
        return self.target


@dataclass(frozen=True)
class DataFetch:
    """Download a graph of the catalogue into the cache, unless it is on this machine."""

    name: Positional[str]
    """A name of the catalogue."""
    sha256: str | None = None
    """The fingerprint that the download must have, where none or another one is known."""
    trust: bool = False
    """Accept a download of which no fingerprint is known; later ones must be equal to it."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Graph:
        from polynsd.data.datasets.catalogue import load, locate
        from polynsd.report import ProgressReporter

        with ProgressReporter(None, unit="KiB", quiet=self.quiet) as reporter:
            graph = load(
                self.name,
                sha256=self.sha256,
                trust=self.trust,
                progress=lambda new, task: reporter.advance(new // 1024, task),
            )
        print(f"{graph} at {locate(self.name)}")
        return graph


@dataclass(frozen=True)
class DataMake:
    """Generate a synthetic graph: heterophily, minesweeper, streets, chain, planted."""

    name: Positional[str]
    """Name of the generator."""
    arguments: Positional[tuple[str, ...]] = ()
    """key=value pairs, e.g. rows=50 cols=50 seed=3."""
    out: Path | None = None
    """Where to write it (.npz, .csv, .parquet, .graphml); nothing is written unless given."""

    def run(self) -> Graph:
        from polynsd.data import describe_graph
        from polynsd.data.generators import make_graph, parse_arguments
        from polynsd.data.tables import write_graph

        graph = make_graph(self.name, **parse_arguments(self.name, self.arguments))
        _print_description(graph, describe_graph(graph))
        if self.out is not None:
            print(f"written to {', '.join(map(str, write_graph(graph, self.out)))}")
        return graph


def _print_description(graph: Graph, description: Description) -> None:
    from polynsd.report import print_table

    d = description
    names = graph.class_names or tuple(str(c) for c in range(len(d.class_sizes)))
    sizes = [f"{name}: {size:,}" for name, size in zip(names, d.class_sizes, strict=False)]
    classes = ", ".join(sizes[:MAX_CLASSES_SHOWN]) + (", …" if len(sizes) > MAX_CLASSES_SHOWN else "")
    rows = [
        ("nodes", f"{d.nodes:,}"),
        ("edges", f"{d.edges:,}"),
        ("features", f"{d.features:,}"),
        ("classes", f"{len(sizes)} ({classes})" if sizes else "none"),
        ("unlabelled nodes", f"{d.unlabelled:,}"),
        (
            "degree (min, median, mean, max)",
            f"{d.min_degree}, {d.median_degree:g}, {d.mean_degree:.2f}, {d.max_degree:,}",
        ),
        ("isolated nodes", f"{d.isolated:,}"),
        ("components (largest)", f"{d.components:,} ({d.largest_component:,} nodes)"),
    ]
    if sizes:
        rows += [
            ("edge homophily", f"{d.edge_homophily:.4f}"),
            ("node homophily", f"{d.node_homophily:.4f}"),
            ("adjusted homophily", f"{d.adjusted_homophily:.4f}"),
            ("label informativeness", f"{d.label_informativeness:.4f}"),
        ]
    print_table(graph.name, ("", ""), rows)


def _print_splits(graph: Graph) -> None:
    from polynsd.report import print_table

    rows = []
    for protocol, masks in graph.masks.items():
        for index in range(len(masks)):
            parts = (masks.train[index], masks.val[index], masks.test[index])
            is_complete = all(part.any() for part in parts)
            digest = masks.split(index).fingerprint[:12] if is_complete else "a part is empty"
            rows.append((f"{protocol} {index}", *(f"{int(part.sum()):,}" for part in parts), digest))
    if rows:
        print_table("splits that come with the data", ("split", "train", "val", "test", "hash"), rows)


def _print_entry(entry: DatasetEntry) -> None:
    print(entry.title)
    print(f"metric: {entry.metric}; features: {entry.preprocessing}; licence: {entry.licence}")
    print(f"protocols: {', '.join(entry.protocols)}\ncitation: {entry.citation}")
    if entry.warning:
        print(f"warning: {entry.warning}")
