"""Workers in processes of their own.

A worker says that it is there by the file FOLDER/ready and begins when there is FOLDER/go. One that is to
die begins at once and is killed in the middle of its first batch.
"""

import os
import signal
import time

import torch
from forks import FORKS
from toys import toy_search

from polynsd.search import work
from polynsd.search import worker as module

PATIENCE = 100  # seconds


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path):
    for _ in range(PATIENCE * 100):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def start_worker(url, trials, folder=None):
    """One that waits in a folder, or one that is to die."""
    process = FORKS.Process(target=run, args=(url, trials, folder))
    process.start()
    return process


def run(url, trials, folder):
    torch.set_num_threads(1)
    if folder is None:
        module.train_together = die
    else:
        (folder / "ready").touch()
        wait_for(folder / "go")
    work(toy_search(url, trials=trials, batch=3))
