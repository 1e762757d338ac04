"""What an estimator may be given: DataFrames, NetworkX graphs, sparse matrices; and what it refuses."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from toy import classifier, toy_graph

from polynsd import DataError, GraphError, ShapeError
from polynsd.estimator import SheafClassifier
from polynsd.estimator.reading import as_graph
from polynsd.sparse import to_tensor

N = 40
FRAME = pd.DataFrame(
    {
        "size": np.linspace(0, 1, N),
        "city": ["Bern", "Oslo"] * (N // 2),
        "kind": pd.Categorical(["a", "b", "c", "a"] * (N // 4)),
        "ok": [True, False, False, True] * (N // 4),
        "seen": pd.date_range("2024-01-01", periods=N),
        "gaps": [np.nan, 1.0, 2.0, 3.0] * (N // 4),
    }
)
EDGES = np.stack([np.arange(N - 1), np.arange(1, N)])


class Estimator:
    """Remembers what an estimator remembers of features."""


def test_columns_of_a_frame_are_encoded_as_those_of_files():
    estimator = Estimator()
    graph = as_graph(estimator, FRAME, EDGES, reset=True)
    assert graph.feature_names == (
        *("size", "city=Bern", "city=Oslo", "kind=a", "kind=b", "kind=c", "ok=False", "ok=True"),
        *("seen", "gaps", "gaps is missing"),
    )
    assert np.isfinite(graph.x).all()
    assert list(estimator.feature_names_in_) == list(FRAME)
    assert estimator.n_features_in_ == 6
    shuffled = FRAME.sample(frac=1, random_state=0)[::-1][list(FRAME)[::-1]]
    again = as_graph(estimator, shuffled, EDGES)
    np.testing.assert_array_equal(again.x, graph.x[shuffled.index])
    with pytest.raises(DataError, match="fitted on the columns size, city"):
        as_graph(estimator, graph)
    with pytest.raises(DataError, match="missing: ok"):
        as_graph(estimator, FRAME.drop(columns="ok"))


def test_a_category_that_fit_has_not_seen_is_told(caplog):
    estimator = Estimator()
    as_graph(estimator, FRAME, reset=True)
    graph = as_graph(estimator, FRAME.assign(city="Rome"))
    assert not graph.x[:, 1:3].any()
    assert "column 'city': 40 rows hold a category" in caplog.text


def test_a_frame_of_plain_numbers_stays_as_it_is():
    estimator = SheafClassifier()
    graph = as_graph(estimator, FRAME[["size"]], reset=True)
    assert not hasattr(estimator, "column_encoders_")
    np.testing.assert_array_equal(graph.x[:, 0], FRAME["size"])


def test_a_fitted_model_predicts_frames_also_after_it_was_stored(tmp_path):
    y = np.where(FRAME["city"] == "Bern", "b", "o")
    model = classifier().fit(FRAME, y, edges=EDGES)
    proba = model.predict_proba(FRAME, edges=EDGES)
    model.save(tmp_path / "model")
    again = SheafClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(FRAME, edges=EDGES), proba, rtol=1e-12)


def network():
    graph = nx.karate_club_graph()
    for node in graph:
        graph.nodes[node]["degree"] = graph.degree(node)
        graph.nodes[node]["side"] = "left" if node < 17 else "right"
    return graph


def test_networkx_graphs():
    estimator = Estimator()
    graph = as_graph(estimator, network(), reset=True, label="club")
    assert graph.feature_names == ("degree", "side=left", "side=right")
    assert graph.edge_weight is not None
    assert graph.class_names == ("Mr. Hi", "Officer")
    other = network()
    other.remove_node(0)
    np.testing.assert_array_equal(as_graph(estimator, other).x, graph.x[1:])
    assert as_graph(estimator, nx.path_graph(4), reset=True).feature_names[0] == "log degree"
    with pytest.raises(DataError, match="names an attribute of a NetworkX graph"):
        as_graph(estimator, toy_graph(), reset=True, label="club")
    model = classifier(epochs=2).fit(network(), "club")
    assert set(model.predict(network())) <= {"Mr. Hi", "Officer"}


@pytest.mark.parametrize("form", ["scipy", "torch"])
def test_sparse_matrices_stay_sparse(form):
    x = sparse.random(N, 30, 0.1, format="csr", random_state=0)
    given = x if form == "scipy" else to_tensor(x, torch.float64)
    graph = as_graph(SheafClassifier(), given, EDGES, reset=True)
    assert sparse.issparse(graph.x)
    assert (graph.x != x).nnz == 0


@pytest.mark.parametrize(
    ("x", "edges", "error", "fragment"),
    [
        (np.full((4, 2), np.nan), None, ValueError, "NaN"),
        (np.full((4, 2), np.inf), None, ValueError, "infinity"),
        (np.full((4, 2), 1e300), None, DataError, "at most 3.4e"),
        (np.eye(4), np.array([[0], [4]]), GraphError, "node numbers from 0 to 3"),
        (np.eye(4), np.eye(4), ShapeError, "Make it sparse"),
        (np.eye(4), sparse.eye(5, format="csr"), ShapeError, "join the 4 rows"),
        (sparse.csr_matrix(np.diag([1.0, np.nan])), None, ValueError, "NaN"),
        (pd.DataFrame({"a": [f"word {i}" for i in range(30)]}), None, DataError, "no column of which"),
        (pd.DataFrame({"a": [1.0, np.inf], "b": ["x", "y"]}), None, DataError, "must be finite"),
    ],
)
def test_what_is_refused(x, edges, error, fragment):
    with pytest.raises(error, match=fragment):
        as_graph(SheafClassifier(), x, edges, reset=True)


@pytest.mark.parametrize("num_edges", [0, 5])
def test_bad_input_gives_a_sensible_model(num_edges):
    """Huge, tiny and constant columns; isolated nodes or no edge at all."""
    x, y = np.random.default_rng(0).normal(size=(N, 3)), np.arange(N) % 2
    x = np.c_[1e30 * (x[:, :1] + 3 * y[:, None]), 1e-30 * x[:, 1:], np.ones(N)]
    proba = classifier(epochs=3).fit(x, y, edges=EDGES[:, :num_edges]).predict_proba()
    assert np.isfinite(proba).all()
