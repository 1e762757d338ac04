"""A polynomial filter multiplies eigenvectors by its response."""

import numpy as np
import pytest
import torch

from polynsd import SheafLaplacian, Topology
from polynsd.errors import ConfigError, ShapeError
from polynsd.spectral import Diffusion, PolynomialFilter, get_basis, heat_kernel
from polynsd.spectral.filter import COEFFICIENTS, CORRECTIONS
from polynsd.testing import TOLERANCE, assert_close, random_sheaf, random_tensor

BASES = ["chebyshev1", "chebyshev4", "legendre", "gegenbauer(1.5)", "jacobi(-0.7, -0.6)", "monomial"]
every_correction = pytest.mark.parametrize("correction", CORRECTIONS)


def randomized(*arguments, dtype=torch.float64, **options):
    """A filter whose parameters are not those of its initialisation."""
    module = PolynomialFilter(*arguments, **options).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(random_tensor(*parameter.shape, seed=seed))
    return module


def profile(correction, lam, lam_max):
    return {"none": 0 * lam, "linear": 1 - lam / lam_max, "high-pass": lam / lam_max}[correction]


@pytest.mark.parametrize("degree", [0, 1, 2, 7])
@every_correction
@pytest.mark.parametrize("basis", BASES)
def test_response_is_the_mixture_plus_the_correction(basis, correction, degree):
    """m(λ) = Σ θ_k B_k(2λ/λ_max − 1) + α c(λ), straight from the definition."""
    module = randomized(basis, degree, correction=correction)
    lam = torch.linspace(0, 3, 101, dtype=torch.float64)
    terms = torch.as_tensor(get_basis(basis).evaluate(2 * lam.numpy() / 3 - 1, degree))
    alpha = 0.0 if module.alpha is None else module.alpha
    expected = module.theta.softmax(-1) @ terms + alpha * profile(correction, lam, 3.0)
    assert_close(module.response(lam, 3.0), expected, "response")


@pytest.mark.parametrize("normalization", ["none", "sheaf", "sheaf-augmented", "degree"])
@every_correction
@pytest.mark.parametrize("coefficients", COEFFICIENTS)
def test_filter_against_the_eigendecomposition(coefficients, correction, normalization):
    L = random_sheaf("complete", "general", 3, normalization).laplacian()
    module = randomized("legendre", 5, coefficients, correction)
    lam_max = float(torch.as_tensor(L.lambda_max()))
    values, Q = torch.linalg.eigh(L.to_dense())
    x = random_tensor(5, 3, 2)
    expected = Q @ (module.response(values, lam_max)[:, None] * (Q.mT @ x.flatten(0, 1)))
    assert_close(module(L, x), expected.reshape(x.shape), "filter")


def test_lambda_max_may_be_given():
    L, x = random_sheaf("star", "general", 2, "sheaf").laplacian(), random_tensor(6, 2, 3)
    module = randomized("chebyshev1", 4)
    values, Q = torch.linalg.eigh(L.to_dense())
    for lam_max in (5.0, torch.tensor(5.0, dtype=torch.float64)):
        expected = Q @ (module.response(values, 5.0)[:, None] * (Q.mT @ x.flatten(0, 1)))
        assert_close(module(L, x, lam_max), expected.reshape(x.shape), "filter")


@pytest.mark.parametrize("degree", [0, 1, 2, 8, 16])
@pytest.mark.parametrize("basis", BASES[:-1])
def test_interpolation_hits_its_values(basis, degree):
    """p(ξ_j) = γ_j at the zeros of B_{K+1}."""
    module = randomized(basis, degree, "interpolation")
    xi = torch.as_tensor(get_basis(basis).nodes(degree + 1))
    assert_close(module.response(xi + 1), module.theta, "p at the nodes")


def test_the_monomial_cannot_interpolate():
    with pytest.raises(ConfigError, match=r"no distinct real zeros .* or coefficients='free'"):
        PolynomialFilter("monomial", 3, "interpolation")


def test_convex_weights_are_convex():
    weights = randomized("legendre", 8).weights()
    assert bool((weights > 0).all())
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("coefficients", "start"),
    [
        ("convex", lambda xi: sum(np.cos(k * np.arccos(xi)) for k in range(4)) / 4),
        ("free", lambda xi: sum(np.cos(k * np.arccos(xi)) for k in range(4)) / 4),
        ("interpolation", np.ones_like),
    ],
)
def test_initial_response(coefficients, start):
    module = randomized("chebyshev1", 3, coefficients, "linear")
    module.reset_parameters()
    lam = torch.linspace(0, 2, 50, dtype=torch.float64)
    assert_close(module.response(lam), torch.as_tensor(start(lam.numpy() - 1)), "start")
    assert module.alpha.item() == 0.0


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("basis", BASES[:-1])
def test_tables_keep_double_precision(basis, coefficients):
    """`.double()` of a float32 filter is as exact as one that was built in float64."""
    converted = randomized(basis, 16, coefficients, "linear", dtype=torch.float64)
    exact = converted.basis.to_chebyshev(16)
    if coefficients == "interpolation":
        exact = np.linalg.inv(np.polynomial.chebyshev.chebvander(converted.basis.nodes(17), 16))
    np.testing.assert_array_equal(converted.to_chebyshev.numpy(), exact)
    there_and_back = converted.float().double()
    np.testing.assert_array_equal(there_and_back.to_chebyshev.numpy(), exact)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_dtypes(dtype):
    sheaf = random_sheaf("star", "general", 2, "none", dtype=dtype)
    module, x = (
        randomized("legendre", 6, correction="linear", dtype=dtype),
        random_tensor(6, 2, 3, dtype=dtype),
    )
    exact = randomized("legendre", 6, correction="linear")
    truth = exact(random_sheaf("star", "general", 2, "none").laplacian(), x.double())
    assert_close(module(sheaf.laplacian(), x), truth, "filter")


def test_state_holds_parameters_only():
    module = PolynomialFilter("legendre", 4, correction="linear")
    assert {name: tuple(value.shape) for name, value in module.state_dict().items()} == {
        "theta": (5,),
        "alpha": (),
    }
    other = PolynomialFilter("legendre", 4, correction="linear")
    other.load_state_dict(randomized("legendre", 4, correction="linear").state_dict())
    assert other.alpha.item() != 0.0


def test_repr():
    text = "PolynomialFilter(jacobi(0.5, 0.0), degree=3, coefficients=free, correction=high-pass)"
    assert repr(PolynomialFilter("jacobi(0.5, 0)", 3, "free", "high-pass")) == text


def test_diffusion_is_the_response_lambda():
    L, x = random_sheaf("star", "general", 2).laplacian(), random_tensor(6, 2, 3)
    module, lam = Diffusion(), torch.linspace(0, 2, 5)
    assert_close(module(L, x), L @ x, "diffusion")
    assert torch.equal(module.response(lam), lam)
    assert list(module.parameters()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("chebyshev1", -1), "degree must be an integer of at least 0; got -1"),
        (("chebyshev1", 2.0), r"degree must be an integer of at least 0; got 2\.0"),
        (("chebyshev1", True), "degree must be an integer of at least 0; got True"),
        (("chebyshef1", 2), "unknown basis 'chebyshef1'.* Did you mean 'chebyshev1'"),
        (("chebyshev1", 2, "convx"), "unknown coefficients 'convx'.* Did you mean 'convex'"),
        (("chebyshev1", 2, "free", "highpass"), "unknown correction 'highpass'.* Did you mean 'high-pass'"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ConfigError, match=text):
        PolynomialFilter(*arguments)


def path_laplacian(normalization="none"):
    topology = Topology.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
    maps = torch.linspace(0.5, 3, 6 * 3).double().reshape(6, 3, 1)
    return SheafLaplacian(topology, maps, normalization)


def test_a_fitted_filter_keeps_to_its_interval():
    L, x = path_laplacian(), torch.eye(12).double().reshape(4, 3, 12)
    with pytest.raises(ConfigError, match=r"fitted on \[0, 2\], but the spectrum may reach"):
        PolynomialFilter.from_response(heat_kernel(1.0), 32, dtype=torch.float64)(L, x)
    heat = PolynomialFilter.from_response(heat_kernel(0.3), 40, L.lambda_max(), torch.float64)
    truth = torch.linalg.matrix_exp(-0.3 * L.to_dense())
    assert torch.allclose(heat(L, x).reshape(12, 12), truth, atol=1e-10)


def test_a_constant_response_may_be_a_number():
    ones = PolynomialFilter.from_response(lambda lam: 1.0, 3)
    assert torch.allclose(ones.response(torch.linspace(0, 2, 5)), torch.ones(5), atol=1e-6)


def test_frequencies_may_be_whole_numbers():
    p = PolynomialFilter(degree=4)
    assert torch.equal(p.response(torch.arange(3)), p.response(torch.arange(3.0)))


@pytest.mark.parametrize("lam_max", [-3.0, float("nan"), float("inf")])
def test_bounds_that_are_none(lam_max):
    L = path_laplacian()
    with pytest.raises(ConfigError, match="lam_max must be a bound"):
        PolynomialFilter().double()(L, torch.zeros(4, 3, 1).double(), lam_max)


@pytest.mark.parametrize("module", [PolynomialFilter(), Diffusion()])
def test_signals_of_another_sheaf_are_refused(module):
    with pytest.raises(ShapeError, match="nodes, stalk, channels"):
        module(path_laplacian(), torch.zeros(4, 1, 2).double())
