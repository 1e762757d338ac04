"""The rival methods, each against its formula on a graph of a dozen nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from polynsd.errors import ConfigError
from polynsd.federated import ClientData, FederatedConfig, LocalClient, Payload, ServerState, initial_payload
from polynsd.federated.backbones import run_with
from polynsd.federated.methods import METHODS, build_method
from polynsd.federated.rivals import contrast, distillation, neighbours, personal
from polynsd.topology import Topology, as_topology

N, F, C = 12, 5, 3


def make_data(seed=0, classes=C):
    draws = torch.Generator().manual_seed(seed)
    ring = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
    chords = torch.stack([torch.arange(0, N, 3), (torch.arange(0, N, 3) + 5) % N])
    edges = torch.cat([ring, chords], 1)
    part = torch.arange(N) % 4
    return ClientData(
        torch.randn(N, F, generator=draws),
        torch.cat([edges, edges.flip(0)], 1),
        torch.arange(N) % classes,
        part < 2,
        part == 2,
        part == 3,
        C,
    )


def make_config(method, **options):
    return FederatedConfig(backbone="gcn", method=method, options=options, local_epochs=2, width=8)


def make_clients(config, classes=(C, 2)):
    return [LocalClient(make_data(i, count), config, i) for i, count in enumerate(classes)]


def train_rounds(config, rounds=3):
    """Clients, what they sent last, and what the server answered."""
    clients, method = make_clients(config), build_method(config)
    sent, memory = initial_payload(config, F, C), {}
    for number in range(1, rounds + 1):
        each = sent if isinstance(sent, dict) else dict.fromkeys(range(len(clients)), sent)
        replies = {client.number: client.fit(each[client.number], number) for client in clients}
        for reply in replies.values():
            for array in reply.arrays.values():
                array.setflags(write=False)  # as arrays are that were received
        sent = method.aggregate(replies, ServerState(number, memory, config))
    return clients, replies, sent


@pytest.mark.parametrize("method", ["moon", "fgssl", "fedproto", "fedpub", "fedtad", "fedsage"])
def test_a_method_trains_says_what_leaves_and_goes_on_from_a_state(method):
    config = make_config(method, **({"generator_rounds": 1} if method == "fedsage" else {}))
    clients, replies, sent = train_rounds(config)
    client = clients[0]
    again = LocalClient(make_data(0), config, 0)
    again.load_state_dict(client.state_dict())
    received = sent[0] if isinstance(sent, dict) else sent
    first, second = (each.fit(received, 4) for each in (client, again))
    for name, array in first.arrays.items():
        assert np.isfinite(array).all()
        np.testing.assert_array_equal(array, second.arrays[name])
    assert {"local_test_correct", "test_count"} <= client.evaluate(received, 4).numbers.keys()
    x = client.data.x.numpy()
    for reply in replies.values():  # no array holds the features of a node
        rows = [a.reshape(-1, F) for a in reply.arrays.values() if a.size % F == 0]
        assert not any((row == node).all(1).any() for row in rows for node in x)
    assert METHODS[method].leaves


def test_moon_is_a_cross_entropy_of_two_cosines_and_rests_in_the_first_round():
    z, g, p = torch.randn(3, N, 4, generator=torch.Generator().manual_seed(1))
    logits = torch.stack([torch.cosine_similarity(z, g), torch.cosine_similarity(z, p)], 1) / 0.5
    expected = functional.cross_entropy(logits, torch.zeros(N, dtype=torch.long))
    torch.testing.assert_close(contrast.contrast_models(z, g, p, 0.5), expected)
    client = make_clients(make_config("moon"))[0]
    client.fit(initial_payload(client.config, F, C), 1)
    assert "received" not in client.memory
    before = client.output().embedding
    client.fit(initial_payload(client.config, F, C), 2)
    torch.testing.assert_close(client.memory["previous"], before)


def test_fgssl_compares_distributions_as_coded_and_as_published():
    draws = torch.Generator().manual_seed(2)
    z, g = torch.randn(2, N, 4, generator=draws)
    edges, y = make_data().edge_index, make_data().y
    topology = as_topology(edges, N)
    u, v = edges
    kl = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
    logs = [((h[u] - h[v]).abs() / 0.1).log_softmax(-1) for h in (z, g)]
    torch.testing.assert_close(contrast.compare_differences(z, g, topology, 0.1), kl(*logs))
    total = 0.0
    for node in range(N):
        near = v[u == node]
        ours, theirs = (
            (torch.cosine_similarity(h[node][None], h[near]) / 0.1).log_softmax(0) for h in (z, g)
        )
        total += (theirs.exp() * (theirs - ours)).sum()
    torch.testing.assert_close(contrast.compare_neighbourhoods(z, g, topology, 0.1), total / N)
    logs = (torch.cosine_similarity(z[:, None], g[None], -1) / 0.1).log_softmax(1)
    expected = -torch.stack([logs[i, y == y[i]].mean() for i in range(N)]).mean()
    torch.testing.assert_close(contrast.contrast_classes(z, g, y, 0.1), expected)
    x, scores = contrast.augment(make_data().x, topology, 0.5, 0.5, draws)
    assert torch.equal(scores, scores[topology.twin])  # both directions of an edge go
    assert ((x == 0).all(0) | (x == make_data().x).all(0)).all()


def test_prototypes_are_means_over_the_clients_that_have_the_class():
    z, y = torch.randn(6, 2, generator=torch.Generator().manual_seed(3)), torch.tensor([0, 0, 0, 2, 2, 2])
    means, has = contrast.mean_by_class(z, y, 3)
    torch.testing.assert_close(means[2], z[3:].mean(0))
    assert has.tolist() == [1, 0, 1]
    replies = {
        0: Payload({"prototypes": np.ones((3, 2)), "has_class": np.array([1.0, 0, 0])}, {"num_nodes": 10}),
        1: Payload(
            {"prototypes": 4 * np.ones((3, 2)), "has_class": np.array([1.0, 1, 0])}, {"num_nodes": 20}
        ),
    }
    found = contrast.average_prototypes(replies)
    assert found["prototypes"].tolist() == [[3, 3], [4, 4], [0, 0]]
    assert found["has_class"].tolist() == [1, 1, 0]
    known = torch.tensor([1.0, 1.0, 0.0])
    expected = functional.mse_loss(z[:3], means[0].expand(3, 2))
    torch.testing.assert_close(contrast.distance_from_prototypes(z, y, means, known), expected)


def test_fedpub_masks_weights_mixes_by_similarity_and_its_penalty_has_a_gradient():
    clients, replies, sent = train_rounds(make_config("fedpub"))
    client, name = clients[0], personal.EMBEDDING
    ones = personal.Masked(client.causal.model).eval()
    unmasked = run_with(client.causal.model, {}, client.graph.x, client.graph.topology).logits
    torch.testing.assert_close(ones.run(client.graph.x, client.graph.topology).logits, unmasked)
    with torch.no_grad():
        client.causal.masks[0].fill_(5e-4)  # below the threshold: nothing of the features is left
    client.causal.eval()
    flat = client.causal.run(client.graph.x, client.graph.topology).logits
    assert torch.equal(flat, client.causal.run(0 * client.graph.x, client.graph.topology).logits)
    e = np.stack([replies[i].arrays[name] for i in range(2)])
    cos = e @ e.T / np.linalg.norm(e, axis=1) / np.linalg.norm(e, axis=1)[:, None]
    alpha = np.exp(10 * cos) / np.exp(10 * cos).sum(1, keepdims=True)
    weight = next(iter(sent[0].arrays))
    expected = sum(alpha[1, j] * replies[j].arrays[weight] for j in range(2))
    np.testing.assert_allclose(sent[1].arrays[weight], expected, rtol=1e-5)
    p = torch.tensor([3.0, 4.0], requires_grad=True)
    penalty = personal.FedPUB(l2=0.1).proximal({"p": p}, {"p": torch.zeros(2)})
    penalty.backward()
    torch.testing.assert_close(p.grad, 0.1 * torch.tensor([0.6, 0.8]))
    still = torch.zeros(2, requires_grad=True)
    personal.FedPUB().proximal({"p": still}, {"p": torch.zeros(2)}).backward()
    assert still.grad.tolist() == [0, 0]


def test_fedtad_weighs_by_reliability_and_brings_the_mean_model_to_the_clients():
    client = make_clients(make_config("fedtad"))[0]
    reliability = client.memory["reliability"]
    torch.testing.assert_close(reliability.sum(), torch.tensor(1.0))
    A = torch.zeros(N, N, dtype=torch.float64)
    A[tuple(client.data.edge_index)] = 1
    T = A + torch.eye(N)
    T = T / T.sum(1, keepdim=True)
    returns = torch.stack([torch.linalg.matrix_power(T, k).diagonal() for k in range(1, 6)], 1)
    torch.testing.assert_close(distillation.return_probabilities(client.graph.topology), returns)
    h = torch.cat([client.data.x, returns.float()], 1)
    total = torch.zeros(C)
    for v in client.data.train.nonzero().squeeze(1).tolist():
        near = torch.cat([A[v].nonzero().squeeze(1), torch.tensor([v])])
        total[client.data.y[v]] += torch.cosine_similarity(h[v][None], h[near]).mean()
    torch.testing.assert_close(reliability, total / total.sum())
    noise, x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(9))
    far = (noise[:, None] - noise).square().mean(-1) * (x[:, None] - x).abs().mean(-1)
    torch.testing.assert_close(distillation.sameness(noise, x), (-far.mean()).exp())
    y, r = torch.tensor([0, 0, 1]), torch.tensor([[0.25, 0.75]])
    ours, theirs = torch.zeros(3, 2), [torch.tensor([[1.0, 1.0], [3.0, 3.0], [4.0, 0.0]])]
    assert float(distillation.class_distance(ours, theirs, y, r)) == 0.25 * 2 + 0.75 * 2
    topology = distillation.link_similar(torch.randn(20, 3, generator=torch.Generator().manual_seed(4)))
    assert torch.bincount(topology.row).min() >= distillation.NEIGHBOURS
    with pytest.raises(ConfigError, match="trains on the server"):
        build_method(client.config).aggregate({}, ServerState(1))


def test_leaves_of_fedsage_are_nodes_with_one_edge():
    """The layers beside the graph are those of the graph with the generated nodes in it."""
    draws = torch.Generator().manual_seed(5)
    data, numbers = make_data(), torch.randint(0, 4, (N,), generator=draws).float() + 0.5
    model = neighbours.Sage(F, 8, C, 0.5).eval()
    topology = as_topology(data.edge_index, N)
    leaves = neighbours.attach(numbers, torch.randn(N, neighbours.MOST, F, generator=draws))
    found, _ = model(data.x, leaves, topology, None)
    owner, place = leaves.present.squeeze(-1).nonzero().T
    extra = torch.stack([owner, N + torch.arange(len(owner))])
    whole = Topology.from_edge_index(torch.cat([data.edge_index, extra], 1), N + len(owner))
    expected, _ = model(torch.cat([data.x, leaves.x[owner, place]]), None, whole, None)
    torch.testing.assert_close(found, expected[:N])


def test_fedsage_hides_nodes_and_fits_the_nearest_hidden_neighbour():
    client = make_clients(make_config("fedsage"))[0]
    hidden, missing = client.memory["hidden"], client.memory["missing"]
    assert int(hidden.sum()) == 1  # half of three
    assert not (hidden & ~client.data.val).any()
    u, v = client.data.edge_index
    for node in range(N):
        assert sorted(missing[node][missing[node] >= 0].tolist()) == sorted(
            v[(u == node) & hidden[v]].tolist()
        )
    features, truth = torch.randn(2, 2, neighbours.MOST, F, generator=torch.Generator().manual_seed(6))
    numbers, lacking = torch.tensor([2.7, 3.0]), torch.tensor([2, 0])
    expected = sum(min(functional.mse_loss(features[0, j], truth[0, k]) for k in range(2)) for j in range(2))
    found = neighbours.greedy_distance(features, truth, numbers, lacking)
    torch.testing.assert_close(found, expected / (2 * neighbours.MOST))
    clients, replies, sent = train_rounds(make_config("fedsage", generator_rounds=2, cross_client=True), 1)
    assert replies[0].arrays[neighbours.OTHERS].shape == (
        neighbours.ROWS,
        F,
    )  # the hole, where it is asked for
    assert sent[0].arrays[neighbours.OTHERS].shape == (1, neighbours.ROWS, F)
    clients[0].fit(sent[0], 2)


def test_the_loss_of_fedsage_is_divided_by_the_number_of_clients_and_its_classifiers_must_meet():
    client, other = (make_clients(make_config("fedsage"))[0] for _ in range(2))
    arrays = initial_payload(client.config, F, C).arrays
    client.method.receive(client, Payload(arrays), 1)
    other.method.receive(other, Payload(arrays, {"num_clients": 4.0}), 1)
    for each in (client, other):
        each.causal.eval()
    losses = [each.method.generator_loss(each) for each in (client, other)]
    torch.testing.assert_close(losses[0] / 4, losses[1])
    with pytest.raises(ConfigError, match="after 10 rounds"):
        initial_payload(replace(client.config, rounds=10), F, C)


def test_methods_refuse_what_they_cannot_be_combined_with():
    for method in ("fedpub", "fedsage"):
        config = FederatedConfig(backbone="gcn", masks="fedath", method=method)
        with pytest.raises(ConfigError, match=method):
            LocalClient(make_data(), config)
    with pytest.raises(ConfigError, match="Did you mean 'published'"):
        build_method(make_config("fgssl", variant="publishd"))
