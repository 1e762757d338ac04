"""The server's rounds over Flower's messages: what travels, what is left out."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from federation import CLIENTS, CONFIG, PARTITION, Events, Leaving, assert_equal, make_sites, serve
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from polynsd.errors import ConfigError
from polynsd.federated import LocalClient, average, initial_payload
from polynsd.federated.client_app import Site
from polynsd.federated.config import Privacy, ServerOptions
from polynsd.federated.records import ARRAYS, NUMBERS, SCORES, WEIGHT, to_arrays
from polynsd.federated.replicas import train_side_by_side
from polynsd.federated.server import FederatedServer
from polynsd.federated.simulation import LocalGrid
from polynsd.federated.training import train_federated


def serialise(reply):
    """The bytes that travel."""
    return b"".join(part.deflate() for part in get_all_nested_objects(reply.content).values())


def test_a_round_averages_by_nodes_and_counts_bytes():
    server, outcome, grid, events = serve(replace(CONFIG, rounds=1))
    replies = dict(enumerate(grid.replies[0]))
    assert_equal(to_arrays(server.arrays), average(replies), 1e-7)
    sizes = [site.data.num_nodes for site in grid.sites.values()]
    assert [reply.numbers[WEIGHT] for reply in replies.values()] == sizes
    (report,) = events.of("round")
    least = sum(array.nbytes for reply in replies.values() for array in reply.arrays.values())
    assert least < report["received"] < 2 * least + 10_000
    assert (report["clients"], report["invited"], events.faults) == (CLIENTS, CLIENTS, [])
    assert outcome.choices["global"].round == outcome.choices["local"].round == 1
    assert outcome.choices["global"].clients == CLIENTS


def test_the_mean_of_equal_models_is_the_model():
    def equal(replies):
        for reply in replies:
            reply.content[ARRAYS] = replies[0].content[ARRAYS]
        return replies

    server, _, grid, _ = serve(replace(CONFIG, rounds=1), equal)
    assert_equal(to_arrays(server.arrays), grid.replies[0][0].arrays, 1e-7)


def test_what_a_client_sends_holds_nothing_of_its_graph():
    """On the bytes: no row of features, no run of labels, no edges, no ids."""
    sent = []

    def record(replies):
        sent.extend(map(serialise, replies))
        return replies

    named = [
        replace(graph, node_ids=np.array([f"person-{node}" for node in graph.ids]))
        for graph in PARTITION.graphs
    ]
    sites = make_sites(named)
    serve(replace(CONFIG, masks="fedath"), record, sites)
    assert len(sent) == CLIENTS * CONFIG.rounds
    for i, content in enumerate(sent):
        data = sites[i % CLIENTS].data
        secrets = [row.tobytes() for row in data.x.numpy()]
        secrets += [data.x[:, 0].numpy().copy().tobytes()[:32]]
        for dtype in (np.int8, np.int32, np.int64, np.float32):
            secrets.append(data.y.numpy().astype(dtype).tobytes()[: 16 * np.dtype(dtype).itemsize])
            secrets.append(data.edge_index.numpy().astype(dtype).tobytes()[: 16 * np.dtype(dtype).itemsize])
        secrets += [str(name).encode() for name in named[i % CLIENTS].ids]
        assert not any(secret in content for secret in secrets)
        assert not any(branch in content for branch in (b"causal", b"biased", b"mask"))


def change(number, edit):
    """Tampers with the reply of one client in round 1."""
    calls = []

    def tamper(replies):
        calls.append(1)
        if len(calls) > 1:
            return replies
        found = [edit(reply) if i == number else [reply] for i, reply in enumerate(replies)]
        return [reply for some in found for reply in some]

    return tamper


def with_arrays(edit):
    def apply(reply):
        arrays = {name: array.copy() for name, array in to_arrays(reply.content[ARRAYS]).items()}
        edit(arrays)
        reply.content[ARRAYS] = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        return [reply]

    return apply


def fill(value):
    return with_arrays(lambda arrays: next(iter(arrays.values())).fill(value))


def weigh(value):
    def edit(reply):
        reply.content[NUMBERS] = MetricRecord({WEIGHT: value})
        return [reply]

    return edit


def score(reply):
    reply.content[SCORES] = MetricRecord({"val_count": 9.0, "local_val_correct": 1e30})
    return [reply]


def reshape(arrays):
    name = next(iter(arrays))
    arrays[name] = arrays[name][:1]


def poison(reply):
    name = next(iter(reply.content[ARRAYS]))
    reply.content[ARRAYS][name] = Array("float32", (1,), "numpy.ndarray", b"\x80\x04pickle")
    return [reply]


FAULTS = {
    "did not answer within 600 s": lambda reply: [],
    "sent NaN or infinity": fill(np.nan),
    "sent NaN or infinity in": fill(np.inf),
    "sent a number of 1e\\+30": fill(1e30),
    "of shape \\(1": with_arrays(reshape),
    "left out the array": with_arrays(lambda arrays: arrays.pop(next(iter(arrays)))),
    "that nobody asked for": with_arrays(lambda arrays: arrays.update(x=np.ones(2, np.float32))),
    "cannot be read": poison,
    "failed: out of memory": lambda reply: [Message(Error(1, "out of memory"), reply_to=_asked(reply))],
    "sent num_nodes = 1e\\+30; it joined with": weigh(1e30),
    "sent local_val_correct = 1e\\+30": score,
    "sent num_nodes = nan": weigh(float("nan")),
}


def _asked(reply):
    return Message(reply.content, reply.metadata.src_node_id, "train")


@pytest.mark.parametrize("reason", FAULTS)
def test_a_round_goes_on_without_a_client_and_says_why(reason):
    tamper = change(1, FAULTS[reason])
    server, _, grid, events = serve(replace(CONFIG, rounds=1), tamper)
    replies = {number: reply for number, reply in enumerate(grid.replies[0]) if number != 1}
    assert_equal(to_arrays(server.arrays), average(replies), 1e-7)
    ((round_, client, told),) = events.faults
    assert (round_, client) == (1, "client-1")
    assert re.search(reason, told), told
    assert events.of("round")[0]["clients"] == CLIENTS - 1


def test_answers_that_come_twice_count_once():
    server, _, grid, events = serve(replace(CONFIG, rounds=1), change(2, lambda reply: [reply, reply]))
    assert_equal(to_arrays(server.arrays), average(dict(enumerate(grid.replies[0]))), 1e-7)
    assert events.faults == [(1, "client-2", "answered twice; the first answer counts")]


def test_a_round_without_any_answer_leaves_the_model_as_it_is():
    server, _, _, events = serve(replace(CONFIG, rounds=1), lambda replies: [])
    data = make_sites()[0].data
    assert_equal(
        to_arrays(server.arrays), initial_payload(CONFIG, data.num_features, data.num_classes).arrays
    )
    assert events.faults[-1][1:] == ("nobody", "sent anything that could be used; the model stays as it is")


def test_who_joins_twice_or_does_not_fit_is_left_out():
    sites = make_sites()
    wide = replace(sites[0].data, x=torch.zeros(sites[0].data.num_nodes, 9))
    sites += [Site("client-1", sites[1].data), Site("wide", wide)]
    _, outcome, _, events = serve(replace(CONFIG, rounds=1), sites=sites)
    assert list(outcome.names) == ["client-0", "client-1", "client-2"]
    assert [fault[1] for fault in events.faults] == ["client-1", "wide"]
    assert "joined twice" in events.faults[0][2]
    assert "9 features" in events.faults[1][2]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (1e30, r"says that it has 1e\+30 nodes, by which it would be weighted; 10000000 are the most"),
        (10_000_001, "says that it has 1e"),
        (31.5, r"must be positive integers; got \[31.5, 6"),
        (float("inf"), "sent num_nodes = inf"),
    ],
)
def test_a_client_does_not_choose_its_weight(said, reason):
    """Who says that it has absurdly many nodes is not let in; the mean of the others stays exact."""

    class Boasting(Site):
        def describe(self):
            content = super().describe()
            content[NUMBERS] = MetricRecord({**content[NUMBERS], WEIGHT: said})
            return content

    sites = make_sites()
    sites.append(Boasting("boaster", sites[0].data))
    server, outcome, grid, events = serve(replace(CONFIG, rounds=1), sites=sites)
    assert list(outcome.names) == ["client-0", "client-1", "client-2"]
    assert_equal(to_arrays(server.arrays), average(dict(enumerate(grid.replies[0]))), 1e-7)
    ((_, _, told),) = events.faults
    assert re.search(reason, told), told


def test_a_round_waits_when_all_have_left_and_a_client_that_was_started_again_gets_its_place(monkeypatch):
    monkeypatch.setattr("polynsd.federated.roster.POLL_SECONDS", 0.0)
    everybody = [1, 2, 3, 4]
    again = Site("client-0", make_sites()[0].data)
    grid, events = Leaving([*make_sites(), again], everybody, everybody, [], [4]), Events()
    outcome = FederatedServer(CONFIG, ServerOptions(CLIENTS), grid, events).run()
    assert [event["clients"] for event in events.of("round")] == [CLIENTS, 1]
    assert events.faults == [(0, "client-0", "joined twice; the first one counts")]
    assert (again.client.number, list(outcome.names)) == (0, ["client-0", "client-1", "client-2"])


def test_the_area_under_the_curve_of_three_classes_is_refused():
    with pytest.raises(ConfigError, match="two classes; the clients have 3"):
        train_federated(PARTITION, CONFIG, ServerOptions(CLIENTS, metric="roc_auc"))


def test_a_secure_sum_is_the_plain_sum_up_to_rounding():
    config = replace(CONFIG, rounds=1)
    plain, _, _, _ = serve(config)
    secure, outcome, grid, events = serve(config, secure_aggregation=True)
    weights = [site.data.num_nodes for site in grid.sites.values()]
    step = 2 / 2**22 * len(weights) / sum(weight / max(weights) for weight in weights)
    assert_equal(to_arrays(secure.arrays), to_arrays(plain.arrays), 2 * step + 1e-7)
    assert not events.faults
    assert outcome.choices["local"].round == 1


def test_the_server_of_a_secure_sum_sees_no_weights():
    """No array that a client trained is in what it sends, neither in the clear nor as a record."""
    seen = []

    def record(replies):
        seen.extend(map(serialise, replies))
        return replies

    _, _, grid, _ = serve(replace(CONFIG, rounds=1), record, secure_aggregation=True)
    trained = [
        p.detach().numpy().tobytes() for site in grid.sites.values() for p in site.client.causal.parameters()
    ]
    assert len(seen) == 4 * CLIENTS
    assert not any(array in content for array in trained for content in seen)


def test_differential_privacy_clips_and_tells_what_it_costs():
    config = replace(CONFIG, rounds=1)
    server, outcome, _, _ = serve(config, dp_noise=1e-9, dp_clip=1e-3)
    before = initial_payload(config, outcome.num_features, outcome.num_classes).arrays
    after = to_arrays(server.arrays)
    change = np.sqrt(sum(float(((after[name] - array) ** 2).sum()) for name, array in before.items()))
    assert 0.2e-3 < change < 1.01e-3
    assert 4.3 < Privacy(dp_noise=1.0).spent_epsilon(1) < 5.0  # exactly 4.38, Balle and Wang (2018)
    assert Privacy(dp_noise=2.0).spent_epsilon(50) < Privacy(dp_noise=1.0).spent_epsilon(50)
    with pytest.raises(ConfigError, match="use one of the two"):
        Privacy(secure_aggregation=True, dp_noise=1.0)
    with pytest.raises(ConfigError, match="fedavg or fedprox"):
        serve(replace(CONFIG, method="fedadam"), dp_noise=1.0)


@pytest.mark.parametrize("method", ["fedprox", "local"])
def test_trainings_side_by_side_are_those_of_their_servers(method):
    config = replace(CONFIG, backbone="gatv2", width=1, masks="fedath", method=method)
    configs = [config, replace(config, seed=1, rate=0.1, penalty=7.0)]
    data, logs = [site.data for site in make_sites()], [Events(), Events()]
    for each, log in zip(configs, logs, strict=True):
        FederatedServer(each, ServerOptions(CLIENTS), LocalGrid(make_sites()), log).run()
    trainings = [[LocalClient(graph, each, i) for i, graph in enumerate(data)] for each in configs]
    for curves, log in zip(train_side_by_side(trainings), logs, strict=True):
        scores = log.of("scores")
        assert [score["round"] for score in scores] == [1, 2]
        assert curves == {name: [score[name] for score in scores] for name in curves}
        assert {*curves, "event", "round"} == {*scores[0]}


def test_the_model_that_is_kept_is_of_a_late_round_although_a_client_left_early():
    """Node 3 is gone after two rounds, and what the others learn later still counts."""
    config, everybody = replace(CONFIG, backbone="gin", rounds=20, dropout=0.0), [1, 2, 3]
    sites = make_sites()
    for site in sites:  # features that tell the class, so that there is something to learn
        site.data = replace(site.data, x=torch.nn.functional.one_hot(site.data.y, 6).float())
    grid, events = Leaving(sites, everybody, everybody, everybody, [1, 2]), Events()
    outcome = FederatedServer(config, ServerOptions(CLIENTS), grid, events).run()
    assert [event["clients"] for event in events.of("round")] == [3, 3] + [2] * 18
    for choice in outcome.choices.values():
        assert choice.round > 2
        assert choice.clients == 2
