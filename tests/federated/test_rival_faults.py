"""A client that sends something wrong is left out of a round, whatever the method, and the others go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from federation import CLIENTS, CONFIG, Events, assert_equal, serve
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from test_flower import FAULTS, with_arrays

from polynsd.federated import FederatedConfig, Payload, average, initial_payload
from polynsd.federated.aggregation import strategy_state
from polynsd.federated.methods import ServerState
from polynsd.federated.records import ARRAYS, NUMBERS, SCORES, WEIGHT, to_arrays
from polynsd.federated.rivals import FedProto, FedPUB, FedTAD, distillation, neighbours, personal

Edit = Callable[[Message], list[Message]]
OPTIONS: dict[str, dict[str, Any]] = {
    "moon": {},
    "fgssl": {},
    "fedproto": {},
    "fedpub": {},
    "fedtad": {},
    "fedsage": {"generator_rounds": 1},
}


def train(method: str, rounds: int = 2, **options: Any) -> FederatedConfig:
    return replace(CONFIG, method=method, rounds=rounds, options={**OPTIONS.get(method, {}), **options})


def change_in_turn(edits: Sequence[Edit], number: int = 0) -> Callable[[list[Message]], list[Message]]:
    """Tampers with the replies of one client, in every round by another edit; the last rounds are honest."""
    left = list(edits)

    def tamper(replies: list[Message]) -> list[Message]:
        if not left:
            return replies
        edit = left.pop(0)
        found = [edit(reply) if i == number else [reply] for i, reply in enumerate(replies)]
        return [reply for some in found for reply in some]

    return tamper


def set_array(name: str, values: Any) -> Edit:
    def edit(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = np.broadcast_to(np.float32(values), arrays[name].shape).copy()

    return with_arrays(edit)


def drop_array(name: str) -> Edit:
    return with_arrays(lambda arrays: arrays.pop(name))


def check_faults(events: Events, reasons: Sequence[str]) -> None:
    """One fault in each of the first rounds, of the client that was tampered with, and none later."""
    faults = events.faults
    assert [fault[:2] for fault in faults] == [(i, "client-0") for i in range(1, len(reasons) + 1)]
    for (_, _, told), reason in zip(faults, reasons, strict=True):
        assert re.search(reason, told), (reason, told)


@pytest.mark.parametrize("method", OPTIONS)
def test_every_fault_costs_one_client_one_round(method: str) -> None:
    """The faults of `test_flower`, one in each round; then an honest round."""
    config = train(method, len(FAULTS) + 1)
    server, _, _, events = serve(config, change_in_turn(list(FAULTS.values())))
    check_faults(events, list(FAULTS))
    assert [event["clients"] for event in events.of("round")] == [CLIENTS - 1] * len(FAULTS) + [CLIENTS]
    assert all(np.isfinite(array).all() for array in to_arrays(server.arrays).values())


@pytest.mark.parametrize(
    ("method", "edit", "reason"),
    [
        ("fedproto", set_array("has_class", -1), "sent has_class = -1; it is 1 for a class"),
        ("fedproto", set_array("has_class", [1, 0.5, 0]), "sent has_class = 0.5"),
        ("fedproto", drop_array("has_class"), "left out the array 'has_class'"),
        ("fedpub", drop_array(personal.EMBEDDING), "left out the array 'functional_embedding'"),
        ("fedtad", drop_array(distillation.RELIABILITY), "left out the array 'reliability'"),
        ("fedtad", set_array(distillation.RELIABILITY, 1e5), "reliabilities of sum 3e\\+05 and of up to 1e"),
        ("fedtad", set_array(distillation.RELIABILITY, [9, -9, 1]), "none larger than 2"),
        ("fedsage", drop_array(neighbours.OTHERS), "left out the array 'others'"),
    ],
)
def test_what_a_method_needs_beside_weights_is_checked(method: str, edit: Edit, reason: str) -> None:
    """Nor is it the honest ones that are blamed, because the wrong reply looks like what was sent."""
    options = {"cross_client": True, "generator_rounds": 2} if method == "fedsage" else {}
    config = train(method, 3 if options else 2, **options)
    server, _, _, events = serve(config, change_in_turn([edit]))
    check_faults(events, [reason])
    assert all(np.isfinite(array).all() for array in to_arrays(server.arrays).values())


def test_who_sends_weights_where_nothing_is_asked_for_is_left_out() -> None:
    weights = initial_payload(CONFIG, 6, 3).arrays
    edit = with_arrays(lambda arrays: arrays.update(weights))
    _, _, _, events = serve(train("local"), change_in_turn([edit]))
    check_faults(events, ["that nobody asked for"])


@pytest.mark.parametrize("said", [1.0, 2e9, None])
def test_the_server_of_fedtad_knows_how_many_features_there_are(said: float | None) -> None:
    def edit(reply: Message) -> list[Message]:
        if said is not None:
            reply.content.metric_records[NUMBERS]["num_features"] = said
        return [reply]

    server, _, grid, events = serve(train("fedtad"), change_in_turn([edit] * 2))
    assert not events.faults
    assert grid.replies[0][1].numbers.keys() == {WEIGHT}
    assert server.strategy.memory["last.weight"].shape == (6, 256)


@pytest.mark.parametrize("backbone", ["polynsd", "nsd", "identity", "gcn", "gin", "gatv2", "transformer"])
def test_the_number_of_features_is_read_off_the_weights(backbone: str) -> None:
    method, config = FedTAD(), FederatedConfig(backbone=backbone, method="fedtad", width=2)
    for width in (1, 2, 17):
        weights = {n: p.detach() for n, p in method.shared(method.build(config, width, 3)).items()}
        assert method.count_features(config, weights, 3) == width


def test_an_embedding_of_zeros_gets_the_plain_mean_and_nobody_gets_nan() -> None:
    edit = set_array(personal.EMBEDDING, 0.0)
    server, _, grid, events = serve(train("fedpub", 1), change_in_turn([edit]))
    assert not events.faults
    plain = {
        i: Payload({n: a for n, a in reply.arrays.items() if n != personal.EMBEDDING})
        for i, reply in enumerate(grid.replies[0])
    }
    sent = server.strategy.personal
    assert all(np.isfinite(array).all() for payload in sent.values() for array in payload.arrays.values())
    assert_equal(sent[0].arrays, average(plain, dict.fromkeys(plain, 1.0)), 1e-7)


def test_large_outputs_of_an_honest_client_are_no_fault() -> None:
    """Of fedpub, whose clients send an output: after large weights of one, those of all are large."""

    def enlarge(arrays: dict[str, np.ndarray]) -> None:
        for name in arrays.keys() - {personal.EMBEDDING}:
            arrays[name].fill(1e6)

    edits: list[Edit] = [with_arrays(enlarge)]
    _, _, _, events = serve(train("fedpub", 3), change_in_turn(edits))
    assert not events.faults
    rows = 10 * torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    scaled = torch.stack([personal.scale_down(row) for row in rows])
    assert scaled.abs().max() <= 1
    found, expected = (personal.similarity_weights(e.numpy(), 10.0) for e in (scaled, rows))
    np.testing.assert_array_equal(found, expected)
    assert not personal.scale_down(torch.zeros(3)).any()


def test_a_mean_that_is_not_finite_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model, and what the method keeps and sends; the round after goes on from there."""
    aggregate, states = FedTAD.aggregate, []

    def spoil(self: FedTAD, replies: dict[int, Payload], state: ServerState) -> Payload:
        result = aggregate(self, replies, state)
        states.append({name: array.copy() for name, array in state.memory.items()})
        if state.round != 2:
            return result
        state.memory.update({name: array * np.nan for name, array in state.memory.items()})
        return Payload({name: array * np.nan for name, array in result.arrays.items()})

    monkeypatch.setattr(FedTAD, "aggregate", spoil)
    server, _, _, events = serve(train("fedtad", 2))
    reason = "gives NaN or infinity together; the model stays as it is"
    assert events.faults == [(2, "everybody", reason)]
    kept, model = strategy_state(server.strategy), to_arrays(server.arrays)
    for name, array in states[0].items():
        np.testing.assert_array_equal(kept[f"memory.{name}"], array)
    for name, array in model.items():
        assert np.isfinite(array).all()
        np.testing.assert_array_equal(kept[f"sent.common.array.{name}"], array)


def test_a_mean_beyond_single_precision_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(self: FedProto, replies: dict[int, Payload], state: ServerState) -> Payload:
        return Payload({name: np.full(a.shape, 1e300) for name, a in replies[0].arrays.items()})

    monkeypatch.setattr(FedPUB, "aggregate", overflow)
    server, _, _, events = serve(train("fedpub", 1))
    assert [fault[1] for fault in events.faults] == ["everybody"]
    assert_equal(to_arrays(server.arrays), initial_payload(train("fedpub", 1), 6, 3).arrays)


def add_number(reply: Message) -> list[Message]:
    reply.content.metric_records[NUMBERS]["extra"] = 1.0
    return [reply]


def add_records(reply: Message) -> list[Message]:
    reply.content["more"] = MetricRecord({"num_nodes": 1e30})
    reply.content["arrays2"] = ArrayRecord({"x": Array(np.full(2, np.nan))})
    return [reply]


def weigh_twice(reply: Message) -> list[Message]:
    """The true weight among the scores, another where weights are."""
    weight = reply.content.metric_records[NUMBERS][WEIGHT]
    reply.content[NUMBERS], reply.content[SCORES] = (MetricRecord({WEIGHT: n}) for n in (1e30, weight))
    return [reply]


def misplace_weight(reply: Message) -> list[Message]:
    weight = reply.content.metric_records[NUMBERS][WEIGHT]
    content = RecordDict({ARRAYS: reply.content[ARRAYS], SCORES: MetricRecord({WEIGHT: weight})})
    reply.content = content
    return [reply]


@pytest.mark.parametrize("method", ["fedavg", "fedadam", "moon"])
def test_what_a_client_says_beside_its_weights_neither_stops_nor_weighs_anything(method: str) -> None:
    edits: list[Edit] = [add_number, add_records, weigh_twice, misplace_weight]
    config = train(method, len(edits))
    plain, _, _, _ = serve(config)
    server, _, _, events = serve(config, change_in_turn(edits))
    assert not events.faults
    assert_equal(to_arrays(server.arrays), to_arrays(plain.arrays))
