"""The view of a search: trials are counted once, and what is drawn fits the screen."""

import io

import pytest
from drawing import Clock, drawn
from rich.console import Console

from polynsd.report import SearchView
from polynsd.report.search_view import sparkline
from polynsd.training.callback import SearchPlan, TrialStatus

PARAMS = {
    "degree": 8,
    "maps": "diagonal",
    "learning_rate": 0.0213456,
    "basis": "gegenbauer(1.5)",
    "seed": None,
}


def opened(plan, width=80):
    clock = Clock()
    view = SearchView(console=Console(file=io.StringIO(), width=width), clock=clock)
    view.begin_search(plan)
    return view, clock


def test_a_search_counts_each_trial_once_and_keeps_the_best():
    view, clock = opened(SearchPlan(5, "accuracy"))
    assert view.measure_rate() == (None, None)
    view.trial(TrialStatus(0, "running"))
    clock.now += 2
    for _ in range(2):
        view.trial(TrialStatus(0, "complete", 0.5, PARAMS, is_best=True))
    view.trial(TrialStatus(2, "pruned", 0.1))
    view.trial(TrialStatus(1, "failed"))
    view.trial(TrialStatus(4, "running"))
    assert view.line().startswith("3 of 5 trials: 1 complete, 1 pruned, 1 failed, 1 running; best accuracy")
    assert (view.ended, view.remaining, view.best.number) == (3, 2, 0)
    assert view.history == [0.5] * 3
    assert view.measure_rate()[1] == pytest.approx(2 * 2 / 3)


def test_earlier_trials_count_but_not_in_the_rate():
    earlier = (TrialStatus(0, "complete", 0.7, is_best=True), TrialStatus(1, "pruned"))
    view, clock = opened(SearchPlan(2, "accuracy", earlier))
    assert (view.ended, view.seen, view.remaining, view.measure_rate()) == (2, 0, 0, (None, 0.0))
    clock.now += 1
    view.trial(TrialStatus(7, "complete", 0.6))  # someone else's, beyond the plan
    assert (view.remaining, view.measure_rate()) == (0, (1.0, 0.0))
    assert view.history == [0.7] * 3


def test_sparklines():
    assert sparkline([0.0, 1.0], 10) == "▁█"
    assert sparkline([3.0, 3.0], 10) == "▁▁"
    assert sparkline([], 10) == sparkline([1.0], 0) == ""
    long = sparkline([i / 999 for i in range(1000)], 16)
    assert (len(long), long[-1], list(long)) == (16, "█", sorted(long))


@pytest.mark.parametrize("width", [80, 120])
def test_a_search_fits(width):
    view, clock = opened(SearchPlan(200, "accuracy", title="squirrel"), width)
    clock.now += 60
    for i in range(90):
        view.trial(TrialStatus(i, "pruned" if i % 3 else "complete", i / 100, PARAMS, is_best=i % 3 == 0))
    lines = drawn(view)
    assert lines[0] == "squirrel: search by validation accuracy"
    assert lines[2] == "90 of 200 trials: 30 complete, 60 pruned"
    assert lines[3].startswith("best 87.0 %, trial 87  ▁")
    assert len(lines[3]) == min(width, len("best 87.0 %, trial 87  ") + 90)
    assert "learning_rate 0.02135" in " ".join(lines[4:6])
    assert lines[-1] == "1.5 trials/s · 0:01:00 elapsed · about 0:01:13 left"
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("trials", [None, 0, 1])
def test_a_search_before_its_first_trial(trials):
    lines = drawn(opened(SearchPlan(trials, "loss"))[0])
    assert "no trial is complete yet" in lines
    assert lines[-1] == "– trials/s · 0:00:00 elapsed"


def test_a_search_in_plain_lines(capsys):
    clock = Clock()
    with SearchView(clock=clock) as view:
        view.begin_search(SearchPlan(3, "roc_auc"))
        for number in range(3):
            clock.now += 6
            view.trial(TrialStatus(number, "complete", 0.5 + number / 10, PARAMS, is_best=True))
    assert capsys.readouterr().err.splitlines() == [
        "search, 0 of 3 trials",
        "2 of 3 trials: 2 complete; best roc_auc 60.0 %, trial 1 "
        "(10 trials/min · 0:00:12 elapsed · about 0:00:06 left)",
        "3 of 3 trials: 3 complete; best roc_auc 70.0 %, trial 2 (10 trials/min · 0:00:18 elapsed)",
    ]


def test_a_search_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=40)
    with SearchView(console=console) as view:
        view.begin_search(SearchPlan(None, "accuracy"))
        view.trial(TrialStatus(0, "complete", 0.5, {}, is_best=True))
    assert "best 50.0 %, trial 0" in console.file.getvalue()
    assert "1 trial: 1 complete" in console.file.getvalue()
