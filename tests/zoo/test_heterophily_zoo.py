"""Models made for heterophily are their formulas, written with dense matrices."""

import gc
import math
import weakref
from functools import partial

import pytest
import torch
from replica_law import IN, OUT, check_options, check_replicas, graph, made, smoothing
from test_operators import at_distance_two, normalised
from torch.nn import functional

from polynsd import ConfigError, ShapeError
from polynsd.testing.samples import GRAPHS, random_edges
from polynsd.zoo.fagcn import FAGCN
from polynsd.zoo.fsgnn import FSGNN, hops
from polynsd.zoo.ggcn import GGCN
from polynsd.zoo.glognn import GloGNN, inverted
from polynsd.zoo.h2gcn import H2GCN

MODELS = (H2GCN, FAGCN, GGCN, FSGNN, GloGNN)
every_model = pytest.mark.parametrize("kind", MODELS)


def shaken(model, seed=0):
    """The model with noise on every parameter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.5 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model


def built(kind, x, edge_index, num_layers=3, **options):
    """A model that knows its sizes, with noise on every parameter."""
    model = made(partial(kind, IN, 8, num_layers, OUT, **options))
    model(x, edge_index)
    return shaken(model)


def h2gcn(model, x, A):
    near, far = normalised(A), normalised(at_distance_two(A))
    rounds = [model.encoder(x).relu()]
    for _ in range(model.num_layers):
        rounds.append(torch.cat([near @ rounds[-1], far @ rounds[-1]], 1))
    return model.decoder(torch.cat(rounds, 1))


def fagcn(model, x, A):
    h = start = model.encoder(x).relu()
    for conv in model.convs:
        alpha = torch.tanh(conv.att_r(h) + conv.att_l(h).T)  # i down, j across
        h = 0.3 * start + (normalised(A) * alpha) @ h
    return model.decoder(h)


def signed(conv, z, A):
    S, eye = smoothing(A), torch.eye(len(A), dtype=A.dtype)
    lengths = z.norm(dim=1)
    cosine = z @ z.T / (lengths[:, None] * lengths).clamp(min=1e-9)
    degree = A.sum(1) + 1
    tau = functional.softplus(
        conv.correction[0] * ((degree / degree[:, None]).sqrt() - 1) + conv.correction[1]
    )
    attract, repel, own = conv.mixture.softmax(0)
    off = S * (1 - eye) * tau
    H = attract * (off * cosine.clamp(min=0)) @ z + repel * (off * cosine.clamp(max=0)) @ z + own * z
    return functional.softplus(conv.gain) * H


def ggcn(model, x, A):
    skip, z = model.encoder(x).split(8, -1)
    state = functional.elu(skip) + functional.elu(signed(model.convs[0], z, A))
    for number, (conv, layer) in enumerate(zip(model.convs[1:-1], model.linears[:-1], strict=True), start=3):
        factor = math.log(1 / number**3 + 1)
        state = state + factor * functional.elu(signed(conv, layer(state), A))
    return signed(model.convs[-1], model.linears[-1](state), A)


def fsgnn(model, x, A):
    K, power = model.num_layers, torch.linalg.matrix_power
    inputs = [x, *(power(S, k) @ x for S in (normalised(A), smoothing(A)) for k in range(1, K + 1))]
    shares = model.attention.softmax(0)
    parts = [layer(X) for layer, X in zip(model.encoders, inputs, strict=True)]
    parts = [a * part / part.norm(dim=1, keepdim=True) for a, part in zip(shares, parts, strict=True)]
    return model.decoder(torch.cat(parts, 1).relu())


def glognn(model, x, A):
    """Z* by its N × N normal equations."""
    S, eye, c, gamma = smoothing(A), torch.eye(len(A), dtype=A.dtype), 1 - model.gamma, model.gamma
    h = (model.delta * model.encoder(x) + (1 - model.delta) * model.neighbours(A)).relu()
    H = start = model.decoder(model.hidden(h).relu())
    P = sum(weight * torch.linalg.matrix_power(S, k) for k, weight in enumerate(model.powers, start=1))
    for _ in range(model.num_layers):
        left = c * (H - gamma * start) @ H.T + model.beta2 * P
        Z = left @ torch.linalg.inv(c**2 * H @ H.T + (model.beta1 + model.beta2) * eye)
        H = c * Z @ H + gamma * start
    return H


FORMULAS = {H2GCN: h2gcn, FAGCN: fagcn, GGCN: ggcn, FSGNN: fsgnn, GloGNN: glognn}


@pytest.mark.parametrize("name", GRAPHS)
@every_model
def test_a_model_is_its_formula(kind, name):
    x, edge_index, A = graph(name)
    model = built(kind, x, edge_index)
    torch.testing.assert_close(model(x, edge_index), FORMULAS[kind](model, x, A))


def test_z_minimises_what_glognn_says_it_does():
    x, edge_index, A = graph("isolated nodes")
    model = built(GloGNN, x, edge_index, num_layers=1, beta1=0.3, beta2=2.0, gamma=0.2)
    start = model.encode(x, lambda W: A @ W).detach()
    P = sum(w * torch.linalg.matrix_power(smoothing(A), k) for k, w in enumerate(model.powers, start=1))
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
    torch.testing.assert_close(inverted(M), expected, rtol=1e-5, atol=1e-9)
    (mine,), (theirs,) = (torch.autograd.grad(X, M, g) for X in (inverted(M), expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-7)


@every_model
def test_gradients_reach_everything_and_reset_starts_anew(kind):
    x, edge_index, _ = graph("isolated nodes")
    model = made(partial(kind, IN, 8, 3, OUT)).train()
    (model(x, edge_index) * torch.randn(len(x), OUT).double()).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())
    started = {name: p.clone() for name, p in model.named_parameters()}
    shaken(model).reset_parameters()
    for name, p in model.named_parameters():
        is_drawn = name.endswith(("weight", "bias"))
        assert torch.allclose(p, started[name]) != is_drawn, name


@every_model
def test_replicas_train_as_if_alone(kind):
    check_replicas(lambda: kind(IN, 8, 2, OUT, dropout=0.4))


OPTIONS = {
    H2GCN: {"hops": [1]},
    FAGCN: {"eps": [0.0, 0.9]},
    GGCN: {"decay": [0.5], "exponent": [1.0], "degree_correction": [False]},
    FSGNN: {"unit_rows": [False]},
    GloGNN: {"beta1": [0.0], "beta2": [10.0], "gamma": [0.0], "delta": [0.0, 1.0], "degree": [1]},
}


@every_model
def test_every_option_changes_something(kind):
    check_options(
        lambda *sizes, **options: kind(IN, 8, 3, OUT, **options), {}, {"dropout": [0.5], **OPTIONS[kind]}
    )


@every_model
@pytest.mark.parametrize("num_layers", [1, 2])
def test_few_layers_will_do(kind, num_layers):
    x, edge_index, _ = graph("star")
    assert built(kind, x, edge_index, num_layers=num_layers)(x, edge_index).isfinite().all()
    with pytest.raises(ConfigError, match="num_layers"):
        kind(IN, 8, 0, OUT)


@every_model
def test_weights_of_edges_are_refused(kind):
    x, edge_index, _ = graph("path")
    with pytest.raises(ConfigError, match=f"{kind.__name__} has no use for edge_weight"):
        built(kind, x, edge_index)(x, edge_index, torch.ones(edge_index.size(1)))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="unknown hops '3'; choose from: 1, 2"):
        H2GCN(IN, 8, 2, OUT, hops=3)
    with pytest.raises(ConfigError, match="gamma"):
        GloGNN(IN, 8, 2, OUT, gamma=1.0)
    for betas in ((0.0, 0.0), (-1.0, 3.0)):
        with pytest.raises(ConfigError, match="beta1 and beta2 must be"):
            GloGNN(IN, 8, 2, OUT, beta1=betas[0], beta2=betas[1])


def test_glognn_belongs_to_its_graph():
    x, edge_index, _ = graph("path")
    model = built(GloGNN, x, edge_index)
    with pytest.raises(ShapeError, match="weight for each of 5 nodes; the features have 4 rows"):
        model(x[:4], edge_index[:, :2])
    again = GloGNN(IN, 8, 3, OUT)
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again.double().eval()(x, edge_index), model(x, edge_index))


def test_hops_of_features_are_found_once_and_end_with_them():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    found = hops(x, edge_index, 2)
    assert len(found) == 4
    assert all(a is b for a, b in zip(hops(x, edge_index, 2), found, strict=True))
    x.mul_(2.0)
    torch.testing.assert_close(hops(x, edge_index, 2)[0], 2 * found[0])
    assert hops(x.clone().requires_grad_(), edge_index, 2)[3].requires_grad
    alive = weakref.ref(hops(x, edge_index, 2)[0])
    del found, x
    gc.collect()
    assert alive() is None
