"""Families of restriction maps: the contract over all of them, and what each one says of itself."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.errors import ConfigError
from polynsd.sheaf import Diagonal, General, Identity, Orthogonal, get_family
from polynsd.testing import FAMILIES, check_family, check_operator, random_sheaf, stalk_dims
from polynsd.testing.sheaf import assert_diagonal_gram
from polynsd.testing.strategies import families, raw_parameters

MEMBERS = [(family, d) for family in FAMILIES for d in stalk_dims(family)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("family", "d"), MEMBERS)
def test_contract(family, d, dtype):
    check_family(get_family(family), d, dtype)


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
class Conformal:
    """A family of one's own: a scaled rotation of the plane, [[a, −b], [b, a]]."""

    is_learned: bool = True
    orthogonal_columns: bool = True

    def num_params(self, d):
        return 2

    def build(self, raw, d):
        a, b = raw.unbind(-1)
        return torch.stack([a, -b, b, a], -1).unflatten(-1, (2, 2))


class Sheared(Conformal):
    """Claims orthogonal columns and has none."""

    def build(self, raw, d):
        return super().build(raw, d) @ raw.new_tensor([[1.0, 1.0], [0.0, 1.0]])


class Idle(Conformal):
    """Carries a number that does nothing."""

    def num_params(self, d):
        return 3

    def build(self, raw, d):
        return super().build(raw[..., :2] + 0 * raw[..., 2:], d)


class Detached(Conformal):
    """Loses half of its gradient."""

    def build(self, raw, d):
        return super().build(raw / 2 + raw.detach() / 2, d)


def test_a_family_of_ones_own():
    check_family(Conformal(), 2)
    sheaf = random_sheaf("star", Conformal(), 2, "sheaf-augmented")
    check_operator(sheaf.laplacian(), sheaf.dense())


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (Sheared(), "orthogonal_columns is claimed"),
        (Idle(), "no influence"),
        (Detached(), "not its derivative"),
        (Conformal(is_learned=False), "is_learned=False"),
    ],
)
def test_the_contract_refuses_false_claims(family, text):
    with pytest.raises(AssertionError, match=text):
        check_family(family, 2)
