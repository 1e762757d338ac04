"""A polynomial filter multiplies eigenvectors by its response."""

import numpy as np
import pytest
import torch
from scipy import special
from scipy.linalg import expm
from torch.autograd import gradcheck
from torch.func import functional_call

from polynsd import SheafLaplacian, Topology
from polynsd.errors import ConfigError, ShapeError
from polynsd.sheaf import get_family
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.spectral import Diffusion, PolynomialFilter, chebyshev_truncation, get_basis, heat_kernel
from polynsd.spectral.filter import COEFFICIENTS, CORRECTIONS
from polynsd.testing import FAMILIES, TOLERANCE, assert_close, example_graph, random_sheaf, random_tensor
from polynsd.testing.backends import dense_filter

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


@pytest.mark.parametrize(("given", "degree"), [(None, 5), (None, 65), (1e-40, 5)])
def test_a_bound_whose_reciprocal_overflows_is_a_bound_still(given, degree):
    """The largest scale stands for a λ_max of 6e-39, and that bounds the spectrum, too."""
    L = SheafLaplacian(example_graph("path"), torch.full((8, 1, 1), 3e-21), "none")
    assert 0 < float(L.lambda_max()) < torch.finfo(torch.float32).tiny
    module, x = randomized("chebyshev1", degree, "free", dtype=torch.float32), random_tensor(5, 1, 2)
    y, largest = module(L, x.float(), given), torch.finfo(torch.float32).max
    exact = dense_filter(L.to_dense().double(), module.chebyshev_coefficients().double(), x, largest)
    assert_close(y, exact, "filter")


@pytest.mark.parametrize("lam_max", [-3.0, float("nan"), float("inf")])
def test_bounds_that_are_none(lam_max):
    L = path_laplacian()
    with pytest.raises(ConfigError, match="lam_max must be a bound"):
        PolynomialFilter().double()(L, torch.zeros(4, 3, 1).double(), lam_max)


@pytest.mark.parametrize("module", [PolynomialFilter(), Diffusion()])
def test_signals_of_another_sheaf_are_refused(module):
    with pytest.raises(ShapeError, match="nodes, stalk, channels"):
        module(path_laplacian(), torch.zeros(4, 1, 2).double())


# Gradcheck of the whole chain: raw numbers → maps → Laplacian → filter


TOPOLOGY = example_graph("multigraph")


def chain(family, normalization, module):
    """(raw, x, θ, α) ↦ filtered signal; λ_max carries no gradient, so it is held fixed."""

    def function(raw, x, theta, alpha):
        L = SheafLaplacian(
            TOPOLOGY,
            family.build(raw, 2),
            normalization,
            orthogonal_columns=family.orthogonal_columns,
            stalk_dim=2,
        )
        lam_max = 2.0 if normalization.startswith("sheaf") else 9.0
        return functional_call(module, {"theta": theta, "alpha": alpha}, (L, x, lam_max))

    return function


def leaves(family, degree):
    raw = 0.5 * random_tensor(TOPOLOGY.num_half_edges, family.num_params(2), seed=1)
    if family == get_family("general"):
        raw = raw + torch.eye(2, dtype=torch.float64).flatten()
    shapes = ((TOPOLOGY.num_nodes, 2, 2), (degree + 1,), ())
    return [t.requires_grad_() for t in (raw, *(random_tensor(*s, seed=i) for i, s in enumerate(shapes)))]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_and_normalization(name, normalization):
    family, module = get_family(name), PolynomialFilter("legendre", 3, correction="linear").double()
    raw, *others = leaves(family, 3)
    function = chain(family, normalization, module)
    if not family.is_learned:
        assert gradcheck(lambda *inputs: function(raw.detach(), *inputs), others)
    else:
        assert gradcheck(function, [raw, *others])


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize("correction", ["linear", "high-pass"])
@pytest.mark.parametrize("coefficients", ["convex", "free", "interpolation"])
def test_every_kind_of_coefficients(coefficients, correction, degree):
    module = PolynomialFilter("chebyshev3", degree, coefficients, correction).double()
    family = get_family("diagonal")
    assert gradcheck(chain(family, "sheaf-augmented", module), leaves(family, degree))


# Filters trained together: coefficients `[R, K + 1]` act as R filters


R, K = 3, 4


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
@pytest.mark.parametrize("stack_of_maps", [False, True])
@pytest.mark.parametrize("stack_of_signals", [False, True])
@pytest.mark.parametrize("coefficients", COEFFICIENTS)
def test_stacked_coefficients(coefficients, stack_of_signals, stack_of_maps, normalization):
    module = PolynomialFilter("jacobi(0.5, 0)", K, coefficients, "linear").double()
    stack = {"theta": random_tensor(R, K + 1), "alpha": random_tensor(R, seed=1)}
    lead = (R,) if stack_of_maps else ()
    sheaf = random_sheaf("isolated nodes", "general", 2, normalization, weighted=True, lead=lead)
    x = random_tensor(*[R] * stack_of_signals, 8, 2, 3, seed=2)
    together = functional_call(module, stack, (sheaf.laplacian(), x))
    single = []
    for r in range(R):
        L = sheaf.replica(r).laplacian()
        parameters = {name: value[r] for name, value in stack.items()}
        single.append(functional_call(module, parameters, (L, x[r] if stack_of_signals else x)))
    assert_close(together, torch.stack(single), "replicas")


# Chebyshev truncation: exact coefficients, the promised rate, and the operator exponential


TIMES = [0.0, 0.1, 1.0, 5.0, 20.0]
LAM = np.linspace(0.0, 2.0, 1001)


@pytest.mark.parametrize("lam_max", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("t", TIMES)
def test_heat_kernel_has_bessel_coefficients(t, lam_max):
    """e^{−tλ} = e^{−s} (I_0(s) + 2 Σ (−1)^k I_k(s) T_k(ξ)), s = t λ_max / 2."""
    k = np.arange(21)
    exact = np.where(k == 0, 1, 2) * (-1.0) ** k * special.ive(k, t * lam_max / 2)
    np.testing.assert_allclose(chebyshev_truncation(heat_kernel(t), 20, lam_max), exact, atol=1e-15)


@pytest.mark.parametrize("rho", [1.3, 2.0, 5.0])
@pytest.mark.parametrize("degree", [0, 1, 4, 12])
@pytest.mark.parametrize("t", TIMES)
def test_error_is_within_the_bernstein_bound(t, degree, rho):
    """2 M ρ^{−K} / (ρ − 1), M = max |f| on the ellipse, reached at its left end."""
    module = PolynomialFilter.from_response(heat_kernel(t), degree, dtype=torch.float64)
    with torch.no_grad():
        found = module.response(torch.as_tensor(LAM)).numpy()
    M = np.exp(t * ((rho + 1 / rho) / 2 - 1))
    bound = 2 * M * rho**-degree / (rho - 1)
    assert np.abs(found - heat_kernel(t)(LAM)).max() <= bound + 1e-14


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
def test_filtering_with_the_heat_kernel_is_diffusion(normalization):
    L = random_sheaf("complete", "general", 2, normalization).laplacian()
    lam_max = float(torch.as_tensor(L.lambda_max()))
    module = PolynomialFilter.from_response(heat_kernel(0.8), 30, lam_max, dtype=torch.float64)
    x = random_tensor(5, 2, 3)
    exact = torch.as_tensor(expm(-0.8 * L.to_dense().numpy())) @ x.flatten(0, 1)
    assert_close(module(L, x), exact.reshape(x.shape), "heat flow", tolerance=1e-12)


def test_polynomials_are_reproduced():
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.25])
    module = PolynomialFilter.from_response(cubic, 3, lam_max=3.0, dtype=torch.float64)
    lam = torch.linspace(0, 3, 50, dtype=torch.float64)
    assert_close(module.response(lam, 3.0), torch.as_tensor(cubic(lam.numpy())), "cubic")


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64])
def test_dtype_of_the_filter(dtype):
    module = PolynomialFilter.from_response(heat_kernel(1.0), 4, dtype=dtype)
    assert module.theta.dtype == module.to_chebyshev.dtype == (dtype or torch.get_default_dtype())


@pytest.mark.parametrize("t", [-1.0, float("nan")])
def test_time_does_not_run_backwards(t):
    with pytest.raises(ConfigError, match="diffusion time must not be negative"):
        heat_kernel(t)


def test_degree_must_not_be_negative():
    with pytest.raises(ConfigError, match="degree must be an integer of at least 0; got -1"):
        chebyshev_truncation(heat_kernel(1.0), -1)


@pytest.mark.parametrize(("response", "lam_max"), [(np.cos, 0.0), (np.arccosh, 2.0), (np.cos, -2.0)])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_responses_are_finite_on_a_spectrum(response, lam_max):
    with pytest.raises(ConfigError, match="finite"):
        PolynomialFilter.from_response(response, 4, lam_max)
