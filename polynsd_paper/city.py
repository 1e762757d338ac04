"""Long range: the 16-hop eccentricity of street corners, 10/10/80, one fixed split and three seeds.

The four cities of the benchmark run where their data is; two official sub-regions and street-like graphs
of five other towns are what a smaller machine holds. Numbers are comparable within one graph only.
"""

from __future__ import annotations

from polynsd.training.problem import Source
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.platonov import deep

REGIONS = ("huangpu", "pasadena")
TOWNS = ("citylike_aleppo", "citylike_bucaramanga", "citylike_douala", "citylike_liege", "citylike_wuhan")
CITIES = ("paris", "shanghai", "la", "london")
MODELS = (
    "polynsd-diagonal", "nsd-diagonal", "identity-sheaf", "poly-spectral", "chebnet", "chebnetii", "bernnet",
    "gcn", "sage", "gat", "gcnii", "dropedge", "residual-sage", "tuned-gcn", "tuned-sage", "sgformer", "mlp",
)  # fmt: skip


def _cell(dataset: str, model: str) -> Cell:
    return deep(dataset, model, Source(dataset, protocol="city-10-10-80", features="standardize", splits=1))


CITY = Experiment(
    "city",
    "16-hop eccentricity on street graphs",
    "city-10-10-80",
    (*REGIONS, *TOWNS, *CITIES),
    {"model": MODELS},
    _cell,
    ddof=1,
    budgets=dict.fromkeys((*REGIONS, *TOWNS, *CITIES), Budget(trials=8, seconds=300, splits=1)),
    minutes="2 to 70 s of an H200 per model on huangpu",
)
