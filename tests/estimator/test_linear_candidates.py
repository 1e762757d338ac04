"""Linear models: the operator is the matrix, the minimum is the minimum, folds do not mix."""

import numpy as np
import pytest
import torch
from scipy import sparse

from polynsd.data import Graph
from polynsd.estimator import linear
from polynsd.estimator.design import make_design, multiply_hops
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.linear import LinearCandidate, LinearMember, linear_candidates
from polynsd.estimator.members import FitData
from polynsd.estimator.newton import (
    cross_entropy,
    gradient_size,
    minimise,
    scale_models,
    squared_error,
    unscale_models,
    zero_models,
)
from polynsd.training import get_task

CPU = torch.device("cpu")
ACCURACY, R2 = get_task("accuracy"), get_task("r2")


def random_graph(num_nodes=60, width=20, seed=0, dense=False) -> Graph:
    rng = np.random.default_rng(seed)
    ends = np.unique(np.sort(rng.integers(0, num_nodes, (2, 3 * num_nodes)), 0), axis=1)
    words = rng.random((num_nodes, width)) * (rng.random((num_nodes, width)) < 0.2)
    x = rng.normal(size=(num_nodes, width)) if dense else sparse.csr_matrix(words)
    y = np.asarray(x @ rng.normal(size=(width, 3)) + 0.1 * rng.normal(size=(num_nodes, 3))).argmax(1)
    return Graph("random", ends[:, ends[0] < ends[1]], num_nodes, x=x.astype(np.float32), y=y)


def inputs_of(graph: Graph) -> Inputs:
    return Inputs(graph, FeatureTreatments.learn(graph.x))


def random_folds(num_nodes: int, count: int = 3) -> Folds:
    val = np.arange(num_nodes) % (count + 1) == np.arange(count)[:, None]
    return Folds(~val, val)


def fit(candidate, graph, target=None, folds=None, task=ACCURACY, weights=None) -> LinearMember:
    folds = folds or random_folds(graph.num_nodes)
    target = graph.y if target is None else target
    return candidate.fit(FitData(inputs_of(graph), target, folds, task, weights)).member


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("share", [0.1, 1.0])  # formed, and as an operator
def test_the_design_is_the_centred_and_scaled_matrix(dense, share):
    graph = random_graph(dense=dense)
    inputs, rows = inputs_of(graph), np.arange(60) < 60 * share
    x, p = inputs.features(), inputs.adjacency("mean")
    design = make_design(x, 0 if dense else 20, p, 2, rows, CPU, seed=0)
    blocks = [x.toarray() if sparse.issparse(x) else x]
    for _ in range(2):
        blocks.append(p @ blocks[-1])
    matrix = np.concatenate(blocks, 1)[rows] * design.scale.numpy()
    matrix -= matrix.mean(0)
    g = torch.randn(60, int(rows.sum()))[:, : len(matrix)].T[:, :3].contiguous()
    w = torch.randn(matrix.shape[1], 3)
    np.testing.assert_allclose(design.multiply(w), matrix @ w.numpy(), atol=1e-4)
    np.testing.assert_allclose(design.multiply_transposed(g), matrix.T @ g.numpy(), atol=1e-4)
    if share == 1:
        sizes = np.square(matrix).sum(0).reshape(3, -1).sum(1) / len(matrix)
        np.testing.assert_allclose(sizes, 1, atol=1e-3 if dense else 0.2)


def solve(design, loss, shares, penalty, num_outputs):
    start = zero_models(design, len(shares), shares.shape[1], num_outputs)
    return minimise(design, loss, shares, penalty, start, 0.01 * gradient_size(design, loss, shares, start))


def test_logistic_regression_is_that_of_scikit_learn_in_every_fold():
    linear_model = pytest.importorskip("sklearn.linear_model")
    graph, folds = random_graph(), random_folds(60)
    design = make_design(inputs_of(graph).features(), 20, None, 0, np.ones(60, bool), CPU, seed=0)
    matrix = design.multiply(torch.eye(design.width)).double().numpy()
    shares = torch.from_numpy(folds.train.T / folds.train.sum(1)).float()
    models = solve(design, cross_entropy(torch.from_numpy(graph.y), 3), shares, 0.01, 3)
    for fold, train in enumerate(folds.train):
        other = linear_model.LogisticRegression(C=1 / (0.01 * train.sum()), tol=1e-8, max_iter=500)
        expected = other.fit(matrix[train], graph.y[train]).predict_proba(matrix)
        np.testing.assert_allclose(models.outputs[:, fold].softmax(-1), expected, atol=1e-3)


def test_ridge_regression_is_the_closed_form():
    graph = random_graph(width=90, dense=True)  # more columns than rows
    design = make_design(graph.x.astype(np.float64), 0, None, 0, np.ones(60, bool), CPU, seed=0)
    matrix, y = (
        design.multiply(torch.eye(design.width)).double().numpy(),
        np.random.default_rng(1).normal(size=60),
    )
    models = solve(design, squared_error(torch.from_numpy(y)), torch.full((60, 1), 1 / 60), 0.01, 1)
    kernel = matrix @ matrix.T
    expected = y.mean() + kernel @ np.linalg.solve(kernel + 0.01 * 60 * np.eye(60), y - y.mean())
    np.testing.assert_allclose(models.outputs[:, 0, 0], expected, atol=1e-3)


def test_scaled_models_say_the_same():
    graph = random_graph()
    inputs = inputs_of(graph)
    design = make_design(inputs.features(), 20, inputs.adjacency("mean"), 2, np.ones(60, bool), CPU, seed=0)
    weights, intercepts = torch.randn(4, design.width, 3), torch.randn(4, 3)
    models = scale_models(weights, intercepts, design)
    columns = multiply_hops(design.x, design.p, weights.transpose(0, 1).flatten(1), design.hops)
    expected = columns.reshape(60, 4, 3) + intercepts
    np.testing.assert_allclose(models.outputs, expected, atol=1e-4)
    for ours, given in zip(unscale_models(models, design), (weights, intercepts), strict=True):
        np.testing.assert_allclose(ours, given, atol=1e-5)


def test_a_sample_says_which_penalties_are_tried_on_all_nodes(monkeypatch):
    graph = random_graph(400, dense=True)
    candidate = LinearCandidate("linear", "smoothed", hops=2)
    everything = fit(candidate, graph)
    monkeypatch.setattr(linear, "SAMPLE", 150)
    fitted, tried = minimise, []
    monkeypatch.setattr(
        linear, "minimise", lambda *given: tried.append((len(given[2]), given[3])) or fitted(*given)
    )
    sampled = fit(candidate, graph)
    assert {rows for rows, _ in tried} == {75 + 75, 400}
    of_all = [penalty for rows, penalty in tried if rows == 400]
    assert of_all[0] < linear.PENALTIES[0]
    assert sampled.penalty in of_all
    agreement = np.mean(
        sampled.outputs(inputs_of(graph)).argmax(-1) == everything.outputs(inputs_of(graph)).argmax(-1)
    )
    assert agreement > 0.95


def test_members_are_restored_and_predict_other_graphs():
    graph, other = random_graph(), random_graph(80, seed=1)
    for candidate in linear_candidates(inputs_of(graph), "cpu"):
        member = fit(candidate, graph)
        again = LinearMember.restore(*member.state())
        outputs = again.outputs(Inputs(other, FeatureTreatments.learn(graph.x)))
        assert outputs.shape == (3, 80, 3)
        assert outputs.dtype == np.float64
        np.testing.assert_array_equal(again.outputs(inputs_of(graph)), member.outputs(inputs_of(graph)))
        assert (member.outputs(inputs_of(graph)).mean(0).argmax(1) == graph.y).mean() > 0.6


def test_hops_by_horner_are_the_sum_of_powers():
    x, p, w = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 4), (5, 5), (12, 2)))
    expected = x @ w[:4] + p @ x @ w[4:8] + p @ p @ x @ w[8:]
    torch.testing.assert_close(multiply_hops(x, p, w, 2), expected)


def test_a_node_of_weight_zero_has_no_influence():
    graph, weights = random_graph(), np.ones(60)
    folds = Folds.one(np.arange(60) < 40, np.arange(60) >= 40)
    weights[:5] = 0
    target = np.where(weights, graph.y, (graph.y + 1) % 3)
    same = [
        fit(LinearCandidate("l", "features"), graph, y, folds, weights=weights) for y in (graph.y, target)
    ]
    np.testing.assert_array_equal(same[0].weights, same[1].weights)


@pytest.mark.parametrize(
    "case", ["class missing from a fold", "five nodes", "no variation", "one training node"]
)
def test_poor_data_still_give_a_finite_model(case):
    graph, folds = random_graph(), random_folds(60)
    if case == "class missing from a fold":
        folds.train[0] &= graph.y != 2
    elif case == "five nodes":
        chosen = np.isin(np.arange(60), [np.flatnonzero(graph.y == c)[0] for c in range(3)] + [50, 51])
        folds = Folds(folds.train & chosen, chosen & ~(folds.train & chosen) | chosen & (np.arange(60) > 49))
    elif case == "no variation":
        graph = Graph("constant", graph.edge_index, 60, x=np.ones((60, 2), np.float32), y=graph.y)
    else:
        folds = Folds(np.arange(60)[None] == 0, np.arange(60)[None] > 0)
    for hops in (0, 2):
        outputs = fit(LinearCandidate("l", "smoothed", hops=hops), graph, folds=folds).outputs(
            inputs_of(graph)
        )
        assert np.isfinite(outputs).all()


def test_numbers_are_regressed():
    graph = random_graph(dense=True)
    target = graph.x[:, 0].astype(np.float64) - graph.x[:, 1]
    member = fit(LinearCandidate("l", "features"), graph, target, task=R2)
    np.testing.assert_allclose(member.outputs(inputs_of(graph))[0, :, 0], target, atol=0.05)


def test_a_deadline_that_has_passed_leaves_one_penalty():
    graph = random_graph()
    data = FitData(inputs_of(graph), graph.y, random_folds(60), ACCURACY, deadline=0.0)
    assert LinearCandidate("l", "features").fit(data).member.penalty == pytest.approx(0.1)
