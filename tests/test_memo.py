"""Values are looked at once: the second call of a model reads nothing back from the device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from polynsd import GraphError, PolyNSD, SheafLaplacian, Topology, as_topology
from polynsd.data import Split
from polynsd.memo import TensorMemo, can_read_values, skip_value_checks
from polynsd.testing import random_edges, random_maps, random_tensor
from polynsd.training import Replica, get_task, replicas

EDGE_INDEX = random_edges(12, 30)
TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, 12)
X = random_tensor(12, 5)
BATCH = torch.zeros(12, dtype=torch.long)
READS = {"_local_scalar_dense", "is_nonzero", "item", "equal", "nonzero", "masked_select", "_unique2"}


class Reads(TorchDispatchMode):
    """Collects the operations for which a host would wait for its device."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masked = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if name in READS or masked:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def reads(function):
    with Reads() as mode:
        function()
    return mode.found


def make_model(**options):
    torch.manual_seed(0)
    return PolyNSD(5, 4, 3, 2, stalk_dim=2, dropout=0.0, **options).double()


def weights():
    """One weight per column of EDGE_INDEX, equal in both directions."""
    return torch.where(EDGE_INDEX[0] == EDGE_INDEX[1], 1.0, EDGE_INDEX.sum(0).double() / 9)


@pytest.mark.parametrize("normalization", ["none", "degree", "sheaf", "sheaf-augmented"])
@pytest.mark.parametrize("maps", ["identity", "diagonal", "orthogonal", "general"])
def test_the_second_call_reads_nothing_back(maps, normalization):
    model, weight = make_model(maps=maps, normalization=normalization), weights()

    def step():
        model(X, EDGE_INDEX, edge_weight=weight, batch=BATCH).sum().backward()

    assert reads(step)
    with skip_value_checks():  # singular degree blocks are looked for in every call
        assert reads(step) == []
    if normalization != "sheaf" or maps != "general":
        assert reads(step) == []


@pytest.mark.parametrize("metric", ["accuracy", "r2"])
def test_an_epoch_reads_nothing_back(metric):
    y = torch.arange(12) % 2 if metric == "accuracy" else X[:, :2]
    data = Data(x=X, edge_index=EDGE_INDEX, edge_weight=weights(), y=y)
    split = Split(torch.arange(12) < 6, (torch.arange(12) // 3) == 2, torch.arange(12) > 8)
    training = replicas._Training([Replica(make_model, split)] * 2, data, get_task(metric), None)
    population = training._population(training.all_rows)
    population.run_epoch()
    assert reads(population.run_epoch) == []


def test_differentiable_edge_features_and_weights_need_no_look_but_the_check():
    model, weight = make_model(edge_dim=1, maps_on="edges"), weights().requires_grad_()
    with skip_value_checks():
        assert reads(lambda: model(X, TOPOLOGY, weight, weights()).sum().backward()) == []
    assert weight.grad.abs().max() > 0


def counting(monkeypatch):
    looks, check = [], Topology._check_values
    monkeypatch.setattr(Topology, "_check_values", lambda *args: looks.append(args) or check(*args))
    return looks


def test_weights_are_checked_once_until_they_are_written_to(monkeypatch):
    looks, model, weight = counting(monkeypatch), make_model(), weights()
    for _ in range(3):
        model(X, TOPOLOGY, weight)
    assert len(looks) == 1  # by the first of three layers in the first of three calls
    model(X, Topology.from_edge_index(EDGE_INDEX, 12), weight)
    assert len(looks) == 2
    weight[0] = -1.0
    with pytest.raises(GraphError):
        model(X, TOPOLOGY, weight)


def test_a_weight_that_overflows_in_another_precision_is_found():
    with pytest.raises(GraphError, match="finite"):
        make_model().float()(X.float(), TOPOLOGY, 1e300 * weights())


def test_large_weights_are_symmetrised_without_overflow():
    edge = Topology.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
    assert edge.symmetric_weight(torch.full((2,), 3e38)).isfinite().all()


def test_laplacians_built_by_hand_check_their_weights(monkeypatch):
    looks, maps = counting(monkeypatch), random_maps("diagonal", TOPOLOGY, 2)
    weight = torch.ones(TOPOLOGY.num_half_edges).double()
    for _ in range(2):
        SheafLaplacian(TOPOLOGY, maps, edge_weight=weight)
    assert len(looks) == 1
    weight[0] = 2.0
    with pytest.raises(GraphError, match="equal in both directions"):
        SheafLaplacian(TOPOLOGY, maps, edge_weight=weight)


@pytest.mark.parametrize("graph", ["edge_index", "Topology"])
def test_what_inference_found_out_serves_training(graph):
    edge_index, weight = EDGE_INDEX.clone(), weights()
    graph = edge_index if graph == "edge_index" else Topology.from_edge_index(edge_index, 12)
    model = make_model(maps="general")
    with torch.inference_mode():
        y = model(X, graph, weight)
    model(X, graph, weight).sum().backward()
    assert torch.equal(model(X, graph, weight), y)


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented", "random-walk"])
def test_what_replicas_found_out_serves_one_model_and_other_replicas(normalization):
    topology = Topology.from_edge_index(EDGE_INDEX, 12)
    options = {"maps": "orthogonal", "maps_on": "nodes", "learner": "gnn", "fixed_channels": ("signless",)}
    model = make_model(**options, normalization=normalization)
    parameters = dict(model.named_parameters())

    def run(scales, graph=topology):
        def one(scale):
            return torch.func.functional_call(
                model, {n: scale * p for n, p in parameters.items()}, (X, graph)
            )

        return torch.vmap(one)(scales)

    scales = torch.tensor([1.0, 0.5, 2.0]).double()
    results = run(scales)
    assert torch.allclose(run(scales[:2]), results[:2])
    assert torch.allclose(model(X, topology), results[0])
    assert torch.allclose(run(scales, Topology.from_edge_index(EDGE_INDEX, 12)), results)


def test_blocks_of_constant_maps_are_found_once_for_every_normalization():
    topology = Topology.from_edge_index(EDGE_INDEX, 12)
    ones = torch.ones(topology.num_half_edges, 1, 1, dtype=torch.float64)

    def blocks(normalization, weight=None):
        return SheafLaplacian(topology, ones, normalization, edge_weight=weight, constant="ones").blocks

    first = {name: blocks(name) for name in ("none", "degree", "sheaf")}
    for name, found in first.items():
        assert blocks(name).off is found.off
        assert torch.equal(found.off, SheafLaplacian(topology, ones, name).blocks.off)
    assert not torch.equal(blocks("none", 2 * ones[:, 0, 0]).off, first["none"].off)


def test_a_memo_forgets_what_is_no_longer_true():
    memo, calls = TensorMemo(), []

    def size(tensor, *context):
        return memo(tensor, lambda: calls.append(context) or tensor.numel(), *context)

    t = torch.zeros(3)
    assert (size(t), size(t), len(calls)) == (3, 3, 1)
    t.add_(1)
    size(t)
    size(t, "another context")
    size(t.clone(), "another context")
    assert len(calls) == 4


def test_what_is_recorded_is_not_remembered_but_what_was_remembered_is_used():
    memo, t = TensorMemo(), torch.zeros(1)
    with skip_value_checks():
        assert [memo(t, lambda: 1), memo(t, lambda: 2)] == [1, 2]
    memo(t, lambda: 3)
    with skip_value_checks():
        assert memo(t, lambda: 4) == 3


def test_a_memo_does_not_keep_tensors_alive():
    edge_index = EDGE_INDEX.clone()
    as_topology(edge_index)
    from polynsd.topology import _topologies

    known = len(_topologies._results)
    del edge_index
    assert len(_topologies._results) == known - 1


def test_errors_are_not_remembered():
    memo, t = TensorMemo(), torch.zeros(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            memo(t, lambda: 1 / 0)


def test_nobody_looks_while_work_is_recorded(monkeypatch):
    assert can_read_values()
    with skip_value_checks():
        assert not can_read_values()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not can_read_values()
