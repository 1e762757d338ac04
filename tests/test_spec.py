"""Names with arguments, parsed and resolved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.errors import ConfigError
from polynsd.spec import Spec, parse_spec, resolve

CHOICES = {"pair": lambda a, b: (a, b), "none": lambda: ()}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("legendre", Spec("legendre", ())),
        ("legendre()", Spec("legendre", ())),
        ("  jacobi ( 0.5 ,-1e-2 ) ", Spec("jacobi", (0.5, -0.01))),
        ("orthogonal(matrix_exp)", Spec("orthogonal", ("matrix_exp",))),
        ("sheaf-augmented", Spec("sheaf-augmented", ())),
    ],
)
def test_parse(text, spec):
    assert parse_spec(text) == spec


@given(st.lists(st.floats(allow_nan=False), max_size=4))
def test_numbers_survive_printing(numbers):
    assert parse_spec(f"name({', '.join(map(repr, numbers))})") == Spec("name", tuple(numbers))


@pytest.mark.parametrize("text", ["", "two words", "open(1", "nested(a(1))", "name(1)x"])
def test_what_cannot_be_parsed(text):
    with pytest.raises(ConfigError, match="expected a name such as 'legendre'"):
        parse_spec(text)


def test_resolve_calls_the_choice():
    assert resolve("thing", parse_spec("pair(1, x)"), CHOICES) == (1.0, "x")


def test_unknown_names_come_with_a_suggestion():
    with pytest.raises(
        ConfigError, match=r"unknown thing 'pear'; choose from: none, pair. Did you mean 'pair'?"
    ):
        resolve("thing", parse_spec("pear(1)"), CHOICES)


@pytest.mark.parametrize("text", ["pair(1)", "none(1)", "pair(1, 2, 3)"])
def test_wrong_number_of_arguments(text):
    with pytest.raises(ConfigError, match="does not take the arguments"):
        resolve("thing", parse_spec(text), CHOICES)
