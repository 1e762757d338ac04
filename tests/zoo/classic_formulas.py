"""The formulas of the classics, written with dense matrices, and the graphs that they are tried on."""

import math
from functools import partial

import torch
from torch.nn import functional

from polynsd import ModelConfig
from polynsd.config import LayerConfig
from polynsd.zoo import build_model

NAMES = (
    "mlp",
    "gcn",
    "sgc",
    "sage",
    "gat",
    "gatv2",
    "gin",
    "mixhop",
    "gcnii",
    "pairnorm",
    "dropedge",
    "chebnet",
)
WITHOUT_WEIGHTS = ("sage", "gat", "gatv2", "gin")
SIZES = (5, 8, 3, 4)
DROPPING = tuple(name for name in NAMES if name not in ("sgc", "gcnii"))  # their features, if told to

GRAPHS = {
    "a ring with a chord, and an isolated node": (
        7,
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)],
    ),
    "a star": (6, [(0, leaf) for leaf in range(1, 6)]),
    "one node": (1, []),
    "no edges": (3, []),
}
RING = next(iter(GRAPHS))


def build_zoo(name, sizes, dropout, options):
    in_channels, *size, out_channels = sizes
    config = ModelConfig(name, *size, layer=LayerConfig(dropout=dropout), options=options)
    return build_model(config, in_channels, out_channels)


def graph(name, seed=0):
    """x, edge_index, the weights of its columns, and A with them."""
    N, pairs = GRAPHS[name]
    torch.manual_seed(seed)
    one_way = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    edge_index = torch.cat([one_way, one_way.flip(0)], 1)
    weight = torch.rand(one_way.size(1), dtype=torch.float64).add(0.5).repeat(2)
    A = torch.zeros(N, N, dtype=torch.float64).index_put((edge_index[1], edge_index[0]), weight)
    return torch.randn(N, SIZES[0], dtype=torch.float64), edge_index, weight, A


def built(name, sizes=SIZES, dropout=0.0, **options):
    torch.manual_seed(1)
    model = build_zoo(name, sizes, dropout, options).double().eval()
    for p in model.parameters():  # biases too, which begin as zeros
        torch.nn.init.normal_(p, std=0.4)
    return model


def normalised(A, loop):
    degree = A.sum(1) + loop
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[:, None] * (A + loop * torch.eye(len(A), dtype=A.dtype)) * scale


def power(S, k):
    return torch.linalg.matrix_power(S, k)


def stacked(layers, x, between=torch.relu):
    """Layers with something between them."""
    for layer in layers[:-1]:
        x = between(layer(x))
    return layers[-1](x)


def linear(lin, h):
    """W h + b; the first maps of a model are themselves called with W h."""
    return functional.linear(h, lin.weight, lin.bias)


def mlp(model, x, A):
    return stacked([partial(linear, lin) for lin in model.mlp.lins], x)


def sgc(model, x, A, hops=2):
    return stacked(model.mlp.lins, power(normalised(A, 1), hops) @ x)


def gcn(model, x, A, between=torch.relu):
    def layer(conv):
        return lambda h: normalised(A, 1) @ h @ conv.lin.weight.T + conv.bias

    return stacked([layer(conv) for conv in model.gnn.convs], x, between)


def pairnorm(model, x, A, scale=1.0, individually=False):
    def between(h):
        h = h - h.mean(0)
        norm = h.norm(dim=1, keepdim=True)
        return torch.relu(scale * h / (norm + 1e-5 if individually else (1e-5 + (norm**2).mean()).sqrt()))

    return gcn(model, x, A, between)


def sage(model, x, A):
    def layer(conv):
        mean = A / A.sum(1, keepdim=True).clamp(min=1)
        return lambda h: h @ conv.lin_r.weight.T + mean @ h @ conv.lin_l.weight.T + conv.lin_l.bias

    return stacked([layer(conv) for conv in model.gnn.convs], x)


def gin(model, x, A):
    def layer(conv):
        first = conv.nn.lins[0].weight.T if conv is model.gnn.convs[0] else torch.eye(SIZES[1]).double()
        return lambda h: conv.nn(((1 + conv.eps) * h + A @ h) @ first)

    def between(h):
        return torch.relu(next(norms)(h))

    norms = iter(model.gnn.norms)
    return stacked([layer(conv) for conv in model.gnn.convs], x, between)


def attention(model, x, A, scores):
    allowed = (A + torch.eye(len(A))) > 0

    def layer(conv, is_last):
        def apply(h):
            e, values = scores(conv, h)  # [H, N, N], [N, H, C]
            alpha = e.masked_fill(~allowed, -math.inf).softmax(-1)
            out = torch.einsum("hij,jhc->ihc", alpha, values)
            return (out.mean(1) if is_last else out.flatten(1)) + conv.bias

        return apply

    convs = list(model.gnn.convs)
    return stacked([layer(conv, conv is convs[-1]) for conv in convs], x, functional.elu)


def gat(model, x, A):
    def scores(conv, h):
        values = (h @ conv.lin.weight.T).unflatten(1, (conv.heads, -1))
        source, target = ((values * a).sum(-1).T for a in (conv.att_src, conv.att_dst))
        return functional.leaky_relu(target[:, :, None] + source[:, None, :], 0.2), values

    return attention(model, x, A, scores)


def gatv2(model, x, A):
    def scores(conv, h):
        source, target = (linear(lin, h).unflatten(1, (conv.heads, -1)) for lin in (conv.lin_l, conv.lin_r))
        both = functional.leaky_relu(target[:, None] + source[None], 0.2)
        return (both * conv.att[0]).sum(-1).movedim(-1, 0), source

    return attention(model, x, A, scores)


def mixhop(model, x, A, hops=2):
    for conv in model.convs:
        powers = [power(normalised(A, 1), k) @ x @ conv.lins[k].weight.T for k in range(hops + 1)]
        x = torch.relu(torch.cat(powers, 1) + conv.bias)
    return model.classify(x)


def gcnii(model, x, A, alpha=0.1, theta=0.5):
    h = first = torch.relu(model.encode(x))
    for number, conv in enumerate(model.convs, 1):
        beta, W = math.log(theta / number + 1), conv.weight1
        mixed = (1 - alpha) * normalised(A, 1) @ h + alpha * first
        h = torch.relu(mixed @ ((1 - beta) * torch.eye(len(W)) + beta * W))
    return model.classify(h)


def chebnet(model, x, A, degree=2):
    lam, U = torch.linalg.eigh(-normalised(A, 0))

    def layer(conv):
        def apply(h):
            return conv.bias + sum(
                U @ torch.diag(torch.cos(k * lam.clamp(-1, 1).arccos())) @ U.T @ h @ conv.lins[k].weight.T
                for k in range(degree + 1)
            )

        return apply

    return stacked([layer(conv) for conv in model.convs], x)


FORMULAS = {name: globals()[name] for name in NAMES if name != "dropedge"} | {"dropedge": gcn}
