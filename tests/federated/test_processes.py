"""Federations over processes: Ray's actors, and a server that is killed with two SuperNodes."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")

from polynsd.data import make_graph
from polynsd.federated import FederatedConfig
from polynsd.federated.config import ServerOptions
from polynsd.federated.partition import partition_graph
from polynsd.federated.training import train_federated
from polynsd.runs import read_run

pytestmark = [
    pytest.mark.kills,
    pytest.mark.skipif(
        "POLYNSD_FUZZ_CASES" not in os.environ, reason="many processes, half a minute; make fuzz runs it"
    ),
]
CONFIG = FederatedConfig(backbone="gcn", width=4, rounds=4, masks="fedath")
PORT = 19191


@pytest.fixture(scope="module")
def partition():
    graph = make_graph("heterophily", num_nodes=80, num_classes=3, num_features=6)
    return partition_graph(graph, 2, "labels", alpha=50.0)


@pytest.fixture(scope="module")
def expected(partition):
    return train_federated(partition, CONFIG, ServerOptions(2))


def assert_same(weights, expected):
    for name, tensor in expected.model.state_dict().items():
        np.testing.assert_allclose(weights[f"0.{name}"], tensor, rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_numbers_of_one_process(partition, expected, tmp_path):
    pytest.importorskip("ray")
    train_federated(partition, CONFIG, ServerOptions(2), out=tmp_path / "run", engine="ray")
    assert_same(read_run(tmp_path / "run").weights(), expected)


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL], ids=lambda kill: kill.name)
def test_a_killed_server_finds_its_clients_again(partition, expected, tmp_path, kill):
    partition.save(tmp_path / "clients")
    options = ["--backbone=gcn", "--width=4", "--rounds=4", "--masks=fedath", f"--port={PORT}", "--json"]
    serve = ["serve", f"--out={tmp_path / 'run'}", "--clients=2", *options]
    names, archives = ("client-0", "client-1"), tmp_path / "clients"
    joins = [
        ["join", f"127.0.0.1:{PORT}", f"--data={archives / name}.npz", f"--state={tmp_path / name}"]
        for name in names
    ]

    def start(arguments):
        command = [sys.executable, "-m", "polynsd", "federated", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    server, clients = start(serve), [start(join) for join in joins]
    try:
        while '"round": 2' not in server.stdout.readline():
            assert server.poll() is None
        server.send_signal(kill)
        server.communicate(timeout=60)
        server = start(serve)
        output, _ = server.communicate(timeout=300)
        assert '"round": 4' in output
        assert '"round": 1,' not in output.partition("done")[0]
        for client in clients:
            client.communicate(timeout=60)
            assert client.returncode == 0
    finally:
        for process in (server, *clients):
            process.kill()
            process.communicate()
    assert_same(read_run(tmp_path / "run").weights(), expected)
    assert all((tmp_path / name / "local.safetensors").exists() for name in names)
