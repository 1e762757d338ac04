"""A federated training as a run folder: what is written, and what `diagnose`, `report` and `predict` read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.config import from_options, to_dict
from polynsd.data import Graph, Split
from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.protocols import get_split
from polynsd.data.splits import PARTS
from polynsd.data.tables import TextFormat, predictions_table
from polynsd.data.tables.files import read_table
from polynsd.data.transforms import apply
from polynsd.errors import ConfigError, DataError
from polynsd.federated.client import seeded
from polynsd.federated.config import FederatedConfig
from polynsd.federated.methods import build_method
from polynsd.federated.outcome import KINDS, Choice, Outcome, ServerOptions
from polynsd.federated.partition import partition_graph
from polynsd.federated.payload import to_arrays
from polynsd.federated.sources import OWN_SPLIT, digest_columns, read_like
from polynsd.nn import count_parameters
from polynsd.runs import RunRecord, read_run
from polynsd.training.problem import Problem
from polynsd.training.replica import call_model
from polynsd.training.result import ProtocolResult, SplitResult
from polynsd.training.task import get_task

if TYPE_CHECKING:
    import pandas as pd

KIND = "federated"


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """A finished training: its outcome, models and record.

    Attributes:
        outcome: rounds chosen, scores, bytes.
        model: the chosen global model; None where the method shares no weights.
        local: by client, the networks of the local models of the round chosen for them.
        result: the record, whose scores are those of the global model, or of the local ones if there is none.
        seconds: of training.
    """

    outcome: Outcome
    model: nn.Module | None
    local: Mapping[str, Mapping[str, Tensor]]
    result: ProtocolResult
    seconds: float


def identify(config: FederatedConfig, options: ServerOptions) -> dict[str, Any]:
    """What a run is told to do, as its folder keeps it."""
    return {"model": {"model": f"federated {config.backbone}", **to_dict(config)}, "server": asdict(options)}


def read_config(record: RunRecord) -> FederatedConfig:
    """The configuration of a run."""
    return from_options(FederatedConfig, {n: v for n, v in record.config["model"].items() if n != "model"})


def summarise(
    config: FederatedConfig, options: ServerOptions, outcome: Outcome, about: Mapping[str, Any]
) -> tuple[nn.Module | None, ProtocolResult]:
    """The global model, and the record of a training."""
    model = restore_model(config, outcome.num_features, outcome.num_classes, outcome.arrays)
    choice = outcome.choices["local" if model is None else "global"]
    row = SplitResult(
        split=0,
        seed=config.seed,
        fingerprint="",
        val=choice.val,
        val_loss=float("nan"),
        test=choice.test,
        best_epoch=choice.round,
        epochs=config.rounds,
    )
    masks = "" if config.masks == "none" else f", masks {config.masks}"
    return model, ProtocolResult(
        metric=options.metric,
        rows=(row,),
        about=dict(about),
        model=f"{config.method} {config.backbone}{masks}",
        config=to_dict(config),
        parameters=0 if model is None else count_parameters(model),
        rules="federated",
        models=() if model is None else (model,),
    )


def restore_model(
    config: FederatedConfig, num_features: int, num_classes: int, arrays: Mapping[str, Any]
) -> nn.Module | None:
    """The causal branch with these weights; None where they are no weights of it."""
    method = build_method(config)
    with seeded(config.seed):
        model = method.build(config, num_features, num_classes)
    shared = method.shared(model)
    if shared.keys() != arrays.keys():
        return None
    with torch.no_grad():
        for name, parameter in shared.items():
            parameter.copy_(torch.as_tensor(arrays[name]))
    return model.eval()


def extras(outcome: Outcome, options: ServerOptions, config: FederatedConfig) -> dict[str, Any]:
    """What the record of a federated training has beside that of any other."""
    found: dict[str, Any] = {kind: asdict(choice) for kind, choice in outcome.choices.items()}
    found |= {"clients": list(outcome.names), "faults": outcome.faults}
    found |= {"bytes_to_clients": outcome.sent, "bytes_from_clients": outcome.received}
    found |= {"num_features": outcome.num_features, "num_classes": outcome.num_classes}
    found["columns"] = outcome.columns
    if options.privacy.is_noisy:
        found["epsilon"] = options.privacy.spent_epsilon(config.rounds)
    return {"federation": found}


def collect_weights(model: nn.Module | None, local: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The global model as number 0, and those of clients by their place."""
    weights = {} if model is None else {f"0.{name}": t for name, t in model.state_dict().items()}
    for number, networks in enumerate(local.values()):
        weights |= {f"clients.{number}.{name}": t for name, t in networks.items()}
    return weights


def read_result(folder: str | Path) -> FederatedResult:
    """A finished run, as its training returned it."""
    record = read_run(folder)
    assert record.result is not None
    facts = record.result["federation"]
    config, choices = read_config(record), {}
    for kind in KINDS:
        known = {name: value for name, value in facts[kind].items() if value is not None}  # null: NaN
        choices[kind] = Choice(**{"val": math.nan, **known})
    local: dict[str, dict[str, Tensor]] = {name: {} for name in facts["clients"]}
    for full, tensor in record.weights().items():
        if full.startswith("clients."):
            _, number, name = full.split(".", 2)
            local[facts["clients"][int(number)]][name] = tensor
    model = _load_causal(record, facts["num_features"], facts["num_classes"])
    outcome = Outcome(
        choices,
        {} if model is None else to_arrays(build_method(config).shared(model)),
        tuple(facts["clients"]),
        facts["num_features"],
        facts["num_classes"],
        facts["columns"],
        facts["bytes_to_clients"],
        facts["bytes_from_clients"],
        facts["faults"],
    )
    plain = {name: value for name, value in record.result.items() if name != "federation"}
    result = replace(ProtocolResult.from_dict(plain), models=() if model is None else (model,))
    return FederatedResult(outcome, model, local, result, record.timings.get("seconds", math.nan))


def find_problem(record: RunRecord, dataset: str | None = None) -> tuple[Graph, Problem]:
    """The whole graph of a federated training, with the parts of its clients put together.

    Args:
        record: of the run.
        dataset: a graph for a model whose clients kept theirs; the one of the run unless given.

    Raises:
        DataError: the graph is not found, or is not the one of the run.
    """
    inputs = record.inputs
    name = dataset or inputs.get("source") or inputs["dataset"]
    if "partition" not in inputs and dataset is None:
        raise DataError(
            f"the clients of {record.folder} kept their graphs; name a graph of your own with --dataset."
        )
    graph, entry, _ = open_graph(name)
    rule = inputs.get("settings", {}).get("features")
    if rule is None:  # of clients that kept their graphs, or of graphs that were divided as they were given
        rule = inputs.get("features") or ("raw" if entry is None else entry.preprocessing)
    treated = apply(rule, graph)
    if "partition" in inputs:
        split = _join_parts(record, graph)
    else:
        split = get_split(treated, "stored" if graph.masks else OWN_SPLIT, 0)
    task, seed = get_task((record.result or {})["metric"]), read_config(record).seed
    return graph, Problem(treated.to_pyg(), (split,), task, seed, {"dataset": graph.name, "features": rule})


def _join_parts(record: RunRecord, graph: Graph) -> Split:
    """The nodes that some client trained on, validated and tested."""
    settings = dict(record.inputs["settings"])
    fractions = tuple(settings.pop("fractions"))
    partition = partition_graph(graph, fractions=fractions, **settings)
    if partition.digest != record.inputs["partition"]:
        raise DataError(
            f"the model of {record.folder} belongs to another graph or partition: that of '{graph.name}' "
            "here is not the one of the run. Name the file of its graph with --dataset."
        )
    masks = {part: np.zeros(graph.num_nodes, dtype=bool) for part in PARTS}
    for nodes, client in zip(partition.nodes, partition.graphs, strict=True):
        for part in PARTS:
            masks[part][nodes] |= getattr(client.masks["default"], part)[0]
    return Split(*(torch.as_tensor(masks[part]) for part in PARTS))


def load_models(record: RunRecord, problem: Problem) -> tuple[nn.Module, ...]:
    """The global model of a run, in evaluation mode: without a mask, so every edge counts in full."""
    model = load_global(record, problem.data.num_features, (record.result or {})["federation"]["num_classes"])
    return (getattr(model, "model", model),)  # of a sheaf backbone, the model that measures know


def load_global(record: RunRecord, num_features: int, num_classes: int) -> nn.Module:
    """The causal branch of a run.

    Raises:
        DataError: the method shares no weights, or those of the run do not fit its configuration.
    """
    model = _load_causal(record, num_features, num_classes)
    if model is None:
        method = read_config(record).method
        raise DataError(f"{method} shares no weights, so {record.folder} holds the models of clients alone.")
    return model


def _load_causal(record: RunRecord, num_features: int, num_classes: int) -> nn.Module | None:
    config = read_config(record)
    state = {n.partition(".")[2]: t for n, t in record.weights().items() if n.startswith("0.")}
    if not state:
        return None
    model = build_method(config).build(config, num_features, num_classes)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"the weights of {record.folder} do not fit its configuration: {error}") from error
    return model.eval()


def predict_nodes(
    record: RunRecord, edges: Path | None, nodes: Path | None, dataset: str | None = None
) -> pd.DataFrame:
    """`id`, `prediction` and the probabilities of classes, for every node. No mask is used: every edge counts
    in full.

    Args:
        record: of a finished run.
        edges: a table with a row per edge.
        nodes: a table with a row per node; without tables, the graph of the run is predicted.
        dataset: a graph by name or file, in place of tables.

    Raises:
        DataError: the tables have other columns than the clients, or without tables there is no graph.
    """
    if record.result is None:
        raise DataError(f"the run {record.folder} has not finished; start it again to go on.")
    facts = record.result["federation"]
    if dataset is not None and (nodes or edges):
        raise ConfigError("name a graph with --dataset or tables with --nodes and --edges, not both.")
    if nodes is None:
        if edges is not None:
            raise ConfigError("a model needs the features of nodes; name the node table too, --nodes.")
        graph, problem = find_problem(record, dataset)
        data = problem.data
    else:
        graph = _read(record, edges, nodes)
        data = graph.to_pyg()
    model = load_global(record, facts["num_features"], facts["num_classes"])
    with torch.no_grad():
        probabilities = call_model(model, data).softmax(-1).numpy()
    names = graph.class_names or tuple(str(k) for k in range(facts["num_classes"]))
    return predictions_table(replace(graph, y=None, class_names=names), probabilities)


def _read(record: RunRecord, edges: Path | None, nodes: Path) -> Graph:
    """The graph of tables that have the columns of the clients, and perhaps one more, their labels."""
    facts = (record.result or {})["federation"]
    columns = list(read_table(nodes, TextFormat()).frame.columns)[1:]
    has_names = facts["columns"] != digest_columns(())  # features of archives may have none
    for left_out in (None, *columns) if has_names else (None, "label"):
        names = [name for name in columns if name != left_out]
        is_same = digest_columns(names) == facts["columns"] if has_names else True
        if is_same and len(names) == facts["num_features"]:
            return read_like(edges, nodes, names, classes=record.inputs.get("classes") or ())
    raise DataError(
        f"the columns of {nodes} are not those that the clients of {record.folder} had: after the ids it "
        f"needs {facts['num_features']} columns of the same names in the same order, and at most one more, "
        "the labels."
    )
