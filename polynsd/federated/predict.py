"""Predictions of the global model of a federated training, for its own graph or for tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from polynsd.data.graph import Graph
from polynsd.data.tables import TextFormat, predictions_table
from polynsd.data.tables.files import read_table
from polynsd.errors import ConfigError, DataError
from polynsd.federated.opened import find_problem, load_global
from polynsd.federated.sources import digest_columns, read_like
from polynsd.runs import RunRecord
from polynsd.training.replica import call_model

if TYPE_CHECKING:
    import pandas as pd


def predict_nodes(record: RunRecord, edges: Path | None, nodes: Path | None) -> pd.DataFrame:
    """`id`, `prediction` and the probabilities of classes, for every node. No mask is used: every edge counts
    in full.

    Args:
        record: of a finished run.
        edges: a table with a row per edge.
        nodes: a table with a row per node; without tables, the graph of the run is predicted.

    Raises:
        DataError: the tables have other columns than the clients, or without tables there is no graph.
    """
    if record.result is None:
        raise DataError(f"the run {record.folder} has not finished; start it again to go on.")
    facts = record.result["federation"]
    if nodes is None:
        if edges is not None:
            raise ConfigError("a model needs the features of nodes; name the node table too, --nodes.")
        graph, problem = find_problem(record)
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
