"""Packages that only this part of the library needs, loaded when they are first used."""

from functools import partial

from polynsd.optional import load_optional

load = partial(load_optional, purpose="reading and writing tables needs", extra="data")
