"""Records: one YAML file per trained cell, and all of them as one table.

`load_records(results)` reads `results/records/EXPERIMENT/DATASET/CELL.yaml` into a pandas DataFrame with a
row per record, split and seed; tables, figures, comparisons and claims are functions of it:

    records = load_records(Path("results"), "leaderboard")
    records[records.is_current].groupby(["dataset", "row"], sort=False)["score"].mean()

`summarize` has a row per record, with means, deviations and the scores as an array [splits, seeds].

A record holds the settings of its cell when it was trained: graphs, protocol, features, rules, splits, seeds,
and the budget and space of a search. It is current as long as its cell still has these settings. One that
differs in budget or space alone is of an earlier search: it is searched anew when its cell is run, and until
then tables show it with a mark. Others are stale: no table shows them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polynsd.data.datasets.entries import ENTRIES
from polynsd.documents import read_document, to_yaml
from polynsd.errors import DataError, PolyNSDError
from polynsd.fields import fit_fields
from polynsd.optional import load_optional
from polynsd.published import published_model, published_training
from polynsd.runs.files import make_folder, write_durably
from polynsd.search.space import Space
from polynsd.stats import Shares
from polynsd.training.configuration import Configuration
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment, Matched, Procedure, cell_text

if TYPE_CHECKING:
    from pandas import DataFrame, Series

FOLDER = "records"  # below the folder of results
FIRST_SPLITS = "first"  # in the settings of a record that has only some of the splits: how many
SETTINGS_KEY = "question"  # the key of `settings` in the files
OF_SEARCH = {"space", "budget"}  # the settings of a search; they decide what is chosen, not what it is worth
DIGITS = 12
KEY = ("experiment", "dataset", "cell")  # of a record
RECORD_COLUMNS = (
    *KEY, "row", "protocol", "features", "rules", "metric", "ddof", "parameters", "seconds", "device",
    "precision", "commit", "train_share", "test_share", "trials", "search_seconds", "search_val",
    "is_searched", "is_partial", "is_current", "is_earlier", "configuration", "search", "measured",
)  # fmt: skip
SCORE_COLUMNS = ("split", "seed", "val", "score", "best_epoch", "epochs", "train", "train_loss")
SUMMARY_COLUMNS = (
    "mean", "std", "val", "train", "train_loss", "splits", "seeds", "split_numbers", "scores",
)  # fmt: skip
MARK_COLUMNS = ("marks", "best_published", "best_published_in")  # of `marks.mark_cells`

Array = NDArray[np.float64]


class Score(NamedTuple):
    """One trained model: its split, its seed, and what it reached. Metrics are fractions."""

    split: int
    seed: int
    val: float
    test: float
    best_epoch: int
    epochs: int
    train: float | None = None
    """The metric on the training nodes at the best epoch; None, like the loss, in older records."""
    train_loss: float | None = None


@dataclass(frozen=True)
class Record:
    """The file of a trained cell.

    Args:
        experiment: its name.
        dataset: its name.
        cell: the options that name the cell, e.g. `{"model": "gcn"}` or `{"maps": "general", "K": 4}`.
        metric: accuracy, roc_auc or r2.
        protocol: the rule of the splits.
        features: the rule of the features.
        rules: the training rules.
        ddof: of the standard deviation: 0 the population's, 1 the sample's.
        configuration: `{model: …, training: …}`.
        parameters: number of them.
        scores: one per split and seed, from seeds that no search has seen.
        search: None where nothing was searched; else space, trials, seconds and the best validation
            after each trial.
        seconds: of the training of the scores.
        device: what it ran on.
        commit: of the code.
        sizes: how many nodes a split trains, validates and tests on, in the mean over splits.
        settings: `cell_settings` when it was trained, and under `first` how many splits there are if
            not all.
        measured: what else is known of the trained models: by name, a number per score.
    """

    experiment: str
    dataset: str
    cell: Mapping[str, Any]
    metric: str
    protocol: str
    features: str
    rules: str
    ddof: int
    configuration: Mapping[str, Any]
    parameters: int
    scores: tuple[Score, ...]
    search: Mapping[str, Any] | None
    seconds: float
    device: str
    commit: str
    sizes: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether it has some of the splits only, so that it takes part in no comparison."""
        return FIRST_SPLITS in self.settings

    def save(self, path: Path) -> None:
        """Writes the file, all or nothing."""
        make_folder(path.parent)
        content = asdict(self) | {"cell": dict(self.cell), "scores": [list(score) for score in self.scores]}
        content[SETTINGS_KEY] = content.pop("settings")
        text = to_yaml(content, default_flow_style=None, width=110, allow_unicode=True)
        write_durably(path, text.encode())


def read_record(path: Path) -> Record:
    """Reads the file back; a `DataError` where it is no record."""
    try:
        content = read_document(path, "the record of an experiment").content
        content["settings"] = content.pop(SETTINGS_KEY, {})
        return fit_fields(Record, content)
    except PolyNSDError as error:
        raise DataError(
            f"{path} is no record of an experiment ({error}); move it away to train it again."
        ) from error


def digest(content: Any) -> str:
    """A short name for plain data: equal for equal content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def cell_settings(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    """All that decides what is trained, but for a fixed configuration, which a record holds anyway."""
    sources = experiment.sources(cell)
    first = sources[0]
    entry = ENTRIES.get(str(first.dataset))
    settings = {
        "graphs": digest([_graph_settings(source) for source in sources]),
        "protocol": first.protocol or "own",
        "features": first.features or ("own" if entry is None else entry.preprocessing),
        "rules": cell.rules,
        "splits": first.splits or "all",
        "seeds": experiment.seeds,
    }
    if not isinstance(cell.plan, Space):
        return settings
    space = digest([cell.plan.to_dict(), [dict(start) for start in cell.starts]])
    return {**settings, "space": space, "budget": asdict(experiment.budget(cell.dataset))}


def _graph_settings(source: Source) -> dict[str, Any]:
    """What distinguishes a graph: not where it is trained, nor how many splits of it."""
    default = Source()
    return {
        name: value
        for name, value in asdict(source).items()
        if name not in ("device", "splits") and value != getattr(default, name)
    }


def resolve(cell: Cell, folder: Path) -> Cell:
    """The cell itself; a control as it is by its winner's record in the folder, if there is one."""
    if not isinstance(cell.plan, Matched):
        return cell
    path = folder / cell.plan.winner.path
    if not path.exists():
        return cell
    return replace(cell, plan=Matched.control_of(recorded_configuration(read_record(path))))


def differences(record: Record, experiment: Experiment, cell: Cell) -> list[str]:
    """Names of the settings in which a record differs from its cell; empty where it is current.

    A control must have been resolved; that of a winner without a record differs in its `winner`.
    """
    if isinstance(cell.plan, Matched):
        return ["winner"]
    wanted = cell_settings(experiment, cell)
    recorded = {name: value for name, value in record.settings.items() if name != FIRST_SPLITS}
    names = [name for name in {**wanted, **recorded} if wanted.get(name) != recorded.get(name)]
    is_same = isinstance(cell.plan, Space) or _has_configuration(record, cell.plan)
    return names if is_same else [*names, "configuration"]


def _has_configuration(record: Record, configuration: Configuration | Procedure) -> bool:
    if isinstance(configuration, Procedure):
        return digest(configuration.complete(record.configuration)) == digest(configuration.settings())
    try:
        return recorded_configuration(record) == configuration
    except (PolyNSDError, KeyError, TypeError):  # options that no longer exist
        return False


def recorded_configuration(record: Record) -> Configuration:
    """The configuration of a record; options that did not exist when it was made have published values."""
    return Configuration(
        published_model(**record.configuration["model"]),
        published_training(**record.configuration["training"]),
    )


def is_current(path: Path, experiment: Experiment, cell: Cell) -> bool:
    """Whether the file is a current record of the cell; one that cannot be read is not."""
    try:
        known = resolve(cell, path.parents[1])
        return path.exists() and not differences(read_record(path), experiment, known)
    except DataError:
        return False


def load_records(results: Path, experiment: Experiment | str | None = None) -> DataFrame:
    """The tidy table of all records of an experiment, or of all experiments.

    Rows come in the order of the experiment's cells, stale records last. Columns:

        experiment, dataset, protocol, features, rules, metric, ddof
        cell            the options of the cell as text, e.g. `maps=diagonal;K=4`
        row             the model's row: the option `model`, or `polynsd-MAPS` where only maps are named
        model, K, …     one column per option that any of the cells has; None where the cell has not
        split, seed     of one training, with val, score (test; both fractions), best_epoch, epochs, train
                        (the metric on training nodes) and train_loss; NaN where the record does not say
        parameters, seconds (of all trainings of the record), device, precision, commit
        train_share, test_share    of the nodes of a split; NaN where the record does not say
        trials, search_seconds, search_val    of the search; 0, 0 and NaN where there was none
        is_searched, is_partial (first splits only)
        is_current, is_earlier     whether tables show it; whether it is then of an earlier search
        configuration, search, measured    the dictionaries of the record

    Args:
        results: the folder of `polynsd reproduce`.
        experiment: an experiment or its name; None: all.
    """
    from polynsd_paper.experiments import EXPERIMENTS, get_experiment

    if experiment is None:
        experiments = list(EXPERIMENTS.values())
    else:
        experiments = [get_experiment(experiment) if isinstance(experiment, str) else experiment]
    found: list[tuple[Record, Flags]] = []
    for each in experiments:
        folder = results / FOLDER / each.name
        cells = {folder / cell.path: cell for cell in each.cells()}
        own = []
        for path in [*filter(Path.exists, cells), *sorted(set(folder.glob("*/*.yaml")) - set(cells))]:
            record, others = read_record(path), {"cell"}
            if path in cells:
                others = set(differences(record, each, resolve(cells[path], folder)))
            own.append((record, Flags(others <= OF_SEARCH, bool(others) and others <= OF_SEARCH)))
        found += sorted(own, key=lambda pair: not pair[1].is_current)
    return records_table([record for record, _ in found], [flags for _, flags in found])


class Flags(NamedTuple):
    """What a record's settings say of it."""

    is_current: bool = True
    is_earlier: bool = False


def records_table(records: Sequence[Record], known: Sequence[Flags] | None = None) -> DataFrame:
    """The table of `load_records` for records in memory; all are current unless told otherwise."""
    pandas = load_optional("pandas", "tables of records need", "paper")
    known = known or [Flags()] * len(records)
    options = list(dict.fromkeys(name for record in records for name in record.cell))
    columns = [*RECORD_COLUMNS[:4], *options, *RECORD_COLUMNS[4:], *SCORE_COLUMNS]
    rows = [
        [shared[name] for name in columns[: -len(SCORE_COLUMNS)]] + list(score)
        for record, flags in zip(records, known, strict=True)
        for shared in [_record_columns(record, options) | flags._asdict()]
        for score in record.scores
    ]
    table = pandas.DataFrame(rows, columns=columns, dtype=object)
    typed = table.columns.difference(options, sort=False)  # 4 beside None stays an integer
    table[typed] = table[typed].infer_objects()
    flags = ("is_searched", "is_partial", "is_current", "is_earlier")
    return table.astype(dict.fromkeys(flags, bool))  # also without rows


def _record_columns(record: Record, options: Iterable[str]) -> dict[str, Any]:
    """What all rows of a record have in common."""
    search, nodes = record.search or {}, sum(record.sizes.values())
    maps = record.cell.get("maps")
    precision = record.configuration.get("training", {}).get("precision", "float32")
    return {
        **{name: getattr(record, name) for name in RECORD_COLUMNS if hasattr(record, name)},
        "cell": cell_text(record.cell),
        "row": str(record.cell.get("model", f"polynsd-{maps}" if maps else "polynsd")),
        **{name: record.cell.get(name) for name in options},
        "precision": "tf32" if record.device.endswith("TF32") else precision,
        "train_share": record.sizes["train"] / nodes if nodes else math.nan,
        "test_share": record.sizes["test"] / nodes if nodes else math.nan,
        "trials": search.get("trials", 0),
        "search_seconds": search.get("seconds", 0.0),
        "search_val": search.get("val", math.nan),
        "is_searched": bool(search),
    }


def split_shares(cell: Series[Any]) -> Shares | None:
    """Shares of the nodes that the splits of a record train, validate and test on; None where unknown."""
    train, test = cell["train_share"], cell["test_share"]
    return None if math.isnan(train) else Shares(train, max(1 - train - test, 0.0), test)


def option_names(records: DataFrame) -> list[str]:
    """The columns of a table that are options of cells: model, maps, K, …"""
    others = {*RECORD_COLUMNS, *SCORE_COLUMNS, *SUMMARY_COLUMNS, *MARK_COLUMNS}
    return [name for name in records.columns if name not in others]


def by_split(rows: DataFrame, column: str = "score") -> Array:
    """[splits, seeds] values of one record's rows, both in increasing order."""
    ordered = rows.sort_values(["split", "seed"])
    return np.array([values.to_list() for _, values in ordered.groupby("split")[column]])


def summarize(records: DataFrame) -> DataFrame:
    """A row per record, in their order: the columns of `load_records` that its rows share, and

    mean, std      of the test score; std over splits of the means over seeds, as in the literature. Of a
                   single split it is over the seeds, and NaN where there is one score only
    train, train_loss    means on the training nodes; NaN where the record does not say
    val            mean validation. Unlike that of the search, whose greatest value is partly luck, it is
                   from trainings that nothing was chosen by, so it may choose between records
    splits, seeds  how many; split_numbers has the numbers of the splits
    scores         the test scores as an array [splits, seeds]
    """
    pandas = load_optional("pandas", "tables of records need", "paper")
    table = records.drop_duplicates(list(KEY)).drop(columns=list(SCORE_COLUMNS)).reset_index(drop=True)
    groups = [group for _, group in records.groupby(list(KEY), sort=False)]
    scores = [by_split(group) for group in groups]
    spreads = [each.mean(axis=1).tolist() if len(each) > 1 else each[0].tolist() for each in scores]
    table["mean"] = [fmean(group["score"]) for group in groups]
    table["std"] = [
        math.nan if len(values) < 2 else (stdev if ddof else pstdev)(values)
        for values, ddof in zip(spreads, table["ddof"], strict=True)
    ]
    for name in ("val", "train", "train_loss"):
        table[name] = [fmean(group[name].astype(float)) for group in groups]
    table["splits"] = [len(each) for each in scores]
    table["seeds"] = [each.shape[1] for each in scores]
    table["split_numbers"] = [tuple(sorted(set(group["split"]))) for group in groups]
    table["scores"] = pandas.Series(scores, dtype=object)
    return table
