"""An exported model says what the model says, on any graph, after saving and loading, without the library."""

import io

import pytest
import torch
from torch_geometric.data import Data

from polynsd import PolyNSD, PolySheafConv, SheafODE, export_model
from polynsd.errors import ConfigError
from polynsd.nn.export import OnAnyGraph, UnmergedTopology
from polynsd.topology import Topology

# a ring with a chord in one direction only, a parallel edge and a self-loop
UNTIDY = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 3, 2, 1], [1, 2, 3, 4, 0, 3, 0, 3, 1, 2]])


def make_model(**options):
    torch.manual_seed(0)
    return PolyNSD(3, 2, 1, 2, degree=1, stalk_dim=2, map_start="random", **options).eval()


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # from torch.export.load of torch 2.11
def test_a_program_takes_any_graph():
    model = make_model(maps="diagonal", learner="concat")
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    data = Data(x=draw(6, 3), edge_index=ring, edge_weight=torch.ones(6))
    program = export_model(model, data)
    assert not any("polynsd" in str(node.target) for node in program.graph.nodes)
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    run = torch.export.load(stored).module()
    inputs = {"x": draw(9, 3), "edge_index": UNTIDY, "edge_weight": 1.0 + UNTIDY.min(0).values}
    with torch.no_grad():
        assert torch.allclose(run(**inputs), model(**inputs), atol=1e-5)


def test_a_program_on_a_fixed_graph_takes_features():
    model = make_model(maps="general", learner="concat")
    data = Data(x=draw(5, 3), edge_index=UNTIDY)
    run, x = export_model(model, data, fixed_graph=True).module(), draw(5, 3, seed=3)
    with torch.no_grad():
        assert torch.allclose(run(x=x), model(x, UNTIDY), atol=1e-5)


def test_what_is_exported_reads_edge_features():
    model = make_model(maps="general", maps_on="edges", edge_dim=2)
    inputs = draw(9, 3), UNTIDY, None, draw(10, 2, seed=1)  # four nodes have no edge
    with torch.no_grad():
        assert torch.allclose(OnAnyGraph(model)(*inputs), model(*inputs), atol=1e-5)


def test_weights_do_what_merging_does():
    whole, parts = Topology.from_edge_index(UNTIDY, 6), UnmergedTopology.from_edge_index(UNTIDY, 6)
    assert torch.equal(parts.degree, whole.degree)
    assert torch.equal(parts.row[parts.twin], parts.col)
    assert torch.equal(parts.twin[parts.twin], torch.arange(20))
    adjacency = torch.zeros(6, 6, dtype=torch.double)
    adjacency.index_put_((parts.row, parts.col), parts.share, accumulate=True)
    expected = torch.zeros(6, 6, dtype=torch.double)
    expected[whole.row, whole.col] = 1
    assert torch.allclose(adjacency, expected)
    values, dense = draw(10, 2), torch.zeros(6, 6, 2)
    dense[whole.row, whole.col] = whole.per_half_edge(values)
    is_edge = parts.row != parts.col
    found = parts.per_half_edge(values)
    assert torch.allclose(found[is_edge], dense[parts.row, parts.col][is_edge])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (PolySheafConv(3, 2), {}, "takes a model such as PolyNSD; got PolySheafConv"),
        (SheafODE(3, 2, 1, 2, solver="dopri5"), {}, "export a model with solver='rk4'"),
        (PolyNSD(-1, 2, 1, 2), {}, "call it once before"),
        (make_model(), {"edge_index": None}, "no edge_index"),
        (make_model(), {"edge_index": UNTIDY[:, :1]}, "two columns of edge_index at least; got 5 and 1"),
    ],
)
def test_what_cannot_be_exported_is_told(model, changes, message):
    with pytest.raises(ConfigError, match=message):
        export_model(model, Data(**{"x": draw(5, 3), "edge_index": UNTIDY, **changes}))


def test_estimated_spectra_are_refused():
    with pytest.raises(ConfigError, match="analytic"):
        export_model(make_model(lambda_max="lanczos"), Data(x=draw(5, 3), edge_index=UNTIDY))
