"""The view of a protocol: its counts are right in any order of events, and its picture fits the screen."""

import io
import sys
import timeit
from types import SimpleNamespace

import pytest
from drawing import Clock, drawn
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from polynsd.report import ProtocolView, SearchView
from polynsd.report.output import clock_text, rate_text, score_text
from polynsd.report.protocol_view import ProtocolState
from polynsd.training import Epoch
from polynsd.training.callback import ProtocolPlan, SearchPlan


def epoch(number, metric=0.5, best=False):
    return Epoch(number, 1.0, 0.7, metric, best)


def result(epochs, best_epoch=1, metric=0.5):
    return SimpleNamespace(epochs=epochs, best_epoch=best_epoch, val_metric=metric, test_metric=0.4)


def plan(splits=2, epochs=10, patience=None, metric="accuracy", **options):
    names = tuple(f"split {i}" for i in range(splits))
    return ProtocolPlan(names, epochs, metric, patience=patience, **options)


def protocol(*args, **options):
    return ProtocolState(plan(*args, **options))


def screen(width=80, height=40, terminal=True):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, height=height, color_system=None)


def opened(protocol_plan, width=80, height=40):
    """A view that writes plain lines to nowhere, so that what it draws can be looked at."""
    clock = Clock()
    view = ProtocolView(console=screen(width, height, terminal=False), clock=clock)
    view.begin(protocol_plan)
    return view, clock


# the state


def test_a_split_goes_through_its_phases():
    state = protocol(epochs=10, patience=3)
    first, second = state.splits
    assert state.phase(first) == "waiting"
    state.epoch(0, epoch(1, best=True))
    assert state.phase(first) == "training"
    state.epoch(0, epoch(4))
    assert state.phase(first) == "stopped early"
    state.epoch(1, epoch(10, best=True))
    assert state.phase(second) == "done"
    assert (state.remaining, state.share) == (0, 1.0)


def test_without_patience_only_done_tells():
    state = protocol(epochs=100)
    state.epoch(0, epoch(50))
    assert state.phase(state.splits[0]) == "training"
    state.done(0, result(60, best_epoch=20, metric=0.9))
    assert state.phase(state.splits[0]) == "stopped early"
    assert (state.splits[0].best_epoch, state.splits[0].best_metric, state.splits[0].epoch) == (20, 0.9, 60)


def test_best_and_mean():
    state = protocol()
    assert state.mean_best is None
    state.epoch(0, epoch(1, 0.6, best=True))
    state.epoch(0, epoch(2, 0.4))
    assert (state.splits[0].best_metric, state.splits[0].last_metric) == (0.6, 0.4)
    assert state.mean_best == 0.6
    state.epoch(1, epoch(1, 0.8, best=True))
    assert state.mean_best == pytest.approx(0.7)


def test_a_view_that_is_not_told_of_a_resume_does_not_mind():
    state = protocol(splits=1, epochs=100, patience=5)
    state.epoch(0, epoch(41))
    assert (state.splits[0].epoch, state.splits[0].best_epoch, state.remaining) == (41, None, 59)
    assert state.phase(state.splits[0]) == "training"


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 3)), max_size=60), st.randoms())
def test_laws_hold_for_any_order_of_events(events, random):
    view, clock = opened(plan(splits=4, epochs=12, patience=4))
    state, done = view.state, [0] * 4
    for split, best, seconds in events:
        clock.now += seconds
        if state.is_over(state.splits[split]):
            view.done(split, result(state.splits[split].epoch))
        else:
            done[split] += 1
            view.epoch(split, epoch(done[split], random.random(), best or done[split] == 1))
        assert 0 <= state.share <= 1
        assert 0 <= state.remaining <= 48
        rate, left = view.measure_rate()
        assert rate is None or rate >= 0
        assert left is None or left >= 0
        assert sum(state.phases.values()) == 4
    assert state.seen == sum(done)


# rate and time left


def test_time_left_is_the_epochs_left_at_the_present_rate():
    view, clock = opened(plan(splits=2, epochs=100))
    assert view.measure_rate() == (None, None)
    for number in range(1, 51):
        clock.now += 0.1
        for split in range(2):
            view.epoch(split, epoch(number))
    assert view.measure_rate() == pytest.approx((20, 5))


def test_time_left_follows_a_rate_that_falls_when_replicas_stop():
    view, clock = opened(plan(splits=10, epochs=1000, patience=1000))
    for number in range(1, 501):  # a step takes 0.1 s for however many replicas
        clock.now += 0.1
        for split in range(10 if number <= 100 else 1):
            view.epoch(split, epoch(number, best=number == 1))
        if number == 100:
            for split in range(1, 10):
                view.done(split, result(100))
        view.measure_rate()  # as drawing does
    assert view.measure_rate()[1] == pytest.approx(50, rel=0.02)


def test_a_resumed_split_counts_from_where_it_was():
    view, clock = opened(plan(splits=1, epochs=100, patience=50))
    view.resume(0, epoch(40, 0.5), epoch(30, 0.7))
    state = view.state
    assert (state.splits[0].epoch, state.mean_best, state.seen) == (40, 0.7, 0)
    assert state.remaining == 60
    clock.now += 2
    view.epoch(0, epoch(41))
    assert view.measure_rate() == pytest.approx((0.5, 118))


@pytest.mark.parametrize(("splits", "epochs"), [(2, 0), (0, 10), (0, 0), (3, None), (0, None)])
def test_nothing_to_do_and_unknown_totals(splits, epochs):
    view, clock = opened(plan(splits, epochs))
    clock.now += 1
    assert (view.remaining is None) == (epochs is None and splits > 0)
    assert view.measure_rate()[1] in (None, 0.0)
    assert drawn(view)
    for split in range(splits):
        view.done(split, result(epochs or 7))
    assert view.state.num_over == splits
    assert (view.remaining, view.measure_rate()[1]) == (0, 0.0)


def test_a_clock_that_stands_still():
    view, _ = opened(plan())
    view.epoch(0, epoch(1))
    assert view.measure_rate() == (None, None)


def test_words():
    assert clock_text(3725.9) == "1:02:05"
    assert rate_text(4210.4, "epochs") == "4,210 epochs/s"
    assert rate_text(1.5, "epochs") == "1.5 epochs/s"
    assert rate_text(0.2, "trials") == "12 trials/min"
    assert score_text("accuracy", 0.8421) == "84.2"
    assert score_text("r2", -0.12345) == "-0.1235"
    assert score_text("loss", None) == "–"


# what is drawn


def busy(splits, width=80, height=40, **options):
    view, clock = opened(plan(splits, 500, patience=100, **options), width, height)
    for split in range(splits):
        clock.now += 1
        view.epoch(split, epoch(60, 0.812, best=True))
        view.epoch(split, epoch(160 if split % 3 == 0 else 100, 0.734))
    return view


@pytest.mark.parametrize("width", [80, 120])
def test_ten_splits_fit(width):
    lines = drawn(busy(10, width, title="texas, PolyNSD [K=8]"))
    assert len(lines) == 15
    assert lines[0] == " texas, PolyNSD [K=8]: validation accuracy %, epoch chosen by accuracy"
    assert lines[1].split() == ["split", "epoch", "last", "best", "at"]
    row = lines[3].split()
    assert (row[:2], row[-6:]) == (["split", "0"], ["160/500", "73.4", "81.2", "60", "stopped", "early"])
    assert lines[4].endswith("training")
    assert lines[-2] == " mean of best 81.2 % · 6 training, 4 stopped early"
    assert lines[-1] == " 2.0 epochs/s · 0:00:10 elapsed · at most 0:20:00 left"
    assert "…" not in "".join(lines)


@pytest.mark.parametrize(("splits", "height"), [(200, 50), (10, 12)])
def test_what_does_not_fit_is_summarised(splits, height):
    lines = drawn(busy(splits, height=height))
    assert len(lines) <= height
    assert [line.split()[0] for line in lines[3:6]] == ["least", "median", "greatest"]
    assert lines[3].endswith(f"of {splits}")


def test_only_the_name_is_cut_on_a_narrow_screen():
    view, _ = opened(ProtocolPlan(("a name that is much too long",), 500, "r2", select="loss"), width=60)
    view.epoch(0, epoch(100, -0.12345, best=True))
    lines = drawn(view)
    assert "chosen by loss" in lines[0]
    assert "…" in lines[3]
    assert lines[3].split()[-5:] == ["100/500", "-0.1235", "-0.1235", "100", "training"]


# the view


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
