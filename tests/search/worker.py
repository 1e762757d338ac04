"""A worker in a process of its own: `python worker.py STORAGE TRIALS FOLDER`, or `… die`.

It says that it is there by the file FOLDER/ready and begins when there is FOLDER/go. One that is to
die begins at once and is killed in the middle of its first batch.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from toys import toy_search

from polynsd.search import batch, work

PATIENCE = 100  # seconds


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path):
    for _ in range(PATIENCE * 100):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


if __name__ == "__main__":
    torch.set_num_threads(1)
    url, trials, fate = sys.argv[1:]
    if fate == "die":
        batch.train = die
    else:
        (Path(fate) / "ready").touch()
        wait_for(Path(fate) / "go")
    work(toy_search(url, trials=int(trials), batch=3))
