"""First and second derivatives of the filter, in every combination in which they may be asked for."""

from itertools import combinations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from polynsd.kernels import chebyshev_filter, chebyshev_filter_autograd
from polynsd.sheaf import SheafLaplacian, get_family
from polynsd.testing import assert_close, example_graph, random_sheaf, random_tensor

every_family = pytest.mark.parametrize("family", ["identity", "diagonal", "general"])


def problem(graph, family, degree):
    """The blocks of an operator, and (x, φ, diag, off) as leaves."""
    A = random_sheaf(graph, family, 2, "sheaf-augmented").laplacian().blocks
    x, phi = random_tensor(A.pattern.num_nodes, 2, 2, seed=1), random_tensor(degree + 1, seed=2)
    return A, tuple(t.clone().requires_grad_() for t in (x, phi, A.diag, A.off))


def symmetric_filter(A, twin):
    """The filter of an operator that stays symmetric when its blocks are perturbed."""

    def function(x, phi, diag, off):
        symmetric = (off + off[twin].mT) / 2 if off.size(-1) > 1 else (off + off[twin]) / 2
        diag = (diag + diag.mT) / 2 if diag.size(-1) > 1 else diag
        return chebyshev_filter(A._replace(diag=diag, off=symmetric), phi, x, 0.9)

    return function


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 6])
@every_family
def test_first_derivatives(family, degree):
    A, leaves = problem("isolated nodes", family, degree)
    assert gradcheck(symmetric_filter(A, example_graph("isolated nodes").twin), leaves)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("graph", ["one edge", "no edges"])
@every_family
def test_second_derivatives(family, graph, degree):
    A, leaves = problem(graph, family, degree)
    assert gradgradcheck(symmetric_filter(A, example_graph(graph).twin), leaves)


def test_derivatives_with_a_scale_per_node():
    A, leaves = problem("no edges", "diagonal", 3)
    scale = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)[:, None, None]

    def function(x, phi, diag, off):
        return chebyshev_filter(A._replace(diag=diag, off=off), phi, x, scale)

    assert gradcheck(function, leaves)
    assert gradgradcheck(function, leaves)


@pytest.mark.parametrize("wanted", [c for size in (1, 2, 3) for c in combinations(range(4), size)], ids=str)
def test_any_subset_of_gradients(wanted):
    A, leaves = problem("complete", "general", 4)
    x, phi, diag, off = (leaf if i in wanted else leaf.detach() for i, leaf in enumerate(leaves))
    asked = [leaves[i] for i in wanted]
    operator = A._replace(diag=diag, off=off)
    found = torch.autograd.grad(chebyshev_filter(operator, phi, x, 1.0).square().sum(), asked)
    expected = torch.autograd.grad(chebyshev_filter_autograd(operator, phi, x, 1.0).square().sum(), asked)
    for i, value, truth in zip(wanted, found, expected, strict=True):
        assert_close(value, truth, ("x", "phi", "diag", "off")[i])


@pytest.mark.parametrize("shared", [False, True], ids=["separate state", "state that made the maps"])
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_first_derivatives_do_not_depend_on_create_graph(degree, shared):
    """The maps of a layer are learned from the very state that it filters."""
    topology, family = example_graph("complete"), get_family("general")
    state, mixing = random_tensor(5, 2, 4).requires_grad_(), random_tensor(8, 4, seed=1)

    def gradient(create_graph):
        raw = (state.flatten(1) @ mixing)[topology.row].tanh()
        L = SheafLaplacian(topology, family.build(raw, 2))
        x = state if shared else state.sin()
        y = chebyshev_filter(L.blocks, random_tensor(degree + 1, seed=2), x, 1.0)
        return torch.autograd.grad(y.square().sum(), state, create_graph=create_graph)[0]

    assert_close(gradient(create_graph=True), gradient(create_graph=False), "gradient of the state")


def test_the_scale_carries_no_gradient():
    A, (x, phi, _, _) = problem("path", "general", 3)
    scale = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
    y = chebyshev_filter(A, phi, x, scale)
    assert torch.autograd.grad(y.sum(), [scale, x], allow_unused=True)[0] is None
