"""The score of a run with its interval, beside simpler answers on the same nodes.

Simpler answers say the same of every node, see the features alone (a perceptron), or are a plain GCN. The
two models are runs that were named as well (`--model mlp`, `--model gcn`); without them, and where that is
quick, small ones are trained for a few epochs on the first splits of the run. These are no benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.diagnostics import OpenedRun
from polynsd.errors import PolyNSDError
from polynsd.stats import corrected_interval
from polynsd.training import Configuration, Problem, fit_splits, get_task

MODELS = ("mlp", "gcn")
HIDDEN, EPOCHS = 32, 60
MOST_SPLITS = 3
MOST_NODES = 5_000
LIMIT = 6e10  # operations of all trainings of a model; about a second or two


@dataclass(frozen=True)
class RunScore:
    """The score of a run, and those of simpler answers on the same nodes.

    Attributes:
        score: of the run.
        interval: the ends of its 95 % interval; None where there is none.
        rivals: scores by what they are; None where there is none.
        scored_on: which nodes.
        note: how rivals were trained.
    """

    score: float
    interval: tuple[float, float] | None
    rivals: dict[str, float | None]
    scored_on: str
    note: str = ""


def find_score(run: OpenedRun, references: dict[str, float], note: str = "") -> RunScore:
    """The score of a run beside those of simpler models, and a note on these (`find_references`)."""
    if run.is_fit:
        estimate = run.result["summary"]["estimate"]
        rivals = {
            "the most frequent class" if run.metric != "r2" else "the mean": estimate["guess"],
            "features alone": estimate["features"],
            "plain GCN": estimate["convolution"],
        }
        rows = run.result["summary"]["rows"]["scored"]
        kind = "kept apart" if estimate["source"] == "test" else "held out from training"
        interval = None if estimate["low"] is None else (estimate["low"], estimate["high"])
        return RunScore(estimate["score"], interval, rivals, f"{rows:,} rows {kind}")
    result = run.protocol_result
    rivals = {"the most frequent class" if run.metric != "r2" else "the mean": _guess(run)}
    rivals |= {"features alone": references.get("mlp"), "plain GCN": references.get("gcn")}
    splits = len({row.split for row in result.rows})
    seeds = len(result.rows) // splits
    scored_on = f"the test nodes of {splits} split{'s' * (splits > 1)}"
    if run.is_federated:
        scored_on = "the test nodes of the clients" + (f", mean of {splits} seeds" if splits > 1 else "")
    scored_on += f", {seeds} models each" if seeds > 1 else ""
    return RunScore(result.mean, _interval(run), rivals, scored_on, note)


def _interval(run: OpenedRun) -> tuple[float, float] | None:
    """Over splits; of one or two none."""
    rows = run.protocol_result.rows
    splits = sorted({row.split for row in rows})
    table = [[row.test for row in rows if row.split == split] for split in splits]
    try:
        return corrected_interval(table, run.split_shares)
    except PolyNSDError:
        return None


def _guess(run: OpenedRun) -> float | None:
    """The score of saying the same of every node: the class that is most frequent in training."""
    if run.metric == "r2":
        return 0.0
    if run.metric == "roc_auc":
        return 0.5
    if run.metric != "accuracy" or run.data is None or not run.splits:
        return None
    y = run.data.y.cpu().numpy()
    shares = []
    for split in run.splits:
        train, test = (np.asarray(getattr(split, part)) for part in ("train", "test"))
        shares.append(float((y[test] == np.bincount(y[train]).argmax()).mean()))
    return float(np.mean(shares))


def find_references(
    run: OpenedRun, runs: Sequence[OpenedRun], on_step: Callable[[str], None]
) -> tuple[dict[str, float], str]:
    """Test scores of simpler models by name, and in a sentence how they were trained if it was done here.

    Args:
        run: to compare with; a fit has tried simpler models itself.
        runs: all that were named.
        on_step: is called before models are trained.
    """
    if run.is_fit:
        return {}, ""
    own = _model_name(run)
    named = {
        _model_name(other): float(other.result["mean"])
        for other in runs
        if _model_name(other) in MODELS and _model_name(other) != own and _is_comparable(run, other)
    }
    if named or own in MODELS:
        return named, ""
    on_step(f"{run.name}: simpler models")
    splits = _choose_splits(run)
    scores = _train_references(run, splits) if splits else {}
    return scores, _describe_training(run, len(splits)) if scores else ""


def _model_name(run: OpenedRun) -> str:
    return "" if run.is_fit else str(run.record.config["model"].get("model"))


def _is_comparable(run: OpenedRun, other: OpenedRun) -> bool:
    """Whether both were scored on the same nodes of the same graph."""
    return run.metric == other.metric and run.record.inputs.get("splits") == other.record.inputs.get("splits")


def _choose_splits(run: OpenedRun) -> list[int]:
    """Places of the first splits, as many as are quick; none of a large graph."""
    data = run.data
    if data is None or data.num_nodes > MOST_NODES or not run.splits:
        return []
    cost = 6 * EPOCHS * HIDDEN * (data.num_nodes * data.num_features + 4 * data.num_edges + 1)
    places = {row["split"]: place for place, row in reversed(list(enumerate(run.result["splits"])))}
    return [places[split] for split in sorted(places)][: min(MOST_SPLITS, int(LIMIT // cost))]


def _train_references(run: OpenedRun, splits: Sequence[int]) -> dict[str, float]:
    """Test scores by model."""
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


def _describe_training(run: OpenedRun, count: int) -> str:
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
