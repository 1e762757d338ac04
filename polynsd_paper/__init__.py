"""Comparisons of models, described as data."""

from polynsd.training.comparison import compare, print_results, save_results

__all__ = ["compare", "print_results", "save_results"]
