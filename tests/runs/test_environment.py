"""Where a run was made."""

import subprocess
from importlib.metadata import version
from pathlib import Path

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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Code in a folder of its own, as `polynsd.runs.environment` sees it, and work that is done elsewhere."""
    folder, elsewhere = tmp_path / "repository" / "package", tmp_path / "elsewhere"
    for new in (folder, elsewhere):
        new.mkdir(parents=True)
    (folder / "__init__.py").write_text("1")
    monkeypatch.setattr("polynsd.runs.environment.CODE", folder)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv("POLYNSD_COMMIT", raising=False)
    monkeypatch.chdir(elsewhere)
    git("init", "-q")
    Path("work").write_text("1")
    git("add", "work")
    git("commit", "-q", "-m", "work")
    return folder


def commit_all(folder):
    git("-C", str(folder.parent), "init", "-q")
    git("-C", str(folder.parent), "add", ".")
    git("-C", str(folder.parent), "commit", "-q", "-m", "first")


def test_the_commit_is_that_of_the_code_not_of_the_working_directory(package):
    assert session()["git"] is None  # no repository there
    commit_all(package)
    found = session()["git"]
    assert len(found["commit"]) == 40
    assert found["dirty"] is False
    (package.parent / "notes").write_text("of no matter")
    assert session()["git"]["dirty"] is False
    (package / "__init__.py").write_text("2")
    assert session()["git"] == {"commit": found["commit"], "dirty": True}


def test_a_repository_that_does_not_hold_the_code_says_nothing(package):
    (package.parent / ".gitignore").write_text("package/")
    commit_all(package)
    assert session()["git"] is None
    assert commit() == f"version {version('polynsd')}"


def test_the_commit_in_a_word(package, monkeypatch):
    assert commit() == f"version {version('polynsd')}"
    commit_all(package)
    assert commit() == session()["git"]["commit"][:10]
    (package / "__init__.py").write_text("2")
    assert commit() == session()["git"]["commit"][:10] + "+"
    monkeypatch.setenv("POLYNSD_COMMIT", "0123456789")  # whoever says it knows
    assert commit() == "0123456789"


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
