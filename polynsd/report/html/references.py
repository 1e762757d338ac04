"""Simpler models to compare a training with, where they are quick to train.

Features alone (a perceptron) and a plain GCN, small and for a few epochs, on the first splits of the run.
They are no benchmark: named runs of `--model mlp` and `--model gcn` take their place.
"""

from __future__ import annotations

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.diagnostics import OpenedRun
from polynsd.errors import PolyNSDError
from polynsd.training import Configuration, Problem, fit_splits, get_task

MODELS = ("mlp", "gcn")
HIDDEN, EPOCHS = 32, 60
MOST_SPLITS = 3
MOST_NODES = 5_000
LIMIT = 6e10  # operations of all trainings of a model; about a second or two


def train_references(run: OpenedRun) -> dict[str, float]:
    """Test scores by model; none of a large graph."""
    splits = _choose_splits(run)
    if not splits:
        return {}
    problem = Problem(run.data, tuple(run.splits[i] for i in splits), get_task(run.metric))
    rules = TrainConfig(epochs=EPOCHS, patience=EPOCHS, learning_rate=0.01, weight_decay=5e-4)
    scores = {}
    for name in MODELS:
        model = ModelConfig(name, HIDDEN, 2, layer=LayerConfig(dropout=0.5))
        try:
            scores[name] = fit_splits(problem, Configuration(model, rules)).mean
        except PolyNSDError:  # such as a loss that is not finite: there is nothing to compare with then
            continue
    return scores


def describe_references(run: OpenedRun) -> str:
    """How they were trained, in a sentence."""
    count = len(_choose_splits(run))
    total = len({row["split"] for row in run.result["splits"]})
    on = "every split" if count == total else f"{count} of the {total} splits"
    text = (
        f"Features alone and plain GCN are models of {HIDDEN} channels, trained for this page on {on} for "
        f"{EPOCHS} epochs and without a search"
    )
    if run.is_federated:
        return (
            f"{text}. They see the whole graph, which no client does; what federation costs is seen beside "
            "polynsd federated run --division whole, what it gains beside --method local."
        )
    return f"{text}; for a fair comparison train --model mlp and --model gcn and name these runs as well."


def _choose_splits(run: OpenedRun) -> list[int]:
    """Places of the first splits, as many as are quick."""
    data = run.data
    if run.is_fit or data is None or data.num_nodes > MOST_NODES:
        return []
    cost = 6 * EPOCHS * HIDDEN * (data.num_nodes * data.num_features + 4 * data.num_edges + 1)
    places = {row["split"]: place for place, row in reversed(list(enumerate(run.result["splits"])))}
    return [places[split] for split in sorted(places)][: min(MOST_SPLITS, int(LIMIT // cost))]
