"""Where a run was made."""

import subprocess

import pytest
import torch

from polynsd.errors import DataError
from polynsd.runs.environment import commit, device_name, read_sessions, session


def git(*arguments):
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_versions_machine_and_time():
    now = session()
    assert now["packages"]["torch"]
    assert now["threads"] >= 1
    assert now["devices"]
    assert now["started"].endswith("+00:00")


def test_the_commit_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert session()["git"] is None
    git("init", "-q")
    assert session()["git"] is None  # no commit yet
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    found = session()["git"]
    assert len(found["commit"]) == 40
    assert found["dirty"] is False
    (tmp_path / "file").write_text("2")
    assert session()["git"] == {"commit": found["commit"], "dirty": True}


def test_the_commit_in_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("POLYNSD_COMMIT", raising=False)
    assert commit() == "unknown"
    monkeypatch.setenv("POLYNSD_COMMIT", "0123456789")  # of a copy without its repository
    assert commit() == "0123456789"
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    assert commit() == session()["git"]["commit"][:10]  # the repository knows better
    (tmp_path / "file").write_text("2")
    assert commit() == session()["git"]["commit"][:10] + "+"


def test_a_processor_has_the_name_that_sessions_record():
    assert device_name(torch.device("cpu")) == session()["devices"][0]


def test_no_git_at_all(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert session()["git"] is None


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr("polynsd.runs.environment.PACKAGES", ("no-such-package",))
    assert session()["packages"] == {"no-such-package": None}


def test_damaged_sessions_are_told(tmp_path):
    path = tmp_path / "environment.json"
    path.write_text('{"sessions": [1]}')
    with pytest.raises(DataError, match="Delete it"):
        read_sessions(path)
