"""Tile sizes: a default for every case, and better ones only on request."""

import json

import pytest
import torch

from polynsd.kernels.gpu import tuning

CASE = ("forward", False, 64, torch.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path / "cache"))
    tuning._load_tile.cache_clear()
    yield tmp_path / "cache"
    tuning._load_tile.cache_clear()


@pytest.fixture
def fake_clock(monkeypatch):
    """Time is what the tile of the running trial says: 16 half-edges are fastest."""
    monkeypatch.setattr(tuning, "_measure", lambda run: abs(run()["BLOCK_E"] - 16) + 1.0)


@pytest.mark.parametrize("width", [1, 3, 64, 256, 5000])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("step", ["forward", "backward"])
def test_every_case_has_a_default(step, dense, width):
    tile = tuning.choose_tile(step, dense, width, torch.float32)
    assert tile["num_warps"] >= 1
    assert tile["BLOCK_E"] & (tile["BLOCK_E"] - 1) == 0
    assert 1 <= tile["BLOCK_E"] <= 32


def test_tuning_keeps_the_fastest_and_remembers_it(folder, fake_clock):
    before = tuning.choose_tile(*CASE)
    best = tuning.tune(*CASE[1:], {"forward": lambda: tuning.choose_tile(*CASE)})
    assert best["forward"] == {"BLOCK_E": 16, "num_warps": 1} == tuning.choose_tile(*CASE) != before
    tuning._load_tile.cache_clear()  # as in a new process
    assert tuning.choose_tile(*CASE) == best["forward"]
    assert list(json.loads((folder / "tiles.json").read_text()).values()) == [best["forward"]]
    assert [file.name for file in folder.iterdir()] == ["tiles.json"]


def test_other_cases_keep_their_choice(fake_clock):
    other = tuning.choose_tile("backward", True, 64, torch.float64)
    tuning.tune(*CASE[1:], {"forward": lambda: tuning.choose_tile(*CASE)})
    assert tuning.choose_tile("backward", True, 64, torch.float64) == other


def test_a_failed_trial_leaves_nothing_behind(folder, monkeypatch):
    monkeypatch.setattr(tuning, "_measure", lambda run: run())

    def broken():
        raise RuntimeError("no such tile")

    with pytest.raises(RuntimeError, match="no such tile"):
        tuning.tune(*CASE[1:], {"forward": broken})
    assert not folder.exists()
    assert tuning.choose_tile(*CASE)["BLOCK_E"] == 4
