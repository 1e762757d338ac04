"""All experiments by name."""

from __future__ import annotations

from polynsd.errors import unknown_name
from polynsd.experiments.experiment import Experiment
from polynsd.experiments.k_sweep import K_SWEEP

EXPERIMENTS = {experiment.name: experiment for experiment in (K_SWEEP,)}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
