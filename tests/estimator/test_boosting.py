"""Boosted trees: splits against a search by hand, growth against its formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from polynsd.estimator.boosting import DEPTH, PENALTY, Bins, Boosting, boost
from polynsd.kernels.ops.splits import BINS, NO_SPLIT, Level, Rule, best_splits, find_splits

pytestmark = pytest.mark.usefixtures("no_tracer")
RULES = Boosting(rate=0.3, steps=30, leaf=3, seed=0)


def problem(seed=0, n=80, columns=4, trees=2, nodes=3, bins=6):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape, high: torch.randint(high, shape, generator=generator)  # noqa: E731
    g, h = draw(trees, n, high=2001) - 1000, draw(trees, n, high=900) + 1
    return draw(columns, n, high=bins).to(torch.uint8), draw(trees, n, high=nodes), g, h, nodes


def search_by_hand(codes, columns, place, g, h, nodes, rule):
    """The gain of the best split of every node."""
    top = torch.zeros(len(place), nodes, dtype=torch.float64)
    score = lambda rows, k: float(g[k, rows].sum()) ** 2 / (float(h[k, rows].sum()) + float(rule.penalty))  # noqa: E731
    for k in range(len(place)):
        for node in range(nodes):
            here = place[k] == node
            for c in columns.tolist():
                for b in range(BINS - 1):
                    left, right = here & (codes[c] <= b), here & (codes[c] > b)
                    if min(int(left.sum()), int(right.sum())) < rule.leaf:
                        continue
                    if min(float(h[k, left].sum()), float(h[k, right].sum())) < float(rule.least):
                        continue
                    gain = score(left, k) + score(right, k) - score(here, k)
                    top[k, node] = max(top[k, node], gain)
    return top


def gains(codes, place, g, h, nodes, rule, columns, bins):
    """The gains of given splits."""
    found = torch.zeros(len(place), nodes, dtype=torch.float64)
    for k in range(len(place)):
        for node in range(nodes):
            here = place[k] == node
            sides = (
                here & (codes[columns[k, node]] <= bins[k, node]),
                here & (codes[columns[k, node]] > bins[k, node]),
            )
            score = [
                float(g[k, s].sum()) ** 2 / (float(h[k, s].sum()) + float(rule.penalty))
                for s in (*sides, here)
            ]
            found[k, node] = score[0] + score[1] - score[2]
    return found


def rule_of(leaf=2, penalty=50.0, least=10.0):
    return Rule(leaf, torch.tensor(penalty, dtype=torch.float64), torch.tensor(least, dtype=torch.float64))


@pytest.mark.parametrize("leaf", [1, 8, 60])
def test_the_best_split_is_that_of_a_search_by_hand(leaf):
    codes, place, g, h, nodes = problem()
    columns, rule = torch.tensor([2, 0, 3]), rule_of(leaf)
    found, bins = best_splits(Level(codes, columns, place, g, h, nodes), rule)
    by_hand = search_by_hand(codes, columns, place, g, h, nodes, rule)
    assert ((bins != NO_SPLIT) == (by_hand > 0)).all()
    assert set(found[bins != NO_SPLIT].tolist()) <= {0, 2, 3}
    torch.testing.assert_close(gains(codes, place, g, h, nodes, rule, found, bins), by_hand)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 63), st.integers(1, 12))
def test_loops_and_pytorch_find_the_same_split_of_equal_ones_the_first(seed, n, bins, leaf):
    codes, place, g, h, nodes = problem(seed, n, bins=bins)
    rule, columns = rule_of(leaf), torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    compiled = find_splits(torch.device("cpu"))
    for ours, expected in zip(
        compiled(Level(codes, columns, place, g, h, nodes), rule),
        best_splits(Level(codes, columns, place, g, h, nodes), rule),
        strict=True,
    ):
        assert torch.equal(ours, expected)


def test_many_trees_are_searched_in_parts(monkeypatch):
    codes, place, g, h, nodes = problem(trees=5)
    whole = best_splits(Level(codes, torch.arange(4), place, g, h, nodes), rule_of())
    monkeypatch.setattr("polynsd.kernels.ops.splits.ENTRIES", 700)
    parts = best_splits(Level(codes, torch.arange(4), place, g, h, nodes), rule_of())
    assert all(map(torch.equal, whole, parts))


def test_bins_hold_equally_many_rows_or_one_value_each():
    rng = np.random.default_rng(0)
    table = np.stack([rng.normal(size=2000), rng.integers(5, size=2000), np.ones(2000)], 1)
    bins = Bins.of(torch.from_numpy(table), torch.arange(1000))
    counts = np.bincount(bins.codes[0, :1000], minlength=BINS)
    assert counts.min() >= 15
    assert counts.max() <= 17
    np.testing.assert_array_equal(bins.codes[1], table[:, 1])
    np.testing.assert_array_equal(bins.cuts[1, :4], [0.5, 1.5, 2.5, 3.5])
    assert bins.cuts[1:, 4:].isinf().all()
    assert (bins.codes[2] == 0).all()


def data(kind, n=240, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 5))
    signal = table[:, 0] + (table[:, 1] > 0) * table[:, 2]
    target = {"numbers": signal, "two": (signal > 0).astype(int), "many": np.digitize(signal, [-0.5, 0.5])}[
        kind
    ]
    return table, target


def losses_of(kind, target):
    y = torch.from_numpy(target)
    if kind == "numbers":
        return lambda out: (out[:, 0] - y).square().mean() / 2
    if kind == "two":
        return lambda out: binary_cross_entropy_with_logits(out[:, 0], y.double())
    return lambda out: cross_entropy(out, y)


def grow(kind, rules=RULES, weights=None, judged=None, **options):
    table, target = data(kind)
    rows = np.arange(160)
    judge = losses_of(kind, target) if judged is None else judged
    return table, target, boost(table, target[rows], rows, judge, rules, weights, **options)


@pytest.mark.parametrize("kind", ["numbers", "two", "many"])
def test_the_forest_predicts_what_was_grown_and_fits(kind):
    table, target, boosted = grow(kind)
    K = 3 if kind == "many" else 1
    predicted = boosted.forest.predict(table, K) + boosted.start
    np.testing.assert_allclose(predicted, boosted.outputs, rtol=1e-12, atol=1e-12)
    judge = losses_of(kind, target)
    start = torch.from_numpy(np.repeat(boosted.start[None], len(table), 0))
    assert judge(torch.from_numpy(predicted)) < 0.6 * judge(start)


@pytest.mark.parametrize("kind", ["numbers", "two", "many"])
def test_a_step_is_a_newton_step_in_every_leaf(kind):
    table, target, boosted = grow(kind, replace(RULES, steps=1))
    forest, rows = boosted.forest, np.arange(160)
    raw = torch.from_numpy(np.repeat(boosted.start[None], 160, 0)).requires_grad_()
    y = target[rows]
    loss = losses_of(kind, y)(raw) * len(y)
    (g,) = torch.autograd.grad(loss, raw, create_graph=True)
    h = [torch.autograd.grad(g[:, k].sum(), raw, retain_graph=True)[0][:, k] for k in range(raw.size(1))]
    leaves = forest._find_leaves(table[rows], forest.root).reshape(len(forest.root), 160)
    for k, leaf in enumerate(leaves):
        for place in np.unique(leaf):
            inside = leaf == place
            assert inside.sum() >= RULES.leaf
            step = -RULES.rate * g[inside, k].sum() / (h[k][inside].sum() + PENALTY)
            np.testing.assert_allclose(forest.value[place], step.item(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["numbers", "two", "many"])
def test_trees_do_not_depend_on_what_finds_the_splits(kind, monkeypatch):
    """So a GPU, where PyTorch does, grows those of a CPU."""
    _, _, first = grow(kind)
    monkeypatch.setattr("polynsd.estimator.boosting.find_splits", lambda device: best_splits)
    _, _, again = grow(kind)
    assert all(map(np.array_equal, first.forest, again.forest))
    np.testing.assert_array_equal(first.outputs, again.outputs)


def test_the_order_of_rows_and_the_scale_of_columns_do_not_matter():
    table, target = data("many")
    rows, judge = np.arange(240), losses_of("many", target)
    first = boost(table, target, rows, judge, RULES)
    mixed = np.random.default_rng(1).permutation(240)
    again = boost(table, target[mixed], rows[mixed], judge, RULES)
    np.testing.assert_array_equal(again.forest.feature, first.forest.feature)
    np.testing.assert_allclose(again.outputs, first.outputs, rtol=1e-9)
    few = np.round(table, 1)  # a bin for every value, where cuts keep their places under monotone maps
    plain, cubed = (boost(t, target, rows, judge, RULES) for t in (few, few**3))
    np.testing.assert_allclose(cubed.outputs, plain.outputs, rtol=1e-9)


def test_only_rows_with_weight_count():
    table, target = data("two")
    weights = np.where(np.arange(240) < 120, 2.0, 0.0)
    judge = losses_of("two", target)
    weighted = boost(table, target, np.arange(240), judge, RULES, weights)
    other = np.where(weights > 0, target, 1 - target)
    turned = boost(table, other, np.arange(240), judge, RULES, weights)
    np.testing.assert_array_equal(weighted.outputs, turned.outputs)


def test_growth_ends_where_validation_does_not_gain_or_time_is_over():
    steps = []

    def worse(out):
        steps.append(1)
        return torch.tensor(float(len(steps)), dtype=torch.float64)

    _, _, boosted = grow("many", replace(RULES, steps=600), judged=worse)
    assert len(boosted.forest.root) == 3  # the first step
    assert len(steps) == 50
    _, _, late = grow("many", replace(RULES, steps=600), deadline=0.0)
    assert len(late.forest.root) <= 3 * 10


def test_a_table_that_tells_nothing_gives_constant_trees():
    target = np.arange(100) % 3
    boosted = boost(np.ones((100, 2)), target, np.arange(100), losses_of("many", target), RULES)
    assert (boosted.forest.feature == -1).all()
    np.testing.assert_allclose(boosted.outputs, np.repeat(boosted.outputs[:1], 100, 0))
    assert len(boosted.forest.feature) == len(boosted.forest.root)
    assert DEPTH == 4
