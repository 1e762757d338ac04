"""The diagram: every model is labelled once, no two labels meet, bars stand where the cliques are."""

import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from polynsd.errors import ConfigError
from polynsd.report.critical_difference import assign_rows, critical_difference_figure
from polynsd.stats import rank_models


def ranking(models, post_hoc="nemenyi", drift=0.1, datasets=9):
    draw = np.random.default_rng(models)
    scores = {
        f"a model of name {'x' * (j % 12)}{j}": draw.normal(-drift * j, 1, datasets) for j in range(models)
    }
    return rank_models(scores, post_hoc=post_hoc)


def boxes(figure):
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_text()]


@pytest.mark.parametrize("models", [2, 7, 45])
@pytest.mark.parametrize("post_hoc", ["nemenyi", "wilcoxon-holm"])
def test_labels_are_complete_inside_and_apart(models, post_hoc):
    ranked = ranking(models, post_hoc)
    figure = critical_difference_figure(ranked, title="a title", ours=ranked.models[::3])
    written = [text.get_text() for text in figure.axes[0].texts]
    assert all(written.count(name) == 1 for name in ranked.models)
    width, height = figure.canvas.get_width_height()
    for box in boxes(figure):
        assert 0 <= box.x0 < box.x1 <= width
        assert 0 <= box.y0 < box.y1 <= height
    assert not any(one.overlaps(other) for one, other in combinations(boxes(figure), 2))


def test_bars_span_their_cliques():
    ranked = ranking(20, drift=0.4)
    lines = critical_difference_figure(ranked).axes[0].lines
    bars = sorted(tuple(line.get_xdata()) for line in lines if line.get_linewidth() == 3)
    dots = sorted(float(line.get_xdata()[0]) for line in lines if line.get_marker() == "o")
    assert len(bars) == len(ranked.cliques) > 1
    for (left, right), (first, last) in zip(bars, ranked.cliques, strict=True):
        assert (left, right) == pytest.approx((dots[first], dots[last]), abs=0.04)


def test_rows_keep_bars_apart():
    assert assign_rows([(0, 2), (1, 3), (2.1, 4), (2.5, 5), (9, 10)], apart=0.2) == [0, 1, 2, 0, 0]
    assert assign_rows([], apart=1) == []


def test_models_without_any_difference_are_drawn():
    figure = critical_difference_figure(rank_models({name: [1.0, 2.0] for name in ("a", "b", "c")}))
    assert {"a", "b", "c"} <= {text.get_text() for text in figure.axes[0].texts}


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'polynsd\[plots\]'"):
        critical_difference_figure(ranking(3))
