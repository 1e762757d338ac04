"""The formulas of the sheaf models, written with dense matrices and loops in float64."""

import torch
from torch.nn.functional import elu, layer_norm, leaky_relu, linear

from polynsd.sheaf import get_family
from polynsd.spectral import Diffusion
from polynsd.testing.dense import dense_laplacian
from polynsd.testing.samples import example_graph, random_tensor
from polynsd.topology import Topology
from polynsd.zoo import ZOO, model_class

NAMES = ("conn-nsd", "san", "ansd", "risnn", "risnn-not", "jdsnn", "jdsnn-now", "vanilla-sheaf")
FEATURES, D, CHANNELS, CLASSES = 5, 3, 4, 2
EYE = torch.eye(8, dtype=torch.float64)


def build(name, channels=CHANNELS, layers=2, seed=0, **options):
    """A model in float64, with noise on every parameter, so that none sits at a special value."""
    torch.manual_seed(seed)
    model = model_class(name)(FEATURES, channels, layers, CLASSES, **{**ZOO[name].preset, **options})
    model = model.double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model


def example(name, seed=0):
    topology = example_graph(name)
    return random_tensor(topology.num_nodes, FEATURES, seed=seed), topology


def half_edges(topology):
    """(h, v, u, twin of h)."""
    pairs = list(zip(topology.row.tolist(), topology.col.tolist(), strict=True))
    return [(h, v, u, pairs.index((u, v))) for h, (v, u) in enumerate(pairs)]


def mixed(w, at, x):
    """W₁ x W₂ᵀ node by node."""
    return torch.einsum("ij,njc,kc->nik", w[at + "stalk"], x, w[at + "channel"])


def apply_dense(L, x):
    return (L @ x.flatten(0, 1)).reshape(x.shape)


def polynomial(model, index, L):
    """What stands in place of L in a layer: p(L) by its eigenvalues, or L itself."""
    p = model.layers[index].filter
    values, Q = torch.linalg.eigh(L)
    return L if isinstance(p, Diffusion) else Q @ (p.response(values)[:, None] * Q.mT)


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
        state = block_step(w, f"layers.{index}.", state, polynomial(model, index, L))
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
        state = nsd_step(w, f"layers.{index}.", state, polynomial(model, index, L))
    return state


def attention_matrix(w, at, x, topology):
    """Λ ∘ Â_F as one matrix `[N d, N d]`, and with geometric means of both directions in Λ."""
    N, d, _ = x.shape
    a, flat = w[at + "score.weight"], x.flatten(1)
    weight, F, halves = w[at + "learner.maps.linear.weight"], {}, half_edges(topology)
    for _, v, u, _ in halves:
        raw = torch.tanh(weight @ torch.cat([flat[v], flat[u]]))
        F[v, u] = get_family("orthogonal").build(raw, d)
    alphas, transport = x.new_zeros(N, N), x.new_zeros(N, d, N, d)
    for v in range(N):
        near = [v, *(u for _, w_, u, _ in halves if w_ == v)]
        logits = torch.stack([leaky_relu(a[0] @ flat[v] + a[1] @ flat[u], 0.2) for u in near])
        for u, alpha in zip(near, logits.softmax(0), strict=True):
            alphas[v, u], transport[v, :, u] = alpha, EYE[:d, :d] if u == v else F[v, u].mT @ F[u, v]
    both = (alphas, (alphas * alphas.mT).sqrt())
    return [(weights[:, None, :, None] * transport).reshape(N * d, N * d) for weights in both]


def san(model, w, x, state, topology):
    for index in range(len(model.layers)):
        at = f"layers.{index}."
        (A, S), m = attention_matrix(w, at, state, topology), mixed(w, at + "mixing.", state)
        eye = torch.eye(len(A), dtype=A.dtype)
        if not isinstance(model.layers[index].filter, Diffusion):
            A = eye - polynomial(model, index, eye - S)
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
        L = polynomial(model, index, dense_laplacian(topology, maps, "sheaf-augmented"))
        state = nsd_step(w, f"layers.{index}.", state, L)
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
        L = polynomial(model, index, dense_laplacian(topology, F, "sheaf-augmented"))
        state = block_step(w, f"layers.{index}.", state, L)
        if index < len(model.layers) - 1:
            F = dual_step(model, w, f"flows.{index}.", F, before, topology)
    return state


def truth(formula, model, x, topology):
    w = {name: value.detach() for name, value in model.state_dict().items()}
    state = elu(linear(x, w["encoder.weight"], w["encoder.bias"])).reshape(len(x), model.stalk_dim, -1)
    state = formula(model, w, x, state, topology)
    return linear(state.flatten(1), w["decoder.weight"], w["decoder.bias"])
