"""How many of the nodes a split trains and tests on: what the correction of a t-test over splits needs."""

from __future__ import annotations

from typing import NamedTuple

from polynsd.data.protocols import STORED
from polynsd.spec import parse_spec


class Shares(NamedTuple):
    """Of all labelled nodes."""

    train: float
    test: float


RULES = {
    "luan-60-20-20": Shares(0.6, 0.2),
    "random-60-20-20": Shares(0.6, 0.2),
    "city-10-10-80": Shares(0.1, 0.8),
}


def get_shares(protocol: str) -> Shares | None:
    """Those of a protocol by name; None where they differ from graph to graph."""
    stored = STORED.get(protocol)
    if stored is not None:
        return None if stored.shares is None else Shares(stored.shares[0], stored.shares[2])
    spec = parse_spec(protocol)
    if spec.name == "stratified":
        train, _, test = map(float, spec.arguments)
        return Shares(train, test)
    return RULES.get(protocol)
