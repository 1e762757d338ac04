"""Processes forked from one that has imported everything: starting them costs no seconds."""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "polynsd.cli.options",
        "polynsd.cli.search",
        "polynsd.cli.train",
        "polynsd.kernels.cpu.backend",
        "polynsd.search",
        "polynsd.zoo",
        "optuna",
        "pandas",
        "pyarrow.parquet",
        "safetensors.torch",
        "torch_geometric.data",
    ]
)
