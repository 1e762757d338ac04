"""`open_run`: the models of a finished run and the graph that they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from polynsd.config import ModelConfig, from_options
from polynsd.data import Graph, Split, make_graph, names, open_graph
from polynsd.data.generators import GENERATORS, parse_arguments
from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.runs import RunRecord, read_run
from polynsd.training.problem import Problem, Source
from polynsd.training.result import ProtocolResult
from polynsd.zoo import build_model
from polynsd.zoo.states import check_state

if TYPE_CHECKING:
    from polynsd.estimator.base import SheafEstimator
    from polynsd.estimator.networks import NetworkMember


ELSEWHERE = {"federated": "polynsd.federated.runs"}  # kinds of runs that another package opens, by its module


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A finished run with all that is needed to call its models.

    Attributes:
        record: the run as it lies on the disk.
        graph: the graph under its user's ids and names.
        data: the same as the models see it: PyG's `Data` with treated features and labels.
        models: the trained ones, in evaluation mode.
        labels: what each of them is: its split and seed, or its candidate and fold.
        splits: the split of every model; empty of a fit to tables.
    """

    record: RunRecord
    graph: Graph
    data: Any
    models: tuple[nn.Module, ...]
    labels: tuple[str, ...]
    splits: tuple[Split, ...] = ()

    def mask(self, model: int, part: str) -> Tensor | None:
        """`[N]` the nodes of a part (train, val, test) for one of the models; None where none are known."""
        return torch.as_tensor(getattr(self.splits[model], part)) if self.splits else None


def open_run(
    folder: str | Path,
    *,
    dataset: str | None = None,
    edges: Path | None = None,
    nodes: Path | None = None,
) -> OpenedRun:
    """Reads a run of `polynsd train`, `polynsd fit` or `polynsd federated`.

    Args:
        folder: of the run.
        dataset: the graph of `polynsd train`, where it is a file; benchmarks and generated graphs are found.
        edges: the edges of `polynsd fit`, where they are not where they were.
        nodes: its node table, likewise.

    Raises:
        DataError: the run has not finished, holds no models, or the graph is not the one of the run.
        ConfigError: the run is of a kind that holds no models.
    """
    record = read_run(folder)
    if record.result is None:
        raise DataError(f"the run {record.folder} has not finished; start it again to go on.")
    if record.kind == "protocol" or record.kind in ELSEWHERE:
        return _open_protocol(record, dataset)
    if record.kind == "model":
        return _open_fit(record, edges, nodes)
    raise ConfigError(
        f"{record.folder} is a {record.kind} run, which holds no models; name a run of polynsd train or of "
        "polynsd fit."
    )


def _open_protocol(record: RunRecord, dataset: str | None) -> OpenedRun:
    graph, problem = find_problem(record, dataset)
    models = load_models(record, problem)
    rows = (record.result or {})["splits"]
    labels = tuple(f"split {row['split']}, seed {row['seed']}" for row in rows)
    splits = tuple(problem.splits[row["split"]] for row in rows)
    return OpenedRun(record, graph, problem.data, models, labels, splits)


def find_problem(record: RunRecord, dataset: str | None = None) -> tuple[Graph, Problem]:
    """The graph of a finished run of `polynsd train` under its user's names, and as the models see it.

    Raises:
        DataError: the graph is not found, or is not the one of the run.
    """
    if record.kind in ELSEWHERE:
        found: tuple[Graph, Problem] = import_module(ELSEWHERE[record.kind]).find_problem(record, dataset)
        return found
    source = _find_source(record, dataset)
    problem = source.problem(record.inputs["seed"])
    _require_same_graph(record, problem)
    return open_graph(source.dataset).graph if source.dataset else _generate(source), problem


def load_models(record: RunRecord, problem: Problem) -> tuple[nn.Module, ...]:
    """The models of a finished run of `polynsd train`, in evaluation mode, one for each row of its result.

    Raises:
        DataError: the run holds no models, or others than its configuration says.
    """
    if record.kind in ELSEWHERE:
        loaded: tuple[nn.Module, ...] = import_module(ELSEWHERE[record.kind]).load_models(record, problem)
        return loaded
    weights = _weights(record)
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


def _weights(record: RunRecord) -> dict[str, Tensor]:
    weights = record.weights()
    if not weights:
        raise DataError(
            f"the run {record.folder} was finished without its models; train it again to keep them."
        )
    return weights


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


def _generate(source: Source) -> Graph:
    return make_graph(source.generate, **parse_arguments(source.generate, source.data))


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


def _open_fit(record: RunRecord, edges: Path | None, nodes: Path | None) -> OpenedRun:
    """The network with the largest weight in the ensemble, one model per fold."""
    from polynsd.estimator.storage import read_tables_for, restore_estimator

    estimator = restore_estimator(record)
    weight, member = find_network(estimator)
    graph = read_tables_for(record, edges, nodes).graph
    data = estimator.network_data(graph, member.treatment)
    labels = tuple(
        f"{member.name} ({weight:.0%} of the ensemble), fold {i}" for i in range(len(member.models))
    )
    return OpenedRun(record, graph, data, tuple(member.models), labels)


def find_network(estimator: SheafEstimator) -> tuple[float, NetworkMember]:
    """The network with the largest weight in an ensemble, and that weight.

    Raises:
        DataError: it has none.
    """
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
