"""Processes forked from one that has imported everything: starting them costs no seconds."""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["polynsd.cli", "polynsd.cli.commands", "polynsd.search", "polynsd.zoo", "optuna"]
)
