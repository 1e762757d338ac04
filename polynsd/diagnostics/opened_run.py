"""`open_run`: the models of a finished run and the graph that they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.config import ModelConfig, from_options
from polynsd.data import Graph, Split, make_graph, names, open_graph
from polynsd.data.generators import GENERATORS, parse_arguments
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.runs import RunRecord, read_run
from polynsd.stats import Shares
from polynsd.training.problem import Problem
from polynsd.training.result import ProtocolResult
from polynsd.training.source import Source
from polynsd.zoo import build_model
from polynsd.zoo.states import check_state

if TYPE_CHECKING:
    from polynsd.estimator.base import SheafEstimator
    from polynsd.estimator.networks import NetworkMember


FEDERATED = "polynsd.federated.runs"  # the opener of federated runs; its package stands above this one
USUAL_SHARES = Shares(0.48, 0.32, 0.20)


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A finished run with what is needed to call its models.

    Attributes:
        record: the run as it lies on the disk.
        name: that of its folder.
        graph: the graph under its user's ids and names.
        data: the same as the models see it: PyG's `Data` with treated features and labels.
        models: the trained ones, in evaluation mode; of a fit, those of its main network.
        labels: what each of them is: its split and seed, or its candidate and fold.
        splits: the split of every model; empty of a fit to tables, and of clients that kept their graphs.
        estimator: the ensemble of a fit.
        problems: why parts are missing; none unless the run was opened with `strict=False`.
    """

    record: RunRecord
    name: str
    graph: Graph | None = None
    data: Any = None
    models: tuple[nn.Module, ...] = ()
    labels: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    estimator: SheafEstimator | None = None
    problems: tuple[PolyNSDError, ...] = ()

    @property
    def result(self) -> dict[str, Any]:
        return self.record.result or {}

    @property
    def is_fit(self) -> bool:
        """Whether it is a run of `polynsd fit`."""
        return self.record.kind == "model"

    @property
    def is_federated(self) -> bool:
        """Whether it is a run of `polynsd federated`."""
        return self.record.kind == "federated"

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

    def mask(self, model: int, part: str) -> Tensor | None:
        """`[N]` the nodes of a part (train, val, test) for one of the models; None where none are known."""
        return torch.as_tensor(getattr(self.splits[model], part)) if self.splits else None

    def with_problem(self, problem: PolyNSDError) -> OpenedRun:
        return replace(self, problems=(*self.problems, problem))


def open_run(
    folder: str | Path,
    *,
    dataset: str | None = None,
    edges: Path | None = None,
    nodes: Path | None = None,
    strict: bool = True,
) -> OpenedRun:
    """Reads a run of `polynsd train`, `polynsd fit` or `polynsd federated`.

    Args:
        folder: of the run.
        dataset: the graph of `polynsd train`, where it is a file; benchmarks and generated graphs are found.
        edges: the edges of `polynsd fit`, where they are not where they were.
        nodes: its node table, likewise.
        strict: whether everything has to be there; otherwise `problems` says why parts are missing.

    Raises:
        DataError: the run has not finished; if strict, also where it holds no models, or the graph is not
            the one of the run.
        ConfigError: the run is of a kind that holds no models.
    """
    record = read_run(folder)
    if record.kind not in ("protocol", "model", "federated"):
        raise ConfigError(
            f"{record.folder} is a {record.kind} run, which holds no models; name a run of polynsd train or "
            "of polynsd fit."
        )
    if record.result is None:
        raise DataError(f"the run {record.folder} has not finished; start it again to go on.")
    opened = OpenedRun(record, Path(folder).resolve().name)
    try:
        opened = _open_fit(opened, edges, nodes) if opened.is_fit else _open_protocol(opened, dataset)
    except PolyNSDError as error:
        opened = opened.with_problem(error)
    if strict and opened.problems:
        raise opened.problems[0]
    return opened


def _open_protocol(opened: OpenedRun, dataset: str | None) -> OpenedRun:
    record, rows = opened.record, opened.result["splits"]
    find, load = _find_problem, _load_models
    if record.kind == "federated":
        opener = import_module(FEDERATED)
        find, load = opener.find_problem, opener.load_models
    graph, problem = find(record, dataset)
    opened = replace(
        opened,
        graph=graph,
        data=problem.data,
        labels=tuple(f"split {row['split']}, seed {row['seed']}" for row in rows),
        splits=tuple(problem.splits[row["split"]] for row in rows) if problem.splits else (),
    )
    try:
        return replace(opened, models=load(record, problem))
    except PolyNSDError as error:
        return opened.with_problem(error)


def _find_problem(record: RunRecord, dataset: str | None) -> tuple[Graph, Problem]:
    """The graph of a run of `polynsd train` under its user's names, and as the models see it."""
    source = _find_source(record, dataset)
    problem = source.problem(record.inputs["seed"])
    _require_same_graph(record, problem)
    if source.dataset is not None:
        return open_graph(source.dataset).graph, problem
    return make_graph(source.generate, **parse_arguments(source.generate, source.data)), problem


def _load_models(record: RunRecord, problem: Problem) -> tuple[nn.Module, ...]:
    """The models of a run of `polynsd train`, one for each row of its result."""
    weights = record.weights()
    if not weights:
        raise DataError(
            f"the run {record.folder} was finished without its models; train it again to keep them."
        )
    config = from_options(ModelConfig, record.config["model"])
    outputs = problem.task.num_outputs(problem.data.y)
    models = []
    for number in range(len((record.result or {})["splits"])):
        state = {n.partition(".")[2]: t for n, t in weights.items() if n.partition(".")[0] == str(number)}
        try:
            check_state(config, (problem.data.num_features, outputs), state)
            model = build_model(config, problem.data.num_features, outputs)
            model.load_state_dict(state)
        except (DataError, RuntimeError) as error:
            raise DataError(
                f"the weights of {record.folder} do not fit its configuration: {error}"
            ) from error
        models.append(model.eval())
    return tuple(models)


def _find_source(record: RunRecord, dataset: str | None) -> Source:
    """Where the graph of a run comes from: the file that is named, a benchmark, or a generator."""
    arguments = dict(ProtocolResult.from_dict(record.result or {}).about)
    name = arguments.pop("dataset")
    rules: dict[str, Any] = {key: arguments.pop(key) for key in ("protocol", "features")}
    rules |= {"metric": record.inputs["metric"], "splits": len(record.inputs["splits"])}
    if dataset is not None:
        return Source(dataset, **rules)
    if name in names():
        return Source(name, **rules)
    for generator in GENERATORS:
        if _makes(generator, arguments, name):
            data = tuple(f"{key}={value}" for key, value in arguments.items())
            return Source(generate=generator, data=data, **rules)
    raise DataError(
        f"the run {record.folder} was trained on the graph '{name}', which is no benchmark; name its file "
        "with --dataset."
    )


def _makes(generator: str, arguments: Mapping[str, Any], name: str) -> bool:
    """Whether a generator makes the graph of that name, which ends with a hash of all arguments."""
    try:
        return make_graph(generator, **arguments).name == name
    except PolyNSDError:
        return False


def _require_same_graph(record: RunRecord, problem: Problem) -> None:
    here = problem.identity()
    if here["graph"] != record.inputs["graph"] or here["splits"] != record.inputs["splits"]:
        what = "graph" if here["graph"] != record.inputs["graph"] else "splits"
        raise DataError(
            f"the model of {record.folder} belongs to another graph: the {what} of '{here['dataset']}' here "
            f"and in the run are not the same. Name the file of its graph with --dataset."
        )


def _open_fit(opened: OpenedRun, edges: Path | None, nodes: Path | None) -> OpenedRun:
    """The network with the largest weight in the ensemble, one model per fold."""
    from polynsd.estimator.storage import read_tables_for, restore_estimator

    opened = replace(opened, graph=read_tables_for(opened.record, edges, nodes).graph)
    try:
        estimator = restore_estimator(opened.record)
        opened = replace(opened, estimator=estimator)
        weight, member = _find_network(estimator)
        data = estimator.network_data(opened.graph, member.treatment)
    except PolyNSDError as error:
        return opened.with_problem(error)
    labels = tuple(
        f"{member.name} ({weight:.0%} of the ensemble), fold {i}" for i in range(len(member.models))
    )
    return replace(opened, data=data, models=tuple(member.models), labels=labels)


def _find_network(estimator: SheafEstimator) -> tuple[float, NetworkMember]:
    """The network with the largest weight in an ensemble, and that weight."""
    from polynsd.estimator.networks import NetworkMember

    networks = [
        (chosen.weight, chosen.member)
        for chosen in estimator.members_
        if isinstance(chosen.member, NetworkMember)
    ]
    if not networks:
        kinds = ", ".join(chosen.member.name for chosen in estimator.members_)
        raise DataError(f"the ensemble has no network to look into; it consists of {kinds}.")
    return max(networks, key=lambda pair: (pair[0], pair[1].configuration.model.layer.degree))
