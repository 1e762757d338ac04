"""Comparisons of models, described as data."""

from polynsd.experiments.comparison import compare, print_results, save_results
from polynsd.experiments.demo import Demo

__all__ = ["Demo", "compare", "print_results", "save_results"]
