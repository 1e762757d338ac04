"""Sheaves in continuous time: closed forms, orders, gradients, and what cannot be integrated."""

from dataclasses import replace

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_FEATURES, close, features, shaken

from polynsd import ConfigError, ModelConfig, PolyNSD, SheafODE, TrainConfig, heterophilous_graph
from polynsd.cli import main
from polynsd.config import LayerConfig, ODEConfig
from polynsd.data import stratified_split
from polynsd.nn import count_evaluations
from polynsd.nn.inputs import prepare_graph
from polynsd.nn.integration import IntegrationError, integrate
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training.replicas import _Training
from polynsd.zoo import build_model

X = features()
LINEAR = {"maps": "general", "mixing": "none", "activation": "identity", "maps_at": "start", "stalk_dim": 2}
SMOOTH = {"maps": "orthogonal", "stalk_dim": 2, "activation": "tanh", "degree": 3}
TASK, RULES = get_task("accuracy"), TrainConfig(epochs=2, patience=2)


def make(**options):
    torch.manual_seed(0)
    return shaken(SheafODE(NUM_FEATURES, 3, 1, 4, **options))


def end_state(model, state=None, x=X):
    """x(T), from the encoded features unless a state is given."""
    seen = []
    model.decoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.propagate(model.encode(x) if state is None else state, prepare_graph(x, EDGE_INDEX))
    return seen[-1].unflatten(-1, (-1, 3))


def gradients(model):
    model.zero_grad()
    model(X, EDGE_INDEX).sin().sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# laws


@pytest.mark.parametrize(
    "options", [{"filter": "diffusion", "degree": 1, "correction": "none"}, {"degree": 3}, {"sign": "inside"}]
)
def test_a_frozen_linear_sheaf_scales_every_mode_by_an_exponential(options):
    model = make(**{**LINEAR, **options}, horizon=0.5, steps=32)
    with torch.no_grad():
        state = model.encode(X)
        L = model.layers[0].laplacian(state, *prepare_graph(X, EDGE_INDEX)).to_dense()
        start = state.flatten(0, 1)
        lam, modes = torch.linalg.eigh(L)
        q = model.layers[0].filter.response(lam)
        expected = modes @ ((-0.5 * q).exp()[:, None] * (modes.T @ start))
        assert torch.allclose(end_state(model).flatten(0, 1), expected, atol=1e-6)
        if (q >= 0).all():  # energy falls
            assert (expected * (L @ expected)).sum() <= (start * (L @ start)).sum()


def test_solvers_converge_with_their_order_and_are_those_of_torchdiffeq():
    torchdiffeq = pytest.importorskip("torchdiffeq")
    model = make(**SMOOTH)
    layer, graph = model.layers[0], prepare_graph(X, EDGE_INDEX)

    def field(x, _=None):
        return layer.flow(x, layer.laplacian(x, *graph))

    def solve(solver, steps):
        return integrate(layer, field, start, {}, ODEConfig(0.5, solver, steps))

    times = torch.linspace(0, 0.5, 3, dtype=X.dtype)
    with torch.no_grad():
        start = model.encode(X)
        exact = solve("rk4", 64)
        for solver, order in (("euler", 1), ("midpoint", 2), ("rk4", 4)):
            theirs = torchdiffeq.odeint(lambda t, x: field(x), start, times, method=solver)[-1]
            assert close(solve(solver, 2), theirs)
            errors = [(solve(solver, steps) - exact).abs().max() for steps in (4, 8)]
            assert torch.log2(errors[0] / errors[1]).item() == pytest.approx(order, abs=0.4)


@pytest.mark.parametrize("maps", ["diagonal", "general"])
def test_a_step_of_euler_is_a_layer_without_a_gate(maps):
    ode = make(maps=maps, solver="euler", steps=1)
    discrete = PolyNSD(NUM_FEATURES, 3, 1, 4, **{**vars(ode.config), "gate": "none"}).double().eval()
    discrete.load_state_dict(ode.state_dict())
    assert torch.equal(ode(X, EDGE_INDEX), discrete(X, EDGE_INDEX))


def test_time_runs_on():
    whole, first, second = (make(**SMOOTH, horizon=T, steps=int(4 * T)) for T in (3.0, 1.0, 2.0))
    assert close(end_state(second, end_state(first)), end_state(whole))


@pytest.mark.parametrize(
    "options",
    [{}, {"maps_at": "start", "normalization": "none", "fixed_channels": ("laplacian",)},
     {"maps_on": "nodes", "learner": "gnn", "learner_inputs": ("state", "features")}],
)  # fmt: skip
def test_gradients_by_checkpoint_adjoint_and_in_full_agree(options):
    pytest.importorskip("torchdiffeq")
    options = {**SMOOTH, **options}
    direct = gradients(make(**options, gradient="direct"))
    assert close(gradients(make(**options)), direct)
    exact, adjoint = (
        gradients(make(**options, solver="dopri5", tolerance=1e-7, gradient=way))
        for way in ("direct", "adjoint")
    )
    assert torch.allclose(exact, direct, rtol=1e-3, atol=1e-3)
    assert torch.allclose(adjoint, exact, rtol=1e-3, atol=1e-4)


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_evaluations():
    def kept(**options):
        sizes = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: sizes.setdefault(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) and t,
            lambda t: t,
        ):
            model = make(**SMOOTH, **options)
            model(X, EDGE_INDEX)
        return sum(sizes.values())

    state = X.element_size() * len(X) * 6
    assert kept(steps=8) - kept(steps=4) == 4 * state
    assert kept(steps=4, gradient="direct") > 4 * kept(steps=4)


# replicas


@pytest.fixture(scope="module")
def data():
    data = heterophilous_graph(30, 3, 5, 4, heterophily=0.9, seed=3).to_pyg()
    data.x = data.x.double()
    return data


def replicas(data, *seeds, **ode):
    layer = LayerConfig(maps="diagonal", stalk_dim=2, degree=2, dropout=0.3)
    config = ModelConfig("sheaf-ode", 4, 1, ode=ODEConfig(**ode), layer=layer)
    return [
        Replica(lambda: build_model(config, 5, 3).double(), stratified_split(data.y, seed=s), s, RULES)
        for s in seeds
    ]


@pytest.mark.parametrize("maps_at", ["state", "start"])
def test_replicas_train_together_as_they_do_alone(maps_at, data):
    both = replicas(data, 0, 7, maps_at=maps_at, solver="midpoint", steps=2)
    assert _Training(both, data, TASK, None).is_vectorised
    for mine, replica in zip(fit_replicas(both, data, TASK), both, strict=True):
        (alone,) = fit_replicas([replica], data, TASK)
        assert mine.val_loss == pytest.approx(alone.val_loss, rel=1e-6)


@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_a_replica_that_explodes_ends_alone(solver, data):
    pytest.importorskip("torchdiffeq")
    both = replicas(data, 0, 7, solver=solver, steps=2, tolerance=0.1)
    once = replace(RULES, epochs=1)
    both = [replace(both[0], config=once), replace(both[1], config=replace(once, learning_rate=1e30))]
    good, bad = fit_replicas(both, data, TASK)
    assert bad.diverged
    assert not good.diverged
    assert good.epochs == 1


# mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0.0}, r"horizon must be a positive finite number; got 0\.0"),
        ({"horizon": float("nan")}, "horizon must be a positive finite number"),
        ({"steps": 0}, "steps must be an integer of at least 1; got 0"),
        ({"solver": "rk45"}, r"unknown solver 'rk45'; .*Did you mean 'rk4'\?"),
        ({"gradient": "adjoint"}, "gradient='adjoint' does not go with solver='rk4'"),
        ({"solver": "dopri5", "gradient": "checkpoint"}, "does not go with solver='dopri5'"),
        ({"gate": "tanh"}, "SheafODE means gate='none'; got 'tanh'"),
        ({"map_dropout": 0.5}, "SheafODE means map_dropout=None"),
    ],
)
def test_mistakes_are_told(options, message):
    with pytest.raises(ConfigError, match=message):
        SheafODE(5, 3, 1, 4, **options)


def test_other_models_have_no_time():
    for name, option in (("polynsd", "horizon"), ("sheaf-ode", "shared_maps")):
        config = ModelConfig(name, ode=ODEConfig(horizon=2.0), shared_maps=name == "sheaf-ode")
        with pytest.raises(ConfigError, match=f"{name} has no use for {option}; leave it out"):
            build_model(config, 5, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"solver": "euler"},
            "not finite at t=1000 after 4 steps of euler; use a shorter horizon",
        ),
        ({"solver": "dopri5"}, "dopri5 did not reach tolerance=0.0001 up to t=1000 .*raise the tolerance"),
    ],
)
def test_a_state_that_explodes_is_told(options, message):
    pytest.importorskip("torchdiffeq")
    model = make(activation="identity", horizon=1000.0, **options)
    with torch.no_grad():
        model.layers[0].channel_mixing.copy_(-1e80 * torch.eye(3))
    with pytest.raises(IntegrationError, match=message), torch.no_grad():
        model(X, EDGE_INDEX)


def test_a_solver_that_gives_up_on_its_way_back_is_told():
    torch.manual_seed(0)
    edges, x = torch.randint(0, 12, (2, 24)), torch.randn(12, 5).double()
    torch.manual_seed(1)
    model = SheafODE(5, 4, 1, 3, solver="adaptive_heun", tolerance=1e-6).double()
    loss = model(x, edges).square().sum()
    with pytest.raises(IntegrationError, match="on its way back"):
        loss.backward()


def test_half_precision_stays_half_precision():
    model = SheafODE(5, 4, 1, 3, steps=2).bfloat16()
    x, edges = torch.randn(6, 5).bfloat16(), torch.tensor([[0, 1, 2], [1, 2, 3]])
    assert model(x, edges).dtype == torch.bfloat16


def test_evaluations_are_counted():
    with count_evaluations() as evaluations, torch.no_grad():
        make(steps=3)(X, EDGE_INDEX)
    assert evaluations.count == 12


@pytest.mark.usefixtures("no_tracer")
def test_the_command_line_trains_it(capsys):
    time = ["--horizon", "2", "--solver", "rk4", "--steps", "2"]
    data = ["--data", "num_nodes=40", "num_classes=2", "--epochs", "2", "--splits", "1", "--quiet"]
    main(["train", "--model", "sheaf-ode", *time, *data])
    assert "sheaf-ode (diagonal)" in capsys.readouterr().out
