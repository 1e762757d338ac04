"""Storages by address; PostgreSQL with a real server, where there is one."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from limits import cases
from test_workers import share
from toys import toy_search

from polynsd.errors import ConfigError, PolyNSDError
from polynsd.search import best_trials, count_finished, open_storage, trial_rows, work
from polynsd.search.heartbeat import tell_outcome
from polynsd.search.storage import hide_password, one_transaction
from polynsd.search.worker import ask_batch

OWNER = "postgres"  # the server refuses to run as root


def test_sqlite_makes_its_folder(tmp_path):
    open_storage(f"sqlite:///{tmp_path}/new/folder/study.db")
    assert (tmp_path / "new" / "folder" / "study.db").is_file()


def test_whoever_reads_an_sqlite_file_also_holds_it(tmp_path):
    """So nobody changes a trial between another's look at it and its change."""
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    with closing(sqlite3.connect(tmp_path / "study.db", timeout=0)) as other:
        with storage.engine.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


def test_an_sqlite_file_gets_a_transaction_in_one_go_also_where_it_is_interrupted(tmp_path):
    """A trial that another worker has ended raises, and takes nothing else with it."""
    url = f"sqlite:///{tmp_path}/study.db"
    search, other = toy_search(url, trials=2), toy_search(url, trials=2)
    first, second = ask_batch(search)
    other.study.tell(second.number, 0.5)
    with (
        closing(sqlite3.connect(tmp_path / "study.db", timeout=0)) as reader,
        suppress(KeyboardInterrupt),
        one_transaction(search.study._storage),
    ):
        first.set_user_attr("heartbeat", 1)
        assert not tell_outcome(
            search.study, second.number, {"state": "failed", "attributes": {"reason": ""}}
        )
        assert "heartbeat" not in str(reader.execute("SELECT key FROM trial_user_attributes").fetchall())
        raise KeyboardInterrupt
    stored = other.study.get_trials()
    assert stored[first.number].user_attrs["heartbeat"] == 1
    assert stored[second.number].value == 0.5


@pytest.mark.parametrize("url", ["study.db", "mysql://host/name", "sqlite:study.db", ""])
def test_other_addresses_are_refused(url):
    with pytest.raises(ConfigError, match="a storage is"):
        open_storage(url)


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "study.db").write_text("a shopping list")
    with pytest.raises(ConfigError, match="cannot be opened"):
        open_storage(f"sqlite:///{tmp_path}/study.db")


def test_a_server_that_is_not_there_is_an_error_without_the_password():
    pytest.importorskip("psycopg2")
    with pytest.raises(ConfigError, match="cannot be opened") as error:
        open_storage("postgresql://me:secret@localhost:1/studies")
    assert "secret" not in str(error.value)
    assert hide_password("postgresql://me:secret@host/studies") == "postgresql://me@host/studies"


def test_a_journal_keeps_a_study(tmp_path):
    url = f"journal:///{tmp_path}/study.log"
    work(toy_search(url, trials=2))
    assert count_finished(toy_search(url, trials=2).study) == 2


def _owner():
    """Who runs the server: root must not."""
    return {"user": OWNER, "group": OWNER, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def postgres():
    """A server of our own on a socket in a temporary folder; nothing of it remains."""
    if not (shutil.which("postgres") and shutil.which("initdb")):
        pytest.skip("no PostgreSQL server is installed")
    pytest.importorskip("psycopg2")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # sockets need short names
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, OWNER)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **_owner()}
        initdb = ["initdb", "-D", str(folder / "data"), "-U", "me", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, **quiet)
        options = ["-k", str(folder), "-c", "listen_addresses=", "-F"]
        server = subprocess.Popen(["postgres", "-D", str(folder / "data"), *options], **quiet)
        try:
            url = f"postgresql://me@/postgres?host={folder}"
            _wait_for(url)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # does not wait for clients to leave
            server.wait(timeout=30)
    except (LookupError, PermissionError) as error:
        pytest.skip(f"no PostgreSQL server can be started here: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(url):
    for _ in range(100):
        with suppress(ConfigError):
            open_storage(url)
            return
        time.sleep(0.2)
    raise AssertionError(f"no server at {url}")


@pytest.mark.slow
def test_processes_share_a_postgresql_server_and_survive_a_killed_one(postgres, tmp_path):
    share(postgres, tmp_path)


DAMAGE = {  # parts of the file, and what takes their place
    "a score": (b"[0.", b"{0."),
    "a state": (b"COMPLETE", b"CAMPLETE"),
    "a distribution": (b'"low"', b'"lew"'),
    "the space": (b'"space"', b'"spice"'),
    "a name": (b"best_epoch", b"bast_epoch"),
    "no text": (b"training.learning_rate", b"\xff" * 22),
}


@pytest.fixture(scope="module")
def stored_study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.db"
    work(toy_search(f"sqlite:///{path}", trials=2, batch=2, splits=1))
    return path.read_bytes()


def opened(path, content):
    path.write_bytes(content)
    search = toy_search(f"sqlite:///{path}", trials=2, batch=2, splits=1)
    work(search)
    return best_trials(search), trial_rows(search.study)


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_study_is_told(what, stored_study, tmp_path):
    old, new = DAMAGE[what]
    assert old in stored_study
    with pytest.raises(PolyNSDError, match=r"study\.db"):
        opened(tmp_path / "study.db", stored_study.replace(old, new))


@pytest.mark.fuzz("study databases")
@pytest.mark.usefixtures("no_tracer")
def test_a_study_with_damaged_bytes_is_sound_or_refused(stored_study, tmp_path):
    for number in cases(12):
        chosen, content = random.Random(number), bytearray(stored_study)
        page = 4096 * chosen.randrange(len(content) // 4096)
        match number % 3:
            case 0:
                content[page : page + 4096] = bytes(4096)
            case 1:
                del content[page:]
            case 2:
                for _ in range(40):
                    content[chosen.randrange(len(content))] = chosen.randrange(256)
        with suppress(PolyNSDError):
            opened(tmp_path / f"{number}.db", bytes(content))
