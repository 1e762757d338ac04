"""Sweeps have a panel for all that is held, a mark for every record, and lines between numbers alone."""

import numpy as np
import pytest
from invented_records import invent

from polynsd_paper import result_marks
from polynsd_paper.published import published
from polynsd_paper.result_spots import looks, spots
from polynsd_paper.result_sweep import sweep_figure

SWEEP = [invent("k-sweep", "cora", {"maps": "general", "K": K}, 0.8 + 0.002 * K) for K in (1, 4, 16)]


def settings(*texts, models=("gcn", "polynsd-general"), dataset="amount"):
    return [
        invent("synthetic", dataset, {"model": model, "setting": text}, 0.5 + 0.01 * i)
        for text in texts
        for i, model in enumerate(models)
    ]


def test_sweep_is_drawn_against_its_last_option(tmp_path, drawn, is_picture):
    assert is_picture(sweep_figure(tmp_path / "k.png", "K", SWEEP, published("k-sweep")))
    ((axis,), labels), *_ = drawn
    assert axis.get_xscale() == "log"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["1", "4", "16"]
    solid = next(line for line in axis.lines if line.get_linestyle() == "-")
    assert np.allclose(solid.get_xydata(), [[1, 80.2], [4, 80.8], [16, 83.2]])
    assert labels == ["general", "95 % interval", "authors' sweep"]


def test_what_is_held_has_a_panel_and_what_is_varied_an_axis(tmp_path, drawn):
    sweep_figure(tmp_path / "s.png", "", settings("N=500 d=10", "N=100 d=2", "N=500 d=2", "N=100 d=6"))
    (axes, _), *_ = drawn
    assert [axis.get_title(loc="left") for axis in axes] == ["amount, N=100", "amount, N=500"]
    assert [axis.get_xlabel() for axis in axes] == ["d", "d"]
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["2", "10"]
    assert axes[0].get_ylim() == axes[1].get_ylim()


@pytest.mark.parametrize("texts", [("N=100 d=2", "N=100 d=6", "N=500 d=2"), ("noise=0.1", "noise=0.2")])
def test_every_record_is_drawn_once_and_no_line_joins_two_panels(texts, tmp_path, drawn):
    records = settings(*texts)
    sweep_figure(tmp_path / "s.png", "", records)
    (axes, _), *_ = drawn
    points = [tuple(point) for axis in axes for line in axis.lines for point in line.get_xydata()]
    values = [float(one.cell["setting"].rpartition("=")[2]) for one in records]
    assert sorted(points) == sorted((x, 100 * one.mean) for x, one in zip(values, records, strict=True))
    assert len(axes) == len({text.rpartition(" ")[0] for text in texts})


def test_panels_of_other_options_stand_in_a_row_per_dataset(tmp_path, drawn):
    cells = [{"model": "polynsd-general", name: 2} for name in ("layers", "K")]
    sweep_figure(tmp_path / "n.png", "", [invent("x", data, cell, 0.5) for data in "ab" for cell in cells])
    (axes, _), *_ = drawn
    assert [(axis.get_title(loc="left"), axis.get_xlabel()) for axis in axes] == [
        ("a", "layers"), ("a", "K"), ("b", "layers"), ("b", "K"),
    ]  # fmt: skip
    assert [axis.get_subplotspec().rowspan.start for axis in axes] == [0, 0, 1, 1]


def test_polynsd_is_first_and_its_colours_are_its_own(tmp_path, drawn):
    models = [*(f"model-{i}" for i in range(20)), "polynsd-general", "polynsd-diagonal"]
    records = settings("noise=1", "noise=2", models=models)
    sweep_figure(tmp_path / "s.png", "", records)
    labels = drawn[0][1]
    assert labels[:3] == ["polynsd-general", "polynsd-diagonal", "model-0"]
    assert labels[-1] == "95 % interval, PolyNSD"
    found = looks(spots(records))
    ours = {found[label]["color"] for label in labels[:2]}
    assert len(ours) == 2
    assert not ours & {found[label]["color"] for label in labels[2:-1]}
    assert len({(one["color"], one["marker"]) for one in found.values()}) == len(models)


def test_bands_of_many_lines_are_those_of_polynsd(tmp_path, drawn):
    few, many = (["polynsd-general", *(f"model-{i}" for i in range(count))] for count in (3, 11))
    for models in (few, many):
        sweep_figure(tmp_path / "s.png", "", settings("noise=1", "noise=2", models=models))
    assert [len(axes[0].collections) for axes, _ in drawn] == [4, 1]


def test_a_single_value_has_a_stroke_for_its_interval(tmp_path, drawn):
    sweep_figure(tmp_path / "k.png", "", SWEEP[:1])
    ((axis,), _), *_ = drawn
    (low, high) = axis.collections[0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx(result_marks.interval(SWEEP[0]))
