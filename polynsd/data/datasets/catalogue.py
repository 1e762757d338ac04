"""Benchmark graphs by name, and any graph by name or path.

    graph = load("texas")
    graph, entry, report = open_graph("texas")       # or "graph.npz", or "edges.csv"

An archive `<name>.npz` is looked for in the folder named by the environment variable POLYNSD_DATA, then in
the cache (POLYNSD_CACHE, or polynsd in the user's cache folder); if there is none, the dataset is downloaded
from its publisher and kept in the cache, if its fingerprint is known, given, or trusted
(`polynsd.data.datasets.trust`). Whatever the way, its counts must be the published ones. What is known to be
wrong or surprising about a dataset is logged when it is loaded. For splits of these graphs see
`polynsd.data.protocols`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from polynsd.data.datasets import sources
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.entries import ENTRIES, DatasetEntry, Download
from polynsd.data.datasets.trust import expected_fingerprint, require_fingerprint, require_permission
from polynsd.data.describe import class_sizes
from polynsd.data.graph import Graph
from polynsd.errors import DataError, unknown_name

if TYPE_CHECKING:
    from polynsd.data.tables import ReadReport

logger = logging.getLogger("polynsd")

ALIASES = {"actor": "film", "la": "los_angeles"}


class OpenedGraph(NamedTuple):
    """A graph, its entry in the catalogue, and what was done to the tables it was read from."""

    graph: Graph
    entry: DatasetEntry | None
    report: ReadReport | None


def open_graph(
    name: str,
    nodes: Path | None = None,
    *,
    extras: bool = False,
    **options: Any,
) -> OpenedGraph:
    """The graph that a name or a path stands for.

    Args:
        name: of a benchmark, or a path: an archive (.npz), an edge list, a GraphML file.
        nodes: the node table that belongs to an edge list.
        extras: whether to keep further arrays of an archive.
        options: for tables, `polynsd.data.tables.ReadOptions`.
    """
    path = Path(name)
    if path.suffix == ".npz":
        return OpenedGraph(load_graph(path, extras=extras), None, None)
    if path.suffix or path.is_file():
        from polynsd.data.tables import ReadOptions, read_tables

        tables = read_tables(path, nodes, ReadOptions.from_keywords(**options))
        return OpenedGraph(tables.graph, None, tables.report)
    return OpenedGraph(load(name), get_entry(name), None)


def names() -> tuple[str, ...]:
    """The names of all datasets."""
    return tuple(ENTRIES)


def get_entry(name: str) -> DatasetEntry:
    """What is known about a dataset; `Roman-Empire` is taken for `roman_empire`, `actor` for `film`."""
    key = name.lower().replace("-", "_").replace(" ", "_")
    key = ALIASES.get(key, key)
    if key not in ENTRIES:
        raise unknown_name("dataset", name, ENTRIES)
    return ENTRIES[key]


def load(
    name: str,
    *,
    root: str | Path | None = None,
    download: bool = True,
    extras: bool = False,
    sha256: str | None = None,
    trust: bool = False,
    progress: Callable[[int, str], None] | None = None,
) -> Graph:
    """The graph of a dataset, with raw features and the splits that came with it.

    Args:
        name: one of `names()`.
        root: the folder to look in first, in place of the one named by POLYNSD_DATA.
        download: whether to fetch a dataset that is in no folder.
        extras: whether to read the further arrays of the archive into `graph.extras`.
        sha256: the fingerprint that a download must have, in place of the known one.
        trust: accept a download of which no fingerprint is known; later ones must be equal to it.
        progress: called with (new bytes, name) while it is fetched.

    Raises:
        ConfigError: there is no dataset of this name.
        DataError: it cannot be found or downloaded, or is not what it should be.
    """
    entry = get_entry(name)
    path = locate(name, root)
    if path is None:
        if not download:
            raise _not_found(entry, root, DataError("downloading was not permitted (download=False)"))
        path = _download(entry, root, sha256, trust, progress)
    graph = load_graph(path, extras=extras)
    check_counts(entry, graph, str(path))
    if entry.warning:
        logger.warning("%s: %s", entry.name, entry.warning)
    if graph.x is None and entry.may_lack_features:
        substitute = f"{entry.name}_glovesub"
        remedy = f"Load '{substitute}', which has substitutes, or give" if substitute in ENTRIES else "Give"
        logger.warning("%s: %s has no features, and models need some. %s it some.", entry.name, path, remedy)
    return graph


def cache_folder() -> Path:
    """The folder downloads are kept in; it need not exist."""
    cache = os.environ.get("POLYNSD_CACHE")
    if cache:
        return Path(cache).expanduser()
    user_caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(user_caches) if user_caches else Path.home() / ".cache") / "polynsd"


def search_folders(root: str | Path | None = None) -> tuple[Path, ...]:
    """The folders archives are looked for in, in order; the last is the cache."""
    path = root if root is not None else os.environ.get("POLYNSD_DATA") or None
    if path is None:
        return (cache_folder(),)
    folder = Path(path).expanduser()
    if not folder.is_dir():
        setting = "POLYNSD_DATA" if root is None else "root"
        raise DataError(f"{setting} must name a folder of archives; {folder} is none. Correct or unset it.")
    return (folder, cache_folder())


def locate(name: str, root: str | Path | None = None) -> Path | None:
    """The archive of a dataset; None where there is none yet."""
    candidates = (folder / f"{get_entry(name).name}.npz" for folder in search_folders(root))
    return next((path for path in candidates if path.is_file()), None)


def check_counts(entry: DatasetEntry, graph: Graph, origin: str) -> None:
    """Raises unless the graph has the counts of its entry; those that are not known may be any."""
    counts = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "class_sizes": tuple(class_sizes(graph).tolist()),
    }
    if graph.x is None and entry.may_lack_features:
        del counts["features"]
    wrong = [
        f"{field.replace('_', ' ')}: {getattr(entry, field)} expected, {count} found"
        for field, count in counts.items()
        if getattr(entry, field) not in (None, count)
    ]
    if wrong:
        raise DataError(
            f"{origin} is not the dataset '{entry.name}' ({entry.title}): {'; '.join(wrong)}. Delete or move "
            "it if it is something else; if its publisher has changed it, results are not comparable."
        )


def _download(
    entry: DatasetEntry,
    root: str | Path | None,
    sha256: str | None,
    trust: bool,
    progress: Callable[[int, str], None] | None,
) -> Path:
    """The archive in the cache, made from what the publisher offers."""
    cache = cache_folder()
    expected, is_allowed = expected_fingerprint(entry, cache, sha256), False
    try:
        if isinstance(entry.source, Download):
            require_permission(entry, expected, trust)
            is_allowed = True
        _check_writable(cache)
        graph = sources.download_graph(entry.source, entry.name, cache, progress)
    except DataError as error:
        raise _not_found(entry, root, error, offer=is_allowed) from error
    check_counts(entry, graph, str(entry.source))
    require_fingerprint(entry, graph, expected, cache)
    return save_graph(cache / f"{entry.name}.npz", graph)


def _check_writable(cache: Path) -> None:
    """Makes the cache folder; raises unless files can be written there."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=cache).close()
    except OSError as error:
        raise DataError(
            f"the cache folder {cache} cannot be written ({error}); name another one in POLYNSD_CACHE"
        ) from error


def _not_found(
    entry: DatasetEntry, root: str | Path | None, error: DataError, offer: bool = False
) -> DataError:
    """One error that says where was looked, why there was no download, and what to do."""
    folders = " or ".join(str(folder) for folder in search_folders(root))
    reason = " ".join(str(error).split()).rstrip(".")
    remedy = f", or connect to the network to get it from {entry.source}" if offer else ""
    return DataError(
        f"there is no dataset '{entry.name}': no {entry.name}.npz in {folders}, and {reason}. "
        f"Put the archive into a folder and name that in POLYNSD_DATA{remedy}."
    )
