"""Benchmark graphs by name: `load("texas")`.

An archive `<name>.npz` is looked for in the folder named by the environment variable POLYNSD_DATA,
then in the cache (POLYNSD_CACHE, or polynsd in the user's cache folder); if there is none, the
dataset is downloaded from its publisher and kept in the cache. Whatever the way, its counts must be
the published ones. What is known to be wrong or surprising about a dataset is logged when it is
loaded. For your own data see `polynsd.data.tables`; for splits of these graphs `polynsd.data.protocols`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from polynsd.data.datasets.entries import ENTRIES, ArchiveOnly, Entry
from polynsd.data.graph import Graph
from polynsd.errors import DataError, unknown_name

__all__ = ["ENTRIES", "Entry", "cache_folder", "check_counts", "get_entry", "load", "locate", "names"]

logger = logging.getLogger("polynsd")

ALIASES = {"actor": "film", "la": "los_angeles"}


def names() -> tuple[str, ...]:
    """The names of all datasets."""
    return tuple(ENTRIES)


def get_entry(name: str) -> Entry:
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
    progress: Callable[[int, str], None] | None = None,
) -> Graph:
    """The graph of a dataset, with raw features and the splits that came with it.

    Args:
        name: one of `names()`.
        root: the folder to look in first, in place of the one named by POLYNSD_DATA.
        download: whether to fetch a dataset that is in no folder.
        extras: whether to read the further arrays of the archive into `graph.extras`.
        progress: called with (new bytes, name) while it is fetched.

    Raises:
        ConfigError: there is no dataset of this name.
        DataError: it cannot be found or downloaded, or is not what it should be.
    """
    from polynsd.data.datasets.archive import load_graph

    entry = get_entry(name)
    path = locate(name, root)
    if path is None:
        path = _download(entry, root, progress) if download else _refuse(entry, root)
    graph = load_graph(path, extras=extras)
    check_counts(entry, graph, str(path))
    if entry.warning:
        logger.warning("%s: %s", entry.name, entry.warning)
    if graph.x is None and entry.may_lack_features:
        _warn_of_missing_features(entry, path)
    return graph


def cache_folder() -> Path:
    """The folder downloads are kept in; it need not exist."""
    chosen = os.environ.get("POLYNSD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    user_caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(user_caches) if user_caches else Path.home() / ".cache") / "polynsd"


def search_folders(root: str | Path | None = None) -> tuple[Path, ...]:
    """The folders archives are looked for in, in order; the last is the cache."""
    chosen = root if root is not None else os.environ.get("POLYNSD_DATA") or None
    if chosen is None:
        return (cache_folder(),)
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        who = "POLYNSD_DATA" if root is None else "root"
        raise DataError(f"{who} must name a folder of archives; {folder} is none. Correct or unset it.")
    return (folder, cache_folder())


def locate(name: str, root: str | Path | None = None) -> Path | None:
    """The archive of a dataset; None where there is none yet."""
    candidates = (folder / f"{get_entry(name).name}.npz" for folder in search_folders(root))
    return next((path for path in candidates if path.is_file()), None)


def is_at_hand(name: str) -> bool:
    """Whether a dataset is in the catalogue and can be read without a download."""
    return name in names() and locate(name) is not None


def check_counts(entry: Entry, graph: Graph, place: str) -> None:
    """Raises unless the graph has the counts of its entry; those that are not known may be any."""
    found = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "class_sizes": _class_sizes(graph),
    }
    if graph.x is None and entry.may_lack_features:
        del found["features"]
    wrong = [
        f"{what.replace('_', ' ')}: {getattr(entry, what)} expected, {count} found"
        for what, count in found.items()
        if getattr(entry, what) not in (None, count)
    ]
    if wrong:
        raise DataError(
            f"{place} is not the dataset '{entry.name}' ({entry.title}): {'; '.join(wrong)}. Delete or move "
            "it if it is something else; if its publisher has changed it, results are not comparable."
        )


def _warn_of_missing_features(entry: Entry, path: Path) -> None:
    substitute = f"{entry.name}_glovesub"
    remedy = f"Load '{substitute}', which has substitutes, or give" if substitute in ENTRIES else "Give"
    logger.warning("%s: %s has no features, and models need some. %s it some.", entry.name, path, remedy)


def _class_sizes(graph: Graph) -> tuple[int, ...]:
    if graph.y is None or graph.is_regression:
        return ()
    return tuple(np.bincount(graph.y[graph.y >= 0]).tolist())


def _download(entry: Entry, root: str | Path | None, progress: Callable[[int, str], None] | None) -> Path:
    """The archive in the cache, made from what the publisher offers."""
    from polynsd.data.datasets.archive import save_graph
    from polynsd.data.datasets.sources import obtain
    from polynsd.data.datasets.watch import watched

    cache = cache_folder()
    path = cache / f"{entry.name}.npz"
    try:
        _require_writable(cache)
        with watched(cache, entry.name, progress):
            graph = obtain(entry.source, entry.name, cache)
    except Exception as error:  # PyG, its file systems and unpicklers raise anything
        raise _not_found(entry, root, error) from error
    check_counts(entry, graph, str(entry.source))
    save_graph(path, graph)
    return path


def _require_writable(cache: Path) -> None:
    """Makes the cache folder; raises unless files can be written there."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=cache).close()
    except OSError as error:
        raise DataError(
            f"the cache folder {cache} cannot be written ({error}); name another one in POLYNSD_CACHE"
        ) from error


def _refuse(entry: Entry, root: str | Path | None) -> Path:
    raise _not_found(entry, root, DataError("downloading was not permitted (download=False)"))


def _not_found(entry: Entry, root: str | Path | None, reason: Exception) -> DataError:
    looked = " or ".join(str(folder) for folder in search_folders(root))
    can_download = not isinstance(entry.source, ArchiveOnly)
    remedy = f", or connect to the network to get it from {entry.source}" if can_download else ""
    return DataError(
        f"there is no dataset '{entry.name}': no {entry.name}.npz in {looked}, and {_one_line(reason)}. "
        f"Put the archive into a folder and name that in POLYNSD_DATA{remedy}."
    )


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text if isinstance(error, DataError) else f"its download failed ({type(error).__name__}: {text})"
