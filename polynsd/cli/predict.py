"""`polynsd predict`: a trained model on other tables, under their owner's ids and class names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from polynsd.cli.own_graph import prediction_table, unlabelled, write_predictions
from polynsd.data.tables import TableSchema, read_tables_like
from polynsd.data.tables.files import TABLE_EXTENSIONS, extension_of
from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.runs.files import require_file_name

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables import ReadResult as Assembled
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
    """Tell what was done as a JSON object."""
    quiet: bool = False
    """Tell nothing but errors."""

    def run(self) -> pd.DataFrame:
        """Reads, predicts, writes."""
        from polynsd.estimator.storage import restore_estimator
        from polynsd.runs import read_run

        require_choice("file extension of the predictions", extension_of(self.out), TABLE_EXTENSIONS)
        require_file_name(self.out)
        record = read_run(self.run_folder)
        estimator, schema = restore_estimator(record), _schema(record)
        names = {"id_column": self.id_column, "source": self.source, "target": self.target}
        given = read_tables_like(schema, self.edges, self.nodes, unseen=self.unseen, **names)
        table = prediction_table(estimator, given.graph, schema.class_names)
        write_predictions(table, self.out)
        self._tell({"predictions": str(self.out), "rows": len(table), **_facts(estimator, given)})
        return table

    def _tell(self, facts: dict[str, Any]) -> None:
        if self.json:
            print(json.dumps(facts))
        elif not self.quiet:
            print("\n".join(_lines(facts)))


def _schema(record: RunRecord) -> TableSchema:
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


def _facts(estimator: Any, given: Assembled) -> dict[str, Any]:
    """What a person wants to know beside the predictions."""
    facts: dict[str, Any] = {
        "reading": str(given.report),
        "isolated": given.report.isolated,
        "unused_columns": list(given.report.unused),
        "unseen": dict(given.unseen),
        "foreign_labels": given.unknown_labels,
        "metric": estimator.metric_,
        "scored": 0,
        "score": None,
    }
    if given.graph.y is not None:
        facts["scored"] = given.graph.num_nodes - int(unlabelled(given.graph).sum())
    if facts["scored"]:
        try:
            facts["score"] = estimator.score(given.graph)
        except DataError as error:  # e.g. ROC-AUC of one class
            facts["score_undefined"] = str(error)
    return facts


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [facts["reading"]]
    lines += [f"column '{name}': {n} rows with an unseen category" for name, n in facts["unseen"].items()]
    if facts["foreign_labels"]:
        lines.append(f"{facts['foreign_labels']} labels are none of the model's classes and are not scored")
    if facts["scored"]:
        value = "undefined" if facts["score"] is None else f"{facts['score']:.4f}"
        where = f"on the {facts['scored']} rows with a label"
        lines.append(f"{facts['metric']} {where}: {value} (too good if some of them trained it)")
    return [*lines, f"{facts['rows']} predictions: {facts['predictions']}"]
