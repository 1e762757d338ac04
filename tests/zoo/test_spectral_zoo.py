"""Spectral models are their formulas, with the polynomials written out and dense matrices."""

from functools import partial

import pytest
import torch
from replica_law import IN, OUT, check_options, check_replicas, graph, made, smoothing
from scipy.special import binom, eval_jacobi

from polynsd import ConfigError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo.bernnet import BernNet
from polynsd.zoo.chebnetii import ChebNetII
from polynsd.zoo.gprgnn import GPRGNN
from polynsd.zoo.jacobi import JacobiConv

MODELS = (GPRGNN, ChebNetII, BernNet, JacobiConv)
every_model = pytest.mark.parametrize("kind", MODELS)


def symmetric(A):
    """D^{−1/2} A D^{−1/2}."""
    scale = torch.where(A.sum(1) > 0, A.sum(1), 1.0).rsqrt()
    return scale[:, None] * A * scale


def shaken(model, seed=0):
    """The model with noise on every parameter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.7 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model


def power(M, k):
    return torch.linalg.matrix_power(M, k)


def pagerank(model, A, z):
    return sum(gamma * power(smoothing(A), k) @ z for k, gamma in enumerate(model.theta))


def interpolated(model, A, z):
    K, M = model.degree, -symmetric(A)  # 𝓛 − I
    nodes = torch.cos((K - torch.arange(K + 1).double() + 0.5) * torch.pi / (K + 1))
    T = [torch.eye(len(A), dtype=A.dtype), M]
    while len(T) <= K:
        T.append(2 * M @ T[-1] - T[-2])
    values = model.theta.relu()
    c = [2 / (K + 1) * (values * torch.cos(k * torch.acos(nodes))).sum() for k in range(K + 1)]
    return c[0] / 2 * z + sum(c[k] * T[k] @ z for k in range(1, K + 1))


def bernstein(model, A, z):
    K, eye = model.degree, torch.eye(len(A), dtype=A.dtype)
    L = eye - symmetric(A)
    return sum(
        theta.relu() * binom(K, k) / 2**K * power(2 * eye - L, K - k) @ power(L, k) @ z
        for k, theta in enumerate(model.theta)
    )


def jacobi_series(model, A, z, a=1.0, b=1.0):
    """By the eigenvalues of S and SciPy's polynomials."""
    lam, U = torch.linalg.eigh(symmetric(A))
    rho = torch.cat([torch.ones(1).double(), (model.alpha * model.eta.tanh()).cumprod(0)])
    P = [torch.as_tensor(eval_jacobi(k, a, b, lam.numpy())) for k in range(model.degree + 1)]
    return sum(r * w * (U @ (p[:, None] * (U.T @ z))) for r, w, p in zip(rho, model.theta, P, strict=True))


FORMULAS = {GPRGNN: pagerank, ChebNetII: interpolated, BernNet: bernstein, JacobiConv: jacobi_series}


@pytest.mark.parametrize("degree", [1, 2, 10])
@pytest.mark.parametrize("name", GRAPHS)
@every_model
def test_a_model_is_its_formula(kind, name, degree):
    x, edge_index, A = graph(name)
    model = shaken(made(partial(kind, IN, 8, 2, OUT, degree=degree)))
    first, second = model.layers
    expected = FORMULAS[kind](model, A, second(first(x).relu()))
    torch.testing.assert_close(model(x, edge_index), expected)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (-0.5, 1.5), (2.0, -0.5), (-0.5, -0.5)])
def test_jacobi_knows_all_exponents(a, b):
    x, edge_index, A = graph("isolated nodes")
    model = shaken(made(partial(JacobiConv, IN, 8, 1, OUT, alpha=1.5, a=a, b=b)))
    torch.testing.assert_close(
        model(x, edge_index), jacobi_series(model, A, model.layers[0](x), a, b), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("degree", [3, 10, 30])
def test_one_recurrence_is_bernsteins_sum_also_for_high_degrees_and_in_single_precision(degree):
    x, edge_index, A = graph("star")
    model = shaken(made(partial(BernNet, IN, 8, 1, OUT, degree=degree)))
    lam, U = torch.linalg.eigh(symmetric(A))  # the products of the sum itself lose digits for high degrees
    high = (1 - lam) / 2
    response = sum(
        theta.relu() * binom(degree, k) * high**k * (1 - high) ** (degree - k)
        for k, theta in enumerate(model.theta)
    )
    expected = U @ (response[:, None] * (U.T @ model.layers[0](x)))
    torch.testing.assert_close(model(x, edge_index), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.float()(x.float(), edge_index), expected.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [ChebNetII, BernNet])
def test_the_first_filter_is_the_identity(kind):
    x, edge_index, _ = graph("path")
    model = made(partial(kind, IN, 8, 2, OUT))
    torch.testing.assert_close(model(x, edge_index), model.encode(x))


def test_the_first_filter_is_pageranks():
    model = GPRGNN(IN, 8, 2, OUT, degree=3, alpha=0.2)
    assert model.theta.tolist() == pytest.approx([0.2, 0.2 * 0.8, 0.2 * 0.64, 0.512])


@every_model
def test_gradients_reach_everything_and_reset_starts_anew(kind):
    x, edge_index, _ = graph("path")
    model = made(partial(kind, IN, 8, 2, OUT)).train()
    (model(x, edge_index) * torch.randn(len(x), OUT).double()).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())
    started = {name: p.clone() for name, p in model.named_parameters()}
    shaken(model).reset_parameters()
    for name, p in model.named_parameters():
        assert torch.allclose(p, started[name]) == (not name.startswith("layers"))
    own = {id(p) for p in model.sheaf_parameters()}
    assert own == {id(p) for name, p in model.named_parameters() if not name.startswith("layers")}


@every_model
def test_replicas_train_as_if_alone(kind):
    check_replicas(lambda: kind(IN, 8, 2, OUT, dropout=0.4, filter_dropout=0.3, degree=4))


OPTIONS = {
    GPRGNN: {"alpha": [0.5]},
    ChebNetII: {},
    BernNet: {},
    JacobiConv: {"alpha": [1.5], "a": [0.5], "b": [-0.5], "degree": [3]},
}


@every_model
def test_every_option_changes_something(kind):
    check_options(kind, {"filter_dropout": 0.0}, {"filter_dropout": [0.5], "dropout": [0.5], **OPTIONS[kind]})


@pytest.mark.parametrize("kind", [GPRGNN, ChebNetII, BernNet])
def test_the_degree_counts_hops(kind):
    x, edge_index, _ = graph("path")
    for degree in (1, 3):
        model = shaken(made(partial(kind, IN, 8, 2, OUT, degree=degree)))
        moved = x.clone()
        moved[4] += 1.0
        changed = (model(x, edge_index) - model(moved, edge_index)).abs().sum(1) > 1e-12
        assert changed.tolist() == [4 - node <= degree for node in range(5)]


@every_model
def test_a_linear_model_has_one_layer(kind):
    x, edge_index, _ = graph("star")
    model = shaken(made(partial(kind, IN, 8, 1, OUT)))
    y = torch.randn_like(x)
    zero = model(torch.zeros_like(x), edge_index)
    torch.testing.assert_close(
        model(x + y, edge_index) + zero, model(x, edge_index) + model(y, edge_index), rtol=1e-6, atol=1e-8
    )


@every_model
def test_what_makes_no_sense_is_refused(kind):
    x, edge_index, _ = graph("path")
    with pytest.raises(ConfigError, match=f"{kind.__name__} has no use for edge_weight"):
        made(partial(kind, IN, 8, 2, OUT))(x, edge_index, torch.ones(edge_index.size(1)))
    for options, word in (({"degree": 0}, "degree"), ({"filter_dropout": 1.0}, "filter_dropout")):
        with pytest.raises(ConfigError, match=word):
            kind(IN, 8, 2, OUT, **options)
    with pytest.raises(ConfigError, match="num_layers"):
        kind(IN, 8, 0, OUT)


def test_parameters_of_filters_are_checked():
    for kind, options in ((GPRGNN, {"alpha": 1.0}), (JacobiConv, {"alpha": 0.0}), (JacobiConv, {"a": -1.0})):
        with pytest.raises(ConfigError, match=r"alpha"):
            kind(IN, 8, 2, OUT, **options)


@every_model
def test_sizes_may_be_left_to_the_first_call(kind):
    x, edge_index, _ = graph("path")
    model = made(partial(kind, -1, 8, 2, OUT))
    assert model(x, edge_index).shape == (len(x), OUT)
