"""All experiments by name."""

from __future__ import annotations

from polynsd.errors import unknown_name
from polynsd.experiments.ablations import ABLATIONS
from polynsd.experiments.bases import BASES_TABLE
from polynsd.experiments.city import CITY
from polynsd.experiments.depth import DEPTH
from polynsd.experiments.experiment import Experiment
from polynsd.experiments.filtered import FILTERED
from polynsd.experiments.k_sweep import K_SWEEP
from polynsd.experiments.leaderboard import LEADERBOARD
from polynsd.experiments.long_search import LONG_SEARCH
from polynsd.experiments.malignant import MALIGNANT
from polynsd.experiments.nsd_vs_poly import NSD_VS_POLY
from polynsd.experiments.platonov import PLATONOV
from polynsd.experiments.stalk import STALK
from polynsd.experiments.synthetic import SYNTHETIC

_ALL = (
    LEADERBOARD, BASES_TABLE, FILTERED, PLATONOV, MALIGNANT, DEPTH, K_SWEEP, NSD_VS_POLY, STALK, SYNTHETIC,
    CITY, ABLATIONS, LONG_SEARCH,
)  # fmt: skip
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
