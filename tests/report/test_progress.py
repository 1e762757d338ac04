"""Progress speaks plainly where there is no terminal, and not at all when told to be quiet."""

import io
import sys

import pytest

from polynsd.report import ProgressReporter


def test_plain_lines_name_the_task_and_the_share(capsys):
    with ProgressReporter(10) as progress:
        progress.advance(2, "first")
        progress.advance(1, "first")
        progress.advance(2, "second")
        progress.skip_to(10)
    lines = capsys.readouterr().err.splitlines()
    assert [line[:3].strip() for line in lines] == ["20", "50", "100"]
    assert "first" in lines[0]
    assert "epochs/s" in lines[1]


def test_the_time_left_is_told_once_it_is_known(capsys):
    seconds = iter([0.0, 5.0, 20.0, 21.0])
    with ProgressReporter(1000, clock=lambda: next(seconds)) as progress:
        progress.advance(1, "start")
        progress.advance(99, "middle")
    begin, middle, end = capsys.readouterr().err.splitlines()
    assert "left" not in begin
    assert "about 0:03:00 left" in middle
    assert end == "100 %  done in 0:00:21"


def test_quiet(capsys):
    with ProgressReporter(3, quiet=True) as progress:
        progress.advance(3, "work")
    assert capsys.readouterr().err == ""


def test_terminals_get_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(RuntimeError, match="inside"), ProgressReporter(4, unit="steps") as progress:  # noqa: PT012
        progress.advance(2, "halfway")
        progress.skip_to(4)
        raise RuntimeError("inside")
    assert "halfway" in terminal.getvalue()
    assert "steps" in terminal.getvalue()
