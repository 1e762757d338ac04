"""Sheaves on graphs: families of restriction maps, learners that predict them, and the sheaf Laplacian.

| module            | holds                                                                       |
|-------------------|-----------------------------------------------------------------------------|
| `families.py`     | restriction maps from raw numbers: identity, diagonal, orthogonal, general  |
| `orthogonal.py`   | four parametrisations of orthogonal matrices                                |
| `learner.py`      | raw numbers of the maps from the states at both ends of an edge             |
| `laplacian.py`    | L = δᵀδ and its normalisations as a matrix-free operator                    |
| `similar.py`      | operators that a change of basis makes symmetric: flat sheaves, random walks |
| `operators.py`    | Laplacians of graphs, connections, directed graphs, edges (Hodge)           |
| `direct_sum.py`   | the same for stalks of learned and fixed coordinates                        |
| `alignment.py`    | agreement of learned and given transports up to a change of basis           |
| `inverse_sqrt.py` | D^{−1/2} of small blocks with a bounded gradient                            |
"""

from polynsd.sheaf.alignment import transport_alignment, transports
from polynsd.sheaf.direct_sum import DirectSum
from polynsd.sheaf.families import Conformal, Diagonal, General, Identity, MapFamily, Orthogonal, get_family
from polynsd.sheaf.inverse_sqrt import inverse_sqrt
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.learner import SheafLearner
from polynsd.sheaf.operators import (
    connection_laplacian,
    graph_laplacian,
    hodge_laplacian,
    magnetic_laplacian,
)
from polynsd.sheaf.similar import SimilarLaplacian

__all__ = [
    "Conformal",
    "Diagonal",
    "DirectSum",
    "General",
    "Identity",
    "MapFamily",
    "Orthogonal",
    "SheafLaplacian",
    "SheafLearner",
    "SimilarLaplacian",
    "connection_laplacian",
    "get_family",
    "graph_laplacian",
    "hodge_laplacian",
    "inverse_sqrt",
    "magnetic_laplacian",
    "transport_alignment",
    "transports",
]
