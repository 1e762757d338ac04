"""`polynsd federated run`: several seeds, and centralised and local training to compare with."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from polynsd.cli import main
from polynsd.data import make_graph
from polynsd.data.tables import write_graph
from polynsd.diagnostics import open_run
from polynsd.federated.partition import partition_graph
from polynsd.federated.runs import read_result
from polynsd.report.html.comparison_section import comparison_section
from polynsd.report.html.scores import find_score
from polynsd.runs import read_run

GRAPH = make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6)
SMALL = (
    "--backbone",
    "gcn",
    "--width",
    "4",
    "--local-epochs",
    "1",
    "--rounds",
    "3",
    "--no-report",
    "--quiet",
)


@pytest.fixture
def train(tmp_path):
    """Runs the command on a graph file; the run folder."""
    path = write_graph(GRAPH, tmp_path / "graph.npz")[0]

    def run(name, *options, source=("--dataset", str(path))):
        main(["federated", "run", *source, *SMALL, *options, "--out", str(tmp_path / name)])
        return tmp_path / name

    return run


def weights(run):
    return read_run(run).weights()


def assert_same(some, others):
    assert some.keys() == others.keys()
    assert all(torch.equal(t, others[name]) for name, t in some.items())


def test_seeds_are_the_runs_of_their_seeds_with_mean_and_std(train, capsys):
    both = train("both", "--clients", "3", "--seeds", "2")
    printed = capsys.readouterr().out
    single = [train(f"{s}", "--clients", "3", "--seed", s, "--partition-seed", s) for s in ("0", "1")]
    result, found = read_result(both), weights(both)
    for number, run in enumerate(single):
        own = {name.replace("clients.0.", f"clients.{number}."): t for name, t in weights(run).items()}
        own = {f"{number}.{name[2:]}" if name.startswith("0.") else name: t for name, t in own.items()}
        chosen = {
            name: t for name, t in found.items() if name.startswith((f"{number}.", f"clients.{number}."))
        }
        assert_same(chosen, own)
    tests = [read_run(run).result["mean"] for run in single]
    assert result.result.mean == np.mean(tests)
    assert f"{100 * np.mean(tests):.2f} ± {100 * np.std(tests):.2f}" in printed
    opened = open_run(both)  # each seed has its own partition, and so its own split
    assert (len(opened.models), len(opened.splits)) == (2, 2)
    assert not torch.equal(opened.mask(0, "test"), opened.mask(1, "test"))
    assert_same(opened.models[1].state_dict(), result.seeds[1].model.state_dict())


def test_seeds_of_a_saved_partition_are_those_of_the_weights(train, tmp_path):
    partition_graph(GRAPH, 3, features="raw").save(tmp_path / "clients")
    run = train("saved", "--seeds", "2", source=("--partition", str(tmp_path / "clients")))
    inputs = read_run(run).inputs
    assert inputs["partitions"][0] == inputs["partitions"][1]
    first, second = (seed.outcome.arrays for seed in read_result(run).seeds)
    assert any(not np.array_equal(array, second[name]) for name, array in first.items())


def test_of_one_client_federated_and_centralised_training_are_the_same(train):
    alone = train("alone", "--clients", "1")
    for division in ("union", "whole"):
        assert_same(weights(train(division, "--clients", "1", "--division", division)), weights(alone))


def test_centralised_training_is_scored_on_the_test_nodes_of_the_clients(train, capsys):
    options = ("--clients", "3", "--division")
    runs = {name: open_run(train(name, *options, name)) for name in ("clients", "union", "whole")}
    assert capsys.readouterr().out.count("accuracy, 1 client ") == 2
    for run in runs.values():
        for part in ("train", "val", "test"):
            assert torch.equal(run.mask(0, part), runs["clients"].mask(0, part))
    assert_differ(runs["union"], runs["whole"])  # the second has the edges between clients
    page = comparison_section(list(runs.values()), [find_score(run, {}) for run in runs.values()])
    assert [block.title for block in page.blocks[:2]] == ["Split by split", "Scores"]
    scored = ["global model", "one client", "one client, cut edges"]
    assert [row[1] for row in page.blocks[1].rows] == [f"fedavg gcn ({who})" for who in scored]


def assert_differ(some, other):
    some, other = (run.models[0].state_dict() for run in (some, other))
    assert any(not torch.equal(t, other[name]) for name, t in some.items())


def test_clients_that_send_nothing_train_alone(train):
    """Each as if it were the only one; from their second round on nothing reaches them either."""
    run = train("local", "--clients", "3", "--method", "local")
    seed = read_result(run).seeds[0]
    assert seed.model is None
    assert seed.outcome.choices["local"].clients == 3
    rounds = [record for record in read_run(run).metrics() if record["event"] == "round"]
    assert all(record["received"] < 5_000 for record in rounds)


def test_another_graph_than_the_one_that_was_divided_is_refused(train, tmp_path, capsys):
    other = write_graph(
        make_graph("heterophily", num_nodes=80, num_classes=3, num_features=6), tmp_path / "o.npz"
    )
    partition = partition_graph(GRAPH, 3, features="raw")
    partition.save(tmp_path / "clients")
    manifest = tmp_path / "clients" / "partition.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "source": str(other[0])}))
    with pytest.raises(SystemExit):
        train("other", "--division", "whole", source=("--partition", str(tmp_path / "clients")))
    assert "are not the 80 of" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train("none", "--seeds", "0")
    assert "seeds must be" in capsys.readouterr().err
