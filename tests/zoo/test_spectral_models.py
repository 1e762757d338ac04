"""Spectral models are their formulas, with the polynomials written out and dense matrices."""

import pytest
import torch
from scipy.special import binom, eval_jacobi
from zoo_laws import add_noise, build, graph, normalised, power, smoothing

from polynsd import ConfigError
from polynsd.nn.models import sheaf_parameters
from polynsd.testing.samples import GRAPHS


def pagerank(model, A, z):
    return sum(gamma * power(smoothing(A), k) @ z for k, gamma in enumerate(model.theta))


def interpolated(model, A, z):
    K, M = model.degree, -normalised(A)  # 𝓛 − I
    nodes = torch.cos((K - torch.arange(K + 1).double() + 0.5) * torch.pi / (K + 1))
    T = [torch.eye(len(A), dtype=A.dtype), M]
    while len(T) <= K:
        T.append(2 * M @ T[-1] - T[-2])
    values = model.theta.relu()
    c = [2 / (K + 1) * (values * torch.cos(k * torch.acos(nodes))).sum() for k in range(K + 1)]
    return c[0] / 2 * z + sum(c[k] * T[k] @ z for k in range(1, K + 1))


def bernstein(model, A, z):
    K, eye = model.degree, torch.eye(len(A), dtype=A.dtype)
    L = eye - normalised(A)
    return sum(
        theta.relu() * binom(K, k) / 2**K * power(2 * eye - L, K - k) @ power(L, k) @ z
        for k, theta in enumerate(model.theta)
    )


def jacobi_series(model, A, z, a=1.0, b=1.0):
    """By the eigenvalues of S and SciPy's polynomials."""
    lam, U = torch.linalg.eigh(normalised(A))
    rho = torch.cat([torch.ones(1).double(), (model.alpha * model.eta.tanh()).cumprod(0)])
    P = [torch.as_tensor(eval_jacobi(k, a, b, lam.numpy())) for k in range(model.degree + 1)]
    return sum(r * w * (U @ (p[:, None] * (U.T @ z))) for r, w, p in zip(rho, model.theta, P, strict=True))


FORMULAS = {"gprgnn": pagerank, "chebnetii": interpolated, "bernnet": bernstein, "jacobi": jacobi_series}
every_model = pytest.mark.parametrize("name", FORMULAS)


@pytest.mark.parametrize("degree", [1, 2, 10])
@pytest.mark.parametrize("place", GRAPHS)
@every_model
def test_a_model_is_its_formula(name, place, degree):
    x, edge_index, A = graph(place)
    model = add_noise(build(name, degree=degree))
    first, second = model.layers
    expected = FORMULAS[name](model, A, second(first(x).relu()))
    torch.testing.assert_close(model(x, edge_index), expected)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (-0.5, 1.5), (2.0, -0.5), (-0.5, -0.5)])
def test_jacobi_knows_all_exponents(a, b):
    x, edge_index, A = graph("isolated nodes")
    model = add_noise(build("jacobi", 1, alpha=1.5, a=a, b=b))
    torch.testing.assert_close(
        model(x, edge_index), jacobi_series(model, A, model.layers[0](x), a, b), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("degree", [3, 10, 30])
def test_one_recurrence_is_bernsteins_sum_also_for_high_degrees_and_in_single_precision(degree):
    x, edge_index, A = graph("star")
    model = add_noise(build("bernnet", 1, degree=degree))
    lam, U = torch.linalg.eigh(normalised(A))  # the products of the sum itself lose digits for high degrees
    high = (1 - lam) / 2
    response = sum(
        theta.relu() * binom(degree, k) * high**k * (1 - high) ** (degree - k)
        for k, theta in enumerate(model.theta)
    )
    expected = U @ (response[:, None] * (U.T @ model.layers[0](x)))
    torch.testing.assert_close(model(x, edge_index), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.float()(x.float(), edge_index), expected.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["chebnetii", "bernnet"])
def test_the_first_filter_is_the_identity(name):
    x, edge_index, _ = graph("path")
    model = build(name)
    torch.testing.assert_close(model(x, edge_index), model.encode(x))


def test_the_first_filter_is_pageranks():
    model = build("gprgnn", degree=3, alpha=0.2)
    assert model.theta.tolist() == pytest.approx([0.2, 0.2 * 0.8, 0.2 * 0.64, 0.512])


@every_model
def test_a_reset_brings_the_first_filter_back_which_has_a_decay_of_its_own(name):
    model = build(name)
    started = {parameter: p.clone() for parameter, p in model.named_parameters()}
    add_noise(model).reset_parameters()
    own = {id(p) for p in sheaf_parameters(model)}
    for parameter, p in model.named_parameters():
        assert torch.allclose(p, started[parameter]) == (id(p) in own) == (not parameter.startswith("layers"))


@every_model
def test_the_degree_counts_hops(name):
    x, edge_index, _ = graph("path")
    for degree in (1, 3):
        model = add_noise(build(name, degree=degree))
        moved = x.clone()
        moved[4] += 1.0
        changed = (model(x, edge_index) - model(moved, edge_index)).abs().sum(1) > 1e-12
        assert changed.tolist() == [4 - node <= degree for node in range(5)]


@every_model
def test_a_linear_model_has_one_layer(name):
    x, edge_index, _ = graph("star")
    model = add_noise(build(name, 1))
    y = torch.randn_like(x)
    zero = model(torch.zeros_like(x), edge_index)
    torch.testing.assert_close(
        model(x + y, edge_index) + zero, model(x, edge_index) + model(y, edge_index), rtol=1e-6, atol=1e-8
    )


@every_model
def test_what_makes_no_sense_is_refused(name):
    for options in ({"degree": 0}, {"filter_dropout": 1.0}, {"num_layers": 0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            build(name, **options)


@pytest.mark.parametrize(
    ("name", "options"), [("gprgnn", {"alpha": 1.0}), ("jacobi", {"alpha": 0.0}), ("jacobi", {"a": -1.0})]
)
def test_parameters_of_filters_are_checked(name, options):
    with pytest.raises(ConfigError, match="alpha"):
        build(name, **options)
