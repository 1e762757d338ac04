"""Programs that end with the process that started them, and ports that are taken."""

import os
import signal
import socket
import subprocess
import sys
import time
from threading import Thread

import pytest

from polynsd.federated.children import read_tail, run_child

SLEEPER = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]
PARENT = f"""
import os, pathlib, sys, time
from polynsd.federated.children import run_child
with run_child({SLEEPER!r}, os.environ, pathlib.Path(sys.argv[1])):
    time.sleep(60)
"""


def wait_for(check):
    end = time.monotonic() + 20
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL], ids=lambda kill: kill.name)
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path, kill):
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log)])
    try:
        wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
        child = int(log.read_text())
        assert is_alive(child)
    finally:
        parent.send_signal(kill)
        parent.wait(timeout=20)
    wait_for(lambda: not is_alive(child))


def test_a_child_that_ends_by_itself_has_its_own_status(tmp_path):
    command = [sys.executable, "-c", "print('that is all'); raise SystemExit(7)"]
    with run_child(command, os.environ, tmp_path / "log") as child:
        assert child.wait(timeout=20) == 7
    assert read_tail(tmp_path / "log") == "that is all"


def test_a_port_at_which_another_program_listens_is_refused(tmp_path):
    pytest.importorskip("flwr")
    from polynsd.errors import ConfigError
    from polynsd.federated import FederatedConfig
    from polynsd.federated.config import ServerOptions
    from polynsd.federated.deployment import serve

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen at port {port}"):
            serve(FederatedConfig(), ServerOptions(2), tmp_path / "run", port=port)
    assert not (tmp_path / "run").exists()


def test_a_training_ends_when_nobody_holds_the_lock_of_its_server(tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    from polynsd.federated import deployment
    from polynsd.runs.lock import hold_lock

    ends = []
    monkeypatch.setattr(deployment.os, "_exit", ends.append)
    monkeypatch.setattr(deployment, "POLL_SECONDS", 0.01)
    with hold_lock(tmp_path):
        watch = Thread(target=deployment._end_with_server, args=(tmp_path,))
        watch.start()
        time.sleep(0.1)
        assert not ends
    watch.join(timeout=20)
    assert ends == [1]
