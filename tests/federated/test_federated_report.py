"""What a report shows of a federated run: its rounds, its traffic, and who took part."""

from dataclasses import asdict

import pytest

pytest.importorskip("flwr")
pytest.importorskip("plotly")

from polynsd.cli import main
from polynsd.config import to_dict
from polynsd.data import make_graph
from polynsd.data.tables import write_graph
from polynsd.diagnostics import open_run
from polynsd.federated import ClientData, FederatedConfig
from polynsd.federated.client_app import Site
from polynsd.federated.config import ServerOptions
from polynsd.federated.deployment import train
from polynsd.federated.partition import partition_graph
from polynsd.federated.simulation import LocalGrid
from polynsd.report.html.blocks import Chart, Table
from polynsd.report.html.training_section import training_section
from polynsd.runs import read_run

GRAPH = make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6)
SMALL = (
    "--backbone",
    "gcn",
    "--width",
    "4",
    "--local-epochs",
    "1",
    "--clients",
    "3",
    "--no-report",
    "--quiet",
)


def open_training(folder):
    """The charts and tables of the training tab, by title."""
    blocks = training_section(open_run(folder, strict=False)).blocks
    return {block.title: block for block in blocks if isinstance(block, Chart | Table)}


def test_the_training_tab_has_the_scores_bytes_and_clients_of_every_round(tmp_path, capsys):
    path, out = write_graph(GRAPH, tmp_path / "graph.npz")[0], tmp_path / "run"
    command = ["federated", "run", "--dataset", str(path), *SMALL, "--rounds", "4", "--seeds", "2"]
    main([*command, "--out", str(out)])
    page = tmp_path / "page.html"
    main(["report", str(out), "--out", str(page), "--quiet"])
    assert "Score on validation nodes" in page.read_text()
    blocks, record = open_training(out), read_run(out)
    scores, traffic, clients = (blocks[name] for name in ("Score on validation nodes", "Traffic", "Clients"))
    lines = {trace["name"]: trace for trace in scores.traces if trace["mode"] == "lines"}
    assert len(lines) == 4
    for seed in (0, 1):
        log = [r for r in record.metrics() if r["event"] == "scores" and r["seed"] == seed]
        assert [r["round"] for r in log] == [1, 2, 3, 4]
        drawn = lines[f"global model, seed {seed}"]
        assert drawn["x"] == [1, 2, 3, 4]
        assert drawn["y"] == pytest.approx([100 * r["global_val"] for r in log], rel=1e-4)
    sent = [r["sent"] / 1e6 for r in record.metrics() if r["event"] == "round" and r["seed"] == 0]
    assert traffic.traces[0]["y"] == pytest.approx(sent, rel=1e-4)
    assert clients.sentence == "All 3 clients took part in every round."
    chosen = blocks["The rounds that validation chose"].rows
    assert [(row[0], row[1]) for row in chosen] == [(s, k) for s in "01" for k in ("local", "global")]


def test_clients_that_failed_or_left_are_seen_in_a_run_whose_graphs_nobody_has(tmp_path):
    partition = partition_graph(GRAPH, 3)
    sites = [Site(f"client-{i}", ClientData.of(graph, 3)) for i, graph in enumerate(partition.graphs)]

    class Grid(LocalGrid):
        """Client 2 fails in the second round and has left in the third."""

        rounds = 0

        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            self.rounds += replies[0].metadata.message_type == "train"
            if self.rounds == 2:
                return [reply for reply in replies if reply.metadata.src_node_id != 3]
            return replies

        def get_node_ids(self):
            return [1, 2] if self.rounds >= 2 else [1, 2, 3]

    config = FederatedConfig(backbone="gcn", width=4, rounds=4, local_epochs=1)
    settings = {"config": to_dict(config), "options": asdict(ServerOptions(3)), "out": str(tmp_path / "run")}
    settings["inputs"] = {"dataset": "clients", "classes": []}
    train(Grid(sites), settings, lambda event: None)
    blocks = open_training(tmp_path / "run")
    took_part, asked = (trace["y"] for trace in blocks["Clients"].traces)
    assert (took_part, asked) == ([3, 2, 2, 2], [3, 3, 2, 2])
    (row,) = blocks["What went wrong (1)"].rows
    assert row == ("0", "2", "client-2", "did not answer within 600 s")
