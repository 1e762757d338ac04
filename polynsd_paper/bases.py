"""Polynomial bases: the basis varies under convex coefficients, everything else is fixed.

All bases are normalised to sup-norm 1, so that convex mixing is nonexpansive in each; `interpolation` has the
values at Chebyshev nodes as its coefficients.
"""

from __future__ import annotations

from polynsd_paper.entrants import FAMILIES
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.fixed import RULES, sheaf
from polynsd_paper.leaderboard import DATASETS

BASES = {
    **{name: name for name in ("chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre")},
    "gegenbauer": "gegenbauer(1.5)",
    "jacobi": "jacobi(1, 0)",  # with both ½ it is Chebyshev of the second kind, with ±½ the third and fourth
    "interpolation": "chebyshev1",
}


def _cell(dataset: str, maps: str, basis: str) -> Cell:
    coefficients = "interpolation" if basis == "interpolation" else "convex"
    plan = sheaf(dataset, maps=maps, degree=8, basis=BASES[basis], coefficients=coefficients)
    return Cell(dataset, {"maps": maps, "basis": basis}, plan, RULES)


BASES_TABLE = Experiment(
    "bases",
    "test metric of eight polynomial bases",
    "geom-gcn",
    DATASETS,
    {"maps": FAMILIES, "basis": tuple(BASES)},
    _cell,
    minutes="35 to 65 s of a CPU core per diagonal cell of the small graphs",
)
