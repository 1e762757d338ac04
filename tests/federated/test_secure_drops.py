"""Clients that drop out of a secure aggregation, or fail in training, while the others go on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from federation import CLIENTS, CONFIG, PARTITION, Events, assert_equal, make_sites
from flwr.app import Error, Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from polynsd.data import make_graph
from polynsd.errors import ConfigError, DataError
from polynsd.federated import initial_payload
from polynsd.federated.batch import Batch
from polynsd.federated.config import Privacy, ServerOptions
from polynsd.federated.methods import FedAvg, average
from polynsd.federated.partition import partition_graph
from polynsd.federated.records import ARRAYS, to_arrays, to_payload
from polynsd.federated.server import FederatedServer
from polynsd.federated.simulation import LocalGrid
from polynsd.federated.training import train_federated

ONE_ROUND = replace(CONFIG, rounds=1)
GRAPH = make_graph("heterophily", num_nodes=120, num_classes=3, num_features=6)


class Dropping(LocalGrid):
    """A grid whose clients drop out of the first round, some at each exchange of a secure aggregation.

    Args:
        sites: of the clients.
        drops: by number of the exchange, the nodes that do not answer from then on.
        speaks: whether an error says that they are gone, as of a SuperLink, in place of silence.
    """

    def __init__(self, sites, drops, speaks=False):
        super().__init__(sites)
        self.drops, self.speaks = drops, speaks
        self.asked = []  # the number of every exchange

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages[0].metadata.message_type != "train":
            return super().send_and_receive(messages, timeout=timeout)
        number = 1 + Stage.all().index(messages[0].content[RECORD_KEY_CONFIGS][Key.STAGE])
        self.asked.append(number)
        gone = {node for at, nodes in self.drops.items() if at <= number for node in nodes}
        if self.asked.count(1) > 1:  # another round
            gone = set()
        here = [message for message in messages if message.metadata.dst_node_id not in gone]
        replies = super().send_and_receive(here, timeout=timeout)
        if self.speaks:
            others = [message for message in messages if message.metadata.dst_node_id in gone]
            replies += [Message(Error(5, "the node is unavailable"), reply_to=message) for message in others]
        return replies


def split(clients):
    return partition_graph(GRAPH, clients, "labels", alpha=50.0, fractions=(0.5, 0.25, 0.25)).graphs


def serve_grid(grid, config=ONE_ROUND, **privacy):
    events = Events()
    server = FederatedServer(config, ServerOptions(len(grid.sites), privacy=Privacy(**privacy)), grid, events)
    return server, server.run(), events


class Recording(LocalGrid):
    """A grid that remembers what clients send, by node."""

    def __init__(self, sites):
        super().__init__(sites)
        self.sent = {}

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        sent = [reply for reply in replies if ARRAYS in reply.content]
        self.sent = {
            **getattr(self, "sent", {}),
            **{r.metadata.src_node_id: to_payload(r.content) for r in sent},
        }
        return replies


def expect_mean(clients, nodes):
    """The plain mean of what clients at some nodes send in round 1, and how far a secure one may be off."""
    plain = Recording(make_sites(split(clients)))
    serve_grid(plain)
    sizes = {node: site.data.num_nodes for node, site in plain.sites.items()}
    step = 2 / 2**22 * len(nodes) / sum(sizes[node] / max(sizes.values()) for node in nodes)
    return average({node: plain.sent[node] for node in nodes}), 2 * step + 1e-7


@pytest.mark.parametrize("speaks", [False, True], ids=["silent", "told"])
@pytest.mark.parametrize("exchange", [1, 2, 3, 4])
@pytest.mark.parametrize("clients", [4, 5])
def test_a_secure_sum_goes_on_without_a_client_that_drops_out(clients, exchange, speaks):
    grid = Dropping(make_sites(split(clients)), {exchange: [2]}, speaks)
    server, _, events = serve_grid(grid, secure_aggregation=True)
    # in the last exchange its masked arrays are there already, and the others hold shares of its keys
    summed = [node for node in grid.sites if node != 2 or exchange == 4]
    mean, tolerance = expect_mean(len(grid.sites), summed)
    assert_equal(to_arrays(server.arrays), mean, tolerance)
    why = "failed: the node is unavailable (in" if speaks else "did not answer within 600 s in"
    end = ")" if speaks else ""
    told = (1, "client-1", f"{why} exchange {exchange} of 4 of the secure aggregation{end}")
    assert events.faults == ([] if exchange == 4 else [told])
    assert events.of("round")[0]["clients"] == len(summed)


def test_half_of_the_clients_may_drop_out_one_after_the_other():
    grid = Dropping(make_sites(split(6)), {1: [1], 2: [4], 3: [6]})
    server, _, events = serve_grid(grid, secure_aggregation=True)
    mean, tolerance = expect_mean(len(grid.sites), [2, 3, 5])
    assert_equal(to_arrays(server.arrays), mean, tolerance)
    told = [(client, why.partition("exchange ")[2][0]) for _, client, why in events.faults]
    assert told == [("client-0", "1"), ("client-3", "2"), ("client-5", "3")]


def test_a_round_with_too_few_shares_of_keys_is_lost_and_names_those_that_dropped_out():
    grid = Dropping(make_sites(split(6)), {1: [1], 2: [4], 3: [6], 4: [2]})
    _, _, events = serve_grid(grid, secure_aggregation=True)
    names = ["client-0", "client-1", "client-3", "client-5", "nobody"]
    assert [client for _, client, _ in events.faults] == names
    assert "2 of 6 clients stayed" in events.faults[-1][2]


@pytest.mark.parametrize("exchange", [1, 2, 3])
@pytest.mark.parametrize(("clients", "dropped"), [(3, [2]), (5, [2, 3, 5])])
def test_a_sum_of_two_is_not_made_and_only_those_that_dropped_out_are_named(clients, dropped, exchange):
    """Of two, each could subtract itself. The next round, with all of them, is as good as ever."""
    grid = Dropping(make_sites(split(clients)), {exchange: dropped})
    _, _, events = serve_grid(grid, replace(CONFIG, rounds=2), secure_aggregation=True)
    names = [f"client-{node - 1}" for node in dropped]
    assert [client for _, client, _ in events.faults] == [*names, "nobody"]
    assert events.faults[-1][2].startswith(f"is in a secure sum: 2 of {clients} clients stayed")
    assert [event["clients"] for event in events.of("round")] == [0, clients]
    assert grid.asked == [*range(1, exchange + 1), 1, 2, 3, 4]  # nobody goes on in a round that is lost


def test_a_round_that_everybody_leaves_is_lost_and_the_model_stays_as_it_is():
    grid = Dropping(make_sites(), {1: [1, 2, 3]})
    server, outcome, events = serve_grid(grid, secure_aggregation=True)
    before = initial_payload(ONE_ROUND, outcome.num_features, outcome.num_classes)
    assert_equal(to_arrays(server.arrays), before.arrays)
    assert [client for _, client, _ in events.faults] == ["client-0", "client-1", "client-2", "nobody"]


def make_fail(monkeypatch, step, number, at, error):
    """Makes a client raise an error in a round: before it trains (receive), or after it (send)."""
    good = getattr(FedAvg, step)

    def fail(method, client, *others):  # the last of which is the round
        if (client.number, others[-1]) == (number, at):
            raise error
        return good(method, client, *others)

    monkeypatch.setattr(FedAvg, step, fail)


class Away(LocalGrid):
    """A grid at which node 2 does not get its message of the second round."""

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        config = messages[0].content.get("config", {})
        if messages[0].metadata.message_type == "train" and config["round"] == 2:
            messages = [message for message in messages if message.metadata.dst_node_id != 2]
        return super().send_and_receive(messages, timeout=timeout)


def train_apart(monkeypatch, apart):
    if apart:  # as clients with large graphs on a CPU
        monkeypatch.setattr("polynsd.federated.batch.LARGE", 0)


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("step", ["receive", "send"])
def test_a_client_that_raises_is_left_out_of_the_round_as_if_it_had_not_been_asked(monkeypatch, step, apart):
    """The others and what it does later are the same; only the fault says something else."""
    train_apart(monkeypatch, apart)
    config = replace(CONFIG, rounds=4, local_epochs=2)
    expected, before, log = serve_grid(Away(make_sites()), config)
    make_fail(monkeypatch, step, 1, 2, RuntimeError("DefaultCPUAllocator: not enough memory"))
    grid = LocalGrid(make_sites())
    server, outcome, events = serve_grid(grid, config)
    assert_equal(to_arrays(server.arrays), to_arrays(expected.arrays), 1e-5)
    assert log.faults == [(2, "client-1", "did not answer within 600 s")]
    assert events.faults == [(2, "client-1", "failed: RuntimeError: DefaultCPUAllocator: not enough memory")]
    assert [event["clients"] for event in events.of("round")] == [3, 2, 3, 3]
    assert events.of("scores") == log.of("scores")
    assert outcome.choices == before.choices


def test_a_client_that_raises_in_its_first_round_begins_in_the_next(monkeypatch):
    make_fail(monkeypatch, "send", 2, 1, DataError("no node to train on."))
    _, outcome, events = serve_grid(LocalGrid(make_sites()), CONFIG)
    assert events.faults == [(1, "client-2", "failed: DataError: no node to train on.")]
    assert [event["clients"] for event in events.of("round")] == [2, 3]
    assert outcome.choices["global"].clients == 3


def test_clients_that_do_not_fit_into_memory_together_train_one_by_one(monkeypatch):
    config = replace(CONFIG, local_epochs=2)
    plain, _, _ = serve_grid(LocalGrid(make_sites()), config)
    calls = []

    def fail(batch, members):
        calls.append(len(members))
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(Batch, "train", fail)
    server, _, events = serve_grid(LocalGrid(make_sites()), config)
    assert (calls, events.faults) == ([3, 3], [])
    assert_equal(to_arrays(server.arrays), to_arrays(plain.arrays), 1e-5)


@pytest.mark.parametrize("error", [ConfigError("no such backbone."), KeyboardInterrupt(), TypeError("a bug")])
def test_what_is_no_fault_of_a_client_ends_the_training(monkeypatch, error):
    make_fail(monkeypatch, "receive", 1, 1, error)
    with pytest.raises(type(error)):
        serve_grid(LocalGrid(make_sites()))


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_a_change_that_a_secure_sum_would_clip_costs_its_client_the_round(monkeypatch, apart):
    """In the other exchanges, and in the round after it, it takes part."""
    train_apart(monkeypatch, apart)
    send = FedAvg.send

    def shift(method, client, round):  # noqa: A002
        sent = send(method, client, round)
        distance = 2 if (client.number, round) == (3, 1) else 0
        return replace(
            sent, arrays={name: array + np.float32(distance) for name, array in sent.arrays.items()}
        )

    monkeypatch.setattr(FedAvg, "send", shift)
    grid = LocalGrid(make_sites(split(5)))
    _, _, events = serve_grid(grid, CONFIG, secure_aggregation=True)
    ((round_, client, why),) = events.faults
    assert (round_, client) == (1, "client-3")
    assert why.startswith("failed: DataError: ")
    assert "changes by more than 1 in a round" in why
    assert why.endswith("(in exchange 3 of 4 of the secure aggregation)")
    assert [event["clients"] for event in events.of("round")] == [4, 5]


def test_a_training_in_which_every_change_is_refused_ends_with_a_finished_folder(tmp_path):
    options = ServerOptions(CLIENTS, privacy=Privacy(secure_aggregation=True))
    events = Events()
    train_federated(PARTITION, replace(CONFIG, rate=5.0), options, events, out=tmp_path / "run")
    faults = events.faults
    assert {round_ for round_, _, _ in faults} == {1, 2}
    assert {client for _, client, _ in faults} == {"client-0", "client-1", "client-2", "nobody"}
    assert (tmp_path / "run" / "result.json").exists()
