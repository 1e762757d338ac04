"""What a fit came to is told on one screen, whatever the number and the names of its classes."""

import math

import pytest

from polynsd.estimator.members import FAMILIES
from polynsd.report.fit_progress import FitProgress
from polynsd.report.fit_summary import format_fit


def summary(names=("no", "yes"), metric="accuracy", **estimate):
    scores = {"score": 0.9, "low": 0.8, "high": 0.95, "source": "test", "guess": 0.5, "features": 0.6}
    member = {"name": "a rather long name " * 9, "family": "sheaf", "weight": 0.1, "val_score": 0.91}
    return {
        "dataset": "edges",
        "label": "kind",
        "task": "classification",
        "metric": metric,
        "positive": names[0] if len(names) == 2 else None,
        "rows": {"nodes": 999, "labelled": 500, "fitted": 400, "scored": 100, "predicted": 499},
        "estimate": {**scores, "convolution": 0.85, **estimate},
        "classes": [{"name": n, "rows": 9, "precision": None, "recall": 0.5} for n in names],
        "confusion": [[7] * len(names) for _ in names],
        "decision": {"rule": "f1", "threshold": 0.25 if len(names) == 2 else None},
        "ensemble": [member] * 10,
        "tried": 12,
        "files": {"model.safetensors": "the model", "predictions.parquet": "the 499 rows without a label"},
    }


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("count", [2, 6, 40])
def test_it_fits_on_a_screen(count, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"a class with a long name, number {i}" for i in range(count)]
    lines = format_fit(summary(names), "run", 12.3).splitlines()
    assert len(lines) <= 22 + 2 * (columns < 100)  # two more in `runs show`
    assert max(map(len, lines)) <= min(columns, 100)


def test_the_worth_of_the_graph_and_of_the_sheaf_is_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    worth = "majority 50.0 → features alone 60.0 → plain GCN 85.0 (the graph +25.0) → this model 90.0 (+5.0)"
    assert worth in " ".join(format_fit(summary(), "run").split())
    text = format_fit(summary(convolution=None), "run")
    assert "features alone 60.0 → this model 90.0 (+30.0)" in text
    text = format_fit(summary(metric="f1"), "run")
    assert "F1 of 'no' 90.0 %" in text
    assert "recall: 'no', predicted from a probability of 0.25 on (f1)" in text
    assert "not trained on them" in format_fit(summary(source="halves"), "run")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_models_is_said_in_words(family):
    text = summary()
    text["ensemble"] = [{"name": "a model", "family": family, "weight": 1.0, "val_score": 0.9}]
    assert f"a model ({FAMILIES[family]}): 90.0" in format_fit(text, "run")


def test_progress_ends_at_100_percent_and_not_before(capsys):
    row = {"name": "sheaf", "val_score": 0.9, "failure": None}
    with FitProgress(clock=iter(range(9)).__next__) as progress:
        progress.candidate({**row, "val_score": math.nan, "failure": "no time"}, 0.1)
        progress.candidate(row, 0.3)
        progress.candidate(row, 1.0)
    shares = [line[:5] for line in capsys.readouterr().err.splitlines()]
    assert shares == [" 10 %", " 30 %", " 99 %", "100 %"]
    assert progress.best == 0.9
