"""Tables in which every model of a graph is searched with the same budget.

leaderboard   nine standard graphs, and Cornell with its own features and labels
filtered      the Wikipedia graphs without the copies that leak labels into the test set
malignant     60/20/20 splits by both rules that the literature calls so. `luan-60-20-20` takes equally many
              training nodes of every class, `random-60-20-20` a plain permutation, so their test sets differ;
              numbers are compared within one rule only
platonov      the heterophilous graphs of Platonov et al., 50/25/25, with their own metrics;
              roman_empire_glovesub has other features in place of those that are not free
city          16-hop eccentricity of street corners, 10/10/80, one fixed split and three seeds. Two official
              sub-regions and street-like graphs of five other towns are what a smaller machine holds
long-search   PolyNSD alone, with more trials. It is compared with nobody: others had fewer trials, and the
              graphs and first shapes were picked when the leaderboard had been seen, test scores included

`control of X` is what the search of row X chose, trained again with identity maps and nothing else changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from polynsd.training.source import Source
from polynsd_paper.experiment import Budget, Cell, Experiment, Matched
from polynsd_paper.experiments.block import LONGEST, own_space, own_starts
from polynsd_paper.experiments.models import (
    CONSTANT,
    CONSTANT_STARTS,
    DECAY,
    FAMILIES,
    MODEL_ROWS,
    PUBLISHED_WEBKB,
    STARTS,
    WIKIPEDIA,
    WITH_ADJACENCY,
    ModelRow,
)

STANDARD = ("texas", "wisconsin", "cornell", "film", "squirrel", "chameleon", "citeseer", "pubmed", "cora")
WEBKB = ("texas", "wisconsin", "cornell", "cornell_fixed")
FILTERED_GRAPHS = ("chameleon_filtered", "squirrel_filtered")
SUBSTITUTE = "roman_empire_glovesub"  # in no paper: the graph of roman_empire with other features
PLATONOV_GRAPHS = ("roman_empire", "amazon_ratings", "minesweeper", "tolokers", "questions", SUBSTITUTE)
SMALL = Budget(seconds=600, splits=5)  # so small that three splits are mostly noise
MIDDLE = Budget(seconds=300, splits=2, run_off=5)
LARGE = Budget(seconds=300, splits=1, run_off=4)
BUDGETS = {
    **dict.fromkeys(WEBKB, SMALL),
    **dict.fromkeys(("chameleon", "citeseer", "cora"), MIDDLE),
    **dict.fromkeys(("film", "pubmed", "squirrel"), LARGE),
}
# Validation accuracy on some fifty nodes is mostly noise, so the loss chooses the epoch; with much dropout it
# goes on falling for hundreds of epochs, with pauses.
FEW_NODES: dict[str, Any] = {
    "training.select": "loss",
    "training.patience": 200,
    "model.layer.fixed_channels": [[], ["laplacian"], ["laplacian", "signless"]],
}
ALL_ROWS = {**MODEL_ROWS, **WITH_ADJACENCY}
CONTROL = "control of "


def with_controls(rows: Iterable[str]) -> tuple[str, ...]:
    """The rows, and after every PolyNSD its control."""
    pairs = ((row, CONTROL + row) if row.startswith("polynsd") else (row,) for row in rows)
    return tuple(name for pair in pairs for name in pair)


def searched_cell(dataset: str, model: str, protocol: str = "geom-gcn") -> Cell:
    """A model of `ALL_ROWS`, or the control of one, on a standard or filtered graph."""
    if model.startswith(CONTROL):
        return control_cell(model, searched_cell(dataset, model.removeprefix(CONTROL), protocol))
    return row_cell(dataset, model, ALL_ROWS[model], protocol)


def control_cell(model: str, winner: Cell) -> Cell:
    """The matched control of a cell; `model` is what it is called."""
    return replace(winner, options={**winner.options, "model": model}, plan=Matched(winner), starts=())


def row_cell(dataset: str, model: str, row: ModelRow, protocol: str = "geom-gcn") -> Cell:
    """A row of any table on a standard or filtered graph."""
    features = "raw" if dataset in WIKIPEDIA else None  # better on validation than the dataset's own rule
    source = Source(dataset, protocol=protocol, features=row.features or features)
    if row.of_dataset is not None:
        space, starts = row.of_dataset(dataset)
        return Cell(dataset, {"model": model}, space, sources=(source,), starts=starts)
    is_small = dataset in WEBKB
    has_common_starts = row.is_sheaf and not row.own_starts
    starts = row.starts(dataset)
    if is_small and has_common_starts:
        starts = (PUBLISHED_WEBKB, *starts[1:])
    space = row.space(FEW_NODES if is_small else {})
    return Cell(dataset, {"model": model}, space, sources=(source,), starts=starts)


def _leaderboard_cell(dataset: str, model: str) -> Cell | None:
    if model.removeprefix(CONTROL) in WITH_ADJACENCY and dataset not in WIKIPEDIA:
        return None
    return searched_cell(dataset, model)


def _malignant_cell(dataset: str, rule: str, model: str) -> Cell:
    cell = searched_cell(dataset, model.removeprefix(CONTROL), protocol=rule)
    cell = replace(cell, options={"rule": rule, **cell.options})
    return control_cell(model, cell) if model.startswith(CONTROL) else cell


LEADERBOARD = Experiment(
    "leaderboard",
    "every model on the nine standard graphs",
    "geom-gcn",
    (*STANDARD, "cornell_fixed"),
    {"model": with_controls(ALL_ROWS)},
    _leaderboard_cell,
    budgets=BUDGETS,
    minutes="13 s of an H200 per sheaf model and graph, 3 s per other",
    paper="the leaderboard",
)
FILTERED = Experiment(
    "filtered",
    "every model on the Wikipedia graphs without copies",
    "geom-gcn",
    FILTERED_GRAPHS,
    {"model": with_controls(ALL_ROWS)},
    searched_cell,
    budgets=dict.fromkeys(FILTERED_GRAPHS, Budget(seconds=300, splits=3)),
    minutes="7 s of an H200 per sheaf model and graph, 5 s per other",
    paper="the filtered graphs",
)
MALIGNANT = Experiment(
    "malignant",
    "every model under both 60/20/20 rules",
    "luan-60-20-20",
    ("texas", "wisconsin", "film", "cornell"),
    {"rule": ("luan-60-20-20", "random-60-20-20"), "model": with_controls(MODEL_ROWS)},
    _malignant_cell,
    budgets=BUDGETS,
    minutes="18 s of an H200 per sheaf model on texas, 9 s per other",
    paper="malignant heterophily",
)


# The graphs of Platonov et al. and the streets reward depth: trainings are longer, and sheaf models may have
# twelve layers and batch norm. Tuned rivals may have sixteen layers and 2,500 epochs, as published; the
# library's own block may have as many epochs. Other baselines keep the depths of their own spaces.
LONGER: dict[str, Any] = {
    "model.layer.dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    "training.patience": 200,
    "training.weight_decay": {**DECAY, "high": 1e-3},
    "training.sheaf_decay": {**DECAY, "high": 1e-3},
}
TUNED: dict[str, Any] = {**LONGER, **LONGEST, "model.num_layers": {"low": 2, "high": 16}}
DEEPER: dict[str, Any] = {
    **LONGER,
    "model.input_dropout": {"low": 0.0, "high": 0.2, "step": 0.1},
    "model.num_layers": [4, 8, 12],
    "model.layer.stalk_dim": [2, 4],
    "model.layer.degree": [1, 2, 4],
    "model.layer.norm": ["layer", "batch"],
}
DEEP_START: dict[str, Any] = {  # of sheaf models with a tanh gate
    "model.num_layers": 8,
    "model.layer.stalk_dim": 2,
    "model.layer.norm": "batch",
    "model.layer.activation": "relu",
    "model.layer.coefficients": "free",
    "model.layer.degree": 4,
    "model.layer.mixing": "full",
}
_SHORTCUT = {**DEEP_START, "model.layer.maps": "diagonal", "model.layer.gate": "shortcut"}
_SHORTCUTS = (_SHORTCUT, {**_SHORTCUT, "model.num_layers": 12, "model.layer.degree": 2})
SHORTCUT_STARTS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "polynsd-constant": _SHORTCUTS,
    "identity-sheaf-shortcut": _SHORTCUTS,
}


def _deep_cell(dataset: str, model: str, source: Source) -> Cell:
    if model.startswith(CONTROL):
        return control_cell(model, _deep_cell(dataset, model.removeprefix(CONTROL), source))
    row = MODEL_ROWS[model]
    if model == "polynsd":
        space, starts = own_space({**LONGER, **LONGEST}), own_starts(dataset)
    elif row.of_dataset is not None:
        space, starts = row.of_dataset(dataset)
    elif row.is_sheaf:
        space, starts = row.space(DEEPER), SHORTCUT_STARTS.get(model, (DEEP_START,))
    else:
        changes = TUNED if model.startswith("tuned-") or model == "polynormer" else LONGER
        space, starts = row.space(changes), row.starts(dataset)
    return Cell(dataset, {"model": model}, space, sources=(source,), starts=starts)


def _platonov_cell(dataset: str, model: str) -> Cell:
    return _deep_cell(dataset, model, Source(dataset, protocol="platonov"))


def _city_cell(dataset: str, model: str) -> Cell:
    source = Source(dataset, protocol="city-10-10-80", features="standardize", splits=1)
    return _deep_cell(dataset, model, source)


PLATONOV = Experiment(
    "platonov",
    "every model on the heterophilous graphs of Platonov et al.",
    "platonov",
    PLATONOV_GRAPHS,
    {"model": with_controls(MODEL_ROWS)},
    _platonov_cell,
    ddof=1,
    budgets=dict.fromkeys(PLATONOV_GRAPHS, Budget(32, seconds=240, splits=1, finalists=2, run_off=2)),
    minutes="83 s of an H200 for PolyNSD on minesweeper, 59 s on tolokers, 1–33 s per other",
    paper="the new heterophilous graphs",
)
CITIES = ("paris", "shanghai", "la", "london")
STREETS = (
    "huangpu", "pasadena", "citylike_aleppo", "citylike_bucaramanga", "citylike_douala", "citylike_liege",
    "citylike_wuhan", *CITIES,
)  # fmt: skip
CITY = Experiment(
    "city",
    "16-hop eccentricity on street graphs",
    "city-10-10-80",
    STREETS,
    {
        "model": (
            "polynsd-diagonal", "nsd-diagonal", "identity-sheaf", "poly-spectral", "chebnet", "chebnetii",
            "bernnet", "gcn", "sage", "gat", "gcnii", "dropedge", "residual-sage", "tuned-gcn", "tuned-sage",
            "sgformer", "mlp",
        )
    },
    _city_cell,
    ddof=1,
    budgets=dict.fromkeys(STREETS, Budget(32, seconds=240, splits=1, finalists=2)),
    minutes="2 to 70 s of an H200 per model on huangpu",
    paper="City-Networks",
)  # fmt: skip


WIKIPEDIA_GRAPHS = (*WIKIPEDIA, "squirrel_filtered", "chameleon_filtered")
LONG_GRAPHS = (*WIKIPEDIA_GRAPHS, "film", "citeseer", "cora", "wisconsin", "cornell")
_DEEP, _SECOND, _, _PUBLISHED = STARTS
# What searches of the leaderboard chose: normalised, deep, published, shallow, with a second linear layer.
LONG_STARTS = (
    {**_DEEP, "model.layer.norm": "layer"}, _DEEP, _PUBLISHED, {**_DEEP, "model.num_layers": 1}, _SECOND,
)  # fmt: skip
_MAPS = {"model.layer.maps": list(FAMILIES)}
LONG_ROWS = {
    "polynsd": ModelRow("polynsd", _MAPS),
    "polynsd+adjacency": ModelRow("polynsd", _MAPS, features="adjacency"),
    "polynsd-constant": CONSTANT,
    "polynsd-constant+adjacency": replace(CONSTANT, features="adjacency"),
    # Two and four times as wide: eight layers with shortcuts, filters from one hop on.
    "polynsd-wide": replace(
        CONSTANT,
        ranges={**CONSTANT.ranges, "model.hidden_channels": [64, 128]},
        own_starts=tuple({**CONSTANT_STARTS[1], "model.hidden_channels": width} for width in (128, 64)),
    ),
}


def _long_cell(dataset: str, model: str) -> Cell | None:
    if model.startswith(CONTROL):
        winner = _long_cell(dataset, model.removeprefix(CONTROL))
        return None if winner is None else control_cell(model, winner)
    row, is_wikipedia, is_small = LONG_ROWS[model], dataset in WIKIPEDIA_GRAPHS, dataset in WEBKB
    if row.features and not is_wikipedia:
        return None
    source = Source(dataset, features=row.features or ("raw" if is_wikipedia else None))
    space = row.space(FEW_NODES if is_small else {})
    common = (PUBLISHED_WEBKB, *LONG_STARTS[1:]) if is_small else LONG_STARTS
    return Cell(dataset, {"model": model}, space, sources=(source,), starts=row.own_starts or common)


LONG_SEARCH = Experiment(
    "long-search",
    "PolyNSD alone, searched longer",
    "geom-gcn",
    LONG_GRAPHS,
    {"model": with_controls(LONG_ROWS)},
    _long_cell,
    budgets={
        **dict.fromkeys(LONG_GRAPHS, Budget(trials=128, seconds=900, splits=2, finalists=4)),
        **dict.fromkeys(("wisconsin", "cornell"), Budget(trials=128, seconds=3600, splits=5, finalists=5)),
    },
    minutes="37 s of an H200 for chameleon, 90 s for filtered chameleon with wide models",
)
