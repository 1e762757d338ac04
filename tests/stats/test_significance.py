"""A column of a table: what is best, what is within noise, what may be bold."""

import numpy as np
import pytest

from polynsd.errors import ConfigError, DataError
from polynsd.stats import bold_rule, compare, holm, significance

SHARES = (0.48, 0.32, 0.2)
SPLIT = np.random.default_rng(0).normal(0, 0.05, (10, 1))
NOISE = np.random.default_rng(1).normal(0, 0.01, (5, 10, 3))


def column(**means):
    return {name: mean + SPLIT + noise for (name, mean), noise in zip(means.items(), NOISE, strict=False)}


def bold(cells):
    return [name for name, cell in cells.items() if cell.bold]


def test_p_is_holm_over_the_column_against_the_best():
    scores = column(gcn=0.70, nsd=0.79, poly=0.80)
    cells = significance(scores, SHARES)
    p = [compare(scores["poly"], scores[name], SHARES).p for name in ("gcn", "nsd")]
    assert [cells["gcn"].p, cells["nsd"].p] == pytest.approx(holm(p).tolist())
    assert [name for name, cell in cells.items() if cell.is_best] == ["poly"]
    assert cells["poly"].p == 1
    assert cells["poly"].mean == pytest.approx(scores["poly"].mean())


def test_bold_only_where_the_difference_is_significant():
    assert bold(significance(column(gcn=0.70, poly=0.80), SHARES)) == ["poly"]
    near = significance(column(gcn=0.799, poly=0.80), SHARES)
    assert bold(near) == []
    assert all(cell.within_noise for cell in near.values())


def test_bold_needs_every_rival_to_be_behind_not_only_the_second_best():
    scores = column(gcn=0.70, poly=0.80)
    scores["wild"] = 0.69 + np.array([[0.3], [-0.3]] * 5)  # the lowest mean, and undecided
    assert bold(significance(scores, SHARES)) == []
    assert not significance(scores, SHARES)["gcn"].within_noise


def test_variants_of_one_architecture_do_not_deny_each_other():
    scores = column(gcn=0.70, diagonal=0.799, general=0.80)
    assert bold(significance(scores, SHARES)) == []
    groups = {"gcn": "gcn", "diagonal": "poly", "general": "poly"}
    cells = significance(scores, SHARES, groups=groups)
    assert len(bold(cells)) == 1
    assert groups[bold(cells)[0]] == "poly"
    assert cells["diagonal"].within_noise
    assert cells["general"].within_noise
    assert not cells["gcn"].within_noise


def test_nothing_is_bold_without_another_architecture():
    assert bold(significance(column(gcn=0.8), SHARES)) == []
    assert bold(significance(column(a=0.7, b=0.8), SHARES, groups={"a": "x", "b": "x"})) == []


def test_of_equal_means_the_first_is_best_and_none_is_bold():
    scores = column(a=0.8)
    cells = significance({"a": scores["a"], "b": scores["a"][:, ::-1]}, SHARES)
    assert (cells["a"].is_best, cells["b"].is_best) == (True, False)
    assert (cells["b"].p, bold(cells)) == (1, [])


def test_a_smaller_alpha_takes_bold_away():
    scores = column(gcn=0.77, poly=0.80)
    p = significance(scores, SHARES)["gcn"].p
    assert 0 < p < 0.05
    assert bold(significance(scores, SHARES, alpha=p / 2)) == []


def test_under_the_null_bold_is_rare():
    """The best is chosen by the same scores; it must still seldom look better than the next one."""
    draw = np.random.default_rng(0)
    rho = 0.2
    count = 0
    for _ in range(200):
        shared, own = draw.normal(size=(6, 1, 1)), draw.normal(size=(6, 10, 1))
        scores = rho**0.5 * shared + (1 - rho) ** 0.5 * own
        count += bool(bold(significance(dict(zip("abcdef", scores, strict=True)), SHARES)))
    assert count / 200 <= 0.05


def test_rule_is_one_sentence():
    assert bold_rule().count(".") == bold_rule(0.01).count(".") == 2  # one in α, one at the end
    assert "α = 0.01)." in bold_rule(0.01)


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="every model; missing: gcn"):
        significance(column(gcn=0.7, poly=0.8), SHARES, groups={"poly": "poly"})
    with pytest.raises(DataError, match="scores of gcn must cover at least 3 splits"):
        significance({"gcn": np.zeros((1, 4))}, SHARES)
    with pytest.raises(ConfigError, match="number of models"):
        significance({}, SHARES)
