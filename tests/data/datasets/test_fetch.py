"""Downloads against small servers on this machine: whole, broken, wrong, refused."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from polynsd.data.datasets.sources import _check_response, fetch
from polynsd.errors import DataError
from polynsd.report.progress import ProgressReporter

BODY = bytes(range(256)) * 400
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Serves BODY at any address; the class attributes are its faults."""

    body = BODY
    cut_after = None  # bytes sent before the connection is closed
    status = 200
    location = None
    unannounced = False
    stalls = None  # an event that the server waits for before the second half

    def do_GET(self):
        body = self.body if self.status in (200, 206) else b""
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        if not self.unannounced:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.stalls is not None:
            self.wfile.write(body[: len(body) // 2])
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
            yield f"http://127.0.0.1:{server.server_port}/file.npz"
        finally:
            server.shutdown()
            thread.join()


def test_the_whole_file_arrives_and_nothing_else(tmp_path, capfd):
    target = tmp_path / "new" / "file.npz"
    with serving() as url:
        assert fetch(url, target, sha256=SHA256.upper()) == target
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("unannounced", [False, True])
def test_progress_counts_every_byte(tmp_path, unannounced):
    reporter = ProgressReporter(len(BODY), "bytes", quiet=True)
    with serving(unannounced=unannounced) as url, reporter:
        fetch(url, tmp_path / "file.npz", progress=reporter.advance)
    assert (reporter.done, reporter.task) == (len(BODY), "file.npz")


def test_the_right_file_is_not_fetched_again_and_a_wrong_one_is_replaced(tmp_path):
    path = tmp_path / "file.npz"
    path.write_bytes(BODY)
    assert fetch("http://127.0.0.1:1/nobody", path, sha256=SHA256) == path
    path.write_bytes(b"old")
    with serving() as url:
        fetch(url, path, sha256=SHA256)
    assert path.read_bytes() == BODY


def test_a_wrong_hash_leaves_nothing_behind(tmp_path):
    with (
        serving() as url,
        pytest.raises(DataError, match=rf"not the expected file: .*{'0' * 64}.*{SHA256}"),
    ):
        fetch(url, tmp_path / "file.npz", sha256="0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_wrong_hash_leaves_the_old_file(tmp_path):
    (tmp_path / "file.npz").write_bytes(b"old")
    with serving() as url, pytest.raises(DataError, match="not the expected file"):
        fetch(url, tmp_path / "file.npz", sha256="0" * 64)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_broken_download_leaves_nothing_and_can_be_repeated(tmp_path):
    with serving(cut_after=1000) as url, pytest.raises(DataError, match=r"stopped: .* try again"):
        fetch(url, tmp_path / "file.npz")
    assert not list(tmp_path.iterdir())
    with serving() as url:
        assert fetch(url, tmp_path / "file.npz").read_bytes() == BODY


def test_a_silent_server_times_out(tmp_path):
    awake = threading.Event()
    with serving(stalls=awake) as url:
        with pytest.raises(DataError, match=r"stopped: .*timed out"):
            fetch(url, tmp_path / "file.npz", timeout=0.2)
        awake.set()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unannounced", [False, True])
def test_absurd_sizes_are_refused(tmp_path, unannounced):
    refusal = pytest.raises(DataError, match=r"at most 1,000 .* max_bytes")
    with serving(unannounced=unannounced) as url, refusal:
        fetch(url, tmp_path / "file.npz", max_bytes=1000)
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_an_error_with_its_status(tmp_path):
    with serving(status=404) as url, pytest.raises(DataError, match=r"answered 404 Not Found. Check"):
        fetch(url, tmp_path / "file.npz")


def test_nobody_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"download of http://127.0.0.1:1/x stopped: "):
        fetch("http://127.0.0.1:1/x", tmp_path / "x")


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://host/x", "data:,x", "texas.npz", "https:///x"])
def test_other_schemes_are_refused(tmp_path, url):
    with pytest.raises(DataError, match="need an http or https address"):
        fetch(url, tmp_path / "x")


def test_redirects_are_followed_within_http_only(tmp_path):
    with serving() as target, serving(status=302, location=target) as url:
        assert fetch(url, tmp_path / "file.npz").read_bytes() == BODY
    with serving(status=302, location="ftp://host/x") as url, pytest.raises(DataError, match="ftp://host/x"):
        fetch(url, tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("location", "is_refused"), [("http://b/x", True), ("https://b/x", False), ("/y", False)]
)
def test_protection_is_not_given_up_on_the_way(location, is_refused):
    response = SimpleNamespace(
        url="https://a/x", headers={"Location": location}, is_redirect=True, status_code=302
    )
    if is_refused:
        with pytest.raises(DataError, match="redirects to the unprotected http://b/x"):
            _check_response(response)
    else:
        _check_response(response)


def test_a_server_that_sends_parts_unasked_is_an_error(tmp_path):
    with serving(status=206) as url, pytest.raises(DataError, match="with a part of it"):
        fetch(url, tmp_path / "file.npz")


def test_an_unwritable_folder_is_an_error(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    with serving() as url, pytest.raises(DataError, match="stopped"):
        fetch(url, tmp_path / "taken" / "file.npz")
