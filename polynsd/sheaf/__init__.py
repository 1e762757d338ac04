"""Geometry: families of restriction maps, learners that predict them, and the sheaf Laplacian."""

from polynsd.sheaf.families import Diagonal, General, Identity, MapFamily, Orthogonal, get_family
from polynsd.sheaf.inverse_sqrt import inverse_sqrt
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.learner import SheafLearner

__all__ = [
    "Diagonal",
    "General",
    "Identity",
    "MapFamily",
    "Orthogonal",
    "SheafLaplacian",
    "SheafLearner",
    "get_family",
    "inverse_sqrt",
]
