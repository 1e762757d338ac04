"""`fetch`: one file over HTTP, resumed where it stopped, verified before it gets its name.

What has arrived waits in `<name>.part` beside the target; the next call asks only for the rest,
provided that the server still has the same file (`If-Range`). The target appears in one step and
only with the right length and SHA-256. For whole folders, logins or other schemes than http(s) use
a download tool and put the files where they belong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from polynsd.data.datasets.manifest import sha256_of
from polynsd.errors import DataError

Progress = Callable[[int, str], None]

TIMEOUT_SECONDS = 30.0
MAX_BYTES = 4 << 30  # no file of the catalogue comes near it
CHUNK_BYTES = 1 << 18
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


def fetch(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    timeout: float = TIMEOUT_SECONDS,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Downloads `url` to `path`, unless the right file is already there, and returns the path.

    Args:
        url: an http or https address; a redirect may not leave https.
        path: the target; its folder is made if needed.
        sha256: the hash the file must have, in hexadecimal.
        size: the length it must have, in bytes.
        progress: called with (new bytes, file name), e.g. `ProgressReporter.advance`.
        timeout: seconds without a byte after which the server counts as gone.
        max_bytes: longer files are refused.

    Raises:
        DataError: the address is refused, the server fails, or the file is not what was promised.
    """
    _require_http(url)
    wanted = _Wanted(url, size, sha256, max_bytes)
    if path.is_file() and wanted.fault(path) is None:
        return path
    part = _Part(path.with_name(path.name + ".part"), path.with_name(path.name + ".part.etag"))
    with _clear_errors(url, part):
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(wanted, part, timeout, progress or _ignore)
        wanted.check(part.file)
        part.file.replace(path)
    part.discard()
    return path


@dataclass(frozen=True)
class _Wanted:
    """The file behind an address, and what it must be."""

    url: str
    size: int | None
    sha256: str | None
    max_bytes: int

    def fault(self, path: Path) -> str | None:
        """What is wrong with a complete file, if anything is."""
        found = path.stat().st_size
        if self.size is not None and found != self.size:
            return f"it should have {self.size:,} bytes and has {found:,}"
        if self.sha256 is None or sha256_of(path) == self.sha256.lower():
            return None
        return f"its SHA-256 should be {self.sha256} and is {sha256_of(path)}"

    def check(self, path: Path) -> None:
        """Raises unless the complete file is the right one."""
        fault = self.fault(path)
        if fault is not None:
            raise DataError(f"{self.url} is not the expected file: {fault}. It was deleted.")

    def check_promise(self, total: int | None) -> None:
        """Raises where the length the server announces rules the file out."""
        if total is not None and self.size not in (None, total):
            raise DataError(
                f"{self.url} should have {self.size:,} bytes; the server offers {total:,}. "
                "The file has changed there: look for the version that was meant."
            )
        self.check_received(total or 0)

    def check_received(self, length: int) -> None:
        """Raises once a file grows beyond all measure."""
        if length > self.max_bytes:
            raise DataError(
                f"{self.url} has {length:,} bytes or more; at most {self.max_bytes:,} are accepted. "
                "Raise max_bytes if that is intended."
            )


@dataclass(frozen=True)
class _Part:
    """The beginning of a file, and the server's mark (ETag or date) of the version it belongs to."""

    file: Path
    mark: Path

    def length(self) -> int:
        return self.file.stat().st_size if self.file.is_file() else 0

    def resume_headers(self) -> dict[str, str]:
        """What asks for the missing rest; nothing where the version is not known."""
        if not self.length() or not self.mark.is_file():
            return {}
        return {"Range": f"bytes={self.length()}-", "If-Range": self.mark.read_text()}

    def continues_with(self, response: HTTPResponse) -> bool:
        """Whether the answer is the rest of this very file, not all of it or of another version."""
        if response.status != PARTIAL_CONTENT or not self.resume_headers():
            return False
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        same_version = _version_mark(response.headers) in ("", self.mark.read_text())
        return same_version and start is not None and int(start[1]) == self.length()

    def restart(self, headers: HTTPMessage) -> None:
        """Forgets what was there and notes the version that now begins."""
        self.discard()
        if _version_mark(headers):
            self.mark.write_text(_version_mark(headers))

    def discard(self) -> None:
        for file in (self.file, self.mark):
            file.unlink(missing_ok=True)

    def remains(self) -> str:
        """What an interrupted download leaves and how to go on, for the text of an error."""
        if not self.resume_headers():
            return "There is nothing to resume: the next try starts afresh."
        return f"{self.length():,} bytes are kept in {self.file}; call again to resume."


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirects among http(s) addresses, never from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        _require_http(newurl)
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise DataError(f"{req.full_url} redirects to the unprotected {newurl}; it was not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _clear_errors(url: str, part: _Part) -> Iterator[None]:
    """Every failure as a `DataError`; a part is kept where it can be resumed, not where it is wrong."""
    try:
        yield
    except DataError:
        part.discard()
        raise
    except HTTPError as error:
        error.close()
        raise DataError(
            f"cannot download {url}: the server answered {error.code} {error.reason}. Check the address "
            f"or try later. {part.remains()}"
        ) from error
    except (OSError, HTTPException) as error:
        raise DataError(f"the download of {url} stopped: {error}. {part.remains()}") from error


def _receive(wanted: _Wanted, part: _Part, timeout: float, progress: Progress) -> None:
    """Completes the part, from where it stands if the server permits, else from the start."""
    with _open(wanted.url, part, timeout) as response:
        if not part.continues_with(response):
            part.restart(response.headers)
        start, name = part.length(), part.file.stem
        total = None if response.length is None else start + response.length
        wanted.check_promise(total)
        progress(start, name)
        with part.file.open("ab") as file:
            while chunk := response.read1(CHUNK_BYTES):
                file.write(chunk)
                progress(len(chunk), name)
                wanted.check_received(file.tell())
    if total is not None and part.length() < total:
        raise OSError(f"the connection ended after {part.length():,} of {total:,} bytes")


def _open(url: str, part: _Part, timeout: float) -> HTTPResponse:
    """The server's answer: to a request for the rest if it makes sense, else for the whole file."""
    for extra in (part.resume_headers(), {}):
        request = Request(url, headers={"User-Agent": "polynsd", "Accept-Encoding": "identity", **extra})
        try:
            response: HTTPResponse = build_opener(_SafeRedirects).open(request, timeout=timeout)
        except HTTPError as error:
            if not extra or error.code != RANGE_NOT_SATISFIABLE:
                raise
            error.close()
            continue
        if response.status != PARTIAL_CONTENT or part.continues_with(response):
            return response
        response.close()
    raise DataError(f"{url} answers a request for the whole file with a part of it. Download it by hand.")


def _version_mark(headers: HTTPMessage) -> str:
    return headers.get("ETag") or headers.get("Last-Modified") or ""


def _require_http(url: str) -> None:
    scheme, host = urlsplit(url)[:2]
    if scheme not in ("http", "https") or not host:
        raise DataError(f"downloads need an http or https address; got {url!r}.")


def _ignore(new_bytes: int, task: str) -> None:
    """The progress of somebody who does not look."""
