"""Downloads against small servers on this machine: whole, resumed, broken, wrong, refused."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request

import pytest

from polynsd.data.datasets.download import _SafeRedirects, fetch
from polynsd.errors import DataError
from polynsd.report.progress import ProgressReporter

BODY = bytes(range(256)) * 400
SHA256 = hashlib.sha256(BODY).hexdigest()
HALF = len(BODY) // 2


class Server(BaseHTTPRequestHandler):
    """Serves BODY at any address; the class attributes are its faults."""

    body = BODY
    etag = '"one"'
    ranges = True
    honours_if_range = True
    cut_after = None  # bytes sent before the connection is closed
    status = 200
    location = None
    unannounced = False
    stalls = None  # an event that the server waits for before the second half
    seen = ()

    def do_GET(self):
        type(self).seen = (*self.seen, {key.lower(): value for key, value in self.headers.items()})
        if self.status != 200:
            return self._answer(self.status, b"", {"Location": self.location} if self.location else {})
        start, asked = 0, self.headers.get("Range")
        same = self.headers.get("If-Range") == self.etag or not self.honours_if_range
        if asked and self.ranges and same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.body):
                return self._answer(416, b"", {"Content-Range": f"bytes */{len(self.body)}"})
            where = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
            return self._answer(206, self.body[start:], {"Content-Range": where})
        return self._answer(200, self.body, {})

    def _answer(self, status, body, headers):
        self.send_response(status)
        headers = {**headers, **({"ETag": self.etag} if self.etag else {})}
        if not self.unannounced:
            headers["Content-Length"] = len(body)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.stalls is not None:
            self.wfile.write(body[:HALF])
            self.stalls.wait(10)
        else:
            self.wfile.write(body[: self.cut_after])

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(**faults):
    handler = type("Handler", (Server,), faults)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/file.npz", handler
        finally:
            server.shutdown()
            thread.join()


def interrupted(path, **faults):
    """Leaves the first half of BODY beside `path`, as a broken connection does."""
    with serving(cut_after=HALF, **faults) as (url, _), pytest.raises(DataError) as error:
        fetch(url, path)
    return str(error.value)


def test_the_whole_file_arrives_and_nothing_else(tmp_path):
    target = tmp_path / "new" / "file.npz"
    with serving() as (url, _):
        assert fetch(url, target, sha256=SHA256.upper(), size=len(BODY)) == target
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("unannounced", [False, True])
def test_progress_counts_every_byte(tmp_path, unannounced):
    reporter = ProgressReporter(len(BODY), "bytes", quiet=True)
    with serving(unannounced=unannounced) as (url, _), reporter:
        fetch(url, tmp_path / "file.npz", progress=reporter.advance)
    assert (reporter.done, reporter.task) == (len(BODY), "file.npz")


def test_the_right_file_is_not_fetched_again(tmp_path):
    path = tmp_path / "file.npz"
    path.write_bytes(BODY)
    assert fetch("http://127.0.0.1:1/nobody", path, sha256=SHA256, size=len(BODY)) == path


@pytest.mark.parametrize("promise", [{"sha256": SHA256}, {"size": len(BODY)}])
def test_a_wrong_file_in_its_place_is_replaced(tmp_path, promise):
    path = tmp_path / "file.npz"
    path.write_bytes(b"old")
    with serving() as (url, _):
        fetch(url, path, **promise)
    assert path.read_bytes() == BODY


def test_a_broken_download_says_what_is_kept_and_resumes(tmp_path):
    path = tmp_path / "file.npz"
    text = interrupted(path)
    assert f"ended after {HALF:,} of {len(BODY):,} bytes" in text
    assert "file.npz.part; call again to resume" in text
    assert not path.exists()
    counted = []
    with serving() as (url, handler):
        fetch(url, path, sha256=SHA256, progress=lambda new, task: counted.append(new))
    assert handler.seen[0]["range"] == f"bytes={HALF}-"
    assert handler.seen[0]["if-range"] == '"one"'
    assert counted[0] == HALF
    assert sum(counted) == len(BODY)
    assert path.read_bytes() == BODY
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "faults",
    [{"ranges": False}, {"etag": '"two"'}, {"etag": '"two"', "honours_if_range": False}, {"etag": None}],
    ids=["ignores ranges", "changed", "changed and ignores If-Range", "forgot its mark"],
)
def test_what_cannot_be_resumed_starts_afresh(tmp_path, faults):
    interrupted(tmp_path / "file.npz")
    changed = bytes(reversed(BODY))
    with serving(body=changed, **faults) as (url, _):
        path = fetch(url, tmp_path / "file.npz")
    assert path.read_bytes() == changed


def test_without_a_mark_of_the_version_nothing_is_resumed(tmp_path):
    assert "nothing to resume" in interrupted(tmp_path / "file.npz", etag=None)
    with serving() as (url, handler):
        assert fetch(url, tmp_path / "file.npz").read_bytes() == BODY
    assert "range" not in handler.seen[0]


def test_a_part_longer_than_the_file_starts_afresh(tmp_path):
    interrupted(tmp_path / "file.npz")
    with serving(body=b"short") as (url, handler):
        assert fetch(url, tmp_path / "file.npz").read_bytes() == b"short"
    assert ["range" in seen for seen in handler.seen] == [True, False]


def test_a_wrong_hash_leaves_nothing_behind(tmp_path):
    with (
        serving() as (url, _),
        pytest.raises(DataError, match=rf"SHA-256 should be {'0' * 64} and is {SHA256}"),
    ):
        fetch(url, tmp_path / "file.npz", sha256="0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_wrong_length_is_refused_before_the_transfer(tmp_path):
    with (
        serving() as (url, _),
        pytest.raises(DataError, match=r"should have 7 bytes; the server offers 102,400"),
    ):
        fetch(url, tmp_path / "file.npz", size=7)
    assert not list(tmp_path.iterdir())


def test_an_unannounced_wrong_length_is_noticed(tmp_path):
    with serving(unannounced=True) as (url, _), pytest.raises(DataError, match=r"7 bytes and has 102,400"):
        fetch(url, tmp_path / "file.npz", size=7)


@pytest.mark.parametrize("unannounced", [False, True])
def test_absurd_sizes_are_refused(tmp_path, unannounced):
    refusal = pytest.raises(DataError, match=r"at most 1,000 .* max_bytes")
    with serving(unannounced=unannounced) as (url, _), refusal:
        fetch(url, tmp_path / "file.npz", max_bytes=1000)
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_an_error_with_its_status(tmp_path):
    with serving(status=404) as (url, _), pytest.raises(DataError, match=r"answered 404 Not Found"):
        fetch(url, tmp_path / "file.npz")


def test_nobody_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"download of http://127.0.0.1:1/x stopped: .*afresh"):
        fetch("http://127.0.0.1:1/x", tmp_path / "x")


def test_a_silent_server_times_out_and_can_be_resumed(tmp_path):
    awake = threading.Event()
    with serving(stalls=awake) as (url, _):
        with pytest.raises(DataError, match=r"timed out.*call again to resume"):
            fetch(url, tmp_path / "file.npz", timeout=0.2)
        awake.set()
    with serving() as (url, handler):
        assert fetch(url, tmp_path / "file.npz", sha256=SHA256).read_bytes() == BODY
    assert handler.seen[0]["range"] == f"bytes={HALF}-"


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://host/x", "data:,x", "texas.npz", "https:///x"])
def test_other_schemes_are_refused(tmp_path, url):
    with pytest.raises(DataError, match="need an http or https address"):
        fetch(url, tmp_path / "x")


def test_redirects_are_followed_within_http_only(tmp_path):
    with serving() as (there, _), serving(status=302, location=there) as (url, _):
        assert fetch(url, tmp_path / "file.npz").read_bytes() == BODY
    with (
        serving(status=302, location="ftp://host/x") as (url, _),
        pytest.raises(DataError, match="http or https"),
    ):
        fetch(url, tmp_path / "other.npz")


def test_protection_is_not_given_up_on_the_way():
    with pytest.raises(DataError, match="redirects to the unprotected http://b/x"):
        _SafeRedirects().redirect_request(Request("https://a/x"), None, 302, "", {}, "http://b/x")


def test_a_server_that_sends_parts_unasked_is_an_error(tmp_path):
    with serving(status=206) as (url, _), pytest.raises(DataError, match="with a part of it"):
        fetch(url, tmp_path / "file.npz")


def test_an_unwritable_folder_is_an_error(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    with serving() as (url, _), pytest.raises(DataError, match="stopped"):
        fetch(url, tmp_path / "taken" / "file.npz")
