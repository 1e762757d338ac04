"""A server that was killed goes on to the same result; finished runs are read."""

import sys
from dataclasses import asdict, replace
from importlib import import_module

import pytest
import torch

pytest.importorskip("flwr")

from federation import CLIENTS, CONFIG, PARTITION, Events, assert_equal, make_sites

import polynsd
from polynsd.config import to_dict
from polynsd.federated import deployment, simulation
from polynsd.federated.client_app import Site
from polynsd.federated.config import ServerOptions
from polynsd.federated.server import FederatedServer
from polynsd.federated.simulation import LocalGrid
from polynsd.federated.training import train_federated


class Memory:
    """The last state of a server."""

    state = None

    def load(self):
        return self.state

    def offer(self, state):
        self.state = state()


def test_clients_keep_their_numbers_when_a_server_goes_on():
    memory, sites = Memory(), make_sites()
    FederatedServer(
        replace(CONFIG, rounds=1), ServerOptions(CLIENTS), LocalGrid(sites), snapshots=memory
    ).run()
    others = [Site("another", sites[0].data), *sites[1:]]
    server = FederatedServer(CONFIG, ServerOptions(CLIENTS), LocalGrid(others), snapshots=memory)
    assert list(server.run().names) == ["client-0", "client-1", "client-2", "another"]
    assert [site.client.number for site in others] == [3, 1, 2]


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, rounds=4, masks="fedath"),
        replace(CONFIG, rounds=4, method="fedadam"),
        replace(CONFIG, rounds=4, method="fedpub"),
        replace(CONFIG, rounds=4, method="fedproto"),
    ],
    ids=lambda config: config.method,
)
def test_a_killed_server_goes_on_to_the_same_result(config, tmp_path):
    options = ServerOptions(CLIENTS)
    whole = train_federated(PARTITION, config, options, out=tmp_path / "whole", snapshot_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        train_federated(PARTITION, config, options, Events(stop=3), out=tmp_path / "cut", snapshot_seconds=0)
    events = Events()
    resumed = train_federated(PARTITION, config, options, events, out=tmp_path / "cut", snapshot_seconds=0)
    assert [event["round"] for event in events.of("round")] == [3, 4]
    assert str(resumed.outcome.choices) == str(whole.outcome.choices)  # NaN where nothing is global
    assert (resumed.outcome.sent, resumed.outcome.received) == (whole.outcome.sent, whole.outcome.received)
    assert_equal(resumed.outcome.arrays, whole.outcome.arrays)
    for name, networks in whole.seeds[0].local.items():
        assert networks
        assert all(torch.equal(t, resumed.seeds[0].local[name][key]) for key, t in networks.items())
    files = [(tmp_path / run / "metrics.jsonl").read_bytes() for run in ("whole", "cut")]
    assert files[0] == files[1]


def test_seeds_are_trainings_of_their_own_and_a_killed_run_goes_on_with_the_one_it_was_at(tmp_path):
    config, options = replace(CONFIG, rounds=3), ServerOptions(CLIENTS)
    others = [PARTITION, replace(PARTITION, settings={**PARTITION.settings, "seed": 1})]
    alone = [train_federated(PARTITION, replace(config, seed=seed), options) for seed in (0, 1)]
    whole = train_federated(others, config, options, out=tmp_path / "whole", snapshot_seconds=0)
    for seed, single in zip(whole.seeds, alone, strict=True):
        assert seed.outcome.choices == single.outcome.choices
        assert_equal(seed.outcome.arrays, single.outcome.arrays)
    assert [row.test for row in whole.result.rows] == [single.result.rows[0].test for single in alone]
    for stop, seed in ((2, 0), (1, 1), (3, 1)):
        with pytest.raises(KeyboardInterrupt):
            train_federated(
                others, config, options, Events(stop, seed), out=tmp_path / "cut", snapshot_seconds=0
            )
    events = Events()
    train_federated(others, config, options, events, out=tmp_path / "cut", snapshot_seconds=0)
    assert [(event["seed"], event["round"]) for event in events.of("round")] == [(1, 3)]
    read = train_federated(others, config, options, out=tmp_path / "cut")
    for seed, other in zip(whole.seeds, read.seeds, strict=True):
        assert_equal(seed.outcome.arrays, other.outcome.arrays)
        assert seed.outcome.choices == other.outcome.choices
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_a_finished_run_is_read_and_not_trained_again(tmp_path):
    events, options = Events(), ServerOptions(CLIENTS)
    first, again = (
        train_federated(PARTITION, CONFIG, options, events, out=tmp_path / "run") for _ in range(2)
    )
    assert len(events.of("round")) == CONFIG.rounds
    assert_equal(again.outcome.arrays, first.outcome.arrays)
    assert replace(again.outcome, arrays={}) == replace(first.outcome, arrays={})
    assert again.seeds[0].local["client-2"].keys() == first.seeds[0].local["client-2"].keys()
    assert str(again.result.rows) == str(first.result.rows)  # there is no val_loss: NaN
    settings = {"config": to_dict(CONFIG), "options": asdict(options), "out": str(tmp_path / "served")}
    settings["inputs"] = {"dataset": "clients", "classes": []}
    served = deployment.train(LocalGrid(make_sites()), settings, events)
    assert deployment.serve(CONFIG, options, tmp_path / "served").choices == served.choices


def test_finished_runs_are_read_without_flower(monkeypatch):
    monkeypatch.setattr(polynsd, "federated", polynsd.federated)
    for name in list(sys.modules):
        if name.partition(".")[0] == "flwr" or name.startswith("polynsd.federated"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)  # cannot be imported
    assert import_module("polynsd.federated.runs").read_result
    assert import_module("polynsd.federated.training").require_flower


def test_clients_of_ray_keep_two_rounds_so_its_server_keeps_every_round(tmp_path, monkeypatch):
    kept = []

    def train(partition, config, options, tell, snapshots, device, folder):
        kept.append(snapshots.run.snapshots.seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(simulation, "train_with_ray", train)
    with pytest.raises(KeyboardInterrupt):
        train_federated(PARTITION, CONFIG, ServerOptions(CLIENTS), out=tmp_path / "run", engine="ray")
    assert kept == [0.0]
