"""Optuna and PyYAML come with an extra; their absence is an error that names it."""

import sys

import pytest
from toys import toy_search

from polynsd import ConfigError
from polynsd.cli.search import SearchCommand
from polynsd.search import Space, conclude

INSTALL = r"pip install 'polynsd\[search\]'"


@pytest.fixture
def without(monkeypatch):
    def remove(name):
        for module in [module for module in sys.modules if module.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.delitem(sys.modules, "polynsd.search.sampler", raising=False)
        monkeypatch.setitem(sys.modules, name, None)

    return remove


def test_a_study_needs_optuna(without):
    without("optuna")
    with pytest.raises(ConfigError, match=f"needs the package .Optuna.*{INSTALL}"):
        toy_search()


def test_files_need_yaml(without, tmp_path):
    space = Space.from_dict({"training.epochs": 5})
    space.save(tmp_path / "space.yaml")
    search = toy_search()
    without("yaml")
    with pytest.raises(ConfigError, match=f"PyYAML.*{INSTALL}"):
        Space.load(tmp_path / "space.yaml")
    with pytest.raises(ConfigError, match=f"PyYAML.*{INSTALL}"):
        space.save(tmp_path / "other.yaml")
    with pytest.raises(ConfigError, match=f"PyYAML.*{INSTALL}"):
        conclude(tmp_path / "folder", search)
    with pytest.raises(ConfigError, match=f"PyYAML.*{INSTALL}"):
        SearchCommand(out=tmp_path / "folder").run()
    assert not (tmp_path / "folder").exists()
