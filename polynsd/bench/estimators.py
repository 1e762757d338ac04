"""`bench estimator`: the default estimator against what a user would take instead, on the same nodes.

    records = compare_estimators(["texas", "cora"], splits=3, out=Path("comparison.jsonl"))
    print(summary_table(compare_methods(records)))  # polynsd.bench.comparison

A case is a graph, a share of labelled nodes and a split. Three quarters of the labelled nodes are for
training and one for validation, drawn class by class; all others are test nodes. A share of 0.8 is 60/20/20.
The estimator gets the labelled nodes and divides them itself. Every rival (`polynsd.bench.rivals`) then has
as many seconds for its search as the estimator took in this case. A method that fails leaves its error as
a record; a resumed comparison tries it again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polynsd.bench.rival_inputs import RivalInputs
from polynsd.bench.rivals import RIVALS, search_rival
from polynsd.data import Split, get_entry, open_graph, stratified_split
from polynsd.data.datasets.catalogue import search_folders
from polynsd.data.datasets.entries import ENTRIES
from polynsd.devices import get_device
from polynsd.documents import parse_json
from polynsd.errors import ConfigError, DataError, require_at_least, require_choice
from polynsd.estimator import SheafClassifier
from polynsd.runs.files import make_folder, require_file_name, storage_errors

logger = logging.getLogger("polynsd")

ESTIMATOR = "estimator"
METHODS = (ESTIMATOR, *RIVALS)
Key = tuple[str, float, int, str]  # graph, labels, split, method
SHARES = (0.8, 0.2, 0.05)
TRAINING = 0.75  # of the labelled nodes; the rest is for validation


@dataclass(frozen=True)
class Case:
    """A graph, as it is opened and by its name, the share of its nodes that are labelled, and a split."""

    dataset: str
    graph: str
    labels: float
    split: int

    def key(self, method: str) -> Key:
        return self.graph, self.labels, self.split, method


@dataclass(frozen=True)
class Record:
    """A method on a case.

    Attributes:
        graph: its name.
        labels: the share of labelled nodes, a quarter of them for validation.
        split: its number, which is also the seed.
        method: `estimator` or a rival.
        metric: accuracy or roc_auc.
        test: its value on the test nodes; None where the method failed.
        val: that on validation nodes; of the estimator, its own estimate.
        seconds: for the whole search.
        allowed: the seconds that a rival was given; None for the estimator.
        trials: configurations that were trained.
        parameters: of the one that was chosen; of the estimator, the weights of its ensemble.
        device: where networks trained.
        error: why there is no score.
    """

    graph: str
    labels: float
    split: int
    method: str
    metric: str
    test: float | None
    val: float | None
    seconds: float
    allowed: float | None
    trials: int
    parameters: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    error: str | None = None

    @property
    def key(self) -> Key:
        return self.graph, self.labels, self.split, self.method


def compare_estimators(
    datasets: Sequence[str] = (),
    *,
    labels: Sequence[float] = SHARES,
    splits: int = 5,
    methods: Sequence[str] = METHODS,
    seconds: float | None = None,
    device: str = "auto",
    out: Path | None = None,
    resume: bool = False,
    shard: tuple[int, int] = (0, 1),
    on_record: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Runs what is missing of a comparison and returns all its records.

    Args:
        datasets: names or archives; all graphs in the folder POLYNSD_DATA that have labels and features
            unless given.
        labels: shares of labelled nodes.
        splits: how many per graph and share.
        methods: the estimator and rivals, by name.
        seconds: for each rival; as many as the estimator took unless given.
        device: where networks train.
        out: a file of JSON lines, to which every record is appended as soon as it is there.
        resume: whether `out` may exist; its records are not made again.
        shard: (i, n): of the cases the i-th, (i + n)-th, …, so that n processes share the work and, if they
            like, the file.
        on_record: called with every new record.
    """
    cases = make_cases(datasets, labels, splits, shard)
    for method in methods:
        require_choice("method", method, METHODS)
    records = {} if out is None else _open_records(out, resume or shard[1] > 1)
    for case in cases:
        for record in run_case(case, methods, seconds, get_device(device), records):
            records[record.key] = record
            if out is not None:
                append_record(out, record)
            if on_record is not None:
                on_record(record)
    return list(records.values())


def make_cases(
    datasets: Sequence[str], labels: Sequence[float], splits: int, shard: tuple[int, int] = (0, 1)
) -> list[Case]:
    """The cases of a process, first one split of every graph, then the next; mistakes raise here."""
    require_at_least("splits", splits, 1)
    first, step = shard
    require_at_least("the number of processes", step, 1)
    if not 0 <= first < step:
        raise ConfigError(f"the processes are numbered 0 to {step - 1}; got {first}.")
    for share in labels:
        if not 0.0 < share < 1.0:
            raise ConfigError(f"the share of labelled nodes must lie in (0, 1); got {share!r}.")
    graphs = {dataset: graph_name(dataset) for dataset in datasets or find_datasets()}
    cases = product(range(splits), graphs.items(), labels)
    return [Case(*graph, share, split) for split, graph, share in cases][first::step]


def graph_name(dataset: str) -> str:
    """The name of a benchmark, or that of an archive without its folder."""
    path = Path(dataset)
    return path.stem if path.suffix == ".npz" else get_entry(dataset).name


def find_datasets() -> list[str]:
    """The archives in the data folder, by name where the catalogue knows them; small ones first."""
    folder = search_folders()[0]
    archives = sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_size)
    if not archives:
        raise DataError(f"there is no archive in {folder}; name a folder of archives in POLYNSD_DATA.")
    return [path.stem if path.stem in ENTRIES else str(path) for path in archives]


@lru_cache(maxsize=1)
def load_inputs(dataset: str, device: torch.device) -> RivalInputs | None:
    """The graph of a case; None, with a warning, where it has no features or no classes to learn."""
    graph, entry, _ = open_graph(dataset)
    if graph.x is None or graph.y is None or graph.is_regression:
        logger.warning("%s is left out: it has no features or no classes.", graph.name)
        return None
    plain = replace(graph, masks={}, class_names=None)  # classes are compared by their numbers
    return RivalInputs(plain, "accuracy" if entry is None else entry.metric, device)


def draw_split(case: Case, inputs: RivalInputs) -> Split:
    """3/4 of the labelled nodes for training, 1/4 for validation, all others for the test."""
    train = TRAINING * case.labels
    return stratified_split(inputs.y, (train, case.labels - train, 1.0 - case.labels), seed=case.split)


def run_case(
    case: Case,
    methods: Iterable[str],
    seconds: float | None,
    device: torch.device,
    known: Mapping[Key, Record],
) -> Iterator[Record]:
    """Records of the methods that have none yet; the estimator's comes first."""
    done = {key for key, record in known.items() if record.error is None}
    missing = [method for method in METHODS if method in methods and case.key(method) not in done]
    if not missing or (inputs := load_inputs(case.dataset, device)) is None:
        return
    split = draw_split(case, inputs)
    record = known.get(case.key(ESTIMATOR))
    if ESTIMATOR in missing:
        missing.remove(ESTIMATOR)
        record = run_method(ESTIMATOR, case, inputs, split, None)
        yield record
    allowed = seconds if seconds is not None or record is None else record.seconds
    if missing and allowed is None:
        raise ConfigError(
            f"a rival has as many seconds as the estimator took, which is not known for {case}. Run the "
            "estimator as well, or give the seconds."
        )
    for method in missing:
        yield run_method(method, case, inputs, split, allowed)


def run_method(method: str, case: Case, inputs: RivalInputs, split: Split, allowed: float | None) -> Record:
    """The record of a method; an error of any kind is a result too."""
    start, found = time.perf_counter(), dict[str, Any]()
    try:
        if allowed is None:
            found = fit_estimator(inputs, split, case.split)
        else:
            found = asdict(search_rival(method, inputs, split, allowed, case.split))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        found = {"test": None, "val": None, "trials": 0, "error": f"{type(error).__name__}: {reason}"}
        logger.warning("%s failed on %s: %s", method, case, found["error"])
    facts = {"graph": inputs.graph.name, "labels": case.labels, "split": case.split, "method": method}
    rest = {"metric": inputs.task.metric, "allowed": allowed, "device": inputs.device.type}
    return Record(**{**facts, **rest, "seconds": time.perf_counter() - start, **found})


def fit_estimator(inputs: RivalInputs, split: Split, seed: int) -> dict[str, Any]:
    """The default estimator on the labelled nodes, which alone carry a label."""
    labelled = (split.train | split.val).numpy()
    graph = replace(inputs.graph, y=np.where(labelled, inputs.y.numpy(), -1))
    model = SheafClassifier(metric=inputs.task.metric, device=str(inputs.device), random_state=seed)
    start = time.perf_counter()
    model.fit(graph)
    logits = np.full((len(labelled), inputs.graph.num_classes), -np.inf)
    logits[:, model.classes_] = np.log(np.maximum(model.predict_proba(), 1e-300))
    seconds = time.perf_counter() - start
    test = inputs.task.score(torch.from_numpy(logits)[split.test], inputs.y[split.test])
    return {
        "test": test,
        "val": model.estimate_.score,
        "seconds": seconds,
        "trials": len(model.candidates_),
        "parameters": {row["name"]: round(row["weight"], 3) for row in model.candidates_ if row["weight"]},
    }


# the file


def append_record(path: Path, record: Record) -> None:
    """One line in one write, so that several processes may append to one file."""
    line = (json.dumps(asdict(record), allow_nan=False, default=str) + "\n").encode()
    make_folder(path.parent)
    with storage_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def read_records(*paths: Path) -> list[Record]:
    """The records of one or several files; of a method on a case the last one counts."""
    records = {}
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = Record(**parse_json(line))
            except (TypeError, ValueError) as error:
                raise DataError(f"{path}, line {number}, is no record of a comparison: {error}.") from error
            records[record.key] = record
    return list(records.values())


def _open_records(path: Path, may_exist: bool) -> dict[Key, Record]:
    require_file_name(path)
    if not path.exists():
        return {}
    if not may_exist:
        raise ConfigError(f"{path} exists; resume it with resume=True (--resume), or name another file.")
    return {record.key: record for record in read_records(path)}
