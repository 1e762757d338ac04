"""A folder that grows is reported, byte for byte."""

import time

import pytest

from polynsd.data.datasets.watch import INTERVAL_SECONDS, folder_bytes, watched


def test_growth_is_reported_in_full(tmp_path):
    (tmp_path / "old").write_bytes(b"x" * 10)
    calls = []
    with watched(tmp_path, "task", lambda new, task: calls.append((new, task))):
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "a").write_bytes(b"x" * 1000)
        time.sleep(2 * INTERVAL_SECONDS)
        (tmp_path / "b").write_bytes(b"x" * 500)
    assert sum(new for new, _ in calls) == 1500
    assert len(calls) >= 2  # while it went, and at the end
    assert {task for _, task in calls} == {"task"}


def test_the_watcher_stops_when_the_work_fails(tmp_path):
    with pytest.raises(RuntimeError, match="broken"), watched(tmp_path, "task", print):  # noqa: PT012
        (tmp_path / "a").write_bytes(b"x")
        raise RuntimeError("broken")


def test_nobody_watches_unless_asked(tmp_path):
    with watched(tmp_path, "task", None):
        (tmp_path / "a").write_bytes(b"xyz")
    assert folder_bytes(tmp_path) == 3
