"""Families of restriction maps: the contract over all of them, and what each one says of itself."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.errors import ConfigError
from polynsd.sheaf import Conformal, Diagonal, General, Identity, Orthogonal, SheafLaplacian, get_family
from polynsd.sheaf.families import append_channels
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing import (
    FAMILIES,
    GRAPHS,
    assert_close,
    check_family,
    check_operator,
    dense_laplacian,
    example_graph,
    pairwise_cases,
    random_maps,
    random_sheaf,
    random_tensor,
    stalk_dims,
)
from polynsd.testing.sheaf import assert_diagonal_gram, assert_orthogonal
from polynsd.testing.strategies import families, raw_parameters

MEMBERS = [(family, d) for family in FAMILIES for d in stalk_dims(family)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("family", "d"), MEMBERS)
def test_contract(family, d, dtype):
    check_family(get_family(family), d, dtype)


@pytest.mark.parametrize("method", ["householder", "euler"])
def test_conformal_maps_are_rotations_times_a_positive_number(method):
    family = Conformal(method)
    check_family(family, 3)
    c, Q = family.split(random_tensor(7, family.num_params(3)), 3)
    assert bool((c > 0).all())
    assert_orthogonal(Q, 3)


@settings(max_examples=100, deadline=None)
@given(families().flatmap(lambda f: st.tuples(st.just(f), raw_parameters(get_family(f[0]).num_params(f[1])))))
def test_claim_about_the_gram_matrix_holds_for_any_numbers(sample):
    (name, d), raw = sample
    family = get_family(name)
    assert family.orthogonal_columns or name == "general"
    if family.orthogonal_columns:
        assert_diagonal_gram(family.build(raw, d), d)


@pytest.mark.parametrize(
    ("family", "counts"),
    [
        (Identity(), [0, 0, 0]),
        (Diagonal(), [2, 3, 4]),
        (Orthogonal(), [1, 3, 6]),
        (General(), [4, 9, 16]),
    ],
    ids=str,
)
def test_number_of_parameters(family, counts):
    assert [family.num_params(d) for d in (2, 3, 4)] == counts


def test_blocks_hold_the_numbers_in_reading_order():
    raw = torch.arange(4.0)[None]
    assert General().build(raw, 2).tolist() == [[[0.0, 1.0], [2.0, 3.0]]]
    assert Diagonal().build(raw, 4).tolist() == [[[0.0], [1.0], [2.0], [3.0]]]
    assert Identity().build(raw[:, :0], 4).tolist() == [[[1.0]]]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_prints_the_name_that_makes_it(name):
    family = get_family(name)
    assert repr(family) == name
    assert get_family(repr(family)) == family
    assert get_family(family) is family


def test_householder_is_the_default_method():
    assert get_family("orthogonal") == Orthogonal("householder")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("diagnoal", "unknown maps 'diagnoal'.* Did you mean 'diagonal'"),
        ("orthogonal(caley)", "unknown orthogonal method 'caley'.* Did you mean 'cayley'"),
        ("orthogonal(cayley, 2)", "'orthogonal' does not take the arguments"),
        ("general(3)", "'general' does not take the arguments"),
        ("general(", "expected a name such as"),
    ],
)
def test_bad_names(spec, text):
    with pytest.raises(ConfigError, match=text):
        get_family(spec)


@pytest.mark.parametrize(
    ("method", "d", "text"),
    [
        ("householder", 1, "need stalk_dim of at least 2"),
        ("euler", 4, "from 2 to 3; got 4. Use orthogonal\\(matrix_exp\\)"),
        ("cayley", 65, "to 64; got 65"),
    ],
)
def test_dimensions_that_a_method_does_not_admit(method, d, text):
    with pytest.raises(ConfigError, match=text):
        Orthogonal(method).num_params(d)


@dataclass(frozen=True)
class ScaledRotation:
    """A family of one's own: a scaled rotation of the plane, [[a, −b], [b, a]]."""

    is_learned: bool = True
    orthogonal_columns: bool = True

    def num_params(self, d):
        return 2

    def build(self, raw, d):
        a, b = raw.unbind(-1)
        return torch.stack([a, -b, b, a], -1).unflatten(-1, (2, 2))


class Sheared(ScaledRotation):
    """Claims orthogonal columns and has none."""

    def build(self, raw, d):
        return super().build(raw, d) @ raw.new_tensor([[1.0, 1.0], [0.0, 1.0]])


class Idle(ScaledRotation):
    """Carries a number that does nothing."""

    def num_params(self, d):
        return 3

    def build(self, raw, d):
        return super().build(raw[..., :2] + 0 * raw[..., 2:], d)


class Detached(ScaledRotation):
    """Loses half of its gradient."""

    def build(self, raw, d):
        return super().build(raw / 2 + raw.detach() / 2, d)


def test_a_family_of_ones_own():
    check_family(ScaledRotation(), 2)
    sheaf = random_sheaf("star", ScaledRotation(), 2, "sheaf-augmented")
    check_operator(sheaf.laplacian(), sheaf.dense())


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (Sheared(), "orthogonal_columns is claimed"),
        (Idle(), "no influence"),
        (Detached(), "not its derivative"),
        (ScaledRotation(is_learned=False), "is_learned=False"),
    ],
)
def test_the_contract_refuses_false_claims(family, text):
    with pytest.raises(AssertionError, match=text):
        check_family(family, 2)


# Fixed stalk coordinates are the graph's own Laplacians: D − A and D + A


D = 2
SIGN = {"laplacian": -1.0, "signless": 1.0}


def with_channels(maps, channels, topology):
    return append_channels(maps, channels, topology, D)


def plain_laplacian(topology, sign, normalization):
    """D ± A of the graph, scaled as the table of normalisations says."""
    A = torch.zeros(topology.num_nodes, topology.num_nodes, dtype=torch.float64)
    A[topology.row, topology.col] = 1.0
    degree = A.sum(1)
    root = {
        "none": torch.ones_like(degree),
        "sheaf": torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0.0),
        "sheaf-augmented": (degree + 1).rsqrt(),
        "degree": (degree + 1).rsqrt(),
    }[normalization]
    return root[:, None] * (torch.diag(degree) + sign * A) * root


@pytest.mark.parametrize(
    ("family", "normalization", "channels"),
    pairwise_cases(
        FAMILIES, NORMALIZATIONS, [("laplacian",), ("signless",), ("laplacian", "signless", "laplacian")]
    ),
)
def test_channels_are_plain_laplacians_beside_the_learned_sheaf(family, normalization, channels):
    topology = example_graph("isolated nodes")
    maps = random_maps(family, topology, D)
    size = D + len(channels)
    whole = SheafLaplacian(topology, with_channels(maps, channels, topology), normalization).to_dense()
    whole = whole.reshape(topology.num_nodes, size, topology.num_nodes, size)
    learned = dense_laplacian(topology, maps, normalization, stalk_dim=D)
    N = topology.num_nodes
    assert_close(whole[:, :D, :, :D].reshape(N * D, N * D), learned, "learned part")
    for i, name in enumerate(channels, start=D):
        assert_close(whole[:, i, :, i], plain_laplacian(topology, SIGN[name], normalization), name)
        others = [j for j in range(size) if j != i]
        assert not whole[:, i][..., others].any()  # channels do not talk to other coordinates


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_operator_contract_with_channels(family, graph):
    topology = example_graph(graph)
    maps = with_channels(random_maps(family, topology, D), ("laplacian", "signless"), topology)
    options = {"normalization": "sheaf-augmented", "stalk_dim": D + 2}
    L = SheafLaplacian(topology, maps, orthogonal_columns=family != "general", **options)
    check_operator(L, dense_laplacian(topology, maps, **options))


def test_no_channels_leave_the_maps_alone():
    topology = example_graph("path")
    maps = random_maps("general", topology, D)
    assert with_channels(maps, (), topology) is maps


@pytest.mark.parametrize("family", FAMILIES)
def test_every_replica_gets_the_channels(family):
    topology = example_graph("star")
    maps = random_maps(family, topology, D, lead=(3,))
    whole = with_channels(maps, ("signless",), topology)
    single = torch.stack([with_channels(part, ("signless",), topology) for part in maps])
    assert torch.equal(whole, single)


def test_gradients_reach_the_learned_part():
    topology = example_graph("path")
    maps = random_maps("general", topology, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: with_channels(m, ("laplacian",), topology), maps)
