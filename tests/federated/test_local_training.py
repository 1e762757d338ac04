"""Laws of local training: losses, scores of edges, what travels, clients that train together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from polynsd.data.generators import make_graph
from polynsd.errors import ConfigError, DataError
from polynsd.federated import ClientData, FederatedConfig, LocalClient, Payload, average, initial_payload
from polynsd.federated.backbones import SheafBackbone, build_backbone
from polynsd.federated.batch import ClientGroup, trains_together
from polynsd.federated.branches import cross_entropy, hsic, negative_entropy
from polynsd.federated.config import BACKBONES
from polynsd.federated.data import pool_clients, repeat_partition
from polynsd.federated.partition import partition_graph
from polynsd.nn import hook_layers
from polynsd.topology import as_topology
from polynsd.training.dropout import EndlessDropout

F, C = 6, 3


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def make_client(n: int, seed: int = 0, degree: int = 2) -> ClientData:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(n, (2, degree * n), generator=generator)
    ends = torch.unique(ends[:, ends[0] != ends[1]].sort(0).values, dim=1)
    part = torch.rand(n, generator=generator)
    masks = (part < 0.5, (part >= 0.5) & (part < 0.7), part >= 0.7)
    x, y = torch.randn(n, F, generator=generator), torch.randint(C, (n,), generator=generator)
    return ClientData(x, torch.cat([ends, ends.flip(0)], 1), y, *masks, C)


def small(**options: object) -> FederatedConfig:
    return FederatedConfig(**{"width": 4, "stalk_dim": 2, "degree": 2, "local_epochs": 2, **options})  # type: ignore[arg-type]


def test_dependence_in_the_form_of_classes_is_that_of_nodes() -> None:
    a, b = torch.randn(2, 20, 4, dtype=torch.double)
    nodes = torch.ones(20, dtype=torch.double)
    R = torch.eye(20, dtype=torch.double) - 1 / 20
    full = torch.trace(R @ a @ a.T @ R @ b @ b.T) / 20
    assert torch.isclose(hsic(a, b, nodes), full)
    padded = [torch.cat([z, torch.randn(5, 4, dtype=torch.double)]) for z in (a, b)]
    assert torch.isclose(hsic(*padded, torch.cat([nodes, torch.zeros(5)])), full)  # type: ignore[call-arg]


def test_logits_that_are_orthogonal_around_their_means_are_independent() -> None:
    q = torch.linalg.qr(torch.cat([torch.ones(12, 1), torch.randn(12, 6)], 1).double()).Q
    a, b = q[:, 1:4] + 3.0, q[:, 4:7] - 2.0  # columns orthogonal to each other and to 1, then shifted
    assert hsic(a, b, torch.ones(12).double()) < 1e-24


def test_uniform_predictions_have_the_least_negative_entropy() -> None:
    logits = torch.full((5, C), 7.0, requires_grad=True)
    value = negative_entropy(logits, torch.ones(5), "sum")
    assert torch.isclose(value, torch.tensor(-5 * np.log(C), dtype=torch.float32))
    assert torch.autograd.grad(value, logits)[0].abs().max() < 1e-6


@pytest.mark.parametrize("backbone", BACKBONES)
def test_scores_of_one_change_nothing_and_scores_of_zero_cut_every_edge(backbone: str) -> None:
    data = make_client(30)
    model = build_backbone(small(backbone=backbone), F, C).eval()
    count = data.edge_index.size(1)
    plain, ones = model(data.x, data.edge_index), model(data.x, data.edge_index, torch.ones(count))
    assert torch.equal(plain, ones)
    x = data.x.clone()
    x[0] += 1
    here, there = (model(features, data.edge_index, torch.zeros(count)) for features in (data.x, x))
    assert torch.equal(here[1:], there[1:])
    assert not torch.equal(here[0], there[0])


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_scores_leave_the_laplacian_symmetric_and_its_spectrum_in_bounds(maps: str) -> None:
    data, seen = make_client(12), []
    model = build_backbone(small(maps=maps), F, C).double().eval()
    assert isinstance(model, SheafBackbone)
    topology = as_topology(data.edge_index, 12)

    def look(layer, x, L, trunk):  # type: ignore[no-untyped-def]
        seen.append(L.to_dense())
        return layer.update(x, L, trunk)

    scores = torch.rand(topology.num_half_edges, dtype=torch.double)
    with torch.no_grad(), hook_layers(model, look):
        model.run(data.x.double(), topology, scores)
    for L in seen:
        assert torch.allclose(L, L.mT)
        spectrum = torch.linalg.eigvalsh(L)
        assert spectrum.min() > -1e-12
        assert spectrum.max() < 2


def assert_is_centralised(payload: Payload, client: LocalClient, epochs: int) -> None:
    """What a client has sent is what its causal branch becomes by itself, to the bit."""
    config = client.config
    model, data, graph = build_backbone(config, F, C), client.data, client.graph
    first = initial_payload(config, F, C).arrays
    model.load_state_dict({name: torch.as_tensor(array) for name, array in first.items()}, strict=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.rate, weight_decay=config.decay)
    for epoch in range(epochs):
        optimizer.zero_grad()
        with EndlessDropout(torch.tensor(client.seed), torch.tensor(epoch)):
            logits = model(data.x, data.edge_index)
        cross_entropy(logits, data.y, graph.train).backward()
        optimizer.step()
    for name, p in model.named_parameters():
        assert np.array_equal(payload.arrays[name], p.detach().numpy()), name


def test_one_client_is_centralised_training_to_the_bit() -> None:
    config = small(dropout=0.3)
    client, payload = LocalClient(make_client(30), config), initial_payload(config, F, C)
    for number in (1, 2):
        payload = Payload(average({0: client.fit(payload, number)}))
    assert_is_centralised(payload, client, epochs=4)


@pytest.mark.parametrize(
    ("backbone", "masks", "maps"),
    [
        ("polynsd", "none", "diagonal"),
        ("polynsd", "full", "general"),
        ("nsd", "current", "orthogonal"),
        ("gcn", "fedath", "diagonal"),
        ("gatv2", "fedath", "diagonal"),
        ("transformer", "none", "diagonal"),
    ],
)
def test_clients_that_train_together_get_what_each_gets_alone(backbone: str, masks: str, maps: str) -> None:
    config = small(backbone=backbone, masks=masks, maps=maps, method="fedprox", options={"mu": 0.1})
    check_group(config, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("masks", ["none", "current", "full", "fedath"])
def test_on_a_gpu_they_are_replayed_as_one_cuda_graph(masks: str) -> None:
    group = check_group(small(masks=masks, local_epochs=5), "cuda")
    assert group._all is not None
    assert group._all.step.captured, group._all.step.reason  # type: ignore[attr-defined]


def check_group(config: FederatedConfig, device: str) -> ClientGroup:
    graphs = [make_client(n, seed, degree) for n, seed, degree in ((20, 0, 2), (31, 1, 3), (27, 2, 1))]
    graphs = [replace(graph, x=graph.x.double()) for graph in graphs]
    alone, together = ([LocalClient(g, config, i, device) for i, g in enumerate(graphs)] for _ in range(2))
    group, payload = ClientGroup(together), initial_payload(config, F, C)
    assert trains_together(together)
    received = dict.fromkeys(range(3), payload)
    alone[2].fit(payload, 0), group.fit({2: payload}, 0)  # one is ahead
    for number in (1, 2)[: 1 + (config.masks == "none")]:
        expected = {i: client.fit(received[i], number) for i, client in enumerate(alone)}
        found = group.fit(received, number)
        for i, reply in expected.items():
            for name, array in reply.arrays.items():
                assert np.allclose(array, found[i].arrays[name], atol=1e-9), name
        received = dict.fromkeys(range(3), Payload(average(expected)))
    scores = group.evaluate(received, 2)
    assert {i: client.evaluate(received[i], 2) for i, client in enumerate(alone)} == scores
    assert {"local_val_correct", "global_test_correct", "val_count"} <= scores[0].numbers.keys()
    return group


def test_the_mask_of_fedath_is_the_same_for_every_backbone() -> None:
    masks = []
    for backbone in BACKBONES:
        mask = LocalClient(make_client(25), FederatedConfig(backbone=backbone, masks="fedath")).branches.mask
        assert mask is not None
        masks.append({name: p.shape for name, p in mask.named_parameters()})
    assert all(mask == masks[0] for mask in masks)
    assert masks[0]["encoder.weight"] == (64, F)


@pytest.mark.parametrize("masks", ["fedath", "full"])
def test_only_weights_of_the_causal_branch_travel_and_every_weight_learns(masks: str) -> None:
    config = small(masks=masks)
    client = LocalClient(make_client(25), config)
    before = {name: p.detach().clone() for name, p in client.branches.named_parameters()}
    sent = client.fit(initial_payload(config, F, C), 1)
    assert sent.arrays.keys() == dict(client.causal.named_parameters()).keys()
    assert sent.numbers == {"num_nodes": 25}
    for name, p in client.branches.named_parameters():
        assert not torch.equal(p, before[name]), name


def test_a_client_goes_on_from_its_state_and_evaluates_without_changing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polynsd.federated.client.PRETRAINING_EPOCHS", 5)
    config = small(masks="loaded")
    first, second = (LocalClient(make_client(25), config, number=4) for _ in range(2))
    payload = first.fit(initial_payload(config, F, C), 1)
    first.evaluate(payload, 1)
    second.load_state_dict(first.state_dict())
    here, there = first.fit(payload, 2), second.fit(payload, 2)
    assert all(np.array_equal(here.arrays[name], there.arrays[name]) for name in here.arrays)
    assert torch.equal(first.output().logits, second.output(there.arrays).logits)


def test_wrong_weights_options_and_combinations_are_refused() -> None:
    client = LocalClient(make_client(25), small())
    arrays = dict(initial_payload(small(), F, C).arrays)
    with pytest.raises(DataError, match="not those of this model"):
        client.fit(Payload({**arrays, next(iter(arrays)): np.zeros(3)}), 1)
    with pytest.raises(ConfigError, match="options of fedprox are: mu"):
        LocalClient(make_client(25), small(method="fedprox", options={"nu": 1}))
    with pytest.raises(ConfigError, match="backbone must learn some"):
        small(backbone="gcn", masks="current")
    with pytest.raises(DataError, match="no training node"):
        replace(make_client(9), train=torch.zeros(9, dtype=torch.bool))


@pytest.mark.parametrize("method", ["louvain", "overlapping"])
def test_pooled_clients_have_all_nodes_once_with_their_splits_and_the_edges_asked_for(method: str) -> None:
    graph = make_graph("minesweeper", rows=12, cols=12)
    partition = partition_graph(graph, 5, method, seed=0)
    apart = pool_clients(partition)
    kept = [nodes[client.edge_index] for nodes, client in zip(partition.nodes, partition.graphs, strict=True)]
    (pooled,), (nodes,) = apart.graphs, apart.nodes
    assert np.array_equal(nodes[pooled.edge_index], np.unique(np.concatenate(kept, 1), axis=1))
    for part in ("train", "val", "test"):
        members = [
            own[getattr(client.masks["default"], part)[0]]
            for own, client in zip(partition.nodes, partition.graphs, strict=True)
        ]
        found = nodes[getattr(pooled.masks["default"], part)[0]]
        assert np.array_equal(found, np.unique(np.concatenate(members)))
    assert np.array_equal(pooled.dense_x, graph.dense_x[nodes])
    assert repeat_partition(graph, apart.settings).digest == apart.digest
    if method == "overlapping":
        with pytest.raises(DataError, match="name the graph that was divided"):
            pool_clients(partition, graph)  # some nodes belong to nobody
        return
    whole = pool_clients(partition, graph)
    assert whole.graphs[0].num_edges == graph.num_edges == pooled.num_edges + apart.cut_edges[0]
    assert repeat_partition(graph, whole.settings).cut_edges == (0,)


def test_one_client_pooled_is_itself() -> None:
    graph = make_graph("heterophily", num_nodes=60, num_classes=3, num_features=6)
    partition = partition_graph(graph, 1)
    plain = ClientData.of(partition.graphs[0], 3)
    for divided in (None, graph):
        pooled = ClientData.of(pool_clients(partition, divided).graphs[0], 3)
        for name in ("x", "edge_index", "y", "train", "val", "test"):
            assert torch.equal(getattr(pooled, name), getattr(plain, name)), name
