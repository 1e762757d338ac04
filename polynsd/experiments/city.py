"""Long range: the 16-hop eccentricity of street corners, 10/10/80, one fixed split and three seeds.

The four cities of the benchmark run where their data is; two official sub-regions and street-like graphs
of five other towns are what a smaller machine holds. Numbers are comparable within one graph only.
"""

from __future__ import annotations

from dataclasses import replace

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.experiments.experiment import Cell, Experiment
from polynsd.experiments.source import Source
from polynsd.search.options import Configuration

REGIONS = ("huangpu", "pasadena")
TOWNS = ("citylike_aleppo", "citylike_bucaramanga", "citylike_douala", "citylike_liege", "citylike_wuhan")
CITIES = ("paris", "shanghai", "la", "london")
MODELS = (
    "polynsd-diagonal", "nsd-diagonal", "identity-sheaf", "poly-spectral", "chebnet", "chebnetii", "bernnet",
    "gcn", "sage", "gat", "gcnii", "dropedge", "sgformer", "mlp",
)  # fmt: skip
TRAINING = TrainConfig(epochs=1000, patience=200, learning_rate=5e-3, weight_decay=1e-5)
LAYERS, DEGREE = 6, 4  # a reach of 24 hops; the label looks 16 hops far


def _cell(dataset: str, model: str) -> Cell:
    kind, _, maps = model.partition("-")
    if kind in ("polynsd", "nsd"):
        layer = LayerConfig(stalk_dim=4, maps=maps, norm="layer", dropout=0.2)
        layer = replace(layer, degree=DEGREE) if kind == "polynsd" else layer
        config = ModelConfig(kind, 16, LAYERS, layer=layer)
    elif model in ("identity-sheaf", "poly-spectral"):
        d = 4 if model == "identity-sheaf" else 1
        layer = LayerConfig(stalk_dim=d, degree=DEGREE, norm="layer", dropout=0.2)
        config = ModelConfig(model, 64 // d, LAYERS, layer=layer)
    else:
        depth = 2 if model in ("mlp", "chebnetii", "bernnet") else 16
        config = ModelConfig(model, 64, depth, layer=LayerConfig(dropout=0.2))
    source = Source(dataset, protocol="city-10-10-80", features="standardize", splits=1)
    return Cell(dataset, {"model": model}, Configuration(config, TRAINING), sources=(source,))


CITY = Experiment(
    "city",
    "16-hop eccentricity on street graphs",
    "city-10-10-80",
    (*REGIONS, *TOWNS, *CITIES),
    {"model": MODELS},
    _cell,
    ddof=1,
    minutes="about 20 GPU-minutes for the seven graphs that are not cities",
)
