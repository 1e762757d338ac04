"""Commands that are killed at random moments and started again come to the bytes of those that are not."""

import random
import shutil
import signal
import time

import pytest
from forks import FORKS
from fuzzing import FACTOR
from killed_work import CONTENTS, content, work

PATIENCE = 300.0  # seconds
KILLS = 3 * FACTOR if FACTOR > 1 else 1
WORK = CONTENTS if FACTOR > 1 else ("fit", "reproduce")  # the suite kills training and searches elsewhere


def start_server():
    """The first process waits for the imports of all."""
    process = FORKS.Process(target=time.sleep, args=(0,))
    process.start()
    process.join()


def start(name, folder):
    process = FORKS.Process(target=work, args=(name, str(folder), f"{folder}.err"))
    process.start()
    return process


def finish(name, folder):
    """Does the work to its end; the seconds that it took."""
    begin = time.perf_counter()
    process = start(name, folder)
    process.join(PATIENCE)
    assert process.exitcode == 0, folder.with_suffix(".err").read_text()
    return time.perf_counter() - begin


def kill(name, folder, seconds):
    """Whether the process was killed; it may be done before."""
    process = start(name, folder)
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), folder.with_suffix(".err").read_text()
    return process.exitcode != 0


@pytest.mark.kills
@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("name", WORK)
def test_killed_at_random_moments_it_comes_to_the_same_bytes(name, tmp_path, record_property):
    start_server()
    folder = tmp_path / "work"  # results name it
    seconds = finish(name, folder)
    expected = content(name, folder)
    chosen, kills = random.Random(name), 0
    while kills < KILLS:
        shutil.rmtree(folder)
        for _ in range(min(2, KILLS)):  # a run may die twice on its way
            kills += kill(name, folder, chosen.uniform(0, seconds))
        finish(name, folder)
        assert content(name, folder) == expected
    record_property("kills", (f"polynsd {name}", kills))
