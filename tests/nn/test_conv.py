"""`PolySheafConv` behaves as PyTorch Geometric expects of a convolution."""

import copy

import networkx as nx
import pytest
import torch
from scipy import sparse
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, close, features, shaken
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

from polynsd import GraphError, PolySheafConv, Topology
from polynsd.published import PUBLISHED_LAYER

FAMILIES = ["identity", "diagonal", "orthogonal", "general"]
NORMALIZATIONS = ["none", "sheaf", "sheaf-augmented", "degree"]
EDGE_DATA = torch.arange(7.0).double().sin().repeat(2)  # the same in both directions


def bare_conv(in_channels=NUM_FEATURES, **options):
    return PolySheafConv(in_channels, 3, **PUBLISHED_LAYER | {"stalk_dim": 2} | options)


def make_conv(in_channels=NUM_FEATURES, **options):
    torch.manual_seed(0)
    return shaken(bare_conv(in_channels, **options))


def adjacency():
    values = torch.ones(EDGE_INDEX.size(1)).double()
    return torch.sparse_coo_tensor(EDGE_INDEX, values, (NUM_NODES, NUM_NODES), check_invariants=True)


def test_it_prints_its_arguments():
    general = PolySheafConv(-1, 3, stalk_dim=2, degree=6, maps="general")
    assert str(general) == "PolySheafConv(-1, 3, stalk_dim=2, degree=6, maps=general)"


@pytest.mark.parametrize("maps", ["diagonal", "general"])
@pytest.mark.parametrize("fixed_channels", [(), ("laplacian",), ("laplacian", "signless")])
def test_out_features_is_the_width_of_the_output(maps, fixed_channels):
    conv = make_conv(maps=maps, fixed_channels=fixed_channels)
    assert conv.out_features == (2 + len(fixed_channels)) * conv.out_channels
    assert conv(features(), EDGE_INDEX).shape == (NUM_NODES, conv.out_features)


@pytest.mark.parametrize(
    "graph",
    [
        EDGE_INDEX.flip(1),
        EDGE_INDEX[:, :7],  # every edge once
        torch.cat([EDGE_INDEX, EDGE_INDEX, torch.tensor([[0, 6], [0, 6]])], 1),  # parallel, self-loops
        EdgeIndex(EDGE_INDEX, sparse_size=(NUM_NODES, NUM_NODES)),
        adjacency(),
        Topology.from_edge_index(EDGE_INDEX, NUM_NODES),
        Data(edge_index=EDGE_INDEX, num_nodes=NUM_NODES),
    ],
    ids=["shuffled", "one way", "multigraph", "EdgeIndex", "sparse", "Topology", "Data"],
)
def test_every_form_of_the_graph_gives_the_same(graph):
    conv = make_conv(maps="general")
    assert close(conv(features(), graph), conv(features(), EDGE_INDEX))


def test_nodes_may_be_renumbered():
    conv, order = (
        make_conv(maps="orthogonal"),
        torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(0)),
    )
    place = torch.argsort(order)
    assert close(conv(features()[order], place[EDGE_INDEX]), conv(features(), EDGE_INDEX)[order])


def graphs():
    """Three graphs with very different spectra, one of them a single node."""
    star = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]])
    return [
        Data(x=features(), edge_index=EDGE_INDEX),
        Data(x=features(1, seed=1), edge_index=torch.empty(2, 0, dtype=torch.long)),
        Data(x=3 * features(5, seed=2), edge_index=torch.cat([star, star.flip(0)], 1)),
    ]


@pytest.mark.parametrize("maps", FAMILIES)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("lambda_max", ["analytic", "lanczos"])
def test_a_batch_gives_what_its_graphs_give_alone(maps, normalization, lambda_max):
    conv = make_conv(maps=maps, normalization=normalization, lambda_max=lambda_max)
    batch = Batch.from_data_list(graphs())
    together = conv(batch.x, batch.edge_index, batch=batch.batch)
    alone = torch.cat([conv(graph.x, graph.edge_index) for graph in graphs()])
    assert close(together, alone, atol=1e-8)


def test_the_batch_vector_matters_where_the_bound_depends_on_the_graph():
    batch, conv = Batch.from_data_list(graphs()), make_conv(normalization="none")
    given = conv(batch.x, batch.edge_index, batch=batch.batch)
    assert not close(conv(batch.x, batch.edge_index), given, atol=1e-3)


def test_the_module_knows_no_graph():
    conv = make_conv(maps="general")
    before = conv(features(), EDGE_INDEX)
    other = conv(features(3, seed=1), torch.tensor([[0, 1], [1, 2]]))
    assert other.shape == (3, 6)
    assert close(conv(features(), EDGE_INDEX), before)


def test_reset_parameters_draws_anew():
    conv = make_conv(maps="general", edge_weights=True)

    def drawn(seed):
        torch.manual_seed(seed)
        conv.reset_parameters()
        return torch.cat([parameter.detach().flatten() for parameter in conv.parameters()])

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_the_number_of_features_can_be_inferred():
    torch.manual_seed(0)
    lazy = bare_conv(-1)
    lazy(features(dtype=torch.float32), EDGE_INDEX)
    known = bare_conv()
    known.load_state_dict(lazy.state_dict())
    x = features(dtype=torch.float32)
    assert torch.equal(known(x, EDGE_INDEX), lazy(x, EDGE_INDEX))


def test_state_dicts_and_copies_carry_everything():
    conv = make_conv(maps="general", basis="jacobi(0.5, 0)")
    other = bare_conv(maps="general", basis="jacobi(0.5, 0)").double()
    other.load_state_dict(conv.state_dict())
    for twin in (other, copy.deepcopy(conv)):
        assert torch.equal(twin(features(), EDGE_INDEX), conv(features(), EDGE_INDEX))


def test_a_copy_has_its_own_parameters():
    conv = make_conv()
    before, twin = conv(features(), EDGE_INDEX), copy.deepcopy(conv)
    shaken(twin, seed=5)
    assert torch.equal(conv(features(), EDGE_INDEX), before)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("maps", FAMILIES)
@pytest.mark.parametrize("removed", [4, 6], ids=["chord", "pendant"])  # 0 – 2, and 4 – 5 which isolates 5
def test_weight_zero_removes_an_edge_and_weight_one_changes_nothing(maps, normalization, removed):
    conv = make_conv(maps=maps, normalization=normalization)
    weight = torch.ones(EDGE_INDEX.size(1)).double()
    assert close(conv(features(), EDGE_INDEX, weight), conv(features(), EDGE_INDEX))
    weight[[removed, removed + 7]] = 0
    without = conv(features(), EDGE_INDEX[:, weight > 0])
    assert close(conv(features(), EDGE_INDEX, weight), without)
    assert not close(conv(features(), EDGE_INDEX), without, atol=1e-3)


def test_weights_must_be_symmetric_and_not_negative():
    conv = make_conv()
    with pytest.raises(GraphError, match="both directions"):
        conv(features(), EDGE_INDEX, torch.arange(14.0))
    with pytest.raises(GraphError, match="must not be negative"):
        conv(features(), EDGE_INDEX, -torch.ones(14))


@pytest.mark.parametrize("edge_weights", [False, True])
def test_edge_features_reach_the_maps(edge_weights):
    conv = make_conv(edge_dim=1, edge_weights=edge_weights)
    out = conv(features(), EDGE_INDEX, edge_attr=EDGE_DATA)
    assert close(conv(features(), EDGE_INDEX, edge_attr=EDGE_DATA[:, None]), out)
    assert not close(conv(features(), EDGE_INDEX, edge_attr=0 * EDGE_DATA), out, atol=1e-3)


def test_edge_features_follow_their_edge():
    conv, order = make_conv(edge_dim=1), torch.randperm(14, generator=torch.Generator().manual_seed(0))
    shuffled = conv(features(), EDGE_INDEX[:, order], edge_attr=EDGE_DATA[order])
    assert close(shuffled, conv(features(), EDGE_INDEX, edge_attr=EDGE_DATA))


def test_values_of_a_sparse_adjacency_are_edge_weights():
    weight = torch.arange(1.0, 8.0).double().repeat(2)
    conv = make_conv()
    weighted = torch.sparse_coo_tensor(EDGE_INDEX, weight, (NUM_NODES, NUM_NODES), check_invariants=True)
    assert close(conv(features(), weighted), conv(features(), EDGE_INDEX, weight))
    assert not close(conv(features(), weighted), conv(features(), adjacency()), atol=1e-3)


def test_weights_are_read_from_every_kind_of_graph():
    weight = torch.arange(1.0, 8.0).double().repeat(2)
    conv, x = make_conv(), features()
    truth = conv(x, EDGE_INDEX, weight)
    matrix = sparse.coo_array((weight.numpy(), EDGE_INDEX.numpy()), shape=(NUM_NODES, NUM_NODES))
    graph = nx.Graph()
    graph.add_nodes_from(range(NUM_NODES))
    for (v, u), w in zip(EDGE_INDEX.t().tolist()[:7], weight.tolist()[:7], strict=True):
        graph.add_edge(v, u, weight=w)
    data = Data(x=x, edge_index=EDGE_INDEX, edge_weight=weight)
    for weighted in (matrix, graph, data):
        assert close(conv(x, weighted), truth)


def test_autocast_runs_for_every_family():
    for maps in FAMILIES:
        conv = PolySheafConv(NUM_FEATURES, 3, maps=maps)
        with torch.autocast("cpu", torch.bfloat16):
            y = conv(features(dtype=torch.float32), EDGE_INDEX)
        assert torch.isfinite(y).all()
