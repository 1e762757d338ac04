"""Live views: what they count is right in any order of events, and what they draw fits the screen."""

import io
import sys
import timeit
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from polynsd.report import ProtocolView, SearchView
from polynsd.report.drawing import draw_protocol, draw_search
from polynsd.report.pace import Pace, clock_text, rate_text, score_text
from polynsd.report.protocol_state import ProtocolState
from polynsd.report.search_state import SearchState, sparkline
from polynsd.training import Epoch
from polynsd.training.callback import ProtocolPlan, SearchPlan, TrialStatus

PARAMS = {
    "degree": 8,
    "maps": "diagonal",
    "learning_rate": 0.0213456,
    "basis": "gegenbauer(1.5)",
    "seed": None,
}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def epoch(number, metric=0.5, best=False):
    return Epoch(number, 1.0, 0.7, metric, best)


def result(epochs, best_epoch=1, metric=0.5):
    return SimpleNamespace(epochs=epochs, best_epoch=best_epoch, val_metric=metric, test_metric=0.4)


def protocol(splits=2, epochs=10, patience=None, metric="accuracy", **options):
    names = tuple(f"split {i}" for i in range(splits))
    clock = Clock()
    return ProtocolState(ProtocolPlan(names, epochs, metric, patience=patience, **options), clock), clock


def screen(width=80, height=40, terminal=True):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, height=height)


def drawn(picture, width):
    """The picture as text; wider than it may be, nothing is wrapped or cut unless it was meant."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(picture)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


# the state of a protocol


def test_a_split_goes_through_its_phases():
    state, _ = protocol(epochs=10, patience=3)
    first, second = state.splits
    assert state.phase(first) == "waiting"
    state.epoch(0, epoch(1, best=True))
    assert state.phase(first) == "training"
    state.epoch(0, epoch(4))
    assert state.phase(first) == "stopped early"
    state.epoch(1, epoch(10, best=True))
    assert state.phase(second) == "done"
    assert (state.remaining, state.seconds_left, state.share) == (0, 0.0, 1.0)


def test_without_patience_only_done_tells():
    state, _ = protocol(epochs=100)
    state.epoch(0, epoch(50))
    assert state.phase(state.splits[0]) == "training"
    state.done(0, result(60, best_epoch=20, metric=0.9))
    assert state.phase(state.splits[0]) == "stopped early"
    assert (state.splits[0].best_epoch, state.splits[0].best_metric, state.splits[0].epoch) == (20, 0.9, 60)


def test_best_and_mean():
    state, _ = protocol()
    assert state.mean_best is None
    state.epoch(0, epoch(1, 0.6, best=True))
    state.epoch(0, epoch(2, 0.4))
    assert (state.splits[0].best_metric, state.splits[0].last_metric) == (0.6, 0.4)
    assert state.mean_best == 0.6
    state.epoch(1, epoch(1, 0.8, best=True))
    assert state.mean_best == pytest.approx(0.7)


def test_time_left_is_the_epochs_left_at_the_present_rate():
    state, clock = protocol(splits=2, epochs=100)
    assert state.seconds_left is None
    for number in range(1, 51):
        clock.now += 0.1
        for split in range(2):
            state.epoch(split, epoch(number))
    assert state.rate == pytest.approx(20)
    assert state.seconds_left == pytest.approx(5)


def test_time_left_follows_a_rate_that_falls_when_replicas_stop():
    state, clock = protocol(splits=10, epochs=1000, patience=1000)
    for number in range(1, 401):  # a step takes 0.1 s for however many replicas
        clock.now += 0.1
        for split in range(10 if number <= 100 else 1):
            state.epoch(split, epoch(number, best=number == 1))
        if number == 100:
            for split in range(1, 10):
                state.done(split, result(100))
        state.rate  # noqa: B018  (looks at the clock, as drawing does)
    assert state.seconds_left == pytest.approx(60, rel=0.02)


def test_a_resumed_split_counts_from_where_it_was():
    state, clock = protocol(splits=1, epochs=100, patience=50)
    state.resume(0, epoch(40, 0.5), epoch(30, 0.7))
    assert (state.splits[0].epoch, state.mean_best, state.seen) == (40, 0.7, 0)
    assert state.remaining == 60
    clock.now += 2
    state.epoch(0, epoch(41))
    assert state.rate == pytest.approx(0.5)
    assert state.seconds_left == pytest.approx(118)


def test_a_view_that_is_not_told_of_a_resume_does_not_mind():
    state, clock = protocol(splits=1, epochs=100, patience=5)
    clock.now += 1
    state.epoch(0, epoch(41))
    assert (state.splits[0].epoch, state.splits[0].best_epoch, state.remaining) == (41, None, 59)
    assert state.phase(state.splits[0]) == "training"


@pytest.mark.parametrize(("splits", "epochs"), [(2, 0), (0, 10), (0, 0), (3, None), (0, None)])
def test_nothing_to_do_and_unknown_totals(splits, epochs):
    state, clock = protocol(splits, epochs)
    clock.now += 1
    assert (state.remaining is None) == (epochs is None and splits > 0)
    assert state.seconds_left in (None, 0.0)
    assert drawn(draw_protocol(state), 80)
    for split in range(splits):
        state.done(split, result(epochs or 7))
    assert state.num_over == splits
    assert (state.remaining, state.seconds_left) == (0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 3)), max_size=60), st.randoms())
def test_laws_hold_for_any_order_of_events(events, random):
    state, clock = protocol(splits=4, epochs=12, patience=4)
    done = [0] * 4
    for split, best, seconds in events:
        clock.now += seconds
        if state.is_over(state.splits[split]):
            state.done(split, result(state.splits[split].epoch))
        else:
            done[split] += 1
            state.epoch(split, epoch(done[split], random.random(), best or done[split] == 1))
        assert 0 <= state.share <= 1
        assert 0 <= state.remaining <= 48
        assert state.seconds_left is None or state.seconds_left >= 0
        assert sum(state.phases.values()) == 4
    assert state.seen == sum(done)


def test_a_clock_that_stands_still():
    pace = Pace(lambda: 5.0)
    assert pace.rate(10) is None
    assert pace.left(10, 10) is None
    assert pace.mean(10) is None


# the state of a search


def test_a_search_counts_each_trial_once_and_keeps_the_best():
    clock = Clock()
    state = SearchState(SearchPlan(5, "accuracy"), clock)
    assert state.seconds_left is None
    state.trial(TrialStatus(0, "running"))
    clock.now += 2
    for _ in range(2):
        state.trial(TrialStatus(0, "complete", 0.5, PARAMS, is_best=True))
    state.trial(TrialStatus(2, "pruned", 0.1))
    state.trial(TrialStatus(1, "failed"))
    state.trial(TrialStatus(4, "running"))
    assert dict(state.counts) == {"complete": 1, "pruned": 1, "failed": 1, "running": 1}
    assert (state.ended, state.remaining, state.best.number) == (3, 2, 0)
    assert state.history == [0.5] * 3
    assert state.seconds_left == pytest.approx(2 * 2 / 3)


def test_earlier_trials_count_but_not_in_the_rate():
    clock = Clock()
    earlier = (TrialStatus(0, "complete", 0.7, is_best=True), TrialStatus(1, "pruned"))
    state = SearchState(SearchPlan(2, "accuracy", earlier), clock)
    assert (state.ended, state.seen, state.rate, state.remaining) == (2, 0, None, 0)
    clock.now += 1
    state.trial(TrialStatus(7, "complete", 0.6))  # someone else's, beyond the plan
    assert (state.rate, state.remaining, state.seconds_left) == (1.0, 0, 0.0)
    assert state.history == [0.7] * 3


def test_sparklines():
    assert sparkline([0.0, 1.0], 10) == "▁█"
    assert sparkline([3.0, 3.0], 10) == "▁▁"
    assert sparkline([], 10) == sparkline([1.0], 0) == ""
    long = sparkline([i / 999 for i in range(1000)], 16)
    assert (len(long), long[-1], list(long)) == (16, "█", sorted(long))


def test_words():
    assert clock_text(3725.9) == "1:02:05"
    assert rate_text(4210.4, "epochs") == "4,210 epochs/s"
    assert rate_text(1.5, "epochs") == "1.5 epochs/s"
    assert rate_text(0.2, "trials") == "12 trials/min"
    assert score_text("accuracy", 0.8421) == "84.2"
    assert score_text("r2", -0.12345) == "-0.1235"
    assert score_text("loss", None) == "–"


# what is drawn


def busy(splits, epochs=500, **options):
    state, clock = protocol(splits, epochs, patience=100, **options)
    for split in range(splits):
        clock.now += 1
        state.epoch(split, epoch(60, 0.812, best=True))
        state.epoch(split, epoch(160 if split % 3 == 0 else 100, 0.734))
    return state


@pytest.mark.parametrize("width", [80, 120])
def test_ten_splits_fit(width):
    lines = drawn(draw_protocol(busy(10, title="texas, PolyNSD [K=8]")), width)
    assert len(lines) == 15
    assert lines[0] == " texas, PolyNSD [K=8]: validation accuracy %, epoch chosen by accuracy"
    row = lines[3].split()
    assert (row[:2], row[-6:]) == (["split", "0"], ["160/500", "73.4", "81.2", "60", "stopped", "early"])
    assert lines[4].endswith("training")
    assert lines[-2] == " mean of best 81.2 % · 6 training, 4 stopped early"
    assert lines[-1] == " 2.0 epochs/s · 0:00:10 elapsed · at most 0:20:00 left"
    assert "…" not in "".join(lines)


@pytest.mark.parametrize(("splits", "height"), [(200, 50), (10, 12)])
def test_what_does_not_fit_is_summarised(splits, height):
    lines = drawn(draw_protocol(busy(splits), height), 80)
    assert len(lines) <= height
    assert [line.split()[0] for line in lines[3:6]] == ["least", "median", "greatest"]
    assert lines[3].endswith(f"of {splits}")


def test_only_the_name_is_cut_on_a_narrow_screen():
    state = ProtocolState(ProtocolPlan(("a name that is much too long",), 500, "r2", select="loss"), Clock())
    state.epoch(0, epoch(100, -0.12345, best=True))
    lines = drawn(draw_protocol(state), 60)
    assert "chosen by loss" in lines[0]
    assert "…" in lines[3]
    assert lines[3].split()[-5:] == ["100/500", "-0.1235", "-0.1235", "100", "training"]


@pytest.mark.parametrize("width", [80, 120])
def test_a_search_fits(width):
    clock = Clock()
    state = SearchState(SearchPlan(200, "accuracy", title="squirrel"), clock)
    clock.now += 60
    for i in range(90):
        state.trial(TrialStatus(i, "pruned" if i % 3 else "complete", i / 100, PARAMS, is_best=i % 3 == 0))
    lines = drawn(draw_search(state, width), width)
    assert lines[0] == "squirrel: search by validation accuracy"
    assert lines[2] == "90 of 200 trials: 30 complete, 60 pruned"
    assert lines[3].startswith("best 87.0 %, trial 87  ▁")
    assert len(lines[3]) == min(width, len("best 87.0 %, trial 87  ") + 90)
    assert "learning_rate 0.02135" in " ".join(lines[4:6])
    assert lines[-1] == "1.5 trials/s · 0:01:00 elapsed · about 0:01:13 left"
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("trials", [None, 0, 1])
def test_a_search_before_its_first_trial(trials):
    lines = drawn(draw_search(SearchState(SearchPlan(trials, "loss"), Clock())), 80)
    assert "no trial is complete yet" in lines
    assert lines[-1] == "– trials/s · 0:00:00 elapsed"


# the views


def test_a_terminal_sees_one_picture_that_stays():
    console = screen()
    with ProtocolView(console=console) as view:
        view.begin(ProtocolPlan(("0", "1"), 10, "accuracy"))
        view.resume(0, epoch(4), epoch(3, 0.9))
        for split in (1, 0):
            view.epoch(split, epoch(5, best=True))
            view.done(split, result(10))
    shown = console.file.getvalue()
    assert "\x1b[?25l" in shown  # the cursor is hidden
    assert shown.rstrip("\n").endswith("\x1b[?25h")  # and shown again
    assert "2 done" in shown
    assert "interrupted" not in shown


@pytest.mark.parametrize(("error", "how"), [(KeyboardInterrupt, "interrupted"), (RuntimeError, "stopped by")])
@pytest.mark.parametrize("terminal", [True, False])
def test_an_interruption_leaves_one_line_and_a_sane_terminal(error, how, terminal):
    console, stdout = screen(terminal=terminal), sys.stdout
    with pytest.raises(error), ProtocolView(console=console) as view:  # noqa: PT012
        view.begin(ProtocolPlan(("0", "1"), 10, "accuracy"))
        view.epoch(0, epoch(10, 0.75, best=True))
        raise error
    last = console.file.getvalue().rpartition("\x1b[?25h")[2].strip().splitlines()
    assert len(last) == (1 if terminal else 2)
    assert last[-1].startswith(how)
    assert "50 %  1 of 2 splits done, mean of best validation accuracy 75.0 %" in last[-1]
    assert sys.stdout is stdout


def test_standard_output_stays_where_it_goes(capsys):
    """Else a picture on the terminal would swallow the JSON that is piped to a file."""
    with ProtocolView(console=screen()) as view:
        view.begin(ProtocolPlan(("0",), 10, "accuracy"))
        sys.stdout.write("for the pipe\n")
    assert capsys.readouterr().out == "for the pipe\n"


def test_plain_lines_at_the_start_every_ten_seconds_and_at_the_end(capsys):
    clock = Clock()
    with ProtocolView(clock=clock) as view:
        view.begin(ProtocolPlan(("0",), 25, "accuracy", title="texas"))
        for number in range(1, 26):
            clock.now += 1
            view.epoch(0, epoch(number, 0.5, best=number == 1))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "texas: 1 split, at most 25 epochs each, chosen by validation accuracy",
        " 40 %  0 of 1 split done, mean of best validation accuracy 50.0 % "
        "(1.0 epochs/s · 0:00:10 elapsed · at most 0:00:15 left)",
        " 80 %  0 of 1 split done, mean of best validation accuracy 50.0 % "
        "(1.0 epochs/s · 0:00:20 elapsed · at most 0:00:05 left)",
        "100 %  1 of 1 split done, mean of best validation accuracy 50.0 % (1.0 epochs/s · 0:00:25 elapsed)",
    ]


def test_one_view_may_watch_one_protocol_after_another(capsys):
    with ProtocolView() as view:
        for title in ("first", "second"):
            view.begin(ProtocolPlan(("0",), 1, "accuracy", title=title))
            view.epoch(0, epoch(1))
    starts = [line[:5] for line in capsys.readouterr().err.splitlines()]
    assert starts == ["first", "100 %", "secon", "100 %"]


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_views_say_nothing(terminal):
    console = screen(terminal=terminal)
    with pytest.raises(KeyboardInterrupt), ProtocolView(quiet=True, console=console) as view:  # noqa: PT012
        view.begin(ProtocolPlan(("0",), 1, "accuracy"))
        view.epoch(0, epoch(1))
        raise KeyboardInterrupt
    with SearchView(quiet=True, console=console) as search:
        search.begin_search(SearchPlan(1, "accuracy"))
    assert console.file.getvalue() == ""


def test_an_error_before_anything_began_is_not_commented(capsys):
    with pytest.raises(RuntimeError), ProtocolView():
        raise RuntimeError
    assert capsys.readouterr().err == ""


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
    console = screen()
    with SearchView(console=console) as view:
        view.begin_search(SearchPlan(None, "accuracy"))
        view.trial(TrialStatus(0, "complete", 0.5, {}, is_best=True))
    assert "best 50.0 %, trial 0" in console.file.getvalue()
    assert "1 trial: 1 complete" in console.file.getvalue()


def test_dumb_terminals_get_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = screen()
    with ProtocolView(console=console) as view:
        view.begin(ProtocolPlan(("0",), 1, "accuracy"))
    assert "\x1b[" not in console.file.getvalue()


def test_an_epoch_costs_next_to_nothing():
    with ProtocolView(console=screen()) as view:
        view.begin(ProtocolPlan(("0",), 10**6, "accuracy"))
        event = epoch(1, best=True)
        seconds = min(timeit.repeat(lambda: view.epoch(0, event), number=1000, repeat=5)) / 1000
    assert seconds < 20e-6  # 0.3 µs on an idle machine
