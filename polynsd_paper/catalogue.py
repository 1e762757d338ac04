"""All experiments by name."""

from __future__ import annotations

from polynsd.errors import unknown_name
from polynsd_paper.ablations import ABLATIONS
from polynsd_paper.bases import BASES_TABLE
from polynsd_paper.city import CITY
from polynsd_paper.depth import DEPTH
from polynsd_paper.experiment import Experiment
from polynsd_paper.filtered import FILTERED
from polynsd_paper.k_sweep import K_SWEEP
from polynsd_paper.leaderboard import LEADERBOARD
from polynsd_paper.long_search import LONG_SEARCH
from polynsd_paper.malignant import MALIGNANT
from polynsd_paper.nsd_vs_poly import NSD_VS_POLY
from polynsd_paper.platonov import PLATONOV
from polynsd_paper.stalk import STALK
from polynsd_paper.synthetic import SYNTHETIC

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
