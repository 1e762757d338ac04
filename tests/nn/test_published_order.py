"""`reference` presets compute what the published implementations compute, operation by operation.

The truth is `dense_reference.PublishedModel`, written from the description of those implementations
and given the same weights.
"""

import pytest
import torch
from dense_reference import PublishedModel
from small_graphs import EDGE_INDEX, NUM_FEATURES, PAIRS, close, features, shaken

from polynsd import NSD, PolyNSD

SIGNS = {"signless": +1, "laplacian": -1}
CHANNELS = [(), ("laplacian",), ("signless",), ("signless", "laplacian")]
D = 3


def published_pair(kind, maps, channels, dtype=torch.float64, **options):
    """(our model, the description with our weights)."""
    torch.manual_seed(0)
    model = kind.reference(NUM_FEATURES, 4, 2, 3, maps=maps, stalk_dim=D, fixed_channels=channels, **options)
    shaken(model, dtype=dtype).requires_grad_(False)
    signs = [SIGNS[name] for name in channels]
    return model, PublishedModel(model.state_dict(), maps, D, signs, polynomial=kind is PolyNSD)


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("kind", "options"), [(NSD, {}), (PolyNSD, {"degree": 1}), (PolyNSD, {"degree": 5})])
def test_reference_models_follow_the_published_order(kind, maps, channels, options):
    model, truth = published_pair(kind, maps, channels, **options)
    assert close(model(features(), EDGE_INDEX), truth(features(), PAIRS))


@pytest.mark.parametrize("kind", [NSD, PolyNSD])
@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_so_they_do_in_single_precision_with_a_second_linear_layer(kind, maps):
    model, truth = published_pair(kind, maps, ("laplacian",), torch.float32, second_linear=True)
    x = features(dtype=torch.float32)
    assert torch.allclose(model(x, EDGE_INDEX), truth(x, PAIRS), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_the_published_order_is_not_the_default_one(maps):
    reference, _ = published_pair(PolyNSD, maps, ())
    options = {"edge_weights": True} if maps == "orthogonal" else {}
    plain = PolyNSD(NUM_FEATURES, 4, 2, 3, maps=maps, stalk_dim=D, shared_filter=True, **options)
    plain.double().load_state_dict(reference.state_dict())
    assert not close(plain(features(), EDGE_INDEX), reference(features(), EDGE_INDEX), atol=1e-3)
