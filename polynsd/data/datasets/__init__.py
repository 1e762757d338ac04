"""Benchmark graphs: catalogue, archives, downloads."""
