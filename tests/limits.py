"""Damaged files and killed processes: counted, held to limits of time and memory, and summed up at the end.

`@pytest.mark.fuzz("archives")` names what a test damages. Examples of Hypothesis count by themselves; other
tests loop over `cases(number)`. Tests that kill processes tell `record_property("kills", (what, number))`.
"""

import signal
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path

import pytest
from fuzzing import fuzz_cases

SECONDS = 30.0  # that one file may take, on a machine that is busy with other things
MEMORY = 512 * 2**20  # bytes that one test may take, with the caches that it fills
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FILES, KILLS, LARGEST, SLOWEST = Counter(), Counter(), Counter(), Counter()

watch = None  # of the test that runs, if it is marked


class Watch:
    """What a test has tried so far, and what it took."""

    def __init__(self):
        self.files, self.slowest = 0, 0.0
        if RESET.exists():
            RESET.write_text("5")  # the peak begins at what is in use now
        self.before = peak_memory()

    @contextmanager
    def case(self):
        """One file; a reader that holds it for too long is stopped."""
        self.files += 1
        begin = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.slowest = max(self.slowest, time.perf_counter() - begin)

    @property
    def memory(self):
        return max(peak_memory() - self.before, 0)


def peak_memory():
    """Bytes; 0 where the system does not tell."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def hang(*_):
    raise TimeoutError(f"one file took more than {SECONDS} s")


def cases(usual):
    """Numbers of cases, each of them watched; `usual` times POLYNSD_FUZZ_CASES."""
    for number in range(fuzz_cases(usual)):
        with watch.case() if watch else nullcontext():
            yield number


def watched(test):
    """The body of a test of Hypothesis, each example a case."""

    @wraps(test)
    def call(*args, **options):
        with watch.case():
            return test(*args, **options)

    return call


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    global watch
    mark = item.get_closest_marker("fuzz")
    if mark is None:
        return (yield)
    watch, handler = Watch(), signal.signal(signal.SIGALRM, hang)
    body = getattr(item.obj, "hypothesis", None)
    if body is not None:
        whole, body.inner_test = body.inner_test, watched(body.inner_test)
    try:
        result = yield
        assert watch.memory < MEMORY, f"{mark.args[0]} took {watch.memory >> 20} MiB"
        item.user_properties.append(("fuzz", (mark.args[0], watch.files, watch.memory, watch.slowest)))
        return result
    finally:
        watch = None
        signal.signal(signal.SIGALRM, handler)
        if body is not None:
            body.inner_test = whole


def pytest_runtest_logreport(report):
    for name, value in report.user_properties if report.when == "call" else ():
        if name == "kills":
            KILLS[value[0]] += value[1]
        elif name == "fuzz":
            what, files, memory, seconds = value
            FILES[what] += files
            LARGEST[what], SLOWEST[what] = max(LARGEST[what], memory), max(SLOWEST[what], seconds)


def pytest_terminal_summary(terminalreporter):
    if not FILES and not KILLS:
        return
    terminalreporter.section("damaged files and killed processes")
    for what, number in sorted(FILES.items()):
        limits = f"at most {LARGEST[what] / 2**20:.0f} MiB and {SLOWEST[what]:.2f} s for one"
        terminalreporter.write_line(f"{number:8,} {what}: {limits}")
    for what, number in sorted(KILLS.items()):
        terminalreporter.write_line(f"{number:8,} kills of {what}: the same bytes each time")
    terminalreporter.write_line(f"{sum(FILES.values()):8,} files and {sum(KILLS.values()):,} kills in all")
