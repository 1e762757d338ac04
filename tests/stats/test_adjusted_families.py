"""Families of comparisons: adjusted, and a tie is shown, not assumed."""

import numpy as np
import pytest

from polynsd.stats import compare, holm, judge_family

SHARES = (0.48, 0.32, 0.2)


def comparison(difference, spread):
    """Ten splits around a difference."""
    wave = np.tile([1.0, -1.0], 5)[:, None]
    return compare(difference + spread * wave, np.zeros((10, 1)), SHARES)


def test_each_verdict():
    family = judge_family(
        {
            "ahead": comparison(0.05, 0.01),
            "behind": comparison(-0.05, 0.01),
            "level": comparison(0.001, 0.002),
            "noisy": comparison(0.001, 0.05),
        }
    )
    assert [outcome.verdict for outcome in family.outcomes.values()] == ["win", "loss", "tie", "undecided"]
    assert str(family) == "1 win, 1 loss, 1 tie, 1 undecided of 4"


def test_both_kinds_of_p_are_adjusted_over_the_family():
    comparisons = {str(i): comparison(0.004 * i, 0.01) for i in range(6)}
    family = judge_family(comparisons, margin=0.02)
    p = holm([each.p for each in comparisons.values()])
    ties = holm([each.equivalence(0.02) for each in comparisons.values()])
    assert [outcome.p for outcome in family.outcomes.values()] == pytest.approx(p.tolist())
    assert [outcome.p_tie for outcome in family.outcomes.values()] == pytest.approx(ties.tolist())


def test_more_comparisons_make_a_win_harder():
    near = comparison(0.015, 0.01)
    assert near.p < 0.05
    assert judge_family({"alone": near}).count("win") == 1
    many = {"near": near} | {str(i): comparison(0.0, 0.05) for i in range(20)}
    assert judge_family(many).count("win") == 0


def test_an_empty_family_decides_nothing():
    assert str(judge_family({})) == "0 wins, 0 losses, 0 ties, 0 undecided of 0"
