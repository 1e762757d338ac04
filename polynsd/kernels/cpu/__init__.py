"""The CPU backend: loops compiled by Numba."""
