"""Trains in children that are killed with SIGKILL at random steps, and at last undisturbed.

`python killer.py MODULE ROOT KILLS` is a process of its own that computes nothing itself, so it can fork.
"""

import os
import random
import signal
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from disasters import Disaster, kill_for_real

from polynsd.runs import environment

torch.set_num_threads(1)


def main(module, root, kills):
    train = import_module(module).train
    os.fsync = lambda descriptor: None  # the disk survives
    environment.session = dict
    steps = in_child(lambda: train_with(train, root / "undisturbed"))
    chosen, number = random.Random(0), 0
    while kills:
        folder, done = root / f"killed-{number}", None
        while kills and done is None:  # a run may die several times on its way
            done = kill_in_child(train, folder, chosen.randint(1, steps))
            kills -= done is None
        in_child(lambda folder=folder: train_with(train, folder))
        number += 1


def train_with(train, folder, step=0):
    """Trains; the number of operations on the disk that it took."""
    with pytest.MonkeyPatch.context() as patch:
        disaster = Disaster(step, kill_for_real, after=bool(step % 2)).install(patch)
        train(folder)
    return disaster.done


def kill_in_child(train, folder, step):
    return in_child(lambda: train_with(train, folder, step), may_die=True)


def in_child(work, may_die=False):
    """What `work` returns, an integer, when a child does it; None if that was killed."""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(tell, str(work()).encode())
        finally:
            os._exit(0)
    os.close(tell)
    answer = os.read(ready, 100)
    os.close(ready)
    status = os.waitpid(child, 0)[1]
    if answer:
        return int(answer)
    assert may_die, "a child that nobody killed failed"
    assert os.WIFSIGNALED(status), "a child failed before it was killed"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return None


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
