"""`polynsd predict`: a fitted model on the tables of its fit or on others, under the ids of their nodes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from polynsd.cli.fit_result import make_predictions, positive_name
from polynsd.cli.help import wrap_text
from polynsd.cli.options import MemoryOption
from polynsd.errors import ConfigError, DataError, require_choice

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables import ReadResult
    from polynsd.estimator.base import SheafEstimator
    from polynsd.runs import RunRecord

Column = Annotated[str | None, arg(metavar="COLUMN")]


@dataclass(frozen=True)
class Predict(MemoryOption):
    """Predict the nodes of a graph with a model fitted to your own tables."""

    run_folder: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run folder that polynsd fit or polynsd federated wrote."""
    edges: Path | None = None
    """The edges of the graph to predict. Without them and without nodes it is the graph of the fit; nodes
    alone have no edges."""
    out: Path | None = None
    """Where the predictions go (.csv, .tsv, .parquet); printed as CSV unless given."""
    nodes: Path | None = None
    """Its node table, with the columns of the fit in any order; the label column may be missing."""
    dataset: str | None = None
    """Of a federated run: a graph by name (polynsd data list) or file, in place of tables."""
    unseen: str = "error"
    """Categories that the fit did not know: error, or ignore (a row of zeros)."""
    id_column: Column = None
    """The column of ids in the node table, if it is called otherwise than in the fit."""
    source: Column = None
    """The column where an edge begins, if it is called otherwise than in the fit."""
    target: Column = None
    """The column where an edge ends, if it is called otherwise than in the fit."""
    delimiter: Annotated[str | None, arg(metavar="CHARACTER")] = None
    """Between the fields of text files, if it is otherwise than in the fit."""
    encoding: str | None = None
    """The encoding of text files, if it is otherwise than in the fit."""
    decimal: Annotated[str | None, arg(metavar="CHARACTER")] = None
    """What stands before decimals in text files, if it is otherwise than in the fit."""
    json: bool = False
    """Print the summary as a JSON object."""
    quiet: bool = False
    """Print no summary."""

    def run(self) -> pd.DataFrame:
        """Reads, predicts, writes; returns the predictions."""
        from polynsd.estimator.storage import read_schema, read_tables_for, restore_estimator
        from polynsd.runs import read_run

        self._check_out()
        record = read_run(self.run_folder)
        if record.kind == "federated":
            return self._predict_federated(record)
        if self.dataset is not None:
            raise ConfigError("--dataset is for federated runs; name tables with --edges and --nodes.")
        estimator, schema = restore_estimator(record), read_schema(record)
        names = ("id_column", "source", "target", "delimiter", "encoding", "decimal")
        others = {name: getattr(self, name) for name in names}
        tables = read_tables_for(record, self.edges, self.nodes, unseen=self.unseen, **others)
        predictions = make_predictions(estimator, tables.graph, schema.class_names)
        self._write(predictions)
        summary = {
            "predictions": None if self.out is None else str(self.out),
            "rows": len(predictions),
            **_summarize(estimator, tables),
        }
        # beside predictions on standard output there is no place for a summary
        stream = sys.stdout if self.out is not None else sys.stderr
        if self.json:
            print(json.dumps(summary), file=stream)
        elif not self.quiet:
            print(_format_summary(summary), file=stream)
        return predictions

    def _predict_federated(self, record: RunRecord) -> pd.DataFrame:
        """The global model of a federation, on the graph of the run or on tables."""
        from polynsd.federated.runs import predict_nodes

        predictions = predict_nodes(record, self.edges, self.nodes, self.dataset)
        self._write(predictions)
        summary = {"predictions": None if self.out is None else str(self.out), "rows": len(predictions)}
        if self.json or not self.quiet:
            line = json.dumps(summary) if self.json else f"{summary['rows']} predictions"
            print(line, file=sys.stdout if self.out is not None else sys.stderr)
        return predictions

    def _check_out(self) -> None:
        """Raises, before any work is done, where predictions could not be written."""
        from polynsd.data.tables.files import TABLE_EXTENSIONS, extension_of
        from polynsd.runs.files import require_file_name

        if self.out is not None:
            require_choice("file extension of the predictions", extension_of(self.out), TABLE_EXTENSIONS)
            require_file_name(self.out)

    def _write(self, predictions: pd.DataFrame) -> None:
        from polynsd.data.tables import write_table

        if self.out is None:
            predictions.to_csv(sys.stdout, index=False)
            return
        unfinished = self.out.with_name(f"partial-{self.out.name}")
        write_table(predictions, unfinished)
        unfinished.replace(self.out)  # so that there is never half a file


def _summarize(estimator: SheafEstimator, tables: ReadResult) -> dict[str, Any]:
    """What is worth knowing beside the predictions, as plain data."""
    summary: dict[str, Any] = {
        "reading": str(tables.report),
        "isolated": tables.report.isolated,
        "unused_columns": list(tables.report.unused),
        "unseen": dict(tables.unseen),
        "foreign_labels": tables.unknown_labels,
        "metric": estimator.metric_,
        "positive": positive_name(estimator),
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
    from polynsd.report.fit_summary import OF_POSITIVE

    lines = [wrap_text(summary["reading"])]
    for column, count in summary["unseen"].items():
        lines.append(f"column '{column}': {count} rows with an unseen category")
    if summary["foreign_labels"]:
        lines.append(f"{summary['foreign_labels']} labels are none of the model's classes and are not scored")
    if summary["scored"]:
        score = "undefined" if summary["score"] is None else f"{summary['score']:.4f}"
        is_of_class = summary["metric"] in OF_POSITIVE and summary["positive"] is not None
        of_class = f" of '{summary['positive']}'" if is_of_class else ""
        lines.append(
            f"{summary['metric']}{of_class} on the {summary['scored']} rows with a label: {score} (too good "
            "where the model was fitted to them)"
        )
    where = f": {summary['predictions']}" if summary["predictions"] else ""
    return "\n".join([*lines, f"{summary['rows']} predictions{where}"])
