"""Packages that only tables over runs need, loaded when they are first used."""

from functools import partial

from polynsd.optional import load_optional

load = partial(load_optional, purpose="tables of runs need", extra="runs")
