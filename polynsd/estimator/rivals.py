"""Models of the zoo as candidates: what a user might take instead, on the same nodes and chosen alike."""

from __future__ import annotations

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.estimator.networks import Network
from polynsd.training import Configuration
from polynsd.zoo import build_model, layer_defaults

EPOCHS, PATIENCE = 300, 60
SETTINGS = ((0.5, 5e-4), (0.2, 5e-4), (0.5, 5e-5))  # dropout and weight decay


def zoo_candidates(model: str) -> list[Network]:
    """A model of the zoo, or a published sheaf model, under a few settings, among which validation chooses.

    Raises:
        ConfigError: there is no such model; the message lists all.
    """
    candidates = []
    for dropout, decay in SETTINGS:
        layer = LayerConfig(**{**layer_defaults(model), "dropout": dropout})
        config = ModelConfig(model=model, hidden_channels=64, num_layers=2, layer=layer)
        training = TrainConfig(epochs=EPOCHS, patience=PATIENCE, learning_rate=0.01, weight_decay=decay)
        name = f"{model}, dropout {dropout:g}, weight decay {decay:g}"
        candidates.append(Network(name, "zoo", Configuration(config, training)))
    build_model(candidates[0].configuration.model, 1, 2)  # an unknown name is told before any work
    return candidates
