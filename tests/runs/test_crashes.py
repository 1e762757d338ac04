"""Whatever happens at whichever step, the same command run again gives the same files."""

import errno
import itertools
import os
from contextlib import suppress
from pathlib import Path

import pandas
import pytest
from disasters import Disaster, Killed, disk_full, kill
from fake_training import content, train

from polynsd.runs import StorageError

TABLE = pandas.DataFrame({"id": ["a", "b"], "prediction": [1, 0], "p": [0.1, 0.7]})

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def undisturbed(tmp_path):
    train(tmp_path / "undisturbed", table=TABLE)
    return content(tmp_path / "undisturbed")


def steps(tmp_path):
    """How many operations an undisturbed run needs."""
    with pytest.MonkeyPatch.context() as patch:
        counter = Disaster().install(patch)
        train(tmp_path / "counted", table=TABLE)
    return counter.done


def struck(folder, **disaster):
    with pytest.MonkeyPatch.context() as patch:
        Disaster(**disaster).install(patch)
        train(folder, table=TABLE)


def test_the_undisturbed_run_has_these_files(undisturbed):
    assert set(undisturbed) == {
        "config.json",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "predictions.parquet",
        "result.json",
    }
    assert undisturbed["metrics.jsonl"].count(b"\n") == 10


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_step_and_resumed(tmp_path, undisturbed, after):
    for step in range(1, steps(tmp_path) + 1):
        folder = tmp_path / f"killed-{step}"
        with pytest.raises(Killed):
            struck(folder, step=step, end=kill, after=after)
        train(folder, table=TABLE)
        assert content(folder) == undisturbed, step


def test_killed_again_and_again(tmp_path, undisturbed):
    for step in (36, 38, 43, 47):
        folder = tmp_path / f"killed-{step}"
        for times in itertools.count(1):
            try:
                struck(folder, step=step, end=kill)
                break
            except Killed:
                assert times < 20, "no progress between kills"
        assert times > 1
        assert content(folder) == undisturbed, step


@pytest.mark.parametrize("lasting", [False, True])
def test_disk_full_at_every_step_loses_nothing(tmp_path, undisturbed, lasting):
    for step in range(1, steps(tmp_path) + 1):
        folder = tmp_path / f"full-{step}"
        with suppress(StorageError):  # nobody minds a full disk while the lock is given back
            struck(folder, step=step, end=disk_full, lasting=lasting)
        if folder.exists() and not lasting:
            assert not list(folder.glob("*.partial"))
        train(folder, table=TABLE)
        assert content(folder) == undisturbed, step


def test_disk_full_says_what_where_and_what_to_do(tmp_path):
    message = r"config\.json: No space left .* MB are free .* run the same command again"
    with pytest.raises(StorageError, match=message) as failure:
        struck(tmp_path / "run", step=4, end=disk_full, lasting=False)
    assert failure.value.errno == errno.ENOSPC


def test_a_full_disk_leaves_the_last_snapshot_in_place(tmp_path):
    with pytest.raises(StorageError, match="snapshot"):
        struck(tmp_path / "run", step=40, end=disk_full, lasting=True)
    assert (tmp_path / "run" / "snapshot.safetensors").stat().st_size > 0


def test_interrupted_by_the_user(tmp_path, undisturbed):
    def interrupt():
        raise KeyboardInterrupt

    for step in (20, 30, 45):
        folder = tmp_path / f"interrupted-{step}"
        with pytest.raises(KeyboardInterrupt):
            struck(folder, step=step, end=interrupt, lasting=False)
        train(folder, table=TABLE)
        assert content(folder) == undisturbed, step


def test_leftovers_of_others_stay(tmp_path, undisturbed):
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        struck(folder, step=40, end=kill)
    (folder / "notes.partial").write_text("mine")
    (folder / "model.safetensors.partial").write_text("torn")
    train(folder, table=TABLE)
    assert content(folder) == {**undisturbed, "notes.partial": b"mine"}


def test_a_finished_run_is_not_written_to(tmp_path, undisturbed):
    folder = tmp_path / "undisturbed"
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        counter = Disaster().install(patch)
        train(folder, table=TABLE)
    assert counter.done == 0
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        train(tmp_path / "run")


def test_what_is_moved_into_place_is_on_the_disk_already(tmp_path, monkeypatch):
    """In whole: the size of the file when it was last synced is the size it has when it is moved."""
    synced, moved = {}, []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor):
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size
        fsync(descriptor)

    def watched_replace(path, target):
        status = path.stat()
        moved.append(synced.get(status.st_ino) == status.st_size)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    train(tmp_path / "run", table=TABLE)
    assert len(moved) == 11  # config, environment, five snapshots, model, predictions, manifest, result
    assert all(moved)
