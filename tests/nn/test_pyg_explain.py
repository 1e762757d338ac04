"""PyG's explainers and `to_hetero`: they work, or are refused with a sentence that says what to use."""

import copy
import inspect
import pickle
from functools import partial

import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm import (
    AttentionExplainer,
    GNNExplainer,
    GraphMaskExplainer,
    PGExplainer,
)
from torch_geometric.explain.algorithm.captum import CaptumModel
from torch_geometric.nn import to_hetero, to_hetero_with_bases

from polynsd import PolyNSD, PolySheafConv, kernels
from polynsd.errors import ConfigError, ShapeError

N = 10
ONCE = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
EDGES = torch.cat([ONCE, ONCE.flip(0)], 1)
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Network(torch.nn.Module):
    """A convolution inside of somebody's model."""

    def __init__(self):
        super().__init__()
        self.conv = PolySheafConv(3, 4, degree=1, stalk_dim=2, learner="concat")
        self.linear = torch.nn.Linear(self.conv.out_features, 3)

    def forward(self, x, edge_index):
        return self.linear(self.conv(x, edge_index).relu())


class Around(torch.nn.Module):
    """Another model around one of ours."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index):
        return 2 * self.model(x, edge_index)


@pytest.fixture(autouse=True)
def _plain_pytorch():
    with kernels.use("reference"):
        yield


@pytest.fixture(params=["model", "convolution"])
def model(request):
    torch.manual_seed(0)
    if request.param == "convolution":
        return Network().eval()
    return PolyNSD(3, 4, 1, 3, degree=1, stalk_dim=2, learner="concat").eval()


def explain(model, algorithm, **options):
    explainer = Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object", model_config=CONFIG, **options
    )
    x = torch.randn(N, 3, generator=torch.Generator().manual_seed(1))
    return explainer(x, EDGES, index=0)


def test_gnn_explainer_masks_the_edges_that_are_reached(model):
    before = model(torch.ones(N, 3), EDGES)
    found = explain(model, GNNExplainer(epochs=3), node_mask_type="attributes")
    is_near = ((EDGES == 0) | (EDGES == 1) | (EDGES == N - 1)).any(0)  # one hop, and the degrees at its end
    assert bool((found.edge_mask[is_near] > 0).all())
    assert bool((found.edge_mask[~is_near] == 0).all())
    assert torch.equal(before, model(torch.ones(N, 3), EDGES))
    assert not any("mask" in name for name, _ in model.named_parameters())


def test_a_mask_is_a_weight(model):
    """As Captum sets it; the two directions of an edge share the mean of theirs."""
    mask = torch.rand(2 * N, generator=torch.Generator().manual_seed(2)).requires_grad_()
    x = torch.ones(N, 3)
    masked = CaptumModel(model, "edge")(mask[None], x, EDGES)
    assert torch.autograd.grad(masked.sum(), mask)[0].abs().max() > 0
    half = (mask[:N] + mask[N:]).detach() / 2
    if isinstance(model, PolyNSD):
        assert torch.allclose(masked, model(x, EDGES, half.repeat(2)), atol=1e-6)
    else:
        hidden = model.conv(x, EDGES, half.repeat(2)).relu()
        assert torch.allclose(masked, model.linear(hidden), atol=1e-6)


@pytest.mark.parametrize("algorithm", [AttentionExplainer(), GraphMaskExplainer(1, log=False)])
def test_explainers_of_messages_are_refused(model, algorithm):
    options = {"node_mask_type": "attributes"} if isinstance(algorithm, GraphMaskExplainer) else {}
    with pytest.raises(ConfigError, match="use PyG's GNNExplainer"):
        explain(model, algorithm, **options)


def test_explainers_of_embeddings_are_refused(model):
    explainer = Explainer(
        model,
        PGExplainer(epochs=1),
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    labels = torch.zeros(N, dtype=torch.long)
    with pytest.raises(ConfigError, match="use PyG's GNNExplainer"):
        explainer.algorithm.train(0, model, torch.ones(N, 3), EDGES, target=labels, index=0)


def test_modules_can_be_hooked_inspected_and_traced(model):
    seen = []
    hooks = [module.register_forward_hook(lambda *_: seen.append(1)) for module in model.modules()]
    x = torch.randn(N, 3)
    y = model(x, EDGES)
    assert len(seen) > 3
    for hook in hooks:
        hook.remove()
    masks = [module for name, module in model.named_modules() if name.endswith("edge_mask")]
    assert masks
    assert not hasattr(masks[0], "in_channels")
    inspect.getmembers(masks[0])
    assert torch.equal(model(x, EDGES), y)


def test_models_are_copied_and_pickled_as_before(model):
    assert any("edge_mask" in name for name, _ in model.named_modules())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(torch.ones(N, 3), EDGES), model(torch.ones(N, 3), EDGES))


@pytest.mark.parametrize(
    "types",
    [
        (["a", "b"], [("a", "to", "b"), ("b", "from", "a")]),
        (["a"], [("a", "to", "a")]),
        (["a"], [("a", "to", "a"), ("a", "knows", "a")]),
    ],
)
@pytest.mark.parametrize(
    "transform", [to_hetero, partial(to_hetero_with_bases, num_bases=2, in_channels={"x": 3})]
)
def test_to_hetero_is_refused(model, types, transform):
    """Also of one type of nodes: what came out would be filed under edges."""
    with pytest.raises(ShapeError, match=r"neither bipartite input nor to_hetero; use data\.to_homogeneous"):
        transform(model, types)


def test_other_tracers_take_a_convolution_as_a_whole(model):
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, PolySheafConv | PolyNSD)

    whole = Around(model)
    traced = torch.fx.GraphModule(whole, Tracer().trace(whole))
    assert torch.equal(traced(torch.ones(N, 3), EDGES), whole(torch.ones(N, 3), EDGES))
