"""Softmax over neighbours is its formula, and so are the sums that it weights."""

import pytest
import torch
from zoo_laws import graph

from polynsd.testing.samples import GRAPHS
from polynsd.zoo.neighbours import attend, neighbours, neighbours_and_self, softmax, softmax_with_self

HEADS = 2


def scored(name, scale=1.0):
    """Edges, scores, and the scores as dense matrices, −∞ where there is no edge."""
    x, edge_index, _ = graph(name)
    edges = neighbours(edge_index, x)
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
    torch.autograd.gradcheck(lambda s, u: attend(s, u, edges), (scores.requires_grad_(), v.requires_grad_()))
    expected = torch.einsum("ijh,jhc->ihc", dense.softmax(1).nan_to_num(), v.unflatten(1, (HEADS, -1)))
    torch.testing.assert_close(attend(scores, v, edges), expected.flatten(1))


def test_replicas_attend_together():
    x, edge_index, _ = graph("path")
    edges = neighbours_and_self(edge_index, x)
    scores = torch.randn(3, len(edges.row), HEADS)
    together = torch.vmap(lambda s: softmax(s, edges))(scores)
    torch.testing.assert_close(together, torch.stack([softmax(s, edges) for s in scores]))
