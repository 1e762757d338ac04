"""Clients with tables of their own, and predictions of what they trained together."""

import sys
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr")

from polynsd.cli import main
from polynsd.cli.federated_run import FederatedRun
from polynsd.cli.predict import Predict
from polynsd.config import to_dict
from polynsd.data import make_graph
from polynsd.data.tables import write_graph
from polynsd.diagnostics import open_run
from polynsd.errors import ConfigError, DataError
from polynsd.federated import ClientData, FederatedConfig
from polynsd.federated.client_app import Site
from polynsd.federated.config import ServerOptions
from polynsd.federated.data import digest_columns, open_tables
from polynsd.federated.deployment import train
from polynsd.federated.partition import Partition, partition_graph
from polynsd.federated.simulation import LocalGrid
from polynsd.federated.training import require_flower

CONFIG = FederatedConfig(backbone="polynsd", width=4, stalk_dim=2, degree=2, rounds=2, local_epochs=1)


def write_tables(folder, classes=("b", "a"), columns=("x", "y")):
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(20)]})
    for name in columns:
        frame[name] = draws.normal(size=20).round(3)
    frame["kind"] = [classes[i % 2] for i in range(20)]
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "nodes.csv", index=False)
    ends = {"from": frame.id[:-1].tolist(), "to": frame.id[1:].tolist()}
    pd.DataFrame(ends).to_csv(folder / "edges.csv", index=False)
    return folder / "edges.csv", folder / "nodes.csv"


def test_tables_have_agreed_classes_and_plain_columns(tmp_path):
    edges, nodes = write_tables(tmp_path / "hospital")
    site = open_tables(edges, nodes, "kind", ["a", "b", "c"])
    assert (site.name, site.data.num_features, site.data.num_classes) == ("hospital", 2, 3)
    assert site.data.y.tolist() == [1, 0] * 10
    np.testing.assert_array_equal(site.data.x, pd.read_csv(nodes)[["x", "y"]].to_numpy(np.float32))
    other = open_tables(*write_tables(tmp_path / "clinic", columns=("y", "x")), "kind", ["a", "b", "c"])
    assert other.classes == site.classes
    assert other.columns != site.columns
    with pytest.raises(DataError, match=r"10 labels of .* are none of the classes a, c"):
        open_tables(edges, nodes, "kind", ["a", "c"])


def test_a_run_is_opened_by_the_other_commands(tmp_path, capsys):
    graph = make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6)
    path = write_graph(graph, tmp_path / "graph.npz")[0]
    out = tmp_path / "run"
    result = FederatedRun(dataset=str(path), clients=3, out=out, training=CONFIG, report=False).run()
    printed = capsys.readouterr()
    assert "global model" in printed.out
    assert "what leaves a client every round: weights of the causal branch, number of nodes" in printed.err
    opened = open_run(out)  # the run knows where its graph is
    assert len(opened.models) == 1
    assert sum(int(opened.mask(0, part).sum()) for part in ("train", "val", "test")) == 90
    tables = write_graph(graph, tmp_path / "edges.csv")
    predictions = Predict(out, edges=tables[0], nodes=tables[1], out=tmp_path / "p.csv", quiet=True).run()
    logits = result.model(opened.data.x, opened.data.edge_index)
    assert predictions.prediction.astype(str).tolist() == [str(k) for k in logits.argmax(-1).tolist()]
    for dataset in (None, str(path)):
        again = Predict(out, dataset=dataset, out=tmp_path / "p.csv", quiet=True).run()
        assert again.prediction.tolist() == predictions.prediction.tolist()
    with pytest.raises(ConfigError, match="not both"):
        Predict(out, dataset=str(path), nodes=tables[1], quiet=True).run()


def test_a_served_run_predicts_a_graph_that_is_named(tmp_path):
    graph = make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6)
    partition = partition_graph(graph, 3)
    sites = [
        Site(f"client-{i}", ClientData.of(client, 3), digest_columns(()))
        for i, client in enumerate(partition.graphs)
    ]
    settings = {"config": to_dict(CONFIG), "options": asdict(ServerOptions(3)), "out": str(tmp_path / "run")}
    settings["inputs"] = {"dataset": "clients", "classes": []}
    train(LocalGrid(sites), settings, lambda event: None)
    path = write_graph(graph, tmp_path / "graph.npz")[0]
    with pytest.raises(DataError, match="kept their graphs; name a graph of your own with --dataset"):
        Predict(tmp_path / "run", quiet=True).run()
    command = Predict(tmp_path / "run", dataset=str(path), out=tmp_path / "p.csv", quiet=True)
    assert len(command.run()) == 90
    assert open_run(tmp_path / "run", dataset=str(path)).splits == ()  # what clients trained on is not known
    page = tmp_path / "page.html"
    main(["report", str(tmp_path / "run"), "--dataset", str(path), "--out", str(page), "--quiet"])
    assert "clients, who keep their graphs, may have learned from any of them" in page.read_text()
    assert "none of which the model had learned from" not in page.read_text()
    assert "the most frequent class" not in page.read_text()


def test_features_of_a_saved_partition_are_treated_as_it_was(tmp_path):
    graph = make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6)
    graph = replace(graph, x=np.abs(graph.x))
    ways = {rule: partition_graph(graph, 3, features=rule) for rule in (None, "raw", "row-normalize")}
    assert len({partition.digest for partition in ways.values()}) == 3
    assert np.array_equal(ways["raw"].graphs[0].x, ways[None].graphs[0].x)
    assert not np.array_equal(ways["row-normalize"].graphs[0].x, ways[None].graphs[0].x)
    path, folder = write_graph(graph, tmp_path / "graph.npz")[0], tmp_path / "clients"
    ways["row-normalize"].save(folder)
    assert Partition.load(folder).settings["features"] == "row-normalize"
    command = FederatedRun(
        partition=folder, out=tmp_path / "run", training=CONFIG, report=False, quiet=True, json=True
    )
    assert command.run().result.about["features"] == "row-normalize"
    opened = open_run(tmp_path / "run", dataset=str(path))
    for client, nodes in zip(ways["row-normalize"].graphs, ways["row-normalize"].nodes, strict=True):
        np.testing.assert_array_equal(opened.data.x[nodes], client.x)


def test_without_flower_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(ConfigError, match=r"polynsd\[federated\]"):
        require_flower()
