"""The sheaf models of the zoo against their formulas, written with dense matrices and loops in float64."""

import gc
import inspect
import weakref
from functools import partial

import pytest
import torch
from torch.nn.functional import elu, layer_norm, leaky_relu, linear

from polynsd import ConfigError, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.nn.precision import lowered
from polynsd.nn.zoo import ZOO, own_options, zoo_class
from polynsd.nn.zoo.connection import alignment, connection_laplacian, connection_maps
from polynsd.nn.zoo.risnn import RotationInvariantLearner
from polynsd.sheaf import get_family
from polynsd.testing.dense import dense_laplacian, inverse_root
from polynsd.testing.samples import GRAPHS, example_graph, random_maps, random_tensor
from polynsd.topology import Topology
from polynsd.training import Replica, fit, fit_replicas, get_task
from polynsd.training import replicas as engine

NAMES = ("conn-nsd", "san", "ansd", "risnn", "risnn-not", "jdsnn", "jdsnn-now", "vanilla-sheaf")
WITH_LEARNERS = ("san", "ansd", "risnn", "risnn-not", "jdsnn", "jdsnn-now")
WITH_EDGES = ("one edge", "path", "star", "complete", "isolated nodes", "multigraph")
FEATURES, D, CHANNELS, CLASSES = 5, 3, 4, 2
EYE = torch.eye(8, dtype=torch.float64)


def build(name, channels=CHANNELS, layers=2, seed=0, **options):
    """A model in float64, with noise on every parameter, so that none sits at a special value."""
    torch.manual_seed(seed)
    model = zoo_class(name)(FEATURES, channels, layers, CLASSES, **{**ZOO[name].preset, **options})
    model = model.double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model


def example(name, seed=0):
    topology = example_graph(name)
    return random_tensor(topology.num_nodes, FEATURES, seed=seed), topology


# --- the formulas ---


def half_edges(topology):
    """(h, v, u, twin of h)."""
    pairs = list(zip(topology.row.tolist(), topology.col.tolist(), strict=True))
    return [(h, v, u, pairs.index((u, v))) for h, (v, u) in enumerate(pairs)]


def mixed(w, at, x):
    """W₁ x W₂ᵀ node by node."""
    return torch.einsum("ij,njc,kc->nik", w[at + "stalk"], x, w[at + "channel"])


def apply_dense(L, x):
    return (L @ x.flatten(0, 1)).reshape(x.shape)


def nsd_step(w, at, x, L):
    mixed_x = torch.einsum("ij,njc,kc->nik", w[at + "stalk_mixing"], x, w[at + "channel_mixing"])
    return (1 + w[at + "epsilon"].tanh()) * x - elu(apply_dense(L, mixed_x))


def block_step(w, at, x, L):
    h = mixed(w, at + "second.", elu(mixed(w, at + "first.", x)))
    x = (1 + w[at + "epsilon"].tanh()) * x - elu(apply_dense(L, h))
    return layer_norm(x, x.shape[-1:], w[at + "norm.weight"], w[at + "norm.bias"])


def dense_maps_of(raw, maps, d):
    """[H, d, d] matrices of a family from raw numbers."""
    built = get_family(maps).build(raw, d)
    return built if built.size(-1) > 1 or d == 1 else built * torch.eye(d, dtype=raw.dtype)


def identity_maps(topology, d):
    return EYE[:d, :d].repeat(topology.num_half_edges, 1, 1)


def vanilla(model, w, x, state, topology):
    L = dense_laplacian(topology, identity_maps(topology, D), model.normalization)
    for index in range(len(model.layers)):
        state = block_step(w, f"layers.{index}.", state, L)
    return state


def dense_frame(x, v, neighbours, d):
    """Local PCA at a node, with borrowed nodes, and signs by the largest entry."""
    others = [u for u in range(len(x)) if u != v and u not in neighbours]
    others.sort(key=lambda u: float((x[u] - x[v]).norm()))
    columns = [x[u] - x[v] for u in [*neighbours, *others[: max(0, d - len(neighbours))]]]
    columns += [torch.zeros_like(x[v])] * (d - len(columns))
    U = torch.linalg.svd(torch.stack(columns, 1), full_matrices=False)[0][:, :d]
    return torch.stack([u if u[u.abs().argmax()] > 0 else -u for u in U.mT], 1)


def dense_connection(x, topology, d):
    """The normalised connection Laplacian, block by block."""
    N, halves = len(x), half_edges(topology)
    around = {v: [u for _, w, u, _ in halves if w == v] for v in range(N)}
    L = x.new_zeros(N, d, N, d)
    scale = [(len(around[v]) + 1) ** -0.5 for v in range(N)]
    for v in range(N):
        L[v, :, v] = len(around[v]) * scale[v] ** 2 * EYE[:d, :d]
    for _, v, u, _ in halves:
        U, _, Vh = torch.linalg.svd(dense_frame(x, v, around[v], d).mT @ dense_frame(x, u, around[u], d))
        L[v, :, u] = -scale[v] * scale[u] * U @ Vh
    return L.reshape(N * d, N * d)


def conn_nsd(model, w, x, state, topology):
    L = dense_connection(x, topology, model.stalk_dim)
    for index in range(len(model.layers)):
        state = nsd_step(w, f"layers.{index}.", state, L)
    return state


def attention_matrix(w, at, x, topology):
    """Λ ∘ Â_F as one matrix `[N d, N d]`."""
    N, d, _ = x.shape
    a, flat = w[at + "score.weight"], x.flatten(1)
    weight, F, halves = w[at + "learner.maps.linear.weight"], {}, half_edges(topology)
    for _, v, u, _ in halves:
        raw = torch.tanh(weight @ torch.cat([flat[v], flat[u]]))
        F[v, u] = get_family("orthogonal").build(raw, d)
    A = x.new_zeros(N, d, N, d)
    for v in range(N):
        near = [v, *(u for _, w_, u, _ in halves if w_ == v)]
        logits = torch.stack([leaky_relu(a[0] @ flat[v] + a[1] @ flat[u], 0.2) for u in near])
        for u, alpha in zip(near, logits.softmax(0), strict=True):
            A[v, :, u] = alpha * (EYE[:d, :d] if u == v else F[v, u].mT @ F[u, v])
    return A.reshape(N * d, N * d)


def san(model, w, x, state, topology):
    for index in range(len(model.layers)):
        at = f"layers.{index}."
        A, m = attention_matrix(w, at, state, topology), mixed(w, at + "mixing.", state)
        eye = torch.eye(len(A), dtype=A.dtype)
        state = state + elu(apply_dense(A - eye, m)) if model.residual else elu(apply_dense(A, m))
    return state


def risnn(model, w, x, state, topology):
    d, maps = model.stalk_dim, identity_maps(topology, model.stalk_dim)
    for index in range(len(model.layers)):
        F = maps if model.time else identity_maps(topology, d)
        gradients = [
            2 / d * (F[h] @ state[v] - F[t] @ state[u]) @ state[v].mT for h, v, u, t in half_edges(topology)
        ]
        vectors = torch.stack(gradients).flatten(1) if gradients else state.new_zeros(0, d * d)
        at = f"learners.{index}.linear."
        maps = dense_maps_of(linear(vectors, w[at + "weight"], w[at + "bias"]).tanh(), str(model.family), d)
        state = nsd_step(w, f"layers.{index}.", state, dense_laplacian(topology, maps, "sheaf-augmented"))
    return state


def dual_step(model, w, at, F, x, topology):
    """Diffusion on the graph whose nodes are the incidences, joined to their twins; needs C = d."""
    H, d = topology.num_half_edges, model.stalk_dim
    if not H:
        return F
    dual = Topology.from_edge_index(torch.stack([torch.arange(H), topology.twin]), H)
    if at + "left" in w:
        F = w[at + "left"] @ F @ w[at + "right"]
    norm = model.flows[0].dual_norm
    L = dense_laplacian(
        dual, x[topology.row].mT, "sheaf-augmented" if norm == "matrix" else "none", stalk_dim=d
    )
    L = L if norm == "matrix" else L / (d + 1)
    signal = F.mT.reshape(H * d, d)  # Fᵀ: the stalk of an incidence is that of its node
    flow = (L @ signal).reshape(H, d, d).mT
    flow = flow.tanh() if model.flows[0].map_activation == "tanh" else flow
    gained = ((1 + w[at + "epsilon"].tanh()).repeat(H)[:, None] * signal).reshape(H, d, d).mT
    return gained - flow


def jdsnn(model, w, x, state, topology):
    d, F = model.stalk_dim, identity_maps(topology, model.stalk_dim)
    if model.learner is not None:
        weight, flat = w["learner.maps.linear.weight"], state.flatten(1)
        pairs = torch.cat([flat[topology.row], flat[topology.col]], -1)
        F = dense_maps_of(linear(pairs, weight).tanh(), str(model.learner.family), d)
    for index in range(len(model.layers)):
        before = state
        state = block_step(w, f"layers.{index}.", state, dense_laplacian(topology, F, "sheaf-augmented"))
        if index < len(model.layers) - 1:
            F = dual_step(model, w, f"flows.{index}.", F, before, topology)
    return state


def truth(formula, model, x, topology):
    w = {name: value.detach() for name, value in model.state_dict().items()}
    state = elu(linear(x, w["encoder.weight"], w["encoder.bias"])).reshape(len(x), model.stalk_dim, -1)
    state = formula(model, w, x, state, topology)
    return linear(state.flatten(1), w["decoder.weight"], w["decoder.bias"])


CASES = {
    "conn-nsd": ("conn-nsd", conn_nsd, {}),
    "conn-nsd of planes": ("conn-nsd", conn_nsd, {"stalk_dim": 2}),
    "san": ("san", san, {}),
    "ansd": ("ansd", san, {"stalk_dim": 2}),
    "risnn": ("risnn", risnn, {}),
    "risnn, diagonal": ("risnn", risnn, {"maps": "diagonal"}),
    "risnn, orthogonal": ("risnn", risnn, {"maps": "orthogonal(cayley)"}),
    "risnn-not": ("risnn-not", risnn, {"stalk_dim": 2}),
    "jdsnn": ("jdsnn", jdsnn, {"channels": D}),
    "jdsnn, learned first maps": ("jdsnn", jdsnn, {"channels": D, "maps": "diagonal"}),
    "jdsnn, tanh": ("jdsnn", jdsnn, {"channels": D, "map_activation": "tanh"}),
    "jdsnn-now": ("jdsnn-now", jdsnn, {"channels": D, "dual_norm": "degree"}),
    "vanilla-sheaf": ("vanilla-sheaf", vanilla, {}),
    "vanilla-sheaf, sheaf": ("vanilla-sheaf", vanilla, {"normalization": "sheaf"}),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", CASES)
def test_a_model_is_its_formula(case, graph):
    name, formula, options = CASES[case]
    model = build(name, layers=3, **options)
    x, topology = example(graph)
    torch.testing.assert_close(model(x, topology), truth(formula, model, x, topology), rtol=1e-10, atol=1e-10)


# --- the connection ---


@pytest.mark.parametrize("graph", WITH_EDGES)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_transports_are_orthogonal_and_each_others_inverse(graph, d):
    x, topology = example(graph)
    maps = connection_maps(x, topology, d)
    transport = maps.mT @ maps[topology.twin]
    eye = torch.eye(d, dtype=x.dtype).expand_as(transport)
    torch.testing.assert_close(transport @ transport.mT, eye)
    torch.testing.assert_close(transport[topology.twin], transport.mT)


def test_another_local_basis_conjugates_the_transports():
    frames = torch.linalg.qr(random_tensor(4, FEATURES, 2))[0]
    turn = torch.linalg.qr(random_tensor(4, 2, 2, seed=1))[0]
    v, u = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 3])
    turned = alignment(frames @ turn, v, u)
    torch.testing.assert_close(turned, turn[v].mT @ alignment(frames, v, u) @ turn[u])


def test_a_rotation_of_the_features_changes_signs_at_most():
    x, topology = example("complete")
    Q = torch.linalg.qr(random_tensor(FEATURES, FEATURES, seed=5))[0]
    plain, turned = (connection_maps(z, topology, 2) for z in (x, x @ Q))
    torch.testing.assert_close(plain.abs(), turned.abs())


def test_a_flat_cloud_has_a_flat_connection():
    plane = torch.linalg.qr(random_tensor(FEATURES, 2))[0]
    x, topology = random_tensor(5, 2, seed=1) @ plane.mT, example_graph("complete")
    maps = connection_maps(x, topology, 2)
    around = maps.mT @ maps[topology.twin]
    at = {(v, u): around[h] for h, v, u, _ in half_edges(topology)}
    torch.testing.assert_close(at[0, 1] @ at[1, 2] @ at[2, 0], torch.eye(2, dtype=x.dtype))


def test_a_connection_is_found_once_and_again_when_the_features_change():
    x, topology = example("star")
    first = connection_laplacian(x, topology, 2)
    assert connection_laplacian(x, topology, 2) is first
    x += random_tensor(*x.shape, seed=3)
    assert connection_laplacian(x, topology, 2) is not first


def test_batches_of_decompositions_do_not_matter(monkeypatch):
    x, topology = example("isolated nodes")
    whole = connection_maps(x, topology, 3)
    monkeypatch.setattr("polynsd.nn.zoo.connection.AT_ONCE", 1)
    torch.testing.assert_close(connection_maps(x, topology, 3), whole)


def test_frames_need_as_many_features():
    x, topology = example("path")
    with pytest.raises(ConfigError, match="smaller stalk_dim"):
        connection_laplacian(x, topology, FEATURES + 1)


# --- other laws of single models ---


@pytest.mark.parametrize("maps", [None, "diagonal", "general"])
def test_maps_do_not_see_a_rotation_of_the_channels(maps):
    topology = example_graph("complete")
    learner = RotationInvariantLearner(get_family("general"), D).double()
    X, Q = random_tensor(5, D, CHANNELS), torch.linalg.qr(random_tensor(CHANNELS, CHANNELS, seed=1))[0]
    before = None if maps is None else random_maps(maps, topology, D)
    torch.testing.assert_close(learner(X @ Q, before, topology), learner(X, before, topology))
    assert not torch.allclose(learner(2 * X, before, topology), learner(X, before, topology))


@pytest.mark.parametrize("graph", GRAPHS)
def test_attention_sums_to_one(graph):
    layer, topology = build("san").layers[0], example_graph(graph)
    others, own = layer.attention(random_tensor(topology.num_nodes, D, CHANNELS), topology)
    torch.testing.assert_close(own.index_add(0, topology.row, others), torch.ones_like(own))
    assert (own > 0).all()
    assert (others > 0).all()


def test_the_dual_normalisation_whitens_the_states():
    flow = build("jdsnn").flows[0]
    X = random_tensor(4, D, CHANNELS)
    truth = inverse_root(X @ X.mT + EYE[:D, :D]) @ X
    torch.testing.assert_close(flow.normalized(X), truth)


def test_joint_diffusion_of_one_layer_is_the_vanilla_sheaf():
    joint, plain = build("jdsnn", layers=1), build("vanilla-sheaf", layers=1)
    plain.load_state_dict(joint.state_dict())
    x, topology = example("complete")
    torch.testing.assert_close(joint(x, topology), plain(x, topology))


# --- laws of all models ---


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_not_kept_alive(name):
    model, (x, topology) = build(name), example("path")
    model(x, topology)
    grave = weakref.ref(topology)
    del x, topology
    gc.collect()
    assert grave() is None


@pytest.mark.parametrize("name", NAMES)
def test_renaming_the_nodes_renames_the_output(name):
    model, (x, topology) = build(name), example("isolated nodes")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    edge_index = torch.stack([topology.row, topology.col])
    torch.testing.assert_close(model(x[order], order.argsort()[edge_index]), model(x, edge_index)[order])


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name):
    model, (x, topology) = build(name).train(), example("complete")
    model(x, topology).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


OPTIONS = {
    "stalk_dim": {"stalk_dim": 2},
    "input_dropout": {"input_dropout": 0.5},
    "maps": {"maps": "diagonal"},
    "dual_norm": {"dual_norm": "degree"},
    "map_activation": {"map_activation": "tanh"},
    "normalization": {"normalization": "none"},
}


@pytest.mark.parametrize(("name", "option"), [(name, o) for name in NAMES for o in own_options(name)])
def test_every_option_changes_something(name, option):
    x, topology = example("complete")
    outputs = []
    for options in ({}, OPTIONS[option]):
        model = build(name, **options).train()
        torch.manual_seed(1)
        outputs.append(model(x, topology))
    assert not torch.allclose(*outputs)


@pytest.mark.parametrize(
    ("first", "second"), [("san", "ansd"), ("risnn", "risnn-not"), ("jdsnn", "jdsnn-now")]
)
def test_presets_are_different_models(first, second):
    x, topology = example("complete")
    assert not torch.allclose(build(first)(x, topology), build(second)(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name):
    model, (x, topology) = build(name, dropout=0.5), example("complete")
    assert torch.equal(model(x, topology), model(x, topology))
    model.train()
    assert not torch.allclose(model(x, topology), model(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_edge_weights_are_refused(name):
    x, topology = example("path")
    with pytest.raises(ConfigError, match="edge_weight"):
        build(name)(x, topology, torch.ones(topology.num_half_edges))


@pytest.mark.parametrize("name", NAMES)
def test_options_are_keyword_only_and_plain(name):
    assert set(own_options(name).values()) <= {int, float, bool, str}
    kind = zoo_class(name)
    assert all(inspect.signature(kind).parameters[o].kind.name == "KEYWORD_ONLY" for o in own_options(name))
    assert set(kind.space) <= {"num_layers", "hidden_channels", *own_options(name)}


@pytest.mark.parametrize("name", WITH_LEARNERS)
def test_sheaf_parameters_are_some_of_the_models(name):
    model = build(name)
    mine, all_ = {id(p) for p in model.sheaf_parameters()}, {id(p) for p in model.parameters()}
    assert mine
    assert mine < all_


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_draws_everything_anew(name):
    model = build(name)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    model.reset_parameters()
    assert not any((p == 7).any() for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_reaches_linear_maps_only(name):
    model, (x, topology) = build(name).float(), example("complete")
    with torch.no_grad(), lowered("bf16", "cpu"):
        low = model(x.float(), topology)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), model(x.float(), topology), rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "wrong", [{"stalk_dim": 0}, {"dropout": 1.0}, {"input_dropout": -0.1}, {"num_layers": 0}]
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values_are_named(name, wrong):
    sizes = {"in_channels": 5, "hidden_channels": 4, "num_layers": 2, "out_channels": 2}
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        zoo_class(name)(**{**sizes, **ZOO[name].preset, **wrong})


@pytest.mark.parametrize("name", NAMES)
def test_a_wide_state_is_mixed_the_same_way(name, monkeypatch):
    model, (x, topology) = build(name), example("complete")
    narrow = model(x, topology)
    monkeypatch.setattr("polynsd.nn.mixing.NARROW", 0)
    torch.testing.assert_close(model(x, topology), narrow)


@pytest.mark.parametrize("name", NAMES)
def test_a_replica_in_company_is_the_one_it_is_alone(name, monkeypatch):
    data = heterophilous_graph(30, 2, FEATURES, 4, seed=3)
    kind = partial(zoo_class(name), FEATURES, CHANNELS, 2, 2, dropout=0.4, input_dropout=0.2, stalk_dim=2)
    make, verdicts, ask = partial(kind, **ZOO[name].preset), [], engine.is_vectorisable
    monkeypatch.setattr(engine, "is_vectorisable", lambda run: verdicts.append(ask(run)) or verdicts[-1])
    rules, task = TrainConfig(epochs=3, patience=3), get_task("accuracy")
    replicas = [Replica(make, stratified_split(data.y, seed=seed), seed, rules) for seed in (0, 7)]
    for result, replica in zip(fit_replicas(replicas, data, task), replicas, strict=True):
        alone = fit(make, data, replica.split, task, rules, replica.seed)
        assert (result.best_epoch, result.test_metric) == (alone.best_epoch, alone.test_metric)
        assert result.val_loss == pytest.approx(alone.val_loss, rel=1e-4)
        for p, q in zip(result.model.parameters(), alone.model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-4)
    assert verdicts
    assert all(verdicts)
