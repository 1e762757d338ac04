"""Damaged folders: a clear error that names the file, and nothing is lost."""

import errno
import os
import shutil
from contextlib import suppress

import pandas
import pytest
from disasters import Disaster, Killed
from fake_training import CONFIG, INPUTS, content, train
from fuzzing import fuzz_cases, seal_again
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polynsd.errors import DataError, PolyNSDError
from polynsd.runs import Run, StorageError, find_runs, read_run

pytestmark = pytest.mark.usefixtures("quick")
FILES = (
    "config.json",
    "environment.json",
    "manifest.json",
    "metrics.jsonl",
    "model.safetensors",
    "predictions.parquet",
    "result.json",
)
damage = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 10_000)),
    st.tuples(st.just("cut"), st.integers(0, 10_000)),
    st.tuples(
        st.just("replace"),
        st.one_of(st.binary(max_size=40), st.sampled_from([b"{}", b"[]", b"null", b"[" * 9999])),
    ),
)


def damaged(content, kind, how):
    if kind == "replace":
        return how
    if kind == "cut":
        return content[: how % len(content)]
    place, bit = divmod(how % (8 * len(content)), 8)
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished run and an interrupted one."""
    root = tmp_path_factory.mktemp("runs")
    train(root / "finished", table=pandas.DataFrame({"id": [1, 2], "p": [0.1, 0.9]}))
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        Disaster(step=40).install(patch)
        train(root / "interrupted")
    assert (root / "interrupted" / "snapshot.safetensors").exists()
    return root


def everything(folder):
    record = read_run(folder)
    return record.state, record.weights(), record.predictions(), record.metrics(), record.timings


@pytest.mark.fuzz("run folders")
@settings(max_examples=fuzz_cases(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), damage=damage)
def test_no_damage_to_a_finished_run_goes_unnoticed(folders, tmp_path, name, damage):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder, dirs_exist_ok=True)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(damaged(whole, *damage))
    if (folder / name).read_bytes() != whole:
        with pytest.raises(DataError, match=rf"/run/({'|'.join(FILES)}) "):
            everything(folder)
    with suppress(PolyNSDError):
        train(folder)


@pytest.mark.fuzz("run folders")
@settings(max_examples=fuzz_cases(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), damage=damage)
def test_a_forged_finished_run_is_read_or_refused(folders, tmp_path, name, damage):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder, dirs_exist_ok=True)
    (folder / name).write_bytes(damaged((folder / name).read_bytes(), *damage))
    seal_again(folder)
    for use in (everything, train):
        with suppress(PolyNSDError):
            use(folder)


@pytest.mark.fuzz("run folders")
@settings(max_examples=fuzz_cases(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(("snapshot.safetensors", "metrics.jsonl", "config.json", "environment.json")),
    damage=damage,
)
def test_a_damaged_unfinished_run_goes_on_or_is_refused(folders, tmp_path, name, damage):
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folders / "interrupted", folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(damaged(whole, *damage))
    before = content(folder)
    try:
        train(folder)
    except PolyNSDError:
        assert content(folder) == before


@pytest.mark.fuzz("run folders")
@settings(max_examples=fuzz_cases(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damage)
def test_no_damage_to_a_snapshot_goes_unnoticed(folders, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folders / "interrupted", folder)
    path = folder / "snapshot.safetensors"
    path.write_bytes(damaged(path.read_bytes(), *damage))
    before = content(folder)
    with pytest.raises(DataError, match=r"snapshot\.safetensors .*delete it to start that run again"):
        train(folder)
    assert content(folder) == before


def test_without_its_damaged_snapshot_the_run_starts_again(folders, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(folders / "interrupted", folder)
    (folder / "snapshot.safetensors").unlink()
    train(folder)
    train(tmp_path / "undisturbed")
    assert content(folder) == content(tmp_path / "undisturbed")


def test_a_snapshot_of_another_run_is_refused(folders, tmp_path):
    with Run.start(tmp_path / "run", "protocol", {**CONFIG, "seed": 1}, INPUTS):
        pass
    shutil.copy(folders / "interrupted" / "snapshot.safetensors", tmp_path / "run")
    with pytest.raises(DataError, match="another configuration"):
        train(tmp_path / "run", {**CONFIG, "seed": 1})


def test_metrics_shorter_than_the_snapshot_says(folders, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(folders / "interrupted", folder)
    (folder / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match=r"metrics\.jsonl is damaged"):
        train(folder)


@pytest.mark.parametrize("name", FILES)
def test_messages_name_the_file(folders, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder)
    (folder / name).write_bytes(b"\x00\n")
    with pytest.raises(DataError, match=name):
        everything(folder)


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "model.safetensors", "predictions.parquet"])
def test_missing_files_are_named(folders, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing|no run: it has no {name}"):
        everything(folder)


def test_files_that_are_folders_or_pipes(folders, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder)
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(DataError, match="not a file"):
        read_run(folder).weights()
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()
    with pytest.raises(DataError, match=r"result\.json is not a file"):
        read_run(folder)


def test_a_newer_format_is_refused(folders, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(folders / "finished", folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match="Update polynsd"):
        read_run(folder)


def test_no_run_at_all(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        read_run(tmp_path / "nothing")
    with pytest.raises(DataError, match="no folder"):
        find_runs(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"is no run: it has no config\.json"):
        read_run(tmp_path)


def test_the_metrics_that_could_not_be_written_are_not_doubled(tmp_path):
    """The second attempt begins where the torn one did."""

    def full():
        raise OSError(errno.ENOSPC, "full")

    with Run.start(tmp_path / "run", "protocol", {}, {}) as run:
        run.log({"epoch": 1})
        with pytest.MonkeyPatch.context() as patch:
            Disaster(step=2, end=full).install(patch)
            with pytest.raises(StorageError):
                run.finish({}, {})
        assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == b'{"epoc'
        run.finish({}, {})
    assert read_run(tmp_path / "run").metrics() == [{"epoch": 1}]


@pytest.mark.skipif(os.name == "nt", reason="has no pipes with names")
@pytest.mark.parametrize("name", ["config.json", "environment.json", "metrics.jsonl", "result.json", "lock"])
def test_a_pipe_in_place_of_a_file_blocks_nobody(name, folders, tmp_path):
    folder = shutil.copytree(folders / "interrupted", tmp_path / "run")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(PolyNSDError, match=name):
        train(folder)
    with suppress(PolyNSDError):
        everything(folder)


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "config.json.partial"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_no_file_outside_is_written_through_a_link(name, link, folders, tmp_path):
    """Whoever gives a run folder away cannot have a file of its reader emptied."""
    folder = shutil.copytree(folders / "interrupted", tmp_path / "run")
    precious = tmp_path / "precious"
    precious.write_bytes((folder / "metrics.jsonl").read_bytes() + b"mine")
    before = precious.read_bytes()
    (folder / name).unlink(missing_ok=True)
    link(precious, folder / name)
    with suppress(PolyNSDError):
        train(folder)
    assert precious.read_bytes() == before


def test_half_a_character_is_damage(folders, tmp_path):
    folder = shutil.copytree(folders / "finished", tmp_path / "run")
    result = folder / "result.json"
    result.write_bytes(result.read_bytes().replace(b'"accuracy"', b'"\\ud800"'))
    seal_again(folder)
    with pytest.raises(DataError, match=r"result\.json is damaged, it is not JSON: .*surrogates"):
        read_run(folder)
    whole = result.read_bytes().replace(b"ud800", b"ud83d\\ude00")
    result.write_bytes(whole)
    seal_again(folder)
    assert read_run(folder).result["metric"] == "\N{GRINNING FACE}"
