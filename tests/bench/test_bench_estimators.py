"""`polynsd bench estimator`: who sees which labels, what a search tries, and what the tables say."""

from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polynsd.bench import estimators, rivals
from polynsd.bench.comparison import (
    compare_methods,
    describe_estimates,
    explain_failures,
    score_table,
    summary_table,
    verdict,
)
from polynsd.bench.estimators import METHODS, Record, compare_estimators, make_cases, read_records
from polynsd.bench.rival_inputs import RivalInputs
from polynsd.cli import main
from polynsd.data import Graph, save_graph, stratified_split
from polynsd.errors import ConfigError

FEW = ("estimator", "gcn", "logistic")


def make_graph(nodes=60):
    """A path through three classes, which the features show."""
    y = np.arange(nodes) * 3 // nodes
    x = np.eye(3, dtype=np.float32)[y] + 0.3 * np.random.default_rng(0).random((nodes, 3), dtype=np.float32)
    path = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    return Graph("path", path, nodes, x, y)


@pytest.fixture
def archive(tmp_path):
    return str(save_graph(tmp_path / "path.npz", make_graph()))


class Guess:
    """Stands for the estimator: says the first class, and remembers what it was shown."""

    candidates_ = ({"name": "first class", "weight": 1.0}, {"name": "second class", "weight": 0.0})
    estimate_ = SimpleNamespace(score=0.5)

    def __init__(self, **options):
        self.options = options

    def fit(self, graph):
        Guess.seen = graph
        self.classes_ = np.unique(graph.y[graph.y >= 0])

    def predict_proba(self):
        return np.eye(len(self.classes_))[np.zeros(Guess.seen.num_nodes, dtype=int)]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(estimators, "SheafClassifier", Guess)
    monkeypatch.setattr(rivals, "EPOCHS", 2)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("name", rivals.RIVALS)
def test_every_rival_learns(name, monkeypatch):
    monkeypatch.setattr(rivals, "EPOCHS", 40)
    graph = make_graph()
    inputs = RivalInputs(graph, "accuracy", torch.device("cpu"))
    split = stratified_split(inputs.y, (0.6, 0.2, 0.2), seed=0)
    found = rivals.search_rival(name, inputs, split, seconds=0.0, seed=0)
    assert (found.trials, found.parameters["features"]) == (1, "raw")
    assert found.val > 0.6
    assert found.test > 0.6


def test_a_search_begins_with_the_usual_and_tries_nothing_twice():
    rival = rivals.RIVALS["logistic"]
    tried = list(rival.configurations(("raw", "standardize"), seed=0))
    assert tried[0] == {"features": "raw", **rival.usual}
    assert len({tuple(options.values()) for options in tried}) == len(tried) == 2 * len(rival.grid["C"])


def test_neighbour_means_by_hand():
    graph = Graph("path", np.array([[0, 1], [1, 2]]), 4, np.array([[1.0], [2.0], [4.0], [8.0]], np.float32))
    inputs = RivalInputs(Graph(**{**vars(graph), "y": np.zeros(4, int)}), "accuracy", torch.device("cpu"))
    hops = [[1, 2, 2.5], [2, 2.5, 2], [4, 2, 2.5], [8, 0, 0]]
    assert inputs.hops("raw", 2).tolist() == hops


@pytest.mark.usefixtures("quick")
def test_the_estimator_sees_the_labelled_nodes_alone(archive):
    (record,) = compare_estimators([archive], labels=[0.2], splits=1, methods=["estimator"], device="cpu")
    assert (Guess.seen.y >= 0).sum() == 12
    assert (record.graph, record.test, record.trials) == ("path", pytest.approx(1 / 3), 2)
    assert (record.val, record.parameters) == (0.5, {"first class": 1.0})


@pytest.mark.usefixtures("quick")
def test_a_comparison_goes_on_where_it_stopped(archive, tmp_path, monkeypatch):
    options = {"labels": [0.8, 0.2], "methods": FEW, "device": "cpu", "out": tmp_path / "out.jsonl"}
    compare_estimators([archive], splits=1, **options)
    with pytest.raises(ConfigError, match="resume"):
        compare_estimators([archive], splits=1, **options)
    new = []
    records = compare_estimators([archive], splits=2, resume=True, on_record=new.append, **options)
    assert len(records) == 2 * len(new) == 12
    assert read_records(tmp_path / "out.jsonl") == records
    allowed = {r.key[:3]: r.seconds for r in records if r.method == "estimator"}
    assert all(r.allowed == allowed[r.key[:3]] for r in records if r.method != "estimator")


@pytest.mark.usefixtures("quick")
def test_what_failed_is_recorded_and_tried_again(archive, tmp_path, monkeypatch):
    options = {"labels": [0.8], "splits": 1, "methods": ["gcn"], "seconds": 0.0, "device": "cpu"}
    options |= {"out": tmp_path / "out.jsonl", "resume": True}
    monkeypatch.setattr(estimators, "search_rival", lambda *_: 1 / 0)
    (record,) = compare_estimators([archive], **options)
    assert (record.test, record.error) == (None, "ZeroDivisionError: division by zero")
    assert explain_failures([record]) == ["failed: gcn, 1 times (path): ZeroDivisionError: division by zero"]
    monkeypatch.undo()
    (record,) = compare_estimators([archive], **options)
    assert record.error is None


def test_processes_share_all_cases(archive):
    parts = [make_cases([archive], [0.8, 0.05], 3, (i, 4)) for i in range(4)]
    assert {*chain(*parts)} == {*make_cases([archive], [0.8, 0.05], 3)}
    assert sum(map(len, parts)) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"datasets": ["txas"]}, "unknown dataset 'txas'"),
        ({"labels": [1.0]}, "the share of labelled nodes must lie in"),
        ({"splits": 0}, "splits must be an integer of at least 1"),
        ({"shard": (2, 2)}, "the processes are numbered 0 to 1; got 2"),
        ({"methods": ["gnc"]}, "unknown method 'gnc'"),
        ({"methods": ["gcn"], "labels": [0.8]}, "Run the estimator as well, or give the seconds"),
    ],
)
def test_mistakes(arguments, words, archive):
    with pytest.raises(ConfigError, match=words):
        compare_estimators(**{"datasets": [archive], "device": "cpu", **arguments})


# the tables


def record(graph, split, method, test, error=None):
    val = None if test is None else test + 0.05
    return Record(graph, 0.8, split, method, "accuracy", test, val, 2.0, None, 1, error=error)


def make_records():
    scores = {"a": (0.80, 0.70, 0.60), "b": (0.50, 0.40, 0.51)}
    return [
        record(graph, split, method, score + 0.01 * split)
        for graph, own in scores.items()
        for method, score in zip(FEW, own, strict=True)
        for split in range(3)
    ]


def test_ranks_leads_and_the_worst_graph():
    (comparison,) = compare_methods(make_records())
    assert comparison.mean_ranks == {"estimator": 1.5, "gcn": 2.5, "logistic": 2.0}
    assert [(d.graph, d.rival, round(d.points, 9)) for d in comparison.differences] == [
        ("a", "gcn", 10.0),
        ("b", "logistic", -1.0),
    ]
    assert comparison.differences[1].interval == pytest.approx((-1.0, -1.0))
    assert score_table(comparison).rows[1][1:] == (
        "51.0 ± 1.0", "41.0 ± 1.0", "52.0 ± 1.0", "logistic", "-1.0 (-1.0 to -1.0)",
    )  # fmt: skip
    assert summary_table([comparison]).rows[1] == ("gcn", "2.50", "+10.0", "2.0")
    assert "is +5.0 points off the test score on average, 5.0 in" in describe_estimates(comparison)
    assert "on 1 of 2 graphs (50%); at the least -1.0 points (b, logistic)" in verdict(comparison)


def test_a_failure_has_the_last_rank_and_a_graph_not_yet_tried_none():
    records = [r for r in make_records() if r.method != "gcn" or r.graph != "b"]
    (comparison,) = compare_methods(records)
    assert list(comparison.scores) == ["a"]
    (comparison,) = compare_methods([*records, record("b", 0, "gcn", None, "OutOfMemoryError: much")])
    assert comparison.mean_ranks["gcn"] == 2.5
    assert score_table(comparison).rows[1][2] == "–"


def test_an_estimator_that_fails_has_lost():
    records = [r for r in make_records() if r.method != "estimator" or r.graph != "b"]
    (comparison,) = compare_methods([*records, record("b", 0, "estimator", None, "OutOfMemoryError: much")])
    assert comparison.mean_ranks["estimator"] == 2.0
    assert "on 1 of 2 graphs (50%); at the least -inf points (b, logistic)" in verdict(comparison)


@pytest.mark.usefixtures("quick")
def test_the_command_prints_what_it_wrote(archive, tmp_path, capsys):
    out = tmp_path / "new" / "out.jsonl"
    arguments = ["--datasets", archive, "--labels", "0.8,0.2", "--splits", "1", "--device", "cpu", "--quiet"]
    main(["bench", "estimator", *arguments, "--methods", "estimator,gcn", "--out", str(out)])
    printed = capsys.readouterr().out
    assert len(read_records(out)) == 4
    assert "estimator ahead by, 20 %" in printed
    assert set(METHODS) == {"estimator", *rivals.RIVALS}
