"""All experiments by name, defined as data.

`models.py` has the rows of tables and what a search may vary of each, `searched.py` the tables whose models
are searched, `sweeps.py` those in which one thing varies and the rest is fixed, `block.py` the library's own
block and its controls, `generated.py` the same on generated graphs, `synthetic.py` the paper's panels,
`webkb.py` the WebKB graphs by folds, `inside.py` what trained models do inside, `runtime.py` what they cost,
`continuous.py` models in continuous time, `agnostic.py` the filter in other sheaf networks, `federated.py`
training over clients.
"""

from __future__ import annotations

from polynsd.errors import unknown_name
from polynsd_paper.experiment import Experiment
from polynsd_paper.experiments.agnostic import AGNOSTIC
from polynsd_paper.experiments.block import BLOCK, TRANSPORT
from polynsd_paper.experiments.continuous import CONTINUOUS, CONTINUOUS_SWEEP
from polynsd_paper.experiments.federated import FEDERATED
from polynsd_paper.experiments.generated import PANELS, PLANTED
from polynsd_paper.experiments.inside import ENERGY, INFLUENCE, MAPS, RESPONSE
from polynsd_paper.experiments.runtime import RUNTIME
from polynsd_paper.experiments.searched import CITY, FILTERED, LEADERBOARD, LONG_SEARCH, MALIGNANT, PLATONOV
from polynsd_paper.experiments.sweeps import ABLATIONS, BASES, DEPTH, K_SWEEP, NSD_VS_POLY, STALK
from polynsd_paper.experiments.synthetic import SYNTHETIC
from polynsd_paper.experiments.webkb import WEBKB_FOLDS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        LEADERBOARD, BASES, FILTERED, PLATONOV, MALIGNANT, DEPTH, K_SWEEP, NSD_VS_POLY, STALK, SYNTHETIC,
        CITY, ENERGY, RESPONSE, INFLUENCE, MAPS, RUNTIME, ABLATIONS, LONG_SEARCH, BLOCK, TRANSPORT, PLANTED,
        PANELS, CONTINUOUS, CONTINUOUS_SWEEP, AGNOSTIC, FEDERATED, WEBKB_FOLDS,
    )
}  # fmt: skip


def get_experiment(name: str) -> Experiment:
    """The experiment of that name; a `ConfigError` names all others where there is none."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
