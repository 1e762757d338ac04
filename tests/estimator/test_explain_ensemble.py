"""Explanations of an ensemble that is put together by hand: score, derivatives, removals, names."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from polynsd import PolyNSD, SheafClassifier, SheafRegressor, kernels
from polynsd.config import ModelConfig, TrainConfig
from polynsd.data import Graph
from polynsd.data.tables.dates import text_days
from polynsd.errors import ConfigError, GraphError
from polynsd.estimator.calibration import Calibration
from polynsd.estimator.decision import Decision
from polynsd.estimator.explain_ensemble import format_days, tree_slopes
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.fitted import Chosen
from polynsd.estimator.forest import join_forests
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.label_trees import LabelTreesMember
from polynsd.estimator.linear import LinearMember
from polynsd.estimator.networks import NetworkMember
from polynsd.estimator.nodes_of_fit import NodesOfFit
from polynsd.estimator.trees import Forest, TreesMember, make_table
from polynsd.training import Configuration

N, F = 9, 4


@dataclass
class Opaque:
    """A member without gradients, which looks at the edges nevertheless."""

    name: str = "opaque"
    family: str = "features"
    width: int = 3

    def outputs(self, inputs):
        means = inputs.adjacency("mean") @ inputs.features("standard")
        return np.asarray(means)[None, :, : self.width]


@pytest.fixture(autouse=True)
def _plain_pytorch():
    with kernels.use("reference"):
        yield


def make_graph(is_sparse=False):
    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(N), (np.arange(N) + 1) % N])
    edges = np.sort(np.concatenate([ring, [[0, 2], [4, 6]]], 1), 0)
    x = rng.normal(size=(N, F)).astype(np.float32)
    if is_sparse:
        x = sparse.csr_array(np.abs(x) * (x > 0.7))
    return Graph(
        "ring",
        edges,
        N,
        x=x,
        edge_weight=rng.uniform(0.5, 2, edges.shape[1]),
        node_ids=np.array([f"n{i}" for i in range(N)]),
        feature_names=tuple("abcd"),
    )


def make_members(treatments, width, with_opaque):
    generator, columns = torch.Generator().manual_seed(0), len(treatments.columns)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.double)

    linear = [
        LinearMember(kind, "smoothed", "standard", kind, 2, 1.0, draw(2, 3 * columns, width), draw(2, width))
        for kind in ("mean", "symmetric")
    ]
    torch.manual_seed(0)
    options = {"degree": 1, "stalk_dim": 2, "map_start": "random", "learner": "concat"}
    models = [PolyNSD(columns, 3, 1, width, **options).double().eval() for _ in range(2)]
    configuration = Configuration(ModelConfig(), TrainConfig())
    network = NetworkMember("sheaf", "sheaf", configuration, "standard", models, 1, (columns, width), (1, 1))
    members = [*linear, network, *([Opaque(width=width)] if with_opaque else [])]
    offsets = (0.3, -0.2, 0.1) if width == 3 else None
    return [
        Chosen(member, 1 / len(members), Calibration(0.5 + 0.3 * i, offsets))
        for i, member in enumerate(members)
    ]


def make_estimator(graph, with_opaque=False, regression=False):
    estimator = SheafRegressor(device="cpu") if regression else SheafClassifier(device="cpu")
    estimator.treatments_, estimator.has_edges_ = FeatureTreatments.learn(graph.x), True
    estimator.nodes_of_fit_ = NodesOfFit.of(graph, estimator.treatments_.apply(graph.x))
    estimator.n_features_in_, estimator.feature_names_in_ = F, np.array(list("abcd"), dtype=object)
    estimator.edge_scaling_, estimator.has_edge_weights_, estimator._source = None, True, graph
    estimator.members_ = make_members(estimator.treatments_, 1 if regression else 3, with_opaque)
    if regression:
        estimator.target_scaling_ = Scaling(np.array(3.0), np.array(2.0))
    else:
        estimator.classes_ = np.array(["x", "y", "z"])
        estimator.calibration_ = Calibration(1.7, (0.2, -0.1, 0.0))
        estimator.decision_ = Decision("argmax", np.eye(3))
    return estimator


def score(estimator, graph, node, target):
    if estimator.is_regression:
        return estimator.predict(graph)[node]
    p = estimator.predict_proba(graph)[node, estimator.classes_.tolist().index(target)]
    return np.log(p / (1 - p))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("regression", [False, True])
def test_contributions_are_derivatives_of_the_score(regression, is_sparse):
    graph, node, step = make_graph(is_sparse), 4, 1e-5
    estimator = make_estimator(graph, regression=regression)
    found = estimator.explain("n4", top=99, exact=2)
    assert found.left_out == 0
    assert found.score == pytest.approx(score(estimator, graph, node, found.target))
    place = {tuple(pair): i for i, pair in enumerate(graph.ids[graph.edge_index].T.tolist())}
    for source, target, contribution, exact in found.edges.iloc[:2].itertuples(index=False):
        edge = place.get((source, target), place.get((target, source)))
        kept = np.arange(graph.num_edges) != edge
        rest = replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=graph.edge_weight[kept])
        assert exact == pytest.approx(found.score - score(estimator, rest, node, found.target))
        scaled = [
            replace(graph, edge_weight=np.where(kept, graph.edge_weight, graph.edge_weight * t))
            for t in (1 - step, 1 + step)
        ]
        low, high = (score(estimator, other, node, found.target) for other in scaled)
        assert contribution == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-7)
    assert found.features["contribution"].sum() == pytest.approx(found.own + found.others)
    neighbours = found.neighbours["contribution"].sum()
    assert neighbours == pytest.approx(found.others)


def test_members_without_gradients_are_named_and_count_exactly():
    graph = make_graph()
    estimator = make_estimator(graph, with_opaque=True)
    found = estimator.explain("n0", exact=1, target="y")
    assert found.target == "y"
    assert found.left_out == pytest.approx(1 / 4)
    assert "25% of the ensemble reads links and labels" in str(found)
    ends = set(found.edges.loc[0, ["source", "target"]])
    kept = [set(pair) != ends for pair in graph.ids[graph.edge_index].T.tolist()]
    rest = replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=graph.edge_weight[kept])
    assert found.edges.loc[0, "exact"] == pytest.approx(found.score - score(estimator, rest, 0, "y"))


def test_members_without_gradients_show_what_is_lost_without_an_edge_of_the_node():
    graph = make_graph()
    estimator = make_estimator(graph, regression=True)
    estimator.members_ = [Chosen(Opaque(width=1), 1.0)]
    found = estimator.explain("n0", exact=5)
    assert found.left_out == 1
    own = found.edges[found.edges["contribution"] != 0]
    assert {frozenset(pair) for pair in own[["source", "target"]].to_numpy().tolist()} == {
        frozenset(("n0", other)) for other in ("n1", "n4", "n8")
    }
    np.testing.assert_allclose(own["contribution"], own["exact"])  # a number is linear in its only member
    assert set(found.neighbours["node"]) == {"n1", "n4", "n8"}
    assert sorted(found.neighbours["contribution"]) == pytest.approx(sorted(own["contribution"]))


def stump(column, threshold):
    """A tree that says 1 up to a threshold, and 5 above it."""
    arrays = ([column, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0], [0.0, 1.0, 5.0], [0], [0])
    return Forest(*(np.array(part) for part in arrays))


def test_a_flag_contributes_to_trees_what_is_lost_without_it():
    x = make_graph().x.copy()
    x[:, 1] = np.arange(N) % 3 == 0
    graph = replace(make_graph(), x=x)
    estimator = make_estimator(graph, regression=True)
    column = estimator.treatments_.columns.tolist().index(1)
    forest = stump(column, 0.5)
    estimator.members_ = [Chosen(TreesMember("trees", "features", 0, forest, np.zeros((1, 1))), 1.0)]
    found = estimator.explain("n3", exact=0)
    assert (found.score, found.left_out) == (3 + 2 * 5, 0)
    assert found.features["feature"].tolist() == ["b"]
    assert found.own == pytest.approx(2 * (5 - 1))
    assert found.others == 0


def test_trees_on_neighbours_are_moved_by_neighbours():
    graph = make_graph()
    estimator = make_estimator(graph, regression=True)
    table = make_table(estimator._inputs(graph, torch.device("cpu")), 1, None)
    column = F + estimator.treatments_.columns.tolist().index(1)
    node = int(np.argmax(table[:, column]))
    forest = stump(column, table[node, column] / 2)
    estimator.members_ = [Chosen(TreesMember("trees", "trees", 1, forest, np.zeros((1, 1))), 1.0)]
    found = estimator.explain(f"n{node}", exact=0)
    assert found.features["feature"].tolist() == ["b"]
    assert found.others > 0
    assert found.own == 0
    assert (found.neighbours["hops"] == 1).all()


def test_trees_on_components_are_moved_by_the_features_that_these_add_up():
    graph = make_graph()
    estimator = make_estimator(graph, regression=True)
    order = estimator.treatments_.columns.tolist()
    components = np.zeros((F, 1))
    components[[order.index(0), order.index(1)], 0] = 0.8, 0.6  # of the features a and b
    table = make_table(estimator._inputs(graph, torch.device("cpu")), 0, components)
    node = int(np.argmax(np.abs(table[:, 0])))
    forest = stump(0, table[node, 0] / 2)
    member = TreesMember("trees", "features", 0, forest, np.zeros((1, 1)), components)
    estimator.members_ = [Chosen(member, 1.0)]
    found = estimator.explain(f"n{node}", exact=0)
    assert set(found.features["feature"]) == {"a", "b"}
    assert found.others == 0
    slope = tree_slopes(replace(member, components=None), [table], node, 1).item()
    assert found.own == pytest.approx(2 * slope * table[node, 0])


def test_trees_on_labels_are_moved_by_features_and_by_edges_to_labelled_neighbours():
    graph = make_graph()
    estimator = make_estimator(graph, regression=True)
    inputs = estimator._inputs(graph, torch.device("cpu"))
    table = make_table(inputs, 0, None)
    node = int(np.argmax(table[:, 1]))
    other = next(int(u) for pair in graph.edge_index.T if node in pair for u in pair if u != node)
    labels = np.zeros((1, N))
    labels[0, [node, other]] = np.nan, 1.0
    share = inputs.adjacency("mean")[[node], [other]].item()  # of its neighbourhood, whose other labels are 0
    feature, label = stump(1, table[node, 1] / 2), stump(F, share / 2 + 0.02)
    forest = join_forests([feature, label], 1)._replace(output=np.zeros(2, dtype=np.int64))
    trees = TreesMember("trees", "labels", 0, forest, np.zeros((1, 1)))
    estimator.members_ = [Chosen(LabelTreesMember(trees, labels), 1.0)]
    found = estimator.explain(f"n{node}", exact=1)
    assert found.left_out == 0
    ((name, own, contribution),) = found.features[["feature", "own", "contribution"]].to_numpy().tolist()
    assert (name, own) == (graph.feature_names[estimator.treatments_.columns[1]], contribution)
    ((*ends, contribution, exact),) = found.edges.to_numpy().tolist()
    assert set(ends) == {f"n{node}", f"n{other}"}
    assert contribution == pytest.approx(exact)
    assert found.others == pytest.approx(contribution)


def test_the_number_of_words_is_explained_as_a_feature():
    words = (np.random.default_rng(0).random((N, 120)) < np.linspace(0.1, 0.9, N)[:, None]).astype(float)
    graph = replace(make_graph(), x=sparse.csr_array(words), feature_names=None)
    estimator = make_estimator(graph, regression=True)
    estimator.n_features_in_, estimator.feature_names_in_ = 120, None
    weights = torch.zeros(1, len(estimator.treatments_.columns), 1, dtype=torch.double)
    weights[0, -1] = 2.0
    member = LinearMember("count", "features", "standard", "mean", 0, 1.0, weights, weights[:, 0])
    estimator.members_ = [Chosen(member, 1.0)]
    found = estimator.explain("n3", exact=0)
    ((name, value, own),) = found.features[["feature", "value", "own"]].to_numpy().tolist()
    assert (name, value) == ("(number of words and flags)", words[3].sum())
    assert own == pytest.approx(found.own)


def test_an_explanation_speaks_in_the_users_names():
    estimator = make_estimator(make_graph())
    found = estimator.explain("n3", top=2)
    assert found.node == "n3"
    assert set(found.features["feature"]) <= set("abcd")
    assert {"agreement_before", "agreement_after"} <= set(found.neighbours)
    with pytest.raises(GraphError, match="no node 'n99'"):
        estimator.explain("n99")
    with pytest.raises(ConfigError, match="one of the classes"):
        estimator.explain("n3", target="q")
    estimator._source = None
    with pytest.raises(ConfigError, match="pass the graph"):
        estimator.explain("n3")


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("regression", [False, True])
def test_a_date_is_shown_as_it_was_written_and_by_what_a_later_one_changes(tmp_path, is_sparse, regression):
    graph = make_graph(is_sparse)
    x = np.asarray(graph.x.todense() if is_sparse else graph.x)
    x[:, 1] = 19000 + 1000 * np.arange(N)
    graph = replace(graph, x=sparse.csr_array(x) if is_sparse else x)
    estimator = make_estimator(graph, regression=regression)
    why = estimator.explain("n3", top=4, dates={"b": "%d.%m.%Y", "no feature": "ISO8601"})
    (date,) = why.dates.values()
    assert (date.text, date.unit) == ("27.03.2030", "year")
    later = x.copy()
    later[3, 1] += 365.25
    changed = score(
        estimator, replace(graph, x=sparse.csr_array(later) if is_sparse else later), 3, why.target
    )
    assert date.later == pytest.approx(changed - score(estimator, graph, 3, why.target))
    assert "27.03.2030" in str(why)
    assert f"b: one year later {date.later:+.3g}" in str(why)
    axis = why.plot(tmp_path / "why.png").axes[1]
    assert "b = 27.03.2030" in [label.get_text() for label in axis.get_yticklabels()]


@pytest.mark.parametrize(
    ("days", "date_format", "text"),
    [
        (0, "ISO8601", "1970-01-01"),
        (17389, "%d.%m.%Y", "11.08.2017"),
        (-1.5, "ISO8601", "1969-12-30T12:00"),
        (np.float32(17389.25), "ISO8601", "2017-08-11T06:00"),
    ],
)
def test_days_are_written_in_the_format_of_their_column(days, date_format, text):
    assert format_days(days, date_format) == text
    assert text_days([text], date_format, "table").item() == days


def test_columns_of_a_table_that_became_several_features_are_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Lima"], 40),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 60, 40), "D"),
        }
    )
    edges, options = rng.integers(0, 40, (2, 80)), {"ensemble": 1, "epochs": 2, "hidden_channels": 2}
    model = SheafClassifier(**options, num_layers=1, random_state=0).fit(
        table, table["city"] == "Rome", edges=edges
    )
    why = model.explain(3, exact=0)
    assert set(why.features["feature"]) <= {"city=Lima", "city=Oslo", "city=Rome", "joined"}
    assert why.dates["joined"].text == str(table["joined"][3].date())
    assert why.dates["joined"].unit == "day"
