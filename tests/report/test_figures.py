"""The picture is drawn, and a missing matplotlib is explained."""

import sys

import pytest
import torch

from polynsd import ConfigError, PolyNSD
from polynsd.report import results_figure

LAM = torch.linspace(0, 2, 11)


def test_figure_holds_one_panel_per_layer(tmp_path):
    responses = {"ours": PolyNSD(3, 2, 3, 2).responses(LAM)}
    path = results_figure(
        tmp_path / "a" / "b.png", "title", {"ours": [0.5, 0.7], "MLP": [0.4]}, responses, 0.5
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'polynsd\[plots\]'"):
        results_figure(tmp_path / "x.png", "", {}, {"ours": []}, 0.5)
