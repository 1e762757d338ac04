"""`PolyNSD` and its relatives are what they claim to be."""

import copy

import pytest
import torch
from published_block import published
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, PAIRS, close, features, shaken
from torch.nn.functional import cross_entropy, elu, mse_loss

from polynsd import NSD, IdentitySheaf, LayerConfig, ModelConfig, PolyNSD, PolySpectralGNN, Topology
from polynsd.errors import ConfigError
from polynsd.nn import count_parameters
from polynsd.zoo import ALL_MODELS, SHEAF_MODELS, build_model

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
FAMILIES = ["identity", "diagonal", "orthogonal", "general"]
LABELS = torch.arange(NUM_NODES) % 3


def make_model(kind=PolyNSD, num_layers=2, out_channels=3, **options):
    torch.manual_seed(0)
    return shaken(published(NUM_FEATURES, 4, num_layers, out_channels, kind=kind, **options))


def adjacency():
    A = torch.zeros(NUM_NODES, NUM_NODES).double()
    for u, v in PAIRS:
        A[u, v] = A[v, u] = 1
    return A


def laplacian(model):
    """The dense Laplacian of the first layer at the encoded features."""
    return model.layers[0].laplacian(model.encode(features()), TOPOLOGY).to_dense()


def test_they_print_what_they_are():
    assert str(PolyNSD(8, 16, 2, 3, stalk_dim=4, maps="diagonal", degree=4)) == (
        "PolyNSD(8, 16, num_layers=2, out_channels=3, stalk_dim=4, maps=diagonal, degree=4)"
    )
    assert str(PolySpectralGNN(-1, 16, 2, 3, degree=4)) == (
        "PolySpectralGNN(-1, 16, num_layers=2, out_channels=3, stalk_dim=1, maps=identity, degree=4)"
    )


def test_a_model_is_encoder_layers_decoder():
    model = make_model(maps="general", stalk_dim=2, second_linear=True)
    state = model.second(elu(model.encoder(features()))).reshape(NUM_NODES, 2, 4)
    for layer in model.layers:
        state = layer(state, TOPOLOGY)
    assert close(model(features(), EDGE_INDEX), model.decoder(state.flatten(1)))


@pytest.mark.parametrize("maps", FAMILIES)
def test_nsd_is_gated_diffusion(maps):
    model = make_model(NSD, num_layers=1, maps=maps, stalk_dim=2)
    x, layer = model.encode(features()), model.layers[0]
    h = layer.stalk_mixing @ x @ layer.channel_mixing.mT
    Lh = (laplacian(model) @ h.flatten(0, 1)).reshape(x.shape)
    update = (1 + layer.epsilon.tanh()) * x - elu(Lh)
    assert close(model(features(), EDGE_INDEX), model.decoder(update.flatten(1)))


def test_the_identity_sheaf_is_d_copies_of_the_graph():
    A = adjacency()
    model = make_model(IdentitySheaf, stalk_dim=3, normalization="none")
    assert close(laplacian(model), torch.kron(torch.diag(A.sum(0)) - A, torch.eye(3).double()))
    assert model.sheaf_parameters() == []


def test_poly_spectral_gnn_filters_the_normalised_graph_laplacian():
    A = adjacency()
    root = torch.where(A.sum(0) > 0, A.sum(0).rsqrt(), 0.0)
    truth = torch.diag((A.sum(0) > 0).double()) - root[:, None] * A * root
    assert close(laplacian(make_model(PolySpectralGNN)), truth)


def test_shared_filters_are_one_and_separate_ones_are_not():
    shared, own = make_model(num_layers=3, shared_filter=True), make_model(num_layers=3)
    assert len({id(layer.filter) for layer in shared.layers}) == 1
    assert len({id(layer.filter) for layer in own.layers}) == 3
    assert count_parameters(own) - count_parameters(shared) == 2 * (5 + 1)  # two more θ and α


@pytest.mark.parametrize("maps", FAMILIES)
def test_shared_maps_are_those_of_the_first_layer(maps):
    model = make_model(maps=maps, stalk_dim=2, num_layers=3, shared_maps=True)
    state = model.encode(features())
    L = model.layers[0].laplacian(state, TOPOLOGY)
    for layer in model.layers:
        state = layer.diffuse(state, L)
    assert close(model(features(), EDGE_INDEX), model.decoder(state.flatten(1)))
    assert all(layer.learner is None for layer in model.layers[1:])


@pytest.mark.parametrize("kind", [PolyNSD, NSD, IdentitySheaf, PolySpectralGNN])
@pytest.mark.parametrize(
    "options", [{}, {"shared_filter": True, "shared_maps": True}, {"second_linear": True}]
)
def test_every_parameter_learns(kind, options):
    model = make_model(kind, **options).train()
    cross_entropy(model(features(), EDGE_INDEX), LABELS).backward()
    assert [
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0
    ] == []


def test_only_the_published_diagonal_model_carries_idle_parameters():
    for maps, idle in (("diagonal", 2 * (4**2 + 4**2)), ("orthogonal", 0), ("general", 0)):
        torch.manual_seed(0)
        model = shaken(PolyNSD.reference(NUM_FEATURES, 4, 2, 3, maps=maps))
        cross_entropy(model(features(), EDGE_INDEX), LABELS).backward()
        assert sum(p.numel() for p in model.parameters() if p.grad is None) == idle


def test_one_output_channel_is_regression():
    torch.manual_seed(0)
    model = published(NUM_FEATURES, 4, 2, 1, stalk_dim=2).double()
    target = features(NUM_NODES, 1, seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = mse_loss(model(features(), EDGE_INDEX), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_dropout_is_noise_in_training_and_nothing_in_evaluation():
    model = make_model(dropout=0.5, input_dropout=0.2)
    plain = make_model()
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(features(), EDGE_INDEX), plain(features(), EDGE_INDEX))
    model.train()
    assert not torch.equal(model(features(), EDGE_INDEX), model(features(), EDGE_INDEX))


def test_the_first_learner_sees_the_encoder_as_it_is():
    model = make_model(num_layers=3, dropout=0.5)
    assert [layer.config.map_dropout for layer in model.layers] == [0.0, 0.5, 0.5]


def test_responses_come_layer_by_layer():
    model, lam = make_model(num_layers=3, stalk_dim=2), torch.linspace(0, 2, 9).double()
    responses = model.responses(lam)
    assert len(responses) == 3
    for layer, response in zip(model.layers, responses, strict=True):
        assert close(response.r, 1 + layer.epsilon.tanh() - layer.filter.response(lam))


def test_state_dicts_and_copies_carry_everything():
    model = make_model(maps="orthogonal", edge_weights=True, shared_filter=True)
    other = make_model(maps="orthogonal", edge_weights=True, shared_filter=True)
    other.reset_parameters()
    other.load_state_dict(model.state_dict())
    for twin in (other, copy.deepcopy(model)):
        assert torch.equal(twin(features(), EDGE_INDEX), model(features(), EDGE_INDEX))


def test_reset_parameters_draws_anew():
    model = make_model(second_linear=True)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model.reset_parameters()
        outputs.append(model(features(), EDGE_INDEX))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_the_number_of_features_can_be_inferred():
    lazy = PolyNSD(-1, 4, 2, 3).double()
    assert lazy(features(), EDGE_INDEX).shape == (NUM_NODES, 3)
    assert count_parameters(lazy) == count_parameters(PolyNSD(NUM_FEATURES, 4, 2, 3))


@pytest.mark.filterwarnings("ignore")  # dynamo warns about what it does itself
@pytest.mark.usefixtures("no_tracer")
def test_compiled_models_agree():
    torch.compiler.reset()
    model = make_model(maps="general", stalk_dim=2)
    compiled = torch.compile(model, backend="eager", fullgraph=False)
    assert close(compiled(features(), EDGE_INDEX), model(features(), EDGE_INDEX))
    gradients = []
    for callable_model in (compiled, model):
        loss = cross_entropy(callable_model(features(), EDGE_INDEX), LABELS)
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, model.parameters())]))
    assert close(*gradients)


@pytest.mark.parametrize("name", ALL_MODELS)
def test_models_are_built_by_name(name):
    model = build_model(ModelConfig(model=name, hidden_channels=8), NUM_FEATURES, 3)
    assert model(features(dtype=torch.float32), EDGE_INDEX).shape == (NUM_NODES, 3)
    assert type(model) is SHEAF_MODELS.get(name, type(model))


@pytest.mark.parametrize(
    "layer",
    [
        LayerConfig(maps="general", degree=7, basis="legendre"),
        LayerConfig(dropout=0.5, map_dropout=0.2),
        LayerConfig(dropout=0.5, map_dropout=0.0),
    ],
)
def test_a_built_model_has_the_layers_of_its_configuration(layer):
    assert build_model(ModelConfig(layer=layer), NUM_FEATURES, 3).config == layer


def test_an_unknown_model_is_an_error():
    with pytest.raises(ConfigError, match=r"unknown model 'poly-nsd'.*Did you mean 'polynsd'\?"):
        build_model(ModelConfig(model="poly-nsd"), NUM_FEATURES, 3)
