"""The sheaf Laplacian is the matrix S δᵀδ S, for every graph, family, normalisation and dtype."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings

from polynsd import Topology
from polynsd.errors import ConfigError, DataError, GraphError, ShapeError
from polynsd.sheaf import SheafLaplacian, get_family
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing import (
    FAMILIES,
    GRAPHS,
    TOLERANCE,
    assert_close,
    assert_same_gradients,
    batch_of,
    check_operator,
    dense_coboundary,
    example_graph,
    pairwise_cases,
    random_maps,
    random_sheaf,
    random_tensor,
    random_weights,
    stalk_dims,
)
from polynsd.testing.sheaf import random_signal
from polynsd.testing.strategies import sheaves

every_normalization = pytest.mark.parametrize("normalization", NORMALIZATIONS)
every_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.parametrize(("family", "d"), [(f, d) for f in FAMILIES for d in stalk_dims(f)])
def test_every_stalk(family, d):
    normalization = NORMALIZATIONS[d % len(NORMALIZATIONS)]
    sheaf = random_sheaf("isolated nodes", family, d, normalization, weighted=True)
    check_operator(sheaf.laplacian(), sheaf.dense())


@pytest.mark.parametrize(
    ("family", "normalization", "dtype"), pairwise_cases(FAMILIES, NORMALIZATIONS, TOLERANCE), ids=str
)
def test_every_dtype(family, normalization, dtype):
    sheaf = random_sheaf("complete", family, 3, normalization, seed=1, dtype=dtype)
    check_operator(sheaf.laplacian(), sheaf.dense())


@pytest.mark.parametrize(
    ("family", "normalization", "graph"),
    pairwise_cases(["identity", "diagonal", "orthogonal", "general"], NORMALIZATIONS, GRAPHS),
)
def test_every_graph(family, normalization, graph):
    sheaf = random_sheaf(graph, family, 2, normalization)
    check_operator(sheaf.laplacian(), sheaf.dense())


@settings(max_examples=40, deadline=None)
@given(sheaves())
def test_every_sheaf(sheaf):
    check_operator(sheaf.laplacian(), sheaf.dense())


@every_normalization
@every_family
def test_gradients_of_the_product(family, normalization):
    """With respect to the raw numbers of the maps, the edge weights and the signal."""
    topology, maps = example_graph("isolated nodes"), get_family(family)
    sheaf = random_sheaf(topology, family, 3, normalization)

    def operator_of(raw, per_edge):
        weight = per_edge.sigmoid()[topology.edge]
        return replace(sheaf, maps=maps.build(raw, 3), edge_weight=weight)

    def product(raw, per_edge, x):
        return operator_of(raw, per_edge).laplacian() @ x

    def truth(raw, per_edge, x):
        return (operator_of(raw, per_edge).dense() @ x.flatten(0, 1)).reshape(x.shape)

    raw = random_tensor(topology.num_half_edges, maps.num_params(3)) + (
        torch.eye(3).flatten() if family == "general" else 0
    )
    weight, x = random_tensor(topology.num_edges, seed=1), random_tensor(8, 3, 2, seed=2)
    assert_same_gradients(product, truth, {"raw": raw, "weight": weight, "x": x}, tolerance=1e-8)


@every_normalization
def test_gradients_of_the_energy(normalization):
    """⟨x, L x⟩ is smooth in the weights, also where one of them is zero."""
    sheaf, x = random_sheaf("complete", "general", 2, normalization), random_tensor(5, 2, 3)
    per_edge = random_tensor(sheaf.topology.num_edges, seed=1).relu()
    assert (per_edge == 0).any()

    def weighted(per_edge):
        return replace(sheaf, edge_weight=per_edge[sheaf.topology.edge])

    def truth(per_edge, x):
        L = weighted(per_edge).laplacian()
        return (x * (L @ x)).sum()

    inputs = {"weight": per_edge, "x": x}
    assert_same_gradients(lambda w, x: weighted(w).laplacian().energy(x), truth, inputs, tolerance=1e-9)


@every_family
def test_coboundary_reads_from_the_lower_node(family):
    sheaf = random_sheaf("complete", family, 2, weighted=True)
    x = random_tensor(5, 2, 3)
    delta = dense_coboundary(sheaf.topology, sheaf.maps, 2, sheaf.edge_weight)
    expected = (delta @ x.flatten(0, 1)).reshape(sheaf.topology.num_edges, 2, 3)
    assert_close(sheaf.laplacian().coboundary(x), expected, "coboundary")


@pytest.mark.parametrize("d", [1, 3])
def test_identity_maps_give_copies_of_the_graph(d):
    graph = nx.karate_club_graph()
    maps = torch.ones(2 * graph.number_of_edges(), 1, 1, dtype=torch.float64)
    L = SheafLaplacian(Topology.from_networkx(graph), maps, "none", stalk_dim=d)
    plain = torch.as_tensor(nx.laplacian_matrix(graph, weight=None).toarray(), dtype=torch.float64)
    assert torch.equal(L.to_dense(), torch.kron(plain, torch.eye(d, dtype=torch.float64)))


def test_a_coordinate_may_vanish_from_diagonal_maps():
    sheaf = random_sheaf("path", "diagonal", 2, "sheaf")
    sheaf.maps[:, 0] = 0.0
    check_operator(sheaf.laplacian(), sheaf.dense())


@every_family
def test_a_node_whose_edges_weigh_nothing_is_isolated(family):
    sheaf = random_sheaf("path", family, 2, "sheaf", weighted=True)
    sheaf.edge_weight[sheaf.topology.edge == 3] = 0.0  # the only edge of the last node
    check_operator(sheaf.laplacian(), sheaf.dense())


@pytest.mark.parametrize("factor", [1e-13, 1e-30, 1e15], ids=str)
@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_the_unit_of_maps_is_of_no_account_when_they_are_normalized(family, factor):
    """The operator of c F is that of F, and its gradient 1/c times the other, for c far from 1, too."""
    topology = example_graph("star")
    F = random_maps(family, topology, 2, dtype=torch.float32)
    loss = random_tensor(*F.shape[:-1], 1 if family == "diagonal" else 2, seed=1, dtype=torch.float32)

    def laplacian(c):
        maps = (c * F).requires_grad_()
        orthogonal = get_family(family).orthogonal_columns
        off = SheafLaplacian(topology, maps, "sheaf", orthogonal_columns=orthogonal).blocks.off
        return off.detach(), c * torch.autograd.grad((loss * off).sum(), maps)[0]

    for found, expected in zip(laplacian(factor), laplacian(1.0), strict=True):
        assert_close(found, expected, "blocks or gradients")


def test_maps_that_are_not_numbers_are_named():
    topology = example_graph("path")
    maps = random_maps("general", topology, 2)
    maps[3, 1, 0] = torch.nan
    with pytest.raises(DataError, match="must be finite; that of half-edge 3 is not"):
        SheafLaplacian(topology, maps)
    computed = maps.requires_grad_() * 1  # a training that diverges is reported elsewhere
    assert SheafLaplacian(topology, computed).blocks.off.isnan().any()


def test_singular_degree_blocks_are_named():
    maps = random_maps("general", example_graph("path"), 2)
    maps[-1, 1] = 0.0  # the only map of the last node has rank one
    with pytest.raises(GraphError, match=r"that of node 4 is singular; use .*'sheaf-augmented'"):
        SheafLaplacian(example_graph("path"), maps, "sheaf")


@pytest.mark.parametrize("normalization", ["none", "degree"])
@every_family
def test_analytic_bound_is_twice_the_largest_diagonal_block(family, normalization):
    L = random_sheaf("complete", family, 2, normalization).laplacian()
    norms = torch.linalg.matrix_norm(L.diagonal_blocks, ord=2)
    assert L.lambda_max().item() == pytest.approx(2 * norms.max().item(), rel=1e-12)


@every_family
@pytest.mark.parametrize("normalization", ["sheaf", "sheaf-augmented"])
def test_analytic_bound_is_two_for_normalized_sheaves(normalization, family):
    assert random_sheaf("star", family, 2, normalization).laplacian().lambda_max() == 2.0


@pytest.mark.parametrize("method", ["analytic", "lanczos"])
def test_bounds_carry_no_gradient(method):
    maps = random_maps("general", example_graph("star"), 2).requires_grad_()
    bound = SheafLaplacian(example_graph("star"), maps, "none").lambda_max(method)
    assert not bound.requires_grad


@pytest.mark.parametrize("method", ["analytic", "lanczos"])
@every_normalization
def test_bounds_are_taken_graph_by_graph(normalization, method):
    names = ("path", "multigraph", "one node")
    topology, batch = batch_of(*names)
    maps = random_maps("general", topology, 2)
    L = SheafLaplacian(topology, maps, normalization, batch=batch)
    bound = torch.as_tensor(L.lambda_max(method)).expand(topology.num_nodes, 1, 1)
    for i, name in enumerate(names):
        own = maps[batch[topology.row] == i]
        alone = SheafLaplacian(example_graph(name), own, normalization).lambda_max(method)
        found = bound[batch == i]
        assert_close(found, torch.as_tensor(alone).expand_as(found), name)


def test_sparse_form_needs_no_warning():
    torch.set_warn_always(True)  # otherwise only the first call of a process would warn
    try:
        random_sheaf("star", "general", 2).laplacian().to_sparse()
    finally:
        torch.set_warn_always(False)


def test_what_an_operator_says_of_itself():
    L = random_sheaf("path", "general", 2, "degree", dtype=torch.float32).laplacian()
    assert repr(L) == "SheafLaplacian(Topology(num_nodes=5, num_edges=4), stalk_dim=2, normalization=degree)"
    assert (L.shape, L.dtype, L.device, L.is_symmetric) == (
        (10, 10),
        torch.float32,
        torch.device("cpu"),
        True,
    )
    assert (L @ random_signal(L)).dtype == torch.float32


@pytest.mark.parametrize(
    ("shape", "options", "error", "text"),
    [
        ((8, 2), {}, ShapeError, r"shape \[\.\.\., 8, d, d\].* got \[8, 2\]"),
        ((7, 2, 2), {}, ShapeError, r"got \[7, 2, 2\]"),
        ((8, 3, 2), {}, ShapeError, r"got \[8, 3, 2\]"),
        ((8, 0, 0), {}, ShapeError, "at least 1"),
        ((8, 3, 3), {"stalk_dim": 5}, ShapeError, "stalk"),
        ((8, 2, 2), {"edge_weight": torch.ones(4)}, ShapeError, "weight"),
        ((8, 2, 2), {"normalization": "sheaf-augmentd"}, ConfigError, "Did you mean 'sheaf-augmented'"),
    ],
)
def test_bad_arguments(shape, options, error, text):
    with pytest.raises(error, match=text):
        SheafLaplacian(example_graph("path"), torch.ones(shape), **options)


@pytest.mark.parametrize("shape", [(5, 2), (5, 3, 1), (4, 2, 1)])
@pytest.mark.parametrize("method", ["__matmul__", "energy", "coboundary"])
def test_bad_signals(shape, method):
    L = random_sheaf("path", "general", 2).laplacian()
    with pytest.raises(ShapeError, match=r"shape \[\.\.\., 5, 2, C\] \(nodes, stalk, channels\)"):
        getattr(L, method)(torch.ones(shape, dtype=torch.float64))


def test_unknown_bound():
    with pytest.raises(ConfigError, match="Did you mean 'lanczos'"):
        random_sheaf("path", "general", 2).laplacian().lambda_max("lancsoz")


def test_weights_scale_the_edges():
    """A weight w is a map scaled by √w on both sides."""
    sheaf = random_sheaf("complete", "general", 2, "sheaf-augmented")
    weight = random_weights(sheaf.topology)
    scaled = replace(sheaf, maps=weight.sqrt()[:, None, None] * sheaf.maps)
    weighted = replace(sheaf, edge_weight=weight)
    assert_close(weighted.laplacian().to_dense(), scaled.laplacian().to_dense(), "weighted")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.arange(6.0), "both directions"),
        (-torch.ones(6), "negative"),
        (torch.full((6,), torch.nan), "finite"),
    ],
)
def test_weights_under_which_it_would_not_be_symmetric_and_psd(weight, message):
    topology = Topology.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
    with pytest.raises(GraphError, match=message):
        SheafLaplacian(topology, torch.ones(6, 2, 1), edge_weight=weight)


def test_two_bounds_the_spectrum_also_for_ill_conditioned_maps_in_single_precision():
    star = Topology.from_edge_index(torch.tensor([[0] * 5, [1, 2, 3, 4, 5]]), 6)
    generator = torch.Generator().manual_seed(0)
    U, V = (torch.linalg.qr(torch.randn(10, 3, 3, generator=generator)).Q for _ in range(2))
    maps = U @ torch.diag(torch.tensor([1.0, 0.03, 0.001])) @ V
    spectrum = torch.linalg.eigvalsh(SheafLaplacian(star, maps, "sheaf").to_dense().double())
    assert spectrum[-1] <= 2 + 1e-5


# A stack of sheaves `[R, ...]` does what its members do one by one


R, D = 3, 2


def stack(function):
    return torch.stack([torch.as_tensor(function(r)) for r in range(R)])


def signal(*lead):
    return random_tensor(*lead, 8, D, 4, seed=5)


@every_normalization
@every_family
def test_a_stack_of_maps(family, normalization):
    sheaf = random_sheaf("isolated nodes", family, D, normalization, weighted=True, lead=(R,))
    L, x = sheaf.laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x[r])), "energy")
    assert_close(L.to_dense(), stack(lambda r: sheaf.replica(r).dense()), "to_dense")
    blocks = stack(lambda r: sheaf.replica(r).laplacian().diagonal_blocks)
    assert_close(L.diagonal_blocks, blocks, "diagonal_blocks")


@pytest.mark.parametrize(
    ("family", "normalization", "method"),
    pairwise_cases(FAMILIES, NORMALIZATIONS, ["analytic", "lanczos"]),
)
def test_bounds_of_a_stack(family, normalization, method):
    sheaf = random_sheaf("star", family, D, normalization, lead=(R,))
    bound = torch.as_tensor(sheaf.laplacian().lambda_max(method), dtype=torch.float64)
    single = stack(lambda r: sheaf.replica(r).laplacian().lambda_max(method)).double()
    assert_close(bound.expand(R, 1, 1, 1).flatten(), single.flatten(), method)


@every_family
def test_shared_maps_and_a_stack_of_signals(family):
    L, x = random_sheaf("isolated nodes", family, D, "sheaf-augmented").laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: L @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: L.energy(x[r])), "energy")


@every_family
def test_a_stack_of_maps_and_a_shared_signal(family):
    sheaf, x = random_sheaf("isolated nodes", family, D, "sheaf-augmented", lead=(R,)), signal()
    L = sheaf.laplacian()
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x)), "energy")


@every_normalization
@every_family
def test_shared_maps_and_a_stack_of_weights(family, normalization):
    sheaf = random_sheaf("isolated nodes", family, D, normalization)
    sheaf = replace(sheaf, edge_weight=random_weights(sheaf.topology, lead=(R,)))
    L, x = sheaf.laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x[r])), "energy")
    assert_close(L.to_dense(), stack(lambda r: sheaf.replica(r).dense()), "to_dense")


def test_two_replica_dimensions():
    sheaf = random_sheaf("star", "general", D, "sheaf", lead=(2, R))
    x = random_tensor(2, R, 6, D, 4)
    rows = [replace(sheaf, maps=maps).laplacian() @ part for maps, part in zip(sheaf.maps, x, strict=True)]
    assert_close(sheaf.laplacian() @ x, torch.stack(rows), "L @ x")


def test_a_stack_has_no_single_sparse_form():
    with pytest.raises(ShapeError, match="needs a single operator"):
        random_sheaf("star", "general", D, lead=(R,)).laplacian().to_sparse()
