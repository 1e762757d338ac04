"""Experiments that a command runs: each is a frozen dataclass with a `run` method."""

from polynsd.experiments.bench import Bench
from polynsd.experiments.demo import Demo
from polynsd.experiments.train import Train

__all__ = ["Bench", "Demo", "Train"]
