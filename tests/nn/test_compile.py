"""A model on a `Topology` is one compiled graph, forward and backward, and computes the same numbers."""

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, features, shaken
from torch._dynamo.exc import Unsupported
from torch.autograd.functional import hessian, jacobian
from torch.func import grad, jacrev, vmap

from polynsd import NSD, PolyNSD, PolySheafConv, Topology
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf import inverse_sqrt
from polynsd.testing import assert_close, random_tensor

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the compiler, about itself
    pytest.mark.usefixtures("no_tracer"),
]
TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
LIMIT = {torch.float32: 1e-6, torch.float64: 1e-12}
WEIGHT = torch.linspace(0.1, 2.0, 7).double().repeat(2)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


def make_model(kind=PolyNSD, num_layers=1, dtype=torch.float64, **options):
    torch.manual_seed(0)
    sizes = (NUM_FEATURES, 4) if kind is PolySheafConv else (NUM_FEATURES, 4, num_layers, 3)
    preset = {} if kind is PolySheafConv else kind.preset
    return shaken(kind(*sizes, **PUBLISHED_LAYER | preset | options), dtype=dtype)


def compiled(model):
    return torch.compile(model, backend="aot_eager", fullgraph=True)


def output_and_gradients(function, model, *args, **kwargs):
    torch.manual_seed(1)
    y = function(*args, **kwargs)
    w = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    gradients = torch.autograd.grad(y, list(model.parameters()), w, allow_unused=True, materialize_grads=True)
    return [y, *gradients]


def assert_compiles(model, x, graph=TOPOLOGY, **kwargs):
    found = output_and_gradients(compiled(model), model, x, graph, **kwargs)
    truth = output_and_gradients(model, model, x, graph, **kwargs)
    names = ["output", *(name for name, _ in model.named_parameters())]
    for name, value, true_value in zip(names, found, truth, strict=True):
        assert_close(value, true_value, name, LIMIT[x.dtype])


def test_single_precision_compiles_without_training():
    model = make_model(maps="orthogonal", dtype=torch.float32, stalk_dim=2)
    assert_compiles(model.eval(), features(dtype=torch.float32))


@pytest.mark.parametrize(
    ("kind", "options", "inputs"),
    [
        (
            PolyNSD,
            {"maps": "general", "normalization": "sheaf", "fixed_channels": ("laplacian",), "edge_dim": 1},
            {"edge_attr": WEIGHT, "batch": torch.zeros(NUM_NODES, dtype=torch.long)},
        ),
        (PolyNSD, {"dropout": 0.5, "input_dropout": 0.2}, {"edge_weight": WEIGHT}),
        (PolyNSD, {"maps": "identity", "normalization": "none", "shared_maps": True, "num_layers": 2}, {}),
        (PolyNSD, {"maps": "diagonal", "edge_weights": True, "normalization": "degree"}, {}),
        (PolyNSD, {"maps": "orthogonal", "maps_on": "nodes", "learner": "gnn", "trunk": "both"}, {}),
        (NSD, {"maps": "general"}, {}),
        (PolySheafConv, {}, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or " ".join(map(str, value)) or "-",
)
def test_every_part_compiles(kind, options, inputs):
    assert_compiles(make_model(kind, **options).train(), features(), **inputs)


def random_spd(d, *lead):
    B = random_tensor(*lead, d, d)
    return B @ B.mT + torch.eye(d).double()


def trace_root(A):
    """A function of A^{−1/2} that every entry has a part in."""
    A = (A + A.mT) / 2
    return (inverse_sqrt(A) * torch.arange(A.size(-1)).double()).sum()


def test_inverse_square_roots_compile_forward_and_backward():
    A = random_spd(3, 5).requires_grad_()
    function = torch.compile(trace_root, backend="aot_eager", fullgraph=True)
    found, truth = (torch.autograd.grad(f(A), A)[0] for f in (function, trace_root))
    assert_close(found, truth, "gradient", 1e-12)


def test_inverse_square_roots_transform():
    """`torch.func` finds what autograd finds, alone, vmapped and twice."""
    A = random_spd(3, 5)
    truth = torch.stack([jacobian(trace_root, matrix) for matrix in A])
    assert_close(grad(trace_root)(A), truth, "grad")
    assert_close(vmap(grad(trace_root))(A), truth, "vmap of grad")
    assert_close(jacrev(grad(trace_root))(A[0]), hessian(trace_root, A[0]), "second derivative")


def test_graphs_of_other_sizes_share_a_compiled_model():
    """The first size is a constant, the second makes sizes variable, and that is all."""
    model, graphs = make_model(), []
    function = torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph, fullgraph=True)
    for num_nodes in (4, 5, 9, 30):
        generator = torch.Generator().manual_seed(num_nodes)
        graph = Topology.from_edge_index(torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator))
        x = features(graph.num_nodes)
        assert_close(function(x, graph), model(x, graph), f"{num_nodes} nodes")
    assert len(graphs) == 2


def test_an_edge_index_breaks_the_graph_once_and_is_refused_where_it_must_not():
    model = make_model()
    with pytest.raises(Unsupported, match="_find_topology"):
        compiled(model)(features(), EDGE_INDEX)
    torch.compiler.reset()
    breaking = torch.compile(model, backend="aot_eager")
    changed = EDGE_INDEX.clone()
    for _ in range(2):
        assert_close(breaking(features(), changed), model(features(), changed), "output")
        changed[:, 0] = changed[:, 1]
