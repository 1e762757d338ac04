"""Training rules by name, so that a number says how it was made.

| rules       | epochs | patience | chosen by | rate  | decay | std        | from                   |
|-------------|--------|----------|-----------|-------|-------|------------|------------------------|
| `default`   | 500    | 100      | metric    | 0.01  | 5e−4  | population | ours                   |
| `paper`     | 500    | 200      | loss      | 0.01* | 5e−4  | population | the sweeps of PolyNSD  |
| `paper-acc` | 500    | 200      | acc       | 0.01* | 5e−4  | population | the text of that paper |
| `platonov`  | 1000   | none     | metric    | 3e−5  | 0     | sample     | Platonov et al. 2023   |

*: 0.02 on texas, wisconsin and cornell. Dropout belongs to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from polynsd.config import TrainConfig
from polynsd.errors import unknown_name

WEBKB = ("texas", "wisconsin", "cornell", "cornell_fixed")


@dataclass(frozen=True)
class Rules:
    """How to train, and how to report."""

    training: TrainConfig
    ddof: int = 0
    """0: the population's standard deviation; 1: the sample's."""
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options that differ on some datasets."""


_WEBKB_RATE = {name: {"learning_rate": 0.02} for name in WEBKB}
RULES = {
    "default": Rules(TrainConfig()),
    "paper": Rules(TrainConfig(epochs=500, patience=200, select="loss"), by_dataset=_WEBKB_RATE),
    "paper-acc": Rules(TrainConfig(epochs=500, patience=200, select="acc"), by_dataset=_WEBKB_RATE),
    "platonov": Rules(TrainConfig(1000, 1000, learning_rate=3e-5, weight_decay=0.0), ddof=1),
}


def get_rules(name: str, dataset: str | None = None) -> Rules:
    """The rules of that name, as they are on a dataset."""
    if name not in RULES:
        raise unknown_name("training rules", name, RULES)
    rules = RULES[name]
    own = rules.by_dataset.get(dataset or "", {})
    return replace(rules, training=replace(rules.training, **own))
