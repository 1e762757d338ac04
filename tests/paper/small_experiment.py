"""An experiment that a test can afford: two generated graphs, a searched model and two fixed ones."""

from dataclasses import replace

from polynsd.published import published_model, published_training
from polynsd.search.space import Space
from polynsd.training.configuration import Configuration
from polynsd.training.source import Source
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.runner import Runner

TRAINING = published_training(epochs=4, patience=4, learning_rate=0.02)
SEARCHED = Space.from_dict(
    {
        "model.model": "mlp",
        "model.hidden_channels": [4, 8],
        "model.num_layers": 2,
        "model.layer.dropout": {"low": 0.0, "high": 0.5},
        "training.epochs": 4,
        "training.patience": 4,
    }
)
FIXED = {
    "gcn": Configuration(published_model("gcn", hidden_channels=4), TRAINING),
    "nsd-diagonal": Configuration(
        published_model("nsd", hidden_channels=2, num_layers=1, layer={"stalk_dim": 2}), TRAINING
    ),
}


def configure(dataset, model):
    seed = {"left": 1, "right": 2}[dataset]
    data = ("num_nodes=40", "num_features=3", f"seed={seed}")
    source = Source(generate="heterophily", data=data, protocol="stratified(0.5, 0.25, 0.25)", splits=3)
    return Cell(dataset, {"model": model}, FIXED.get(model, SEARCHED), sources=(source,))


SMALL = Experiment(
    "small",
    "three models on two graphs",
    "stratified(0.5, 0.25, 0.25)",
    ("left", "right"),
    {"model": ("mlp", *FIXED)},
    configure,
    seeds=2,
    budgets=dict.fromkeys(("left", "right"), Budget(4, seconds=60, splits=1, finalists=1, batch=2)),
)


def runner(folder, experiment=SMALL, **options):
    return Runner(experiment, folder / "out", folder / "work", **options)


def cell(dataset="left", model="mlp", **changes):
    return replace(configure(dataset, model), **changes)
