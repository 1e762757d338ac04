"""Where the datasets of the catalogue come from: downloads, and their conversion to a `Graph`.

    graph = download_graph(entry.source, entry.name, cache)

PyG's classes store both directions of an edge, some with loops, masks as [N], as [N, S] or as node
numbers; Planetoid gives the nodes without a label the class 0. Here all of that becomes one form:
edges once, masks [S, N], label −1 for none. For files of your own see `polynsd.data.tables`.

PyG reads pickles of some sources and does not check certificates; on a network you do not trust
put archives into the folder named by POLYNSD_DATA in place of downloading.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.datasets.entries import ArchiveOnly, DatasetSource, NpzFile, PygDataset
from polynsd.data.datasets.npz import NpzReader
from polynsd.data.edges import merge_edges
from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS, Masks, read_masks
from polynsd.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Array = NDArray[Any]
Progress = Callable[[int, str], None]

TIMEOUT_SECONDS = 30.0
MAX_BYTES = 4 << 30  # no file of the catalogue comes near it
CHUNK_BYTES = 1 << 18
HEADERS = {"User-Agent": "polynsd", "Accept-Encoding": "identity"}
PARTIAL_CONTENT = 206
SPARSE_BELOW = 0.125  # share of non-zero features under which they are kept as CSR


def download_graph(source: DatasetSource, name: str, cache: Path, progress: Progress | None = None) -> Graph:
    """The graph `name` from its source; `cache` is a folder for what is downloaded on the way.

    `progress` is called with (new bytes, name). PyG's downloads do not report theirs: then it is called
    once, with 0 bytes.
    """
    match source:
        case ArchiveOnly():
            raise DataError(f"it cannot be downloaded: {source.reason}")
        case NpzFile():
            return _from_npz_file(source, name, cache, progress)
        case PygDataset():
            if progress is not None:
                progress(0, name)
            return _from_pyg(source, name, cache)


def fetch(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = TIMEOUT_SECONDS,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Downloads `url` to `path` with pooch, unless the right file is already there; returns the path.

    The file gets its name in one step, after its SHA-256 was verified. A download that breaks leaves nothing
    and starts again from the beginning.

    Args:
        url: an http or https address; a redirect may not leave https.
        path: the target; its folder is made if needed.
        sha256: the hash the file must have, in hexadecimal.
        progress: called with (new bytes, file name), e.g. `ProgressReporter.advance`.
        timeout: seconds without a byte after which the server counts as gone.
        max_bytes: longer files are refused.

    Raises:
        DataError: the address is refused, the server fails, or the file is not the expected one.
    """
    import pooch
    import requests

    scheme, host = urlsplit(url)[:2]
    if scheme not in ("http", "https") or not host:
        raise DataError(f"downloads need an http or https address; got {url!r}.")

    pooch.get_logger().setLevel(logging.WARNING)
    try:
        pooch.retrieve(
            url,
            sha256,
            path.name,
            path.parent,
            downloader=lambda url, file, _: _receive(
                url, Path(file), path.name, progress, timeout, max_bytes
            ),
        )
    except DataError:
        raise
    except (requests.RequestException, OSError) as error:
        raise DataError(
            f"the download of {url} stopped: {error}. Nothing of it was kept; check the connection and try "
            "again."
        ) from error
    except ValueError as error:  # pooch: the hash differs
        raise DataError(f"{url} is not the expected file: {error}") from error
    return path


def _receive(
    url: str, file: Path, name: str, progress: Progress | None, timeout: float, max_bytes: int
) -> None:
    """Writes what the server sends to a file; pooch checks and renames it afterwards."""
    import requests

    received, hooks = 0, {"response": _check_response}
    with (
        requests.get(url, stream=True, timeout=timeout, headers=HEADERS, hooks=hooks) as response,
        file.open("wb") as output,
    ):
        if not response.ok:
            raise DataError(
                f"cannot download {url}: the server answered {response.status_code} {response.reason}. "
                "Check the address or try later."
            )
        for chunk in response.iter_content(CHUNK_BYTES):
            received += len(chunk)
            if received > max_bytes:
                raise DataError(
                    f"{url} has {received:,} bytes or more; at most {max_bytes:,} are accepted. "
                    "Raise max_bytes if that is intended."
                )
            output.write(chunk)
            if progress is not None:
                progress(len(chunk), name)


def _check_response(response: Any, **_: Any) -> None:
    """Refuses a redirect from https to http, and a part of a file in place of the whole."""
    target = urljoin(response.url, response.headers.get("Location", ""))
    if response.is_redirect and response.url.startswith("https:") and not target.startswith("https:"):
        raise DataError(f"{response.url} redirects to the unprotected {target}; it was not followed.")
    if response.status_code == PARTIAL_CONTENT:
        raise DataError(
            f"{response.url} answers a request for the whole file with a part of it. Download it by hand."
        )


def _from_npz_file(source: NpzFile, name: str, cache: Path, progress: Progress | None) -> Graph:
    file = fetch(source.url, cache / "downloads" / f"{name}.source.npz", progress=progress)
    try:
        arrays = NpzReader(file).read(
            ("edges", "node_features", "node_labels", *(f"{part}_masks" for part in PARTS))
        )
    finally:
        file.unlink()
    masks = Masks(*(arrays[f"{part}_masks"].astype(bool) for part in PARTS))
    return _build_graph(
        name, arrays["edges"].T, arrays["node_features"], arrays["node_labels"], {"default": masks}
    )


def _from_pyg(source: PygDataset, name: str, cache: Path) -> Graph:
    import torch_geometric.datasets

    dataset = getattr(torch_geometric.datasets, source.dataset, None)
    if dataset is None:
        raise DataError(
            f"the installed torch_geometric has no dataset {source.dataset}; update it with "
            "pip install -U torch_geometric"
        )
    # In a new folder each time: PyG takes a file left by a broken download for a whole one.
    with TemporaryDirectory(dir=cache, prefix=f"{name}-") as folder, _socket_timeout():
        versions = {
            key: dataset(root=folder, **source.arguments, **extra)[0] for key, extra in source.masks.items()
        }
    masks = {key: _pyg_masks(data) for key, data in versions.items() if "train_mask" in data}
    data = next(iter(versions.values()))
    graph = _build_graph(name, data.edge_index.numpy(), data.x.numpy(), data.y.numpy(), masks)
    return _remove_planetoid_fillers(graph) if source.dataset == "Planetoid" else graph


@contextmanager
def _socket_timeout() -> Iterator[None]:
    """Bounds the wait for a silent server, for which PyG would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _pyg_masks(data: Data) -> Masks:
    """The masks of PyG's `Data`, which may hold them as bytes, integers or lists of node numbers."""
    data, num_nodes = data.clone(), int(data.num_nodes or 0)
    for key in (f"{part}_mask" for part in PARTS):
        values = data[key]
        is_mask = values.shape[:1] == (num_nodes,) and bool(((values == 0) | (values == 1)).all())
        is_list = values.dim() == 1 and not values.is_floating_point()
        if is_mask:
            data[key] = values.bool()
        elif is_list and (not len(values) or 0 <= int(values.min()) <= int(values.max()) < num_nodes):
            data[key] = torch.zeros(num_nodes, dtype=torch.bool).index_fill(0, values.long(), True)
        else:
            raise DataError(
                f"expected masks of shape [{num_nodes}] or [{num_nodes}, S], or node numbers below "
                f"{num_nodes}; got {values.dtype} of shape {list(values.shape)}. The source has changed its "
                "format."
            )
    return read_masks(data)["default"]


def _build_graph(name: str, edges: Array, x: Array, y: Array, masks: Mapping[str, Masks]) -> Graph:
    """A graph of edges [2, *] in any direction and number, features [N, F] and class numbers."""
    features: Any = x.astype(np.float32, copy=False)
    if np.count_nonzero(features) < SPARSE_BELOW * features.size:
        features = sparse.csr_matrix(features)
    return Graph(
        name=name,
        edge_index=merge_edges(edges, len(x)).edge_index.astype(np.int32),
        num_nodes=len(x),
        x=features,
        y=np.ascontiguousarray(y.reshape(-1), dtype=np.int64),
        masks=masks,
    )


def _remove_planetoid_fillers(graph: Graph) -> Graph:
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
