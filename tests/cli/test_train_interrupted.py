"""`polynsd train` as a process of its own: killed, interrupted, in company, with a damaged snapshot."""

import json
import os
import shutil
import signal
import threading
import time

import pytest
import train_process
from fuzzing import repeatable_hashes

from polynsd.cli import handle_signals, main
from polynsd.runs import Run, StorageError, read_run

OPTIONS = [
    "train", "--data", "num_nodes=60", "num_classes=2", "num_features=4", "--splits", "3", "--dropout", "0.3",
    "--hidden-channels", "4", "--stalk-dim", "2", "--degree", "2", "--num-layers", "1",
    "--epochs", "40", "--patience", "40", "--snapshot-seconds", "0",
]  # fmt: skip
PATIENCE = 60.0  # seconds that a moment is waited for


def command(folder):
    return [*OPTIONS, "--out", str(folder)]


def content(folder):
    """result.json without its timings, and hashes of metrics, weights and predictions."""
    found = json.loads((folder / "result.json").read_bytes())
    del found["timings"]
    return json.dumps(found), repeatable_hashes(folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a run comes to that nobody disturbs."""
    folder = tmp_path_factory.mktemp("train") / "undisturbed"
    main(command(folder))
    return content(folder)


def process(folder):
    """The command as a process; its last words are in a file beside the folder."""
    return train_process.process(command(folder), folder.with_suffix(".err"))


def ended(started, folder):
    """The exit code, and what was said."""
    started.join(PATIENCE)
    return started.exitcode, folder.with_suffix(".err").read_text()


def wait_until(moment, started):
    end = time.monotonic() + PATIENCE
    while not moment():
        assert started.is_alive(), started.exitcode
        assert time.monotonic() < end, "the moment did not come"
        time.sleep(0.002)


def size(path):
    return path.stat().st_size if path.exists() else 0


def epochs(folder):
    return [record["epoch"] for record in read_run(folder).metrics() if record["event"] == "epoch"]


@pytest.mark.slow
def test_killed_at_several_moments_it_comes_to_the_same_result(tmp_path, expected):
    folder = tmp_path / "run"
    moments = [
        lambda: (folder / "snapshot.safetensors").exists(),
        lambda: size(folder / "metrics.jsonl") > 4_000,
    ]
    for moment in moments:
        with process(folder) as started:
            wait_until(moment, started)
            started.kill()
            assert ended(started, folder)[0] == -signal.SIGKILL
        assert not (folder / "result.json").exists()
    assert len(read_run(folder).environment) == 2
    before = max(epochs(folder))
    main(command(folder))
    assert content(folder) == expected
    told = [record for record in read_run(folder).events() if record["event"] == "resume"]
    assert {record["split"] for record in told} == {0, 1, 2}
    assert before - 1 <= told[-1]["epoch"] <= before
    assert not (folder / "snapshot.safetensors").exists()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """(folder, exit code, last words) of a run that got SIGINT, as Ctrl-C sends it."""
    folder = tmp_path_factory.mktemp("train") / "interrupted"
    with process(folder) as started:
        wait_until((folder / "snapshot.safetensors").exists, started)
        os.kill(started.pid, signal.SIGINT)
        return folder, *ended(started, folder)


def test_an_interrupted_run_can_be_gone_on_with(interrupted, tmp_path, expected):
    folder, code, words = interrupted
    assert code == 130
    assert words.endswith(f"polynsd: interrupted; the same command goes on with {folder}\n")
    assert "Traceback" not in words
    assert read_run(folder).state == "unfinished"
    shutil.copytree(folder, tmp_path / "run")
    main(command(tmp_path / "run"))
    assert content(tmp_path / "run") == expected


def test_told_to_end_it_ends_as_if_interrupted(tmp_path):
    folder = tmp_path / "run"
    with process(folder) as started:
        wait_until((folder / "snapshot.safetensors").exists, started)
        started.terminate()
        code, words = ended(started, folder)
    assert code == 143
    assert words.endswith(f"polynsd: interrupted; the same command goes on with {folder}\n")
    assert read_run(folder).state == "unfinished"
    assert not list(folder.glob("*.lock*"))


def test_elsewhere_than_in_a_command_sigterm_means_what_it_meant():
    before = signal.getsignal(signal.SIGTERM)
    with handle_signals():
        assert signal.getsignal(signal.SIGTERM) != before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_threads_leave_signals_alone():
    seen = []

    def look():
        with handle_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_a_truncated_snapshot_is_told_and_nothing_is_lost(interrupted, tmp_path, expected, capsys):
    folder = shutil.copytree(interrupted[0], tmp_path / "run")
    snapshot = folder / "snapshot.safetensors"
    snapshot.write_bytes(snapshot.read_bytes()[:-100])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SystemExit) as stop:
        main(command(folder))
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert str(snapshot) in error
    assert "delete it to start that run again from its beginning" in error
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    snapshot.unlink()
    main(command(folder))
    assert content(folder) == expected


def test_a_run_that_fails_as_it_is_written_has_no_result_yet(tmp_path, expected, capsys, monkeypatch):
    def full(*args):
        raise StorageError("no space left")

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", full)
        with pytest.raises(SystemExit) as stop:
            main([*command(folder), "--json"])
    shown = capsys.readouterr()
    records = [json.loads(line) for line in shown.out.splitlines()]
    assert stop.value.code == 2
    assert "no space left" in shown.err
    assert "result" not in {record["event"] for record in records}
    assert records[-1]["event"] == "failed"
    main([*command(folder), "--json"])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    events = [record["event"] for record in records]
    assert events == ["begin", *["resume"] * 3, *["done"] * 3, "result"]  # nothing was left to train
    assert content(folder) == expected


def test_two_processes_on_one_folder(tmp_path, expected, capsys):
    """One trains; the other is told who does, and disturbs nothing."""
    folder = tmp_path / "run"
    with process(folder) as started:
        wait_until((folder / "snapshot.safetensors").exists, started)
        os.kill(started.pid, signal.SIGSTOP)  # so that it cannot be over before we ask
        with pytest.raises(SystemExit) as stop:
            main(command(folder))
        os.kill(started.pid, signal.SIGCONT)
        assert stop.value.code == 2
        assert f"in use by process {started.pid} on " in capsys.readouterr().err
        assert ended(started, folder)[0] == 0
    assert content(folder) == expected
