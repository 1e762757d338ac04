"""Real processes: killed at random steps, and two of them on one folder."""

import errno
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_training import CONFIG, INPUTS, content, train
from fuzzing import fuzz_cases

from polynsd.errors import ConfigError
from polynsd.runs import Run, StorageError, read_run

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize(("training", "kills"), [("fake_training", 6), ("real_training", 3)])
def test_killed_at_random_steps(tmp_path, training, kills, record_property):
    """And resumed: weights, metrics and result.json are those of an undisturbed run, byte for byte."""
    killer, kills = Path(__file__).with_name("killer.py"), fuzz_cases(kills)
    done = subprocess.run(
        [sys.executable, str(killer), training, str(tmp_path), str(kills)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    expected = content(tmp_path / "undisturbed")
    assert {"result.json", "model.safetensors", "metrics.jsonl"} < set(expected)
    resumed = [content(folder) for folder in tmp_path.glob("killed-*")]
    assert len(resumed) > 1
    assert all(files == expected for files in resumed)
    record_property("kills", (f"a run, {training.replace('_', ' ')}", kills))


def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # children do little, and nothing with threads
        return os.fork()


@contextmanager
def another_process(folder):
    """A process that has the run open; yields its number."""
    ready, tell = os.pipe()
    child = fork()
    if not child:
        with Run.start(folder, "protocol", CONFIG, INPUTS):
            os.write(tell, b".")
            signal.pause()
    os.read(ready, 1)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


def test_a_second_process_is_told_who_has_the_run(tmp_path):
    with another_process(tmp_path / "run") as pid:
        with pytest.raises(ConfigError, match=rf"in use by process {pid} on \S+ since 2\S+\. Wait"):
            train(tmp_path / "run")
        assert read_run(tmp_path / "run").state == "running"


def test_the_lock_dies_with_its_holder(tmp_path):
    with another_process(tmp_path / "run"):
        pass
    assert read_run(tmp_path / "run").state == "unfinished"
    train(tmp_path / "run")
    assert read_run(tmp_path / "run").state == "finished"


def test_the_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), Run.start(tmp_path / "run", "protocol", CONFIG, INPUTS):
        raise ZeroDivisionError
    assert (tmp_path / "run" / "lock").read_bytes() == b""
    train(tmp_path / "run")


def test_one_process_cannot_open_a_run_twice(tmp_path):
    with Run.start(tmp_path / "run", "protocol", CONFIG, INPUTS), pytest.raises(ConfigError, match="in use"):
        train(tmp_path / "run")


def test_looking_at_a_run_keeps_nobody_from_starting_it(tmp_path):
    """`state` takes the lock for a moment."""
    train(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    assert [read_run(tmp_path / "run").state for _ in range(3)] == ["unfinished"] * 3
    train(tmp_path / "run")


def test_a_disk_without_locks_is_told(tmp_path, monkeypatch):
    def unsupported(descriptor, shared):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("polynsd.runs.lock._lock", unsupported)
    with pytest.raises(StorageError, match=r"could not write .*lock: No locks available"):
        train(tmp_path / "run")


def test_many_processes_at_once_leave_one_whole_run(tmp_path):
    """Each of them trains it, finds it finished, or is told that it is in use."""
    train(tmp_path / "undisturbed")
    gate, start = os.pipe()
    children = []
    for _ in range(6):
        children.append(fork())
        if not children[-1]:
            os.close(start)
            os.read(gate, 1)  # ends for all when the parent closes it
            try:
                train(tmp_path / "run")
                os._exit(0)
            except ConfigError as error:
                os._exit(1 if "in use" in str(error) else 2)
            finally:
                os._exit(3)
    os.close(start)
    codes = [os.WEXITSTATUS(os.waitpid(child, 0)[1]) for child in children]
    os.close(gate)
    assert set(codes) <= {0, 1}
    assert 0 in codes
    assert content(tmp_path / "run") == content(tmp_path / "undisturbed")


def test_a_run_that_another_process_finishes_in_between(tmp_path, monkeypatch):
    def meanwhile(folder):
        monkeypatch.undo()
        train(folder)

    monkeypatch.setattr("polynsd.runs.run.make_folder", meanwhile)
    with Run.start(tmp_path / "run", "protocol", CONFIG, INPUTS) as run:
        assert run.result["metric"] == "accuracy"
