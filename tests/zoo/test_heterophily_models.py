"""Models made for heterophily are their formulas, written with dense matrices."""

import math

import pytest
import torch
from test_matrices import at_distance_two
from torch.nn import functional
from zoo_laws import build, built, graph, normalised, power, smoothing

from polynsd import ConfigError, ShapeError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo.heterophily import invert


def h2gcn(model, x, A):
    near, far = normalised(A), normalised(at_distance_two(A))
    rounds = [model.encoder(x).relu()]
    for _ in range(model.num_layers):
        rounds.append(torch.cat([near @ rounds[-1], far @ rounds[-1]], 1))
    return model.decoder(torch.cat(rounds, 1))


def fagcn(model, x, A):
    h = start = model.encoder(x).relu()
    for score in model.scores:
        alpha = torch.tanh(score.here(h) + score.there(h).T)  # i down, j across
        h = 0.3 * start + (normalised(A) * alpha) @ h
    return model.decoder(h)


def signed(layer, z, A):
    S, eye = smoothing(A), torch.eye(len(A), dtype=A.dtype)
    lengths = z.norm(dim=1)
    cosine = z @ z.T / (lengths[:, None] * lengths).clamp(min=1e-9)
    degree = A.sum(1) + 1
    tau = functional.softplus(
        layer.correction[0] * ((degree / degree[:, None]).sqrt() - 1) + layer.correction[1]
    )
    attract, repel, own = layer.mixture.softmax(0)
    off = S * (1 - eye) * tau
    H = attract * (off * cosine.clamp(min=0)) @ z + repel * (off * cosine.clamp(max=0)) @ z + own * z
    return functional.softplus(layer.gain) * H


def ggcn(model, x, A):
    skip, z = model.encoder(x).split(8, -1)
    state = functional.elu(skip) + functional.elu(signed(model.layers[0], z, A))
    middle = zip(model.layers[1:-1], model.linears[:-1], strict=True)
    for number, (layer, linear) in enumerate(middle, start=3):
        state = state + math.log(1 / number**3 + 1) * functional.elu(signed(layer, linear(state), A))
    return signed(model.layers[-1], model.linears[-1](state), A)


def fsgnn(model, x, A):
    hops = range(1, model.num_layers + 1)
    inputs = [x, *(power(S, k) @ x for S in (normalised(A), smoothing(A)) for k in hops)]
    parts = [layer(X) for layer, X in zip(model.encoders, inputs, strict=True)]
    shares = model.attention.softmax(0)
    parts = [a * part / part.norm(dim=1, keepdim=True) for a, part in zip(shares, parts, strict=True)]
    return model.decoder(torch.cat(parts, 1).relu())


def glognn(model, x, A):
    """Z* by its N × N normal equations."""
    S, eye, c, gamma = smoothing(A), torch.eye(len(A), dtype=A.dtype), 1 - model.gamma, model.gamma
    h = (model.delta * model.encoder(x) + (1 - model.delta) * model.neighbours(A)).relu()
    H = start = model.decoder(model.hidden(h).relu())
    P = sum(weight * power(S, k) for k, weight in enumerate(model.powers, start=1))
    for _ in range(model.num_layers):
        left = c * (H - gamma * start) @ H.T + model.beta2 * P
        Z = left @ torch.linalg.inv(c**2 * H @ H.T + (model.beta1 + model.beta2) * eye)
        H = c * Z @ H + gamma * start
    return H


FORMULAS = {"h2gcn": h2gcn, "fagcn": fagcn, "ggcn": ggcn, "fsgnn": fsgnn, "glognn": glognn}


@pytest.mark.parametrize("place", GRAPHS)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_model_is_its_formula(name, place):
    x, edge_index, A = graph(place)
    model = built(name, x, edge_index, 3)
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, A))


def test_z_minimises_what_glognn_says_it_does():
    x, edge_index, A = graph("isolated nodes")
    model = built("glognn", x, edge_index, 1, beta1=0.3, beta2=2.0, gamma=0.2)
    start = model.encode(x, lambda W: A @ W).detach()
    P = sum(w * power(smoothing(A), k) for k, w in enumerate(model.powers, start=1))
    Z = torch.zeros_like(A, requires_grad=True)

    def cost():
        misfit = start - 0.8 * Z @ start - 0.2 * start
        return misfit.square().sum() + 0.3 * Z.square().sum() + 2.0 * (Z - P.detach()).square().sum()

    search = torch.optim.LBFGS([Z], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")
    search.step(lambda: (search.zero_grad(), (loss := cost()).backward(), loss)[-1])
    torch.testing.assert_close(
        model(x, edge_index), 0.8 * Z.detach() @ start + 0.2 * start, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_an_inverse_is_one_and_has_its_gradient(size):
    H = torch.randn(60, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    H[:, -1] = 1e4 * H[:, 0]  # large, and singular but for the identity that is added
    M = (H.T @ H + torch.eye(size)).requires_grad_()
    g = torch.randn_like(M)
    expected = torch.linalg.inv(M)
    torch.testing.assert_close(invert(M), expected, rtol=1e-5, atol=1e-9)
    (mine,), (theirs,) = (torch.autograd.grad(X, M, g) for X in (invert(M), expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *[(name, {"num_layers": 0}, "num_layers") for name in FORMULAS],
        ("h2gcn", {"hops": 3}, "unknown hops '3'; choose from: 1, 2"),
        ("glognn", {"gamma": 1.0}, "gamma"),
        ("glognn", {"beta1": 0.0, "beta2": 0.0}, "beta1 and beta2 must be"),
        ("glognn", {"beta1": -1.0, "beta2": 3.0}, "beta1 and beta2 must be"),
    ],
)
def test_what_makes_no_sense_is_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        build(name, **options)


def test_glognn_belongs_to_its_graph():
    x, edge_index, _ = graph("path")
    model = built("glognn", x, edge_index)
    with pytest.raises(ShapeError, match="weight for each of 5 nodes; the features have 4 rows"):
        model(x[:4], edge_index[:, :2])
