"""`Subject`: a run as a report sees it; what cannot be opened is a sentence instead."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from polynsd.data import Graph, Split
from polynsd.data.splits import PARTS
from polynsd.diagnostics.opened_run import ELSEWHERE, find_network, find_problem, load_models
from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.runs import RunRecord, read_run
from polynsd.stats import Shares
from polynsd.training.result import ProtocolResult

if TYPE_CHECKING:
    from polynsd.estimator.base import SheafEstimator

USUAL_SHARES = Shares(0.48, 0.32, 0.20)


@dataclass(frozen=True, eq=False)
class Subject:
    """A finished run of `polynsd train` (`protocol`) or `polynsd fit` (`model`), as far as it can be opened.

    Attributes:
        name: its folder's.
        record: the run as it lies on the disk.
        graph: under its user's ids and names; None where it cannot be read.
        data: the same as the models see it.
        models: of all splits and seeds, or of all folds of the ensemble's main network.
        labels: what each of them is.
        splits: the split of every model; empty of a fit.
        estimator: the ensemble of a fit.
        problems: why something is missing.
    """

    name: str
    record: RunRecord
    graph: Graph | None = None
    data: Any = None
    models: tuple[nn.Module, ...] = ()
    labels: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    estimator: SheafEstimator | None = None
    problems: tuple[str, ...] = field(default=())

    @property
    def result(self) -> dict[str, Any]:
        return self.record.result or {}

    @property
    def is_fit(self) -> bool:
        return self.record.kind == "model"

    @property
    def metric(self) -> str:
        return str(self.result["metric"])

    @property
    def protocol_result(self) -> ProtocolResult:
        """The scores of a run of `polynsd train`."""
        return ProtocolResult.from_dict(self.result)

    @property
    def split_shares(self) -> Shares:
        """Of the nodes; those of the usual splits where the run's own are not at hand."""
        if not self.splits:
            return USUAL_SHARES
        sizes = [float(np.asarray(getattr(self.splits[0], part)).sum()) for part in PARTS]
        return Shares(*(size / sum(sizes) for size in sizes))

    def with_problem(self, problem: Exception | str) -> Subject:
        return replace(self, problems=(*self.problems, str(problem)))


def open_subject(
    folder: str | Path,
    name: str,
    *,
    dataset: str | None = None,
    edges: Path | None = None,
    nodes: Path | None = None,
) -> Subject:
    """Opens a run, its graph and its models, each as far as it can be.

    Raises:
        DataError: the run has not finished.
        ConfigError: the run is neither a training nor a fit.
    """
    record = read_run(folder)
    if record.kind not in ("protocol", "model", *ELSEWHERE):
        raise ConfigError(
            f"{record.folder} is a {record.kind} run; a report is made of runs of polynsd train and polynsd "
            "fit."
        )
    if record.result is None:
        raise DataError(f"the run {record.folder} has not finished; start it again to go on.")
    subject = Subject(name, record)
    try:
        return _open_fit(subject, edges, nodes) if subject.is_fit else _open_protocol(subject, dataset)
    except PolyNSDError as error:
        return subject.with_problem(error)


def _open_protocol(subject: Subject, dataset: str | None) -> Subject:
    rows = subject.result["splits"]
    graph, problem = find_problem(subject.record, dataset)
    subject = replace(
        subject,
        graph=graph,
        data=problem.data,
        labels=tuple(f"split {row['split']}, seed {row['seed']}" for row in rows),
        splits=tuple(problem.splits[row["split"]] for row in rows),
    )
    try:
        return replace(subject, models=load_models(subject.record, problem))
    except PolyNSDError as error:
        return subject.with_problem(error)


def _open_fit(subject: Subject, edges: Path | None, nodes: Path | None) -> Subject:
    from polynsd.estimator.storage import read_tables_for, restore_estimator

    subject = replace(subject, graph=read_tables_for(subject.record, edges, nodes).graph)
    try:
        estimator = restore_estimator(subject.record)
        subject = replace(subject, estimator=estimator)
        weight, member = find_network(estimator)
        data = estimator.network_data(subject.graph, member.treatment)
    except PolyNSDError as error:
        return subject.with_problem(error)
    labels = (f"{member.name}, {weight:.0%} of the ensemble",) * len(member.models)
    return replace(subject, data=data, models=tuple(member.models), labels=labels)
