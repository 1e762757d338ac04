"""Laws of all models of the zoo: replicas, parameters, dropout, graphs, copies."""

import copy
import pickle
from functools import partial

import pytest
import torch
from scipy.sparse import csr_array
from torch.utils._python_dispatch import TorchDispatchMode
from zoo_laws import IN, OUT, build, built, graph, weighted_graph

from polynsd import ShapeError, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.sparse import to_tensor
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training.configuration import FREE
from polynsd.training.dropout import DropoutRates
from polynsd.training.replicas import _Training
from polynsd.zoo import ALL_MODELS, ZOO, model_options

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

BOUND_TO_A_GRAPH = ("glognn", "resnet-adj")
WEIGHTED = ("gcn", "sgc", "mixhop", "gcnii", "pairnorm", "dropedge", "chebnet")
OTHERS = [  # settings whose code is another than that of the defaults
    ("gin", {"norm": "batch", "train_eps": True}),
    ("residual-sage", {"features": "sgc"}),
    ("residual-sage", {"features": "adjacency"}),
    ("tuned-gcn", {"norm": "none", "residual": False}),
    ("tuned-sage", {"norm": "layer", "pre_linear": True}),
    ("tuned-gat", {"norm": "layer", "heads": 2}),
    ("polynormer", {"global_attention": False}),
    ("polynormer", {"local_attention": True, "heads": 2}),
    ("sgformer", {"heads": 2, "attention_layers": 2}),
    ("jdsnn", {"maps": "diagonal", "dual_norm": "degree"}),
    ("conn-nsd", {"degree": 3}),
    ("ansd", {"degree": 3}),
    ("vanilla-sheaf", {"degree": 3, "coefficients": "convex", "normalization": "degree"}),
]
CONTINUOUS = ("grand", "grand-nl", "cgnn")  # one step of the solver will do
MODELS = [*[(name, {"steps": 1} if name in CONTINUOUS else {}) for name in ZOO], *OTHERS]
every_model = pytest.mark.parametrize("name", ZOO)
every_setting = pytest.mark.parametrize(("name", "options"), MODELS)
TASK, RULES = get_task("accuracy"), TrainConfig(epochs=2, patience=2)


@pytest.fixture(scope="module")
def data():
    data = heterophilous_graph(30, OUT, IN, 4, heterophily=0.9, seed=3).to_pyg()
    data.x = data.x.double()  # the rounding of batch norms is another in company
    return data


def assert_same_training(replicas, data):
    """Replicas that are trained together, by vmap, become what they become alone."""
    assert _Training(replicas, data, TASK, None).is_vectorised
    other, mine = fit_replicas(replicas, data, TASK)
    (alone,) = fit_replicas(replicas[1:], data, TASK)
    assert mine.best_epoch == alone.best_epoch
    assert mine.val_loss == pytest.approx(alone.val_loss, rel=1e-4)
    for a, b in zip(mine.model.state_dict().values(), alone.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert other.val_loss != mine.val_loss


# replicas


RATES = {name.removeprefix("model.options.") for name in FREE}  # which replicas may differ in


@every_setting
def test_replicas_train_together_as_they_do_alone(name, options, data):
    """On other splits, with other seeds and other rates of dropout."""
    rates = [option for option in model_options(name) if option in RATES]
    makes = [partial(build, name, dropout=0.4, **options, **dict.fromkeys(rates, p)) for p in (0.0, 0.7)]
    replicas = [
        Replica(make, stratified_split(data.y, seed=seed), seed, RULES)
        for make, seed in zip(makes, (0, 7), strict=True)
    ]
    assert_same_training(replicas, data)


@pytest.mark.parametrize("name", WEIGHTED)
def test_replicas_share_weights_of_edges(name, data):
    data, (lower, upper) = copy.copy(data), data.edge_index.sort(0).values
    data.edge_weight = 0.5 + (lower * 31 + upper * 17) % 10 / 10
    make = partial(build, name, dropout=0.4)
    assert_same_training([Replica(make, stratified_split(data.y, seed=s), s, RULES) for s in (0, 7)], data)


class _Recording(TorchDispatchMode):
    """Refuses what would make the host wait for a device, and sums whose order a GPU does not fix."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        looks = ("nonzero", "_local_scalar_dense", "unique", "masked_select")
        atomics = ("scatter_add", "index_add", "embedding_dense_backward", "bincount")
        assert not any(word in name for word in (*looks, *atomics)), name
        assert "scatter_reduce" not in name or "amax" in args, name  # a maximum is the same in any order
        assert "index_put" not in name or len(args) < 4 or not args[3], name
        return func(*args, **(kwargs or {}))


@every_setting
def test_a_step_looks_at_no_values_and_needs_no_atomics(name, options):
    x, edge_index, _ = graph("path")
    model = build(name, **options).train()
    model(x, edge_index)
    with _Recording():
        model(x, edge_index).sum().backward()


# parameters and dropout


@every_setting
def test_gradients_reach_every_parameter_and_a_reset_draws_the_random_ones_anew(name, options):
    x, edge_index, _ = graph("isolated nodes")
    model = build(name, num_layers=3, **options).train()
    output = model(x, edge_index)
    assert output.shape == (len(x), OUT)
    generator = torch.Generator().manual_seed(1)
    (output * torch.randn(output.shape, generator=generator, dtype=x.dtype)).sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    torch.manual_seed(5)
    model.reset_parameters()
    for name, p in model.named_parameters():
        assert not (p == 7.0).any(), name
        is_constant = len(before[name].unique()) <= 2  # of norms, biases and identities
        assert is_constant or "theta" in name or not torch.equal(p, before[name]), name


@every_model
def test_dropout_acts_in_training_only(name):
    x, edge_index, _ = graph("star")
    model = build(name, dropout=0.5)
    assert torch.equal(model(x, edge_index), model(x, edge_index))
    model.train()
    assert not torch.allclose(model(x, edge_index), model(x, edge_index))


WITH_INPUT_DROPOUT = [name for name in ZOO if "input_dropout" in model_options(name)]
NUMBERED = ("gcn", "mlp", "pairnorm", "dropedge")


@pytest.mark.parametrize("name", NUMBERED)
def test_hidden_masks_do_not_depend_on_what_happens_to_the_features(name):
    """A training without input dropout is what it was before there was one: the masks keep their numbers."""
    seen = []

    class Masks(DropoutRates):
        def dropout(self, input, p=0.5, training=True, inplace=False):  # noqa: A002
            seen.append((tuple(input.shape), p))
            return input

    x, edge_index, _ = graph("path")
    with Masks():
        build(name, 3, 0.4, input_dropout=0.7).train()(x, edge_index)
    assert seen[-3:] == [((5, 8), 0.4), ((5, 8), 0.4), ((5, IN), 0.7)]


@pytest.mark.parametrize("name", WITH_INPUT_DROPOUT)
def test_sparse_features_are_multiplied_as_such(name, monkeypatch):
    _, edge_index, _ = graph("isolated nodes")
    x = torch.zeros(8, 40, dtype=torch.float64)
    x.view(-1)[::37] = torch.randn(9, dtype=torch.float64)
    model = build(name, 3, in_channels=40, input_dropout=0.5)
    dense = model(x, edge_index)
    monkeypatch.setattr("polynsd.nn.features.SIZE", 1)
    sizes, drop = [], torch.nn.functional.dropout
    monkeypatch.setattr(
        torch.nn.functional, "dropout", lambda z, *a, **b: sizes.append(z.numel()) or drop(z, *a, **b)
    )
    torch.testing.assert_close(model(x.clone(), edge_index), dense)
    assert 9 in sizes  # entries that are not zero, instead of all


@pytest.mark.parametrize("name", ALL_MODELS)
def test_a_sparse_tensor_of_features_is_the_dense_one_or_refused(name):
    _, edge_index, _ = graph("isolated nodes")
    x = torch.zeros(8, 40, dtype=torch.float64)
    x.view(-1)[::37] = torch.randn(9, dtype=torch.float64)
    model = build(name, 2, in_channels=40)
    dense = model(x, edge_index)
    if name in ("sgc", "resnet-sgc", "tuned-sage", "polynormer", "fsgnn", "conn-nsd"):
        with pytest.raises(ShapeError, match=r"dense features; got torch.sparse_csr"):
            model(to_tensor(csr_array(x.numpy()), x.dtype), edge_index)
    else:
        torch.testing.assert_close(model(to_tensor(csr_array(x.numpy()), x.dtype), edge_index), dense)


LAZY = [*WITH_INPUT_DROPOUT, "gprgnn", "chebnetii", "bernnet", "jacobi", "fagcn", "ggcn", "h2gcn", "fsgnn"]


@pytest.mark.parametrize("name", LAZY)
def test_the_number_of_features_may_be_seen_at_the_first_call(name):
    x, edge_index, _ = graph("path")
    assert build(name, in_channels=-1)(x, edge_index).shape == (len(x), OUT)


# graphs


@every_model
def test_loops_copies_and_directions_make_no_difference(name):
    x, edge_index, _ = graph("isolated nodes")
    model = built(name, x, edge_index)
    untidy = torch.cat([edge_index, edge_index[:, :2], torch.tensor([[3, 6], [3, 6]])], 1)
    torch.testing.assert_close(model(x, untidy), model(x, edge_index))
    torch.testing.assert_close(model(x, torch.cat([edge_index, edge_index.flip(0)], 1)), model(x, edge_index))


@every_model
def test_renaming_the_nodes_renames_the_output(name):
    if name in BOUND_TO_A_GRAPH:
        pytest.skip("has a weight for every node")
    x, edge_index, _ = graph("isolated nodes")
    model = built(name, x, edge_index)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(x[order], order.argsort()[edge_index]), model(x, edge_index)[order])


@every_model
def test_another_graph_is_not_mistaken_for_the_last_one(name):
    x, edge_index, _ = graph("complete")
    model, other = built(name, x, edge_index), edge_index[:, 1:-1]
    expected = copy.deepcopy(model)(x.clone(), other.clone())
    torch.testing.assert_close(model(x, other), expected)


@every_model
def test_one_layer_and_graphs_without_edges_will_do(name):
    for graph_name in ("star", "no edges", "one node"):
        x, edge_index, _ = graph(graph_name)
        assert build(name, num_layers=1)(x, edge_index).isfinite().all()


@every_model
def test_models_can_be_stored_and_copied(name):
    x, edge_index, _ = graph("isolated nodes")
    model = built(name, x, edge_index)
    copies, before = (copy.deepcopy(model), pickle.loads(pickle.dumps(model))), model(x, edge_index)
    fresh = build(name)
    fresh.load_state_dict(model.state_dict())
    model.reset_parameters()  # which the copies do not notice
    for copied in (*copies, fresh):
        assert torch.equal(copied(x, edge_index), before)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_one_are_no_weights(name):
    x, edge_index, weight, _ = weighted_graph("isolated nodes")
    model = built(name, x, edge_index)
    torch.testing.assert_close(model(x, edge_index, torch.ones_like(weight)), model(x, edge_index))
