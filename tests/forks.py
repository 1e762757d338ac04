"""Processes forked from one that has imported everything: starting them costs no seconds."""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "polynsd.cli.fit",
        "polynsd.cli.options",
        "polynsd.cli.search",
        "polynsd.cli.train",
        "polynsd.estimator",
        "polynsd.kernels.cpu.backend",
        "polynsd.report",
        "polynsd.search.final",
        "polynsd.search.worker",
        "polynsd.training.protocol",
        "polynsd.zoo",
        "polynsd_paper.commands.reproduce",
        "optuna",
        "pandas",
        "pyarrow.parquet",
        "safetensors.torch",
        "torch_geometric.data",
    ]
)
