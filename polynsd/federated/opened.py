"""Runs of `polynsd federated` as `diagnose`, `report` and `predict` see them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from polynsd.data import Graph, Split
from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.protocols import get_split
from polynsd.data.splits import PARTS
from polynsd.data.transforms import apply
from polynsd.errors import DataError
from polynsd.federated.methods import build_method
from polynsd.federated.partition import partition_graph
from polynsd.federated.sources import OWN_SPLIT
from polynsd.federated.training import read_config
from polynsd.runs import RunRecord
from polynsd.training.problem import Problem
from polynsd.training.task import get_task


def find_problem(record: RunRecord, dataset: str | None = None) -> tuple[Graph, Problem]:
    """The whole graph of a federated training, with the parts of its clients put together.

    Args:
        record: of the run.
        dataset: a graph for a model whose clients kept theirs; the one of the run unless given.

    Raises:
        DataError: the graph is not found, or is not the one of the run.
    """
    inputs = record.inputs
    name = dataset or inputs["dataset"]
    if "partition" not in inputs and dataset is None:
        raise DataError(
            f"the clients of {record.folder} kept their graphs; name a graph of your own with --dataset."
        )
    graph, entry, _ = open_graph(name)
    rule = inputs.get("features") or ("raw" if entry is None else entry.preprocessing)
    treated = apply(rule, graph)
    if "partition" in inputs:
        split = _join_parts(record, treated)
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
    """The causal branch of a run."""
    config = read_config(record)
    state = {n.partition(".")[2]: t for n, t in record.weights().items() if n.startswith("0.")}
    if not state:
        raise DataError(
            f"{config.method} shares no weights, so {record.folder} holds the models of clients alone."
        )
    model = build_method(config).build(config, num_features, num_classes)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"the weights of {record.folder} do not fit its configuration: {error}") from error
    return model.eval()
