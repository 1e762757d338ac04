"""A federated training as a run folder: what is written, and what `diagnose`, `report` and `predict` read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.config import from_options, to_dict
from polynsd.data import Graph, Split
from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.splits import PARTS
from polynsd.data.tables import TextFormat, predictions_table
from polynsd.data.tables.files import read_table
from polynsd.data.transforms import apply
from polynsd.errors import ConfigError, DataError
from polynsd.federated.client import seeded
from polynsd.federated.config import FederatedConfig, ServerOptions
from polynsd.federated.data import digest_columns, read_like, repeat_partition
from polynsd.federated.methods import build_method, to_arrays
from polynsd.federated.scores import KINDS, Choice, Outcome
from polynsd.nn import count_parameters
from polynsd.runs import Run, RunRecord, read_run
from polynsd.training.problem import Problem
from polynsd.training.replica import call_model
from polynsd.training.result import ProtocolResult, SplitResult
from polynsd.training.task import get_task

if TYPE_CHECKING:
    import pandas as pd

KIND = "federated"


@dataclass(frozen=True, eq=False)
class SeedResult:
    """One finished training.

    Attributes:
        outcome: rounds chosen, scores, bytes.
        model: the chosen global model; None where the method shares no weights.
        local: by client, the networks of the local models of the round chosen for them.
    """

    outcome: Outcome
    model: nn.Module | None
    local: Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """A finished run: one training, or one for each of several seeds.

    Attributes:
        seeds: the trainings.
        result: the record, whose scores are those of global models, or of local ones if there are none.
        seconds: of training.
    """

    seeds: tuple[SeedResult, ...]
    result: ProtocolResult
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """Of the first seed."""
        return self.seeds[0].outcome

    @property
    def model(self) -> nn.Module | None:
        """Of the first seed."""
        return self.seeds[0].model


def identify(config: FederatedConfig, options: ServerOptions) -> dict[str, Any]:
    """What a run is told to do, as its folder keeps it."""
    return {"model": {"model": f"federated {config.backbone}", **to_dict(config)}, "server": asdict(options)}


def read_config(record: RunRecord) -> FederatedConfig:
    """The configuration of a run."""
    return from_options(FederatedConfig, {n: v for n, v in record.config["model"].items() if n != "model"})


def summarise(
    config: FederatedConfig, options: ServerOptions, seeds: Sequence[SeedResult], about: Mapping[str, Any]
) -> ProtocolResult:
    """The record of a run; its splits are the seeds."""
    rows = []
    for number, seed in enumerate(seeds):
        choice = seed.outcome.choices["local" if seed.model is None else "global"]
        rows.append(
            SplitResult(
                split=number,
                seed=config.seed + number,
                fingerprint="",
                val=choice.val,
                val_loss=math.nan,
                test=choice.test,
                best_epoch=choice.round,
                epochs=config.rounds,
            )
        )
    models = tuple(seed.model for seed in seeds if seed.model is not None)
    masks = "" if config.masks == "none" else f", masks {config.masks}"
    pooled = {"union": "one client", "whole": "one client, cut edges"}
    who = pooled.get(about.get("division", ""), "global model" if models else "local models")
    return ProtocolResult(
        metric=options.metric,
        rows=tuple(rows),
        about=dict(about),
        model=f"{config.method} {config.backbone}{masks} ({who})",
        config=to_dict(config),
        parameters=count_parameters(models[0]) if models else 0,
        rules="federated",
        models=models,
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


def finish_run(
    run: Run,
    config: FederatedConfig,
    options: ServerOptions,
    seeds: Sequence[SeedResult],
    result: ProtocolResult,
    timings: Mapping[str, Any] | None = None,
) -> None:
    """Writes the result of a run: that of any other training, what `encode_seeds` has, and ε."""
    facts, weights = encode_seeds(seeds)
    federation: dict[str, Any] = {"seeds": facts}
    if options.privacy.is_noisy:
        federation["epsilon"] = options.privacy.spent_epsilon(config.rounds)
    run.finish({**result.to_dict(), "federation": federation}, weights, timings=timings)


def encode_seeds(seeds: Sequence[SeedResult]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Finished trainings as data and tensors: `1.…` the global model of the second seed, `clients.1.0.…` the
    networks of its first client.
    """
    facts, weights = [], dict[str, Tensor]()
    for number, seed in enumerate(seeds):
        outcome = seed.outcome
        known = asdict(replace(outcome, arrays={}))
        facts.append({name: value for name, value in known.items() if name != "arrays"})
        if seed.model is not None:
            weights |= {f"{number}.{name}": t for name, t in seed.model.state_dict().items()}
        for client, name in enumerate(outcome.names):
            networks = seed.local.get(name, {})
            weights |= {f"clients.{number}.{client}.{key}": t for key, t in networks.items()}
    return facts, weights


def decode_seeds(
    config: FederatedConfig, facts: Sequence[Mapping[str, Any]], weights: Mapping[str, Tensor]
) -> list[SeedResult]:
    """The inverse of `encode_seeds`."""
    seeds = []
    for number, known in enumerate(facts):
        choices = {}
        for kind in KINDS:
            choice = known["choices"][kind]
            values = {name: value for name, value in choice.items() if value is not None}  # null: NaN
            choices[kind] = Choice(**{"val": math.nan, **values})
        model = load_causal(config, known, weights, number)
        arrays = {} if model is None else to_arrays(build_method(config).shared(model))
        names = tuple(known["names"])
        local = {name: _select(weights, f"clients.{number}.{i}.") for i, name in enumerate(names)}
        outcome = Outcome(**{**known, "choices": choices, "names": names}, arrays=arrays)
        seeds.append(SeedResult(outcome, model, local))
    return seeds


def _select(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in weights.items() if name.startswith(prefix)}


def read_result(folder: str | Path) -> FederatedResult:
    """A finished run, as its training returned it."""
    record = read_run(folder)
    assert record.result is not None
    seeds = decode_seeds(read_config(record), record.result["federation"]["seeds"], record.weights())
    plain = {name: value for name, value in record.result.items() if name != "federation"}
    models = tuple(seed.model for seed in seeds if seed.model is not None)
    result = replace(ProtocolResult.from_dict(plain), models=models)
    return FederatedResult(tuple(seeds), result, record.timings.get("seconds", math.nan))


def find_problem(record: RunRecord, dataset: str | None = None) -> tuple[Graph, Problem]:
    """The whole graph of a federated training, with the parts of its clients put together.

    Where clients kept their graphs nobody knows their parts: then there are no splits.

    Args:
        record: of the run.
        dataset: a graph for a model whose clients kept theirs; the one of the run unless given.

    Raises:
        DataError: the graph is not found, or is not the one of the run.
    """
    inputs = record.inputs
    name = dataset or inputs.get("source") or inputs["dataset"]
    if "partitions" not in inputs and dataset is None:
        raise DataError(
            f"the clients of {record.folder} kept their graphs; name a graph of your own with --dataset."
        )
    graph, entry, _ = open_graph(name)
    rule = inputs["settings"][0].get("features") if "partitions" in inputs else None
    if rule is None:  # of clients that kept their graphs, or of graphs that were divided as they were given
        rule = inputs.get("features") or ("raw" if entry is None else entry.preprocessing)
    treated = apply(rule, graph)
    if "partitions" in inputs:
        splits = tuple(_join_parts(record, graph, seed) for seed in range(len(inputs["partitions"])))
    else:
        splits = ()
    task, seed = get_task((record.result or {})["metric"]), read_config(record).seed
    return graph, Problem(treated.to_pyg(), splits, task, seed, {"dataset": graph.name, "features": rule})


def _join_parts(record: RunRecord, graph: Graph, seed: int) -> Split:
    """The nodes that some client of a seed trained on, validated and tested."""
    partition = repeat_partition(graph, record.inputs["settings"][seed])
    if partition.digest != record.inputs["partitions"][seed]:
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
    """The global models of a run, in evaluation mode: without a mask, so every edge counts in full."""
    count = len((record.result or {})["federation"]["seeds"])
    models = [load_global(record, seed) for seed in range(count)]
    return tuple(getattr(m, "model", m) for m in models)  # of a sheaf backbone, the model that measures know


def load_global(record: RunRecord, seed: int = 0) -> nn.Module:
    """The causal branch of a seed, counted from 0.

    Raises:
        DataError: the method shares no weights, or those of the run do not fit its configuration.
    """
    config, facts = read_config(record), (record.result or {})["federation"]["seeds"][seed]
    try:
        model = load_causal(config, facts, record.weights(), seed)
    except RuntimeError as error:
        raise DataError(f"the weights of {record.folder} do not fit its configuration: {error}") from error
    if model is None:
        raise DataError(
            f"{config.method} shares no weights, so {record.folder} holds the models of clients alone."
        )
    return model


def load_causal(
    config: FederatedConfig, facts: Mapping[str, Any], weights: Mapping[str, Tensor], seed: int
) -> nn.Module | None:
    """The global model of a seed, among the weights of a run; None where there is none."""
    state = _select(weights, f"{seed}.")
    if not state:
        return None
    model = build_method(config).build(config, facts["num_features"], facts["num_classes"])
    model.load_state_dict(state)
    return model.eval()


def predict_nodes(
    record: RunRecord, edges: Path | None, nodes: Path | None, dataset: str | None = None
) -> pd.DataFrame:
    """`id`, `prediction` and the probabilities of classes, for every node, by the global model (of several
    seeds, the first). No mask is used: every edge counts in full.

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
    facts = record.result["federation"]["seeds"][0]
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
    model = load_global(record)
    with torch.no_grad():
        probabilities = call_model(model, data).softmax(-1).numpy()
    names = graph.class_names or tuple(str(k) for k in range(facts["num_classes"]))
    return predictions_table(replace(graph, y=None, class_names=names), probabilities)


def _read(record: RunRecord, edges: Path | None, nodes: Path) -> Graph:
    """The graph of tables that have the columns of the clients, and perhaps one more, their labels."""
    facts = (record.result or {})["federation"]["seeds"][0]
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
