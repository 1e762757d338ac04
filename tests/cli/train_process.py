"""`polynsd` in processes of its own."""

import os
import signal
from contextlib import contextmanager

import torch
from forks import FORKS

from polynsd.cli import main


def command(arguments, words):
    """What a shell does with `polynsd … > /dev/null 2> words`."""
    for name, number in ((os.devnull, 1), (words, 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    torch.set_num_threads(1)
    main(arguments)


@contextmanager
def process(arguments, words):
    """The command, started; it does not outlive the block."""
    started = FORKS.Process(target=command, args=(arguments, str(words)))
    started.start()
    try:
        yield started
    finally:
        started.kill()
        started.join()
