"""`polynsd predict`: a trained model on other tables, under their ids and the class names of training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from polynsd.cli.fit import explain_options, make_predictions
from polynsd.data.tables import TableSchema, read_tables_like, write_table
from polynsd.data.tables.files import TABLE_EXTENSIONS, extension_of
from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.runs.files import require_file_name

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables import ReadResult
    from polynsd.estimator.base import SheafEstimator
    from polynsd.runs import RunRecord


@dataclass(frozen=True)
class Predict:
    """Predict the nodes of a graph with a model trained on your own tables."""

    run_folder: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run folder that training wrote."""
    edges: Path
    """The edges of the graph to predict, in the format of the training."""
    out: Path
    """Where the predictions go (.csv, .tsv, .parquet)."""
    nodes: Path | None = None
    """Its node table, with the columns of the training in any order; the label column may be missing."""
    unseen: str = "error"
    """Categories that training did not know: error, or ignore (a row of zeros)."""
    id_column: str | None = None
    """The column of ids in the node table, if it is called otherwise than in training."""
    source: str | None = None
    """The column where an edge begins, likewise."""
    target: str | None = None
    """The column where an edge ends, likewise."""
    json: bool = False
    """Print the summary as a JSON object."""
    quiet: bool = False
    """Print nothing but errors."""

    def run(self) -> pd.DataFrame:
        """Reads, predicts, writes; returns the predictions."""
        from polynsd.estimator.storage import restore_estimator
        from polynsd.runs import read_run

        require_choice("file extension of the predictions", extension_of(self.out), TABLE_EXTENSIONS)
        require_file_name(self.out)
        record = read_run(self.run_folder)
        estimator, schema = restore_estimator(record), _read_schema(record)
        names = {"id_column": self.id_column, "source": self.source, "target": self.target}
        with explain_options():
            tables = read_tables_like(schema, self.edges, self.nodes, unseen=self.unseen, **names)
        predictions = make_predictions(estimator, tables.graph, schema.class_names)
        unfinished = self.out.with_name(f"partial-{self.out.name}")
        write_table(predictions, unfinished)
        unfinished.replace(self.out)  # so that there is never half a file
        summary = {"predictions": str(self.out), "rows": len(predictions), **_summarize(estimator, tables)}
        if self.json:
            print(json.dumps(summary))
        elif not self.quiet:
            print(_format_summary(summary))
        return predictions


def _read_schema(record: RunRecord) -> TableSchema:
    schema = (record.result or {}).get("schema")
    if schema is None:
        raise ConfigError(
            f"{record.folder} holds a model that was not trained on tables; load it in Python with "
            "polynsd.estimator.load_estimator, or train with --edges and --nodes."
        )
    try:
        return TableSchema.from_dict(schema)
    except (KeyError, TypeError) as error:
        raise DataError(f"{record.folder} is damaged: its schema cannot be read ({error!r}).") from error


def _summarize(estimator: SheafEstimator, tables: ReadResult) -> dict[str, Any]:
    """What is worth knowing beside the predictions, as plain data."""
    summary: dict[str, Any] = {
        "reading": str(tables.report),
        "isolated": tables.report.isolated,
        "unused_columns": list(tables.report.unused),
        "unseen": dict(tables.unseen),
        "foreign_labels": tables.unknown_labels,
        "metric": estimator.metric_,
        "scored": int(tables.graph.is_labelled.sum()),
        "score": None,
    }
    if summary["scored"]:
        try:
            summary["score"] = estimator.score(tables.graph)
        except DataError as error:  # e.g. ROC-AUC of one class
            summary["score_undefined"] = str(error)
    return summary


def _format_summary(summary: dict[str, Any]) -> str:
    lines = [summary["reading"]]
    for column, count in summary["unseen"].items():
        lines.append(f"column '{column}': {count} rows with an unseen category")
    if summary["foreign_labels"]:
        lines.append(f"{summary['foreign_labels']} labels are none of the model's classes and are not scored")
    if summary["scored"]:
        score = "undefined" if summary["score"] is None else f"{summary['score']:.4f}"
        lines.append(
            f"{summary['metric']} on the {summary['scored']} rows with a label: {score} (too good if some of "
            "them trained it)"
        )
    return "\n".join([*lines, f"{summary['rows']} predictions: {summary['predictions']}"])
