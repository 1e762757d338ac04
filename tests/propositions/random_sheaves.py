"""Random sheaves on random graphs: what the laws in this folder are tried on.

Edge lists come as users bring them: with self-loops, parallel edges, edges given in one direction
only, and nodes without any. Matrices are small, dense and in double precision, so that an
eigendecomposition can serve as the truth.
"""

import torch
from hypothesis import settings
from hypothesis import strategies as st

from polynsd import SheafLaplacian, Topology
from polynsd.kernels.ops import blocks
from polynsd.sheaf import get_family
from polynsd.sheaf.laplacian import NORMALIZATIONS

FAMILIES = ("identity", "diagonal", "orthogonal", "orthogonal(matrix_exp)", "general")
BASES = (
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "monomial",
    "gegenbauer(0.3)", "gegenbauer(1.5)", "jacobi(-0.5, 1)", "jacobi(-0.8, -0.7)", "jacobi(2, 0.5)",
)  # fmt: skip

law = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31 - 1)
degrees = st.integers(0, 12)


def random(seed, *shape):
    """Standard normal numbers in double precision."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_maps(family, topology, d, seed=0):
    """Restriction maps of a family; general ones have singular values in [0.3, 2]."""
    family = get_family(family)
    maps = family.build(random(seed, topology.num_half_edges, family.num_params(d)), d)
    if family.orthogonal_columns:
        return maps
    U, _, Vt = torch.linalg.svd(maps)
    stretch = 0.3 + 1.7 * random(seed + 1, topology.num_half_edges, d, 1).sigmoid()
    return U @ (stretch * Vt)


def path(num_nodes):
    """The path 0 – 1 – … – (N − 1)."""
    nodes = torch.arange(num_nodes - 1)
    return Topology.from_edge_index(torch.stack([nodes, nodes + 1]), num_nodes)


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
        weight = random(seed, topology.num_edges).exp()[topology.edge]
    return SheafLaplacian(
        topology,
        random_maps(family, topology, d, seed),
        draw(st.sampled_from(normalizations)),
        edge_weight=weight,
        stalk_dim=d,
    )


def signal(L, channels=2, seed=0):
    """A random signal `[N, d, C]`."""
    return random(seed, L.topology.num_nodes, L.stalk_dim, channels)


def matrix_of(apply, L):
    """The matrix of a linear map of signals: what it does to every unit signal."""
    size = L.shape[0]
    unit = torch.eye(size, dtype=L.dtype).reshape(L.topology.num_nodes, L.stalk_dim, size)
    image = apply(unit)
    return image.reshape(image.shape[0] * image.shape[1], size)


def spectrum(L):
    """(λ, U) with L = U diag(λ) Uᵀ."""
    return torch.linalg.eigh(L.to_dense())


def lambda_max(L, method="analytic"):
    """λ_max of a single graph as a number."""
    return float(torch.as_tensor(L.lambda_max(method)).max())


def calculus(L, response):
    """f(L) = U f(Λ) Uᵀ for a function of the eigenvalues."""
    lam, U = spectrum(L)
    return (U * response(lam)) @ U.mT


def dense_maps(L):
    """[H, d, d] the restriction maps as matrices."""
    return blocks.to_dense(L.maps, L.stalk_dim)


def close(a, b, atol=1e-9):
    """Whether two double-precision tensors agree to rounding."""
    return torch.allclose(a, b, atol=atol, rtol=1e-9)
