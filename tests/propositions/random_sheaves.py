"""Random sheaves on random graphs: the cases on which the laws in this folder are tried.

Edge lists come as users bring them: with self-loops, parallel edges, edges in one direction only, and
isolated nodes. Matrices are small, dense and in double precision, so that an eigendecomposition can serve
as the truth. What the ledger of claims measures too is imported from `polynsd_paper.claims`.
"""

import torch
from hypothesis import settings
from hypothesis import strategies as st

from polynsd import SheafLaplacian, Topology
from polynsd.kernels.ops import blocks
from polynsd.sheaf import get_family
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing import random_tensor

FAMILIES = ("identity", "diagonal", "orthogonal", "orthogonal(matrix_exp)", "general")
BASES = (
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "monomial",
    "gegenbauer(0.3)", "gegenbauer(1.5)", "jacobi(-0.5, 1)", "jacobi(-0.8, -0.7)", "jacobi(2, 0.5)",
)  # fmt: skip

law = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31 - 1)
degrees = st.integers(0, 12)


def random_maps(family, topology, d, seed=0):
    """Restriction maps of a family; general ones have singular values in [0.3, 2]."""
    family = get_family(family)
    maps = family.build(random_tensor(topology.num_half_edges, family.num_params(d), seed=seed), d)
    if family.orthogonal_columns:
        return maps
    U, _, Vt = torch.linalg.svd(maps)
    stretch = 0.3 + 1.7 * random_tensor(topology.num_half_edges, d, 1, seed=seed + 1).sigmoid()
    return U @ (stretch * Vt)


def build(family, topology, d=2, normalization="sheaf-augmented", seed=0):
    """A Laplacian with random maps."""
    return SheafLaplacian(topology, random_maps(family, topology, d, seed), normalization, stalk_dim=d)


@st.composite
def topologies(draw, max_nodes=6):
    """Any graph, from any edge list."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=2 * n))
    return Topology.from_edge_index(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n)


@st.composite
def laplacians(draw, normalizations=NORMALIZATIONS):
    """Any sheaf Laplacian, with or without edge weights."""
    topology, family = draw(topologies()), draw(st.sampled_from(FAMILIES))
    d, seed = draw(st.integers(2 if family.startswith("orthogonal") else 1, 3)), draw(seeds)
    weight = None
    if draw(st.booleans()):
        weight = random_tensor(topology.num_edges, seed=seed).exp()[topology.edge]
    return SheafLaplacian(
        topology,
        random_maps(family, topology, d, seed),
        draw(st.sampled_from(normalizations)),
        edge_weight=weight,
        stalk_dim=d,
    )


def lambda_max(L, method="analytic"):
    """λ_max of a single graph as a number; 1 where there are no edges, as filters take it."""
    return float(torch.as_tensor(L.lambda_max(method)).max()) or 1.0


def calculus(L, response):
    """f(L) = U f(Λ) Uᵀ for a function of the eigenvalues."""
    lam, U = torch.linalg.eigh(L.to_dense())
    return (U * response(lam)) @ U.mT


def dense_maps(L):
    """[H, d, d] the restriction maps as matrices."""
    return blocks.to_dense(L.maps, L.stalk_dim)


def close(a, b, atol=1e-9):
    """Whether two double-precision tensors agree to rounding."""
    return torch.allclose(a, b, atol=atol, rtol=1e-9)
