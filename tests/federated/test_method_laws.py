"""Laws of methods: what is averaged, against formulas, and what does not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from federation import CONFIG, PARTITION, assert_equal, make_sites, serve
from flwr.app import Message
from test_flower import serialise
from test_local_training import C, F, assert_is_centralised, check_group, make_client, small
from torch import Tensor

from polynsd.federated import FederatedConfig, LocalClient, Payload, ServerState, average, initial_payload
from polynsd.federated.batch import ClientGroup
from polynsd.federated.branches import Branches, LocalGraph
from polynsd.federated.methods import build_method, describe_leaving
from polynsd.federated.records import ARRAYS, to_array_record, to_arrays
from polynsd.federated.rivals.personal import similarity_weights
from polynsd.training.dropout import EndlessDropout


def test_fedadam_is_its_formula() -> None:
    rates = {"beta1": 0.8, "beta2": 0.95, "tau": 1e-2, "server_rate": 0.05}
    config = replace(CONFIG, method="fedadam", rounds=3, options=rates)
    server, _, grid, _ = serve(config)
    theta = {n: a.astype(np.float64) for n, a in initial_payload(config, 6, 3).arrays.items()}
    m, v = ({name: np.zeros_like(a) for name, a in theta.items()} for _ in range(2))
    for t, replies in enumerate(grid.replies, 1):
        mean = average(dict(enumerate(replies)))
        rate = 0.05 * np.sqrt(1 - 0.95 ** (t + 1)) / (1 - 0.8 ** (t + 1))
        for name, old in theta.items():
            delta = mean[name] - old
            m[name] = 0.8 * m[name] + 0.2 * delta
            v[name] = 0.95 * v[name] + 0.05 * delta**2
            theta[name] = old + rate * m[name] / (np.sqrt(v[name]) + 1e-2)
    assert_equal(to_arrays(server.arrays), theta, 1e-6)


def test_fedprox_adds_mu_times_the_way_from_what_was_received_to_the_gradient() -> None:
    config = small(method="fedprox", options={"mu": 0.3}, dropout=0.2)
    plain, proximal = (LocalClient(make_client(20), c) for c in (small(dropout=0.2), config))
    payload, way = initial_payload(config, F, C), {}
    for client in (plain, proximal):
        client.method.receive(client, payload, 1)
        torch.manual_seed(1)
        with torch.no_grad():
            for name, p in client.causal.named_parameters():
                way[name] = 0.1 * torch.randn(p.shape)
                p.add_(way[name])
        client.train_epoch(1)
    for name, p in proximal.causal.named_parameters():
        without = plain.causal.get_parameter(name).grad
        assert p.grad is not None
        assert without is not None
        torch.testing.assert_close(p.grad, without + 0.3 * way[name], rtol=1e-4, atol=1e-6)


def test_the_weights_of_a_mean_sum_to_one() -> None:
    draws = np.random.default_rng(0)
    sizes = draws.integers(1, 10_000, 9)
    replies = {i: Payload({"a": np.ones(4)}, {"num_nodes": float(n)}) for i, n in enumerate(sizes)}
    np.testing.assert_allclose(average(replies)["a"], 1, rtol=1e-15)
    shares = [average({**replies, i: Payload({"a": np.zeros(4)}, r.numbers)}) for i, r in replies.items()]
    np.testing.assert_allclose([1 - share["a"][0] for share in shares], sizes / sizes.sum(), atol=1e-15)
    embeddings = draws.normal(size=(6, 3))
    embeddings[2] = 0
    for tau in (0.0, 10.0, 1e4):
        weights = similarity_weights(embeddings, tau)
        np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-14)
        assert (weights >= 0).all()
    np.testing.assert_allclose(similarity_weights(embeddings, 10.0)[2], 1 / 6)


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "moon", "fgssl", "fedpub", "fedproto", "fedsage"])
def test_equal_replies_come_back_as_they_are(method: str) -> None:
    """Of fedpub without the embeddings, which stay on the server."""
    options = {"generator_rounds": 1} if method == "fedsage" else {}
    config = replace(CONFIG, method=method, options=options)
    client = LocalClient(make_client(25), config)
    sent = client.fit(initial_payload(config, F, C), 1)
    replies = {i: Payload(sent.arrays, {"num_nodes": float(n)}) for i, n in enumerate((7, 300, 21))}
    found = build_method(config).aggregate(replies, ServerState(1, config=config))
    for answer in [found] if isinstance(found, Payload) else list(found.values()):
        expected = {name: a for name, a in sent.arrays.items() if name != "functional_embedding"}
        assert_equal(answer.arrays, expected, 1e-6)


def test_fedadam_rests_where_clients_send_back_what_they_received() -> None:
    config = replace(CONFIG, method="fedadam")
    first = initial_payload(config, 6, 3).arrays

    def send_back(replies: list[Message]) -> list[Message]:
        for reply in replies:
            reply.content[ARRAYS] = to_array_record(first)
        return replies

    server, _, _, events = serve(config, send_back)
    assert not events.faults
    assert_equal(to_arrays(server.arrays), first, 1e-6)


@pytest.mark.parametrize("masks", ["fedath", "full"])
@pytest.mark.parametrize("backbone", ["polynsd", "gcn"])
def test_one_client_with_scores_of_one_is_centralised_training_to_the_bit(
    backbone: str, masks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All branches are there and train; with s = 1 and λ = 0 the causal one does not notice."""
    score = Branches.score

    def score_one(self: Branches, graph: LocalGraph) -> tuple[Tensor | None, Tensor | None]:
        with EndlessDropout(torch.tensor(0), torch.tensor(0)):  # draws of its own
            scores, sheaf = score(self, graph)
        assert scores is not None
        return torch.ones_like(scores), sheaf

    monkeypatch.setattr(Branches, "score", score_one)
    config = small(backbone=backbone, masks=masks, penalty=0.0, dropout=0.3)
    client, payload = LocalClient(make_client(30), config), initial_payload(config, F, C)
    biased = [p.detach().clone() for p in client.branches.biased.parameters()]  # type: ignore[union-attr]
    for number in (1, 2):
        payload = Payload(average({0: client.fit(payload, number)}))
    assert_is_centralised(payload, client, epochs=4)
    after = client.branches.biased.parameters()  # type: ignore[union-attr]
    assert not any(torch.equal(p, old) for p, old in zip(after, biased, strict=True))


@pytest.mark.parametrize(
    ("backbone", "masks"),
    [("gin", "fedath"), ("identity", "full"), ("gcn", "full"), ("polynsd", "loaded"), ("gcn", "loaded")],
)
def test_clients_of_more_masks_that_train_together_get_what_each_gets_alone(
    backbone: str, masks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polynsd.federated.client.PRETRAINING_EPOCHS", 5)
    check_group(small(backbone=backbone, masks=masks), "cpu")


def test_loaded_maps_stay_as_they_were_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask that reads them and the causal branch train meanwhile."""
    monkeypatch.setattr("polynsd.federated.client.PRETRAINING_EPOCHS", 5)
    config = small(masks="loaded")
    clients = [LocalClient(make_client(n, n), config, i) for i, n in enumerate((20, 26))]
    group, received = ClientGroup(clients), dict.fromkeys(range(2), initial_payload(config, F, C))
    for client in clients:
        client.prepare()
    maps = [client.graph.transports.clone() for client in clients]
    weights = [{n: p.detach().clone() for n, p in c.branches.named_parameters()} for c in clients]
    scores = [client.output().scores for client in clients]
    for number in (1, 2, 3):
        replies = group.fit(received, number)
        received = dict.fromkeys(range(2), Payload(average(replies)))
    clients[0].fit(received[0], 4)
    for client, before, old, first in zip(clients, maps, scores, weights, strict=True):
        assert before.abs().sum() > 0
        assert torch.equal(client.graph.transports, before)
        assert old is not None
        assert not torch.equal(client.output().scores, old)  # type: ignore[arg-type]
        assert not any(torch.equal(p, first[n]) for n, p in client.branches.named_parameters())
        assert client.branches.sheaf is None


@pytest.mark.parametrize(
    ("method", "backbone", "masks"),
    [("fedavg", "polynsd", "full"), ("fedproto", "gcn", "none"), ("fedpub", "gcn", "none")],
)
def test_nothing_of_the_graph_is_in_the_bytes_where_weights_are(
    method: str, backbone: str, masks: str
) -> None:
    """As `test_flower` has it for one method, with what is sent as the control: that is found."""
    sent: list[bytes] = []

    def record(replies: list[Message]) -> list[Message]:
        sent.extend(map(serialise, replies))
        return replies

    named = [
        replace(graph, node_ids=np.array([f"person-{node}" for node in graph.ids]))
        for graph in PARTITION.graphs
    ]
    sites = make_sites(named)
    config = replace(CONFIG, method=method, backbone=backbone, masks=masks, stalk_dim=2, degree=2)
    _, _, grid, _ = serve(config, record, sites)
    replies = [payload for round_ in grid.replies for payload in round_]
    assert len(sent) == len(replies) == len(sites) * config.rounds
    for i, (content, payload) in enumerate(zip(sent, replies, strict=True)):
        site, ids = sites[i % len(sites)], named[i % len(sites)].ids
        assert all(array.tobytes() in content for array in payload.arrays.values())
        if i >= len(sent) - len(sites) and method != "fedproto":  # the very weights of the client
            trained = site.client.method.shared(site.client.causal).values()
            assert all(p.detach().numpy().tobytes() in content for p in trained)
        secrets = [row.tobytes() for row in site.data.x.numpy()]
        secrets += [site.data.x[:, 0].numpy().copy().tobytes()[:32]]
        for t in (site.data.y, site.data.edge_index, site.data.train, site.data.val, site.data.test):
            for dtype in (np.int8, np.int32, np.int64, np.float32):
                secrets.append(t.numpy().astype(dtype).tobytes()[: 16 * np.dtype(dtype).itemsize])
        secrets += [str(name).encode() for name in ids]
        assert not any(secret in content for secret in secrets)
        assert not any(branch in content for branch in (b"causal", b"biased", b"mask", b"sheaf"))


def test_what_leaves_a_client_is_said_with_its_options():
    fedsage = FederatedConfig("gcn", method="fedsage", rounds=20)
    assert "features" not in describe_leaving(fedsage)
    assert "features of nodes" in describe_leaving(replace(fedsage, options={"cross_client": 1}))
    assert "masked weights (the server learns their sum alone)" in describe_leaving(
        FederatedConfig("gcn"), True
    )
