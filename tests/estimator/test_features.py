"""Treatments of features: what is sparse stays sparse, what is dense is scaled, what is bad is told."""

import numpy as np
import pytest
import torch
from scipy import sparse
from toy import toy_graph

from polynsd import ConfigError, ShapeError
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.inputs import Inputs, as_tensor
from polynsd.sparse import is_sparse

RNG = np.random.default_rng(0)
COUNTS = (RNG.random((300, 40)) < 0.1) * RNG.integers(1, 6, (300, 40))
NUMBERS = RNG.normal(5, 3, (300, 2))
MIXED = np.hstack([NUMBERS, COUNTS, np.ones((300, 1))])


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_counts_are_left_alone_and_numbers_scaled(form):
    x = form(MIXED)
    treatments = FeatureTreatments.learn(x)
    assert treatments.names == ("standard", "scaled", "row", "rank")
    assert treatments.dropped.tolist() == [42]
    assert treatments.columns.tolist() == [*range(2, 42), 0, 1]
    treated = {name: treatments.apply(x, name) for name in treatments.names}
    for name, values in treated.items():
        assert sparse.issparse(values), name
        assert np.isfinite(values.data).all()
        assert ((dense(values)[:, :40] == 0) == (COUNTS == 0)).all(), name
    np.testing.assert_array_equal(dense(treated["standard"])[:, :40], COUNTS)
    np.testing.assert_allclose(dense(treated["standard"])[:, 40:].std(0), 1)
    np.testing.assert_allclose(dense(treated["scaled"]).max(0)[:40], 1)
    lengths = np.linalg.norm(dense(treated["row"])[:, :40], axis=1)
    np.testing.assert_allclose(lengths[lengths > 0], 1)
    ranks = dense(treated["rank"])[:, 40:]
    np.testing.assert_array_equal(ranks.argsort(0)[10:-10], NUMBERS.argsort(0)[10:-10])
    np.testing.assert_allclose(ranks.std(0), 1, atol=0.05)
    np.testing.assert_array_equal(dense(x), MIXED)  # nothing was changed in place


def test_flags_are_never_centred_and_few_dense_columns_stay_an_array():
    x = np.column_stack([RNG.random(50) < 0.7, RNG.normal(size=50), RNG.normal(size=50)]).astype(float)
    treatments = FeatureTreatments.learn(x)
    assert treatments.names == ("standard", "rank")
    treated = treatments.apply(x)
    assert isinstance(treated, np.ndarray)
    np.testing.assert_array_equal(treated[:, 0], x[:, 0])


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_scales_do_not_matter(scale):
    large, small = (FeatureTreatments.learn(x).apply(x) for x in (MIXED * scale, MIXED))
    assert np.abs(large).max() < 10
    np.testing.assert_allclose(dense(large)[:, 40:], dense(small)[:, 40:], rtol=1e-6)


def test_one_outlier_and_equal_values():
    x = np.column_stack([np.r_[1e30, RNG.normal(size=99)], np.repeat([1.0, 2.0], 50), np.full(100, 7.0)])
    treatments = FeatureTreatments.learn(x)
    for name in treatments.names:
        assert np.abs(treatments.apply(x, name)).max() <= 10, name
        # values that are not far off stay apart, in single precision too
        assert len(np.unique(treatments.apply(x, name)[:, 0].astype(np.float32))) > 90, name
    ranks = treatments.apply(x, "rank")
    assert len(np.unique(ranks[:, 1])) == 2
    assert ranks[0, 1] == pytest.approx(-ranks[-1, 1])
    # a column that varies by rounding only is constant
    assert FeatureTreatments.learn(1e9 + 1e-3 * RNG.normal(size=(20, 2))).columns.tolist() == [0]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_beside_many_words_stands_how_many_a_node_has(form):
    words = RNG.random((300, 120)) < np.linspace(0.02, 0.3, 300)[:, None]
    x = form(np.hstack([NUMBERS, 3.0 * words]))
    treatments = FeatureTreatments.learn(x)
    assert treatments.columns.tolist() == [*range(2, 122), 0, 1, 122]
    length = np.log1p(words.sum(1))
    expected = (length - length.mean()) / length.std()
    for name in treatments.names:
        np.testing.assert_allclose(dense(treatments.apply(x, name))[:, -1], expected, err_msg=name)
    again = FeatureTreatments.restore(*treatments.state())
    np.testing.assert_array_equal(dense(again.apply(x[:9])), dense(treatments.apply(x))[:9])


@pytest.mark.parametrize(
    "words", [RNG.random((300, 99)) < 0.1, np.eye(120, dtype=bool)], ids=["few", "as many everywhere"]
)
def test_words_are_not_counted(words):
    assert not FeatureTreatments.learn(words.astype(float)).counts_words


def test_nothing_but_constant_columns(caplog):
    treatments = FeatureTreatments.learn(np.ones((9, 3)))
    treatments.log(("a", "b", "c"))
    assert treatments.apply(np.ones((9, 3))).tolist() == [[1.0]] * 9
    assert "2 of 3 features are constant and left out: b, c" in caplog.text


def test_many_columns():
    x = sparse.random(50, 100_000, 1e-3, format="csr", random_state=0)
    treatments = FeatureTreatments.learn(x)
    assert sorted([*treatments.columns, *treatments.dropped]) == list(range(100_001))
    assert treatments.apply(x, "row").nnz == x.nnz + 50


def test_a_column_that_training_nodes_do_not_show_is_kept_and_scaled_by_all():
    x, rows = np.zeros((1200, 2)), np.arange(1200) < 600
    x[:, 0], x[600:, 1] = RNG.normal(size=1200), 100 * RNG.normal(size=600)
    x[:600, 1] = 3.0
    treatments = FeatureTreatments.learn(x, rows)
    assert len(treatments.dense) == 2
    assert np.abs(treatments.apply(x)).max() < 10
    np.testing.assert_allclose(treatments.mean[0], x[rows, 0].mean())


def test_state_restores_the_treatments():
    treatments = FeatureTreatments.learn(MIXED)
    again = FeatureTreatments.restore(*treatments.state())
    for name in treatments.names:
        np.testing.assert_array_equal(dense(again.apply(MIXED, name)), dense(treatments.apply(MIXED, name)))
    with pytest.raises(ShapeError, match="must be 43 features"):
        again.apply(MIXED[:, 1:])
    with pytest.raises(ConfigError, match="unknown treatment"):
        again.apply(MIXED, "log")


def test_matrices_of_the_graph():
    graph = toy_graph()
    inputs = Inputs(graph, FeatureTreatments.learn(graph.x))
    P, S, A = (inputs.adjacency(kind) for kind in ("mean", "symmetric", "plain"))
    degree = A.sum(1)
    np.testing.assert_allclose(P.toarray(), A.toarray() / degree[:, None])
    np.testing.assert_allclose(S.toarray(), A.toarray() / np.sqrt(np.outer(degree, degree)))
    assert inputs.adjacency("mean") is P
    data = inputs.data("rank")
    assert inputs.data("rank") is data
    assert inputs.data("standard").edge_index is data.edge_index
    assert data.x.dtype == torch.float32


def test_large_sparse_features_are_a_sparse_tensor():
    for shape, density, expected in (
        ((600, 600), 0.01, True),
        ((60, 60), 0.01, False),
        ((600, 600), 0.2, False),
    ):
        x = sparse.csr_array(sparse.random(*shape, density, random_state=0))
        tensor = as_tensor(x, torch.float64)
        assert is_sparse(tensor) == expected
        np.testing.assert_array_equal(tensor.to_dense().numpy(), x.toarray())
