"""Fingerprints of downloaded graphs: in the catalogue, given by the user, or kept from the first download.

    expected = expected_fingerprint(entry, cache, given)
    require_fingerprint(entry, graph, expected, cache)

A fingerprint is the SHA-256 of edges, features, labels and splits, however many files they came in. Those of
the catalogue were taken of verified copies. Where none is known, the user gives one, or trusts the first
download; its fingerprint is kept in `trusted.json` in the cache, and every later download must have it.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
from scipy import sparse

from polynsd.data.datasets.archive import replace_file
from polynsd.data.datasets.entries import DatasetEntry
from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS
from polynsd.documents import read_json
from polynsd.errors import ConfigError, DataError

FILE = "trusted.json"
SHA256 = re.compile(r"[0-9a-f]{64}")


def fingerprint_of(graph: Graph) -> str:
    """SHA-256 of edges, features, labels and splits; the same for dense and sparse features."""
    digest = hashlib.sha256()
    order = np.lexsort(graph.edge_index[::-1])
    x = sparse.csr_matrix(
        graph.x if graph.x is not None else (graph.num_nodes, 0), dtype=np.float32, copy=True
    )
    x.sum_duplicates()
    x.eliminate_zeros()
    arrays = {
        "edges": graph.edge_index[:, order].astype("<i8"),
        "shape": np.array(x.shape, dtype="<i8"),
        "indptr": x.indptr.astype("<i8"),
        "indices": x.indices.astype("<i8"),
        "values": x.data.astype("<f4"),
        "labels": np.zeros(0, "<i8") if graph.y is None else graph.y.astype("<i8"),
    }
    for protocol in sorted(graph.masks):
        keys = (f"{protocol} {part}" for part in PARTS)
        arrays |= zip(keys, graph.masks[protocol].parts, strict=True)
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def expected_fingerprint(entry: DatasetEntry, cache: Path, given: str | None) -> str | None:
    """The fingerprint given by the user, accepted before, or in the catalogue, in this order; or None."""
    if given is not None and not SHA256.fullmatch(given):
        raise ConfigError(f"a SHA-256 has 64 lower-case hexadecimal digits; got {given!r}.")
    return given or _read(cache).get(entry.name) or entry.sha256


def require_permission(entry: DatasetEntry, expected: str | None, trust: bool) -> None:
    """Raises where no fingerprint is known and the user does not trust the publisher."""
    if expected is None and not trust:
        command = f"polynsd data fetch {entry.name}"
        raise DataError(
            "it was not downloaded, because no fingerprint of it is known. If you trust its publisher and "
            f"your network, `{command} --trust` accepts what comes now, and nothing else later; with the "
            f"SHA-256 from someone who has it, `{command} --sha256 …` is safer"
        )


def require_fingerprint(entry: DatasetEntry, graph: Graph, expected: str | None, cache: Path) -> None:
    """Raises if a download has another fingerprint than expected; a new one is kept in the cache."""
    actual = fingerprint_of(graph)
    if expected not in (None, actual):
        raise DataError(
            f"the download of '{entry.name}' is not the graph that was expected: its SHA-256 is {actual}, "
            f"not {expected}. Nothing was kept. The publisher has changed it, or someone has on the way; if "
            f"you know it to be right, accept it with `polynsd data fetch {entry.name} --sha256 {actual}`."
        )
    accepted = _read(cache)
    if actual not in (entry.sha256, accepted.get(entry.name)):
        with replace_file(cache / FILE) as file:
            file.write((json.dumps({**accepted, entry.name: actual}, indent=2) + "\n").encode())


def _read(cache: Path) -> dict[str, str]:
    path = cache / FILE
    if not path.is_file():
        return {}
    content = read_json(path)
    if not all(SHA256.fullmatch(str(digest)) for digest in content.values()):
        raise DataError(f"{path} is damaged: not an object of fingerprints. Correct or delete it.")
    return content
