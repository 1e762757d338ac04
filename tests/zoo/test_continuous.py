"""GRAND and CGNN against their closed forms with dense matrices."""

import pytest
import torch
from zoo_laws import IN, OUT, built, graph, normalised

from polynsd import ConfigError, ModelConfig
from polynsd.config import ODEConfig
from polynsd.zoo import build_model


def flow(model, x, edge_index):
    """(x(0), x(T)) of a model with one layer."""
    start = model.encoder(x)
    return start, model.layers[0].run(start, edge_index, model.ode)


def test_grand_with_frozen_attention_is_an_exponential():
    x, edge_index, A = graph("isolated nodes")
    model = built("grand", x, edge_index, 1, horizon=0.7, steps=16)
    start, end = flow(model, x, edge_index)
    field, looped = model.layers[0], (A + torch.eye(len(A), dtype=A.dtype)) > 0
    q, k = (linear(start).unflatten(-1, (field.heads, -1)) for linear in (field.query, field.key))
    scores = torch.einsum("ihc,jhc->hij", q, k) / q.size(-1) ** 0.5
    attention = scores.masked_fill(~looped, -torch.inf).softmax(-1).mean(0)
    expected = torch.matrix_exp(0.7 * (attention - torch.eye(len(A), dtype=A.dtype))) @ start
    torch.testing.assert_close(end, expected, rtol=1e-6, atol=1e-6)


def test_attention_that_follows_the_state_makes_a_difference_and_keeps_the_range():
    x, edge_index, _ = graph("isolated nodes")
    frozen, moving = (built(name, x, edge_index, 1) for name in ("grand", "grand-nl"))
    moving.load_state_dict(frozen.state_dict())
    start, end = flow(moving, x, edge_index)
    assert not torch.allclose(end, flow(frozen, x, edge_index)[1])
    assert (end <= start.amax(0)).all()  # A is row-stochastic: means of means
    assert (end >= start.amin(0)).all()


def test_cgnn_is_the_solution_of_its_linear_equation():
    x, edge_index, A = graph("isolated nodes")
    model = built("cgnn", x, edge_index, 1, horizon=0.5, steps=16)
    start, end = flow(model, x, edge_index)
    field, eye = model.layers[0], torch.eye(len(A), dtype=A.dtype)
    W = field.channel_matrix()
    values = torch.linalg.eigvalsh(W)
    assert values.min() >= -1e-9
    assert values.max() < 1
    M = field.alpha.sigmoid() / 2 * (eye + normalised(A)) - eye
    # d/dt vec(x) = G vec(x) + vec(x(0)): the last column of the exponential holds the integral
    G = torch.kron(M, torch.eye(8, dtype=A.dtype)) + torch.kron(eye, W - torch.eye(8, dtype=A.dtype))
    n = len(G)
    system = torch.zeros(n + 1, n + 1, dtype=A.dtype)
    system[:n, :n], system[:n, n] = G, start.flatten()
    result = torch.matrix_exp(0.5 * system) @ torch.cat([start.flatten(), start.new_ones(1)])
    torch.testing.assert_close(end.flatten(), result[:n], rtol=1e-6, atol=1e-6)


def test_time_is_an_option_of_every_continuous_model_and_of_no_other():
    ode = ODEConfig(horizon=2.0, steps=3)
    for name in ("grand", "grand-nl", "cgnn", "sheaf-ode"):
        assert build_model(ModelConfig(name, ode=ode), IN, OUT).ode == ode
    with pytest.raises(ConfigError, match="unknown option of gcn 'horizon'"):
        build_model(ModelConfig("gcn", ode=ode), IN, OUT)
