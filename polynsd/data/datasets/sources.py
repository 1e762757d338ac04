"""Downloads of the datasets of the catalogue.

    graph = download_graph(entry.source, entry.name, cache)

Every file is fetched over https with its certificate checked, up to a size limit, and read by
`polynsd.data.datasets.formats`, which executes nothing. Whether a graph is the one that was expected,
`polynsd.data.datasets.trust` says. For files of your own see `polynsd.data.tables`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urljoin, urlsplit

from polynsd.data.datasets.entries import ArchiveOnly, DatasetSource
from polynsd.data.datasets.formats import read_files
from polynsd.data.graph import Graph
from polynsd.errors import DataError

Progress = Callable[[int, str], None]

TIMEOUT_SECONDS = 30.0
MAX_BYTES = 1 << 30  # no file of the catalogue comes near it
CHUNK_BYTES = 1 << 18
HEADERS = {"User-Agent": "polynsd", "Accept-Encoding": "identity"}
PARTIAL_CONTENT = 206


def download_graph(source: DatasetSource, name: str, cache: Path, progress: Progress | None = None) -> Graph:
    """The graph `name` from its source; `cache` is a folder for what is downloaded on the way.

    `progress` is called with (new bytes, name).
    """
    if isinstance(source, ArchiveOnly):
        raise DataError(f"it cannot be downloaded: {source.reason}")
    report = None if progress is None else lambda new, _: progress(new, name)
    with TemporaryDirectory(dir=cache, prefix=f"{name}-") as folder:
        files = {
            key: fetch(url, Path(folder) / f"{number}-{Path(urlsplit(url).path).name}", progress=report)
            for number, (key, url) in enumerate(source.files.items())
        }
        return read_files(source.reader, files).to_graph(name)


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
