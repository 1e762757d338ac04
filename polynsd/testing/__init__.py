"""Contracts that any operator, family, basis, backend or layer can be run through, yours included.

    from polynsd.testing import check_family
    check_family(MyFamily(), d=3)

Every `check_*` runs a whole contract, every `assert_*` one clause of it; both raise AssertionError.
Hypothesis strategies live in `polynsd.testing.strategies`, which needs the `dev` extra.
"""

from polynsd.testing.backends import check_backend
from polynsd.testing.bases import check_basis
from polynsd.testing.compare import (
    TOLERANCE,
    assert_close,
    assert_same_gradients,
    gradients,
    relative_error,
)
from polynsd.testing.dense import dense_coboundary, dense_laplacian
from polynsd.testing.layers import check_layer
from polynsd.testing.operators import check_spectral_operator
from polynsd.testing.samples import (
    FAMILIES,
    GRAPHS,
    SampleSheaf,
    batch_of,
    example_graph,
    pairwise_cases,
    random_edges,
    random_maps,
    random_sheaf,
    random_tensor,
    random_weights,
    stalk_dims,
)
from polynsd.testing.sheaf import (
    assert_adjoint,
    assert_matches_dense,
    assert_orthogonal,
    assert_psd,
    assert_spectrum_within_bound,
    check_family,
    check_operator,
    random_signal,
)

__all__ = [
    "FAMILIES",
    "GRAPHS",
    "TOLERANCE",
    "SampleSheaf",
    "assert_adjoint",
    "assert_close",
    "assert_matches_dense",
    "assert_orthogonal",
    "assert_psd",
    "assert_same_gradients",
    "assert_spectrum_within_bound",
    "batch_of",
    "check_backend",
    "check_basis",
    "check_family",
    "check_layer",
    "check_operator",
    "check_spectral_operator",
    "dense_coboundary",
    "dense_laplacian",
    "example_graph",
    "gradients",
    "pairwise_cases",
    "random_edges",
    "random_maps",
    "random_sheaf",
    "random_signal",
    "random_tensor",
    "random_weights",
    "relative_error",
    "stalk_dims",
]
