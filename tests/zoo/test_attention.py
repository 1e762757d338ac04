"""Softmax over neighbours is its formula; nothing in the zoo is summed with atomics; Kronecker mixing."""

import pytest
import torch
from replica_law import IN, OUT, graph
from torch.utils._python_dispatch import TorchDispatchMode

from polynsd import ModelConfig
from polynsd.nn.layer import mix, mix_fully
from polynsd.testing.samples import GRAPHS
from polynsd.zoo import ZOO, build_model
from polynsd.zoo.attention import (
    attended,
    edges_with_loops,
    edges_without_loops,
    softmax,
    softmax_with_self,
)
from polynsd.zoo.operators import gcn_matrix, of_features, powers, symmetric_matrix

HEADS = 2


def scored(name, scale=1.0):
    """Edges, scores, and the scores as dense matrices, −∞ where there is no edge."""
    x, edge_index, _ = graph(name)
    edges = edges_without_loops(edge_index, len(x))
    scores = scale * torch.randn(len(edges.row), HEADS, generator=torch.Generator().manual_seed(1)).double()
    dense = torch.full((len(x), len(x), HEADS), -torch.inf, dtype=torch.float64)
    dense[edges.row, edges.pattern.col.long()] = scores
    return x, edges, scores, dense


@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize("name", GRAPHS)
def test_softmax_is_that_of_the_rows(name, scale):
    _, edges, scores, dense = scored(name, scale)
    expected = dense.softmax(1)[edges.row, edges.pattern.col.long()]
    torch.testing.assert_close(softmax(scores, edges), expected)


@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize("name", GRAPHS)
def test_softmax_with_oneself_is_that_of_the_rows_with_their_diagonal(name, scale):
    x, edges, scores, dense = scored(name, scale)
    own = scale * torch.randn(len(x), HEADS, generator=torch.Generator().manual_seed(2)).double()
    node = torch.arange(len(x))
    dense[node, node] = own
    expected = dense.softmax(1)
    others, mine = softmax_with_self(scores, own, edges)
    torch.testing.assert_close(others, expected[edges.row, edges.pattern.col.long()])
    torch.testing.assert_close(mine, expected[node, node])


@pytest.mark.parametrize("name", ["star", "isolated nodes"])
def test_gradients_of_attention_are_right(name):
    _, edges, scores, dense = scored(name)
    v = torch.randn(len(dense), 4, dtype=torch.float64)
    torch.autograd.gradcheck(
        lambda s, u: attended(s, u, edges), (scores.requires_grad_(), v.requires_grad_())
    )
    expected = torch.einsum("ijh,jhc->ihc", dense.softmax(1).nan_to_num(), v.unflatten(1, (HEADS, -1)))
    torch.testing.assert_close(attended(scores, v, edges), expected.flatten(1))


def test_replicas_attend_together():
    x, edge_index, _ = graph("path")
    edges = edges_with_loops(edge_index, len(x), x)
    scores = torch.randn(3, len(edges.row), HEADS)
    together = torch.vmap(lambda s: softmax(s, edges))(scores)
    torch.testing.assert_close(together, torch.stack([softmax(s, edges) for s in scores]))


class _NoAtomics(TorchDispatchMode):
    """Refuses sums whose order a GPU does not fix; a maximum is the same in any order."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        adds = ("scatter_add", "index_add", "embedding_dense_backward", "bincount")
        assert not any(word in name for word in adds), name
        assert "scatter_reduce" not in name or "amax" in args, name
        assert "index_put" not in name or len(args) < 4 or not args[3], name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ZOO)
def test_the_same_seed_gives_the_same_bits(name):
    options = {"local_attention": True} if name == "polynormer" else {}
    x, edge_index, _ = graph("path")
    model = build_model(ModelConfig(name, 8, 2, options=options), IN, OUT).double().train()
    model(x, edge_index)
    with _NoAtomics():
        model(x, edge_index).sum().backward()


def test_powers_of_two_matrices_do_not_displace_each_other():
    x, edge_index, _ = graph("path")
    matrices = [find(edge_index, len(x), x) for find in (gcn_matrix, symmetric_matrix)]
    found = [of_features(powers, S, x, 3) for S in matrices]
    for S, first in zip(matrices, found, strict=True):
        torch.testing.assert_close(first[2], S(S(S(x))))
        assert of_features(powers, S, x, 3) is first
        assert len(of_features(powers, S, x, 1)) == 1
        assert of_features(powers, S, x, 0) == []


@pytest.mark.parametrize("narrow", [0, 128])
@pytest.mark.parametrize(("stalk", "channel"), [(True, True), (True, False), (False, True), (False, False)])
def test_mixing_is_its_formula(narrow, stalk, channel, monkeypatch):
    monkeypatch.setattr("polynsd.nn.layer.NARROW", narrow)
    x, W1, W2 = torch.randn(2, 7, 3, 4), torch.randn(3, 3), torch.randn(4, 4)
    found = mix(x, W1 if stalk else None, W2 if channel else None)
    W1, W2 = W1 if stalk else torch.eye(3), W2 if channel else torch.eye(4)
    torch.testing.assert_close(found, torch.einsum("ij,rnjc,kc->rnik", W1, x, W2))
    torch.testing.assert_close(found, mix_fully(x, torch.kron(W1, W2)))
