"""The reversible backward pass against autograd through each basis's own recurrence."""

from itertools import combinations, product

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from polynsd import kernels
from polynsd.kernels import chebyshev_filter, chebyshev_filter_autograd
from polynsd.sheaf import SheafLaplacian, get_family
from polynsd.spectral import PolynomialFilter, get_basis
from polynsd.testing import (
    TOLERANCE,
    assert_close,
    assert_same_gradients,
    batch_of,
    example_graph,
    gradients,
    pairwise_cases,
    random_maps,
    random_sheaf,
    random_tensor,
)
from polynsd.testing.backends import dense_filter

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

TOPOLOGY = example_graph("complete")
BASES = [
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre",
    "gegenbauer(0.3)", "gegenbauer(1)", "gegenbauer(1.5)",
    "jacobi(0, 0)", "jacobi(0.5, -0.5)", "jacobi(2, 1)", "jacobi(-0.9, 1.5)", "jacobi(-0.7, -0.6)",
    "monomial",
]  # fmt: skip
DEGREES = [0, 1, 2, 3, 8, 16, 32]


def inputs(degree, dtype):
    return {
        "theta": random_tensor(degree + 1, seed=1, dtype=dtype),
        "alpha": random_tensor(1, seed=2, dtype=dtype)[0],
        "maps": random_maps("general", TOPOLOGY, 2, dtype=dtype),
        "x": random_tensor(5, 2, 3, seed=3, dtype=dtype),
    }


def basis_cases():
    """Every basis at K = 1, 8 and 32, every degree with two bases; the dtypes take turns."""
    pairs = [(basis, degree) for basis in BASES for degree in (1, 8, 32)]
    pairs += [(basis, degree) for basis in ("chebyshev1", "jacobi(2, 1)") for degree in (0, 2, 3, 16)]
    dtypes = list(TOLERANCE)
    return [(*pair, dtypes[i % len(dtypes)]) for i, pair in enumerate(pairs)]


@pytest.mark.parametrize(("basis", "degree", "dtype"), basis_cases(), ids=str)
def test_filter_against_the_recurrence_of_its_basis(basis, degree, dtype):
    module = PolynomialFilter(basis, degree, "free", "linear").to(dtype)
    terms = get_basis(basis).polynomials

    def filtered(theta, alpha, maps, x):
        L = SheafLaplacian(TOPOLOGY, maps)
        return functional_call(module, {"theta": theta, "alpha": alpha}, (L, x))

    def truth(theta, alpha, maps, x):
        L = SheafLaplacian(TOPOLOGY, maps)
        mixture = sum(theta[k] * term for k, term in enumerate(terms(lambda t: L @ t - t, x, degree)))
        return mixture + alpha * (x - L @ x / 2)

    values = inputs(degree, dtype)
    exact = truth(*(value.double() for value in values.values()))
    assert_close(filtered(*values.values()), exact, "filter")
    assert_same_gradients(filtered, truth, values)


@pytest.mark.parametrize(
    ("family", "degree", "dtype"),
    pairwise_cases(["identity", "diagonal", "orthogonal", "general"], DEGREES, TOLERANCE),
    ids=str,
)
def test_reversible_gradients_are_those_of_autograd(family, degree, dtype):
    A = random_sheaf("isolated nodes", family, 3, "sheaf-augmented", dtype=dtype).laplacian().blocks

    def using(function):
        return lambda x, phi, diag, off: function(A._replace(diag=diag, off=off), phi, x, 1.0)

    assert_same_gradients(
        using(kernels.chebyshev_filter),
        using(kernels.chebyshev_filter_autograd),
        {
            "x": random_tensor(8, 3, 2, seed=1, dtype=dtype),
            "phi": random_tensor(degree + 1, seed=2, dtype=dtype),
            "diag": A.diag,
            "off": A.off,
        },
    )


def test_a_filter_leaves_its_inputs_alone():
    A = random_sheaf("path", "general", 2, "sheaf").laplacian().blocks
    for degree in (0, 1, 2, 5):
        x, phi = random_tensor(5, 2, 3), random_tensor(degree + 1)
        y = kernels.chebyshev_filter(A, phi, x, 1.0)
        y += 1.0
        assert torch.equal(x, random_tensor(5, 2, 3))
        assert torch.equal(phi, random_tensor(degree + 1))


# Replicas and scales: whatever is stacked, the result is that of a loop


R = 3
STACKED = [choice for choice in product([False, True], repeat=3) if any(choice)]  # maps, φ, x


def replicas(t, stacked):
    return list(t) if stacked else [t] * R


@pytest.mark.parametrize(
    ("stacked", "family", "degree"),
    pairwise_cases(STACKED, ["identity", "diagonal", "general"], [0, 1, 3]),
    ids=str,
)
def test_stacks_broadcast(stacked, family, degree):
    leads = [(R,) if choice else () for choice in stacked]
    A = random_sheaf("isolated nodes", family, 2, "sheaf-augmented", lead=leads[0]).laplacian().blocks
    phi, x = random_tensor(*leads[1], degree + 1, seed=1), random_tensor(*leads[2], 8, 2, 3, seed=2)

    def together(diag, off, phi, x):
        return chebyshev_filter(A._replace(diag=diag, off=off), phi, x, 1.0)

    def one_by_one(diag, off, phi, x):
        parts = zip(
            replicas(diag, stacked[0]),
            replicas(off, stacked[0]),
            replicas(phi, stacked[1]),
            replicas(x, stacked[2]),
            strict=True,
        )
        return torch.stack([together(*part) for part in parts])

    inputs = [A.diag, A.off, phi, x]
    assert_close(together(*inputs), one_by_one(*inputs), "filter")
    found, expected = gradients(together, inputs), gradients(one_by_one, inputs)
    for name, value, truth in zip(("diag", "off", "phi", "x"), found, expected, strict=True):
        assert_close(value, truth, f"gradient of {name}")


GRAPHS = ("path", "multigraph", "one node")


@pytest.mark.parametrize("normalization", ["none", "degree"])
@pytest.mark.parametrize("number", range(len(GRAPHS)), ids=GRAPHS)
def test_every_graph_of_a_batch_has_its_own_scale(number, normalization):
    """The filter of a batch is, graph by graph, the dense filter with that graph's own λ_max."""
    topology, batch = batch_of(*GRAPHS)
    own = batch == number
    rows = own.repeat_interleave(2)
    x, module = random_tensor(topology.num_nodes, 2, 3), PolynomialFilter("legendre", 4).double()

    def batched(maps):
        return module(SheafLaplacian(topology, maps, normalization, batch=batch), x)[own]

    def alone(maps):
        L = SheafLaplacian(topology, maps, normalization, batch=batch)
        lam_max = float(2 * torch.linalg.matrix_norm(L.diagonal_blocks[own].detach(), ord=2).max())
        scale = 2 / lam_max if lam_max else 0.0
        return dense_filter(L.to_dense()[rows][:, rows], module.chebyshev_coefficients(), x[own], scale)

    maps = random_maps("general", topology, 2)
    assert_close(batched(maps), alone(maps), "filter")
    assert_close(gradients(batched, [maps])[0], gradients(alone, [maps])[0], "gradient of maps")


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize("normalization", ["none", "degree", "sheaf", "sheaf-augmented"])
@pytest.mark.parametrize("graph", ["no edges", "one node"])
def test_without_edges_the_filter_is_its_value_at_zero(graph, normalization, degree):
    """L = 0, so that y = p(−1) x, even where λ_max = 0."""
    L = random_sheaf(graph, "general", 2, normalization).laplacian()
    x = random_tensor(L.topology.num_nodes, 2, 3)
    module = PolynomialFilter("jacobi(0.5, 0)", degree, correction="linear").double()
    torch.nn.init.constant_(module.alpha, 0.3)
    expected = module.response(torch.zeros((), dtype=torch.float64)) * x
    assert_close(module(L, x), expected, "filter")
    assert_close(module(L, x, L.lambda_max("lanczos")), expected, "filter with the Lanczos bound")


def test_a_number_and_a_tensor_are_the_same_scale():
    A = random_sheaf("star", "general", 2, "sheaf").laplacian().blocks
    phi, x = random_tensor(6), random_tensor(6, 2, 3, seed=1)
    for scale in (0.0, 0.7):
        as_tensor = torch.tensor(scale, dtype=torch.float64).reshape(1, 1, 1)
        assert_close(chebyshev_filter(A, phi, x, as_tensor), chebyshev_filter(A, phi, x, scale), "scale")


# First and second derivatives of the filter, in every combination in which they may be asked for


every_family = pytest.mark.parametrize("family", ["identity", "diagonal", "general"])


def problem(graph, family, degree):
    """The blocks of an operator, and (x, φ, diag, off) as leaves."""
    A = random_sheaf(graph, family, 2, "sheaf-augmented").laplacian().blocks
    x, phi = random_tensor(A.pattern.num_nodes, 2, 2, seed=1), random_tensor(degree + 1, seed=2)
    return A, tuple(t.clone().requires_grad_() for t in (x, phi, A.diag, A.off))


def symmetric_filter(A, twin):
    """The filter of an operator that stays symmetric when its blocks are perturbed."""

    def function(x, phi, diag, off):
        symmetric = (off + off[twin].mT) / 2 if off.size(-1) > 1 else (off + off[twin]) / 2
        diag = (diag + diag.mT) / 2 if diag.size(-1) > 1 else diag
        return chebyshev_filter(A._replace(diag=diag, off=symmetric), phi, x, 0.9)

    return function


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 6])
@every_family
def test_first_derivatives(family, degree):
    A, leaves = problem("isolated nodes", family, degree)
    assert gradcheck(symmetric_filter(A, example_graph("isolated nodes").twin), leaves)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(("graph", "degree"), [*product(["one edge"], [0, 1, 3]), ("no edges", 2)])
@every_family
def test_second_derivatives(family, graph, degree):
    A, leaves = problem(graph, family, degree)
    assert gradgradcheck(symmetric_filter(A, example_graph(graph).twin), leaves)


def test_derivatives_with_a_scale_per_node():
    A, leaves = problem("no edges", "diagonal", 3)
    scale = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)[:, None, None]

    def function(x, phi, diag, off):
        return chebyshev_filter(A._replace(diag=diag, off=off), phi, x, scale)

    assert gradcheck(function, leaves)
    assert gradgradcheck(function, leaves)


@pytest.mark.parametrize("wanted", [c for size in (1, 2, 3) for c in combinations(range(4), size)], ids=str)
def test_any_subset_of_gradients(wanted):
    A, leaves = problem("complete", "general", 4)
    x, phi, diag, off = (leaf if i in wanted else leaf.detach() for i, leaf in enumerate(leaves))
    asked = [leaves[i] for i in wanted]
    operator = A._replace(diag=diag, off=off)
    found = torch.autograd.grad(chebyshev_filter(operator, phi, x, 1.0).square().sum(), asked)
    expected = torch.autograd.grad(chebyshev_filter_autograd(operator, phi, x, 1.0).square().sum(), asked)
    for i, value, truth in zip(wanted, found, expected, strict=True):
        assert_close(value, truth, ("x", "phi", "diag", "off")[i])


@pytest.mark.parametrize("shared", [False, True], ids=["separate state", "state that made the maps"])
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_first_derivatives_do_not_depend_on_create_graph(degree, shared):
    """The maps of a layer are learned from the very state that it filters."""
    topology, family = example_graph("complete"), get_family("general")
    state, mixing = random_tensor(5, 2, 4).requires_grad_(), random_tensor(8, 4, seed=1)

    def gradient(create_graph):
        raw = (state.flatten(1) @ mixing)[topology.row].tanh()
        L = SheafLaplacian(topology, family.build(raw, 2))
        x = state if shared else state.sin()
        y = chebyshev_filter(L.blocks, random_tensor(degree + 1, seed=2), x, 1.0)
        return torch.autograd.grad(y.square().sum(), state, create_graph=create_graph)[0]

    assert_close(gradient(create_graph=True), gradient(create_graph=False), "gradient of the state")


def test_the_scale_carries_no_gradient():
    A, (x, phi, _, _) = problem("path", "general", 3)
    scale = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
    y = chebyshev_filter(A, phi, x, scale)
    assert torch.autograd.grad(y.sum(), [scale, x], allow_unused=True)[0] is None


# Training memory of the filter does not grow with the degree


def saved_bytes(function, family, degree):
    """Bytes that autograd keeps for the backward pass, the K + 1 coefficients not counted."""
    sheaf = random_sheaf("complete", family, 3, "sheaf-augmented")
    maps = random_maps(family, sheaf.topology, 3).requires_grad_()
    A = SheafLaplacian(sheaf.topology, maps, stalk_dim=3).blocks
    x, phi = random_tensor(5, 3, 4).requires_grad_(), random_tensor(degree + 1).requires_grad_()
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(A, phi, x, 1.0)
    return sum(tensor.nbytes for tensor in kept if tensor.numel() != degree + 1)


@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_saved_tensors_are_the_same_at_every_degree(family):
    assert saved_bytes(chebyshev_filter, family, 4) == saved_bytes(chebyshev_filter, family, 64) > 0


@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_plain_autograd_keeps_every_step(family):
    at_4, at_64 = (saved_bytes(chebyshev_filter_autograd, family, degree) for degree in (4, 64))
    assert at_64 > 10 * at_4


def test_inference_keeps_nothing():
    A = random_sheaf("complete", "general", 3, "sheaf-augmented").laplacian().blocks
    x, phi = random_tensor(5, 3, 4).requires_grad_(), random_tensor(5)
    with torch.no_grad():
        y = chebyshev_filter(A, phi, x, 1.0)
    assert y.grad_fn is None
