"""`polynsd fit`: from a user's tables to a run folder that `polynsd predict` reads.

Reading is `polynsd.data.tables.read`, fitting is the estimator of `polynsd.estimator`, the folder is that of
`polynsd.runs`. A finished folder is reported and left as it is; one that was interrupted keeps the candidates
that were fitted, and the same command goes on with the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from tyro.conf import Positional, arg

from polynsd.cli.help import wrap_text
from polynsd.cli.options import DELIMITERS, MemoryOption, parse_class_weight, parse_decision, parse_metric
from polynsd.cli.report import add_report
from polynsd.errors import ConfigError

if TYPE_CHECKING:
    from polynsd.data.tables import ReadOptions, ReadResult
    from polynsd.estimator.base import SheafEstimator
    from polynsd.runs import Run

Column = Annotated[str | None, arg(metavar="COLUMN")]
Columns = Annotated[tuple[str, ...], arg(metavar="COLUMN …")]


@dataclass(frozen=True)
class Fit(MemoryOption):
    """Fit a model to your own tables; rows without a label are predicted."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("edges", "nodes", "label", "out", "task", "exclude", "delimiter", "metric", "positive"),
        *("class_weight", "test", "budget", "model"),
    )

    edges: Annotated[Path, Positional, arg(metavar="EDGES")]
    """A table with a row per edge (.csv, .tsv, .parquet), or a .graphml file, which holds the nodes too."""
    label: Annotated[str, arg(metavar="COLUMN")]
    """The column of the node table to predict; a row without a label is one to predict."""
    out: Annotated[Path, arg(metavar="RUN")]
    """The run folder; after an interruption the same command goes on there."""
    nodes: Annotated[Path | None, Positional, arg(metavar="NODES")] = None
    """A table with a row per node."""
    task: str = "auto"
    """classification, regression, or auto: fractions are regression, everything else is classes."""
    id_column: Column = None
    """The column of ids in the node table; the first unless given."""
    source: Column = None
    """The column where an edge begins; the first unless given."""
    target: Column = None
    """The column where an edge ends; the second unless given."""
    weight: Column = None
    """The column of edge weights."""
    edge_features: Columns = ()
    """The columns of edge features."""
    features: Annotated[tuple[str, ...] | None, arg(metavar="COLUMN …")] = None
    """The columns of node features; all that are left unless given."""
    categorical: Annotated[tuple[str, ...] | None, arg(metavar="COLUMN …")] = None
    """Columns to encode one-hot although they hold numbers, or text that hardly repeats."""
    exclude: Columns = ()
    """Columns of either table that are not used."""
    missing: str = "mean"
    """Gaps in features: mean to fill and mark them, or error."""
    aggregate: str = "mean"
    """The values of edges that are given several times: mean or sum."""
    delimiter: Annotated[str | None, arg(metavar="CHARACTER")] = None
    """Between the fields of text files, e.g. ';' or tab; a comma in .csv, a tab in .tsv unless given."""
    encoding: str = "utf-8"
    """The encoding of text files, e.g. latin-1."""
    decimal: Annotated[str, arg(metavar="CHARACTER")] = "."
    """What stands before the decimals of numbers in text files: a point or a comma."""
    group: Column = None
    """A column of the node table; rows of one group, such as a customer, are held out together, with few
    labels every group in turn."""
    time: Column = None
    """A column of dates or numbers of the node table; the latest rows are held out, once, however few."""
    metric: str = "auto"
    """accuracy, balanced, F1, ROC-AUC or PR-AUC; auto is accuracy, or ROC-AUC where one of two classes is
    rare."""
    positive: Annotated[str | None, arg(metavar="CLASS")] = None
    """The one of two classes that F1, PR-AUC, precision and recall are of; the last in alphabetical order
    unless given."""
    class_weight: Annotated[tuple[str, ...], arg(metavar="balanced|CLASS=NUMBER …")] = ()
    """What a class counts in training: balanced for all alike, or numbers such as yes=5 no=1."""
    decision: Annotated[tuple[str, ...], arg(metavar="RULE|TRUTH/ANSWER=COST …")] = ()
    """Which class is predicted: argmax, balanced, F1, precision=0.9 (the largest recall with that precision),
    recall=0.9, or the cheapest by costs: yes/no=10 is that of saying no where yes is true; pairs that are not
    named cost 0 where the answer is right and 1 where it is wrong. What the metric asks for unless given."""
    test: Annotated[float | None, arg(metavar="SHARE")] = None
    """The share of labelled rows, e.g. 0.2, that is kept apart for the score; rows that are held out from
    training give it unless given."""
    budget: Annotated[float | None, arg(metavar="SECONDS")] = None
    """How long to search for a better model; about a minute for some thousand rows unless given."""
    ensemble: int | None = None
    """The largest number of models that are averaged; 1 for a single one. As many as pay unless given."""
    inductive: bool = False
    """Leave out models that know the rows of this table by their links and labels: say so where the model is
    for other tables."""
    model: Annotated[str, arg(metavar="NAME")] = "auto"
    """One model of the zoo instead, to compare with: gcn, sage, gat, mlp, gprgnn, …"""
    validation_fraction: float = 0.2
    """The share of labelled rows that is held out to choose on, where there are many."""
    seed: int = 0
    """Seed of the held-out rows, the weights and the dropout."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:N or mps; auto takes CUDA where there is a GPU."""
    report: bool = True
    """Write report.html into the run folder, if Plotly is installed."""
    quiet: bool = False
    """No progress, no summary and no report."""
    json: bool = False
    """No progress, and the summary as a JSON object."""

    @classmethod
    def rewrite(cls, arguments: Sequence[str]) -> list[str]:
        """`--edges E --nodes N …`, the older form, as `E N …`."""
        tables, rest, words = {}, [], iter(arguments)
        for word in words:
            name, is_joined, value = word.partition("=")
            if name in ("--edges", "--nodes"):
                tables[name] = value if is_joined else next(words, name)
            else:
                rest.append(word)
        return [*(tables[name] for name in ("--edges", "--nodes") if name in tables), *rest]

    def after_interrupt(self) -> str:
        """How many candidates are kept; without an import, which may be what was interrupted."""
        count = len(list(self.out.glob("parts/*.safetensors")))
        if count:
            kept = "1 fitted candidate is" if count == 1 else f"{count} fitted candidates are"
            return f"{kept} kept in {self.out}, and the same command goes on with the others"
        return "no candidate was fitted yet" if self.out.exists() else "nothing was written"

    def run(self) -> Path:
        """Reads, fits, writes the run folder and prints a summary; returns the folder."""
        from polynsd.data.tables import read_tables
        from polynsd.data.tables.labels import require_learnable
        from polynsd.estimator.candidates import zoo_candidates
        from polynsd.estimator.storage import KIND, describe_parameters, hash_file
        from polynsd.runs import Run

        options = self._read_options()
        tables = read_tables(self.edges, self.nodes, options)
        require_learnable(tables.graph, self.label)
        estimator, split = self._make_estimator(tables), self._split(tables)
        estimator.check(
            tables.graph, **split
        )  # before there is a folder, which would belong to these options
        read = tables.schema.options
        roles = f"ids are in '{read.id_column}', edges go from '{read.source}' to '{read.target}'"
        self._print(wrap_text(f"{tables.graph.name}: {roles}; {tables.report}"))
        for reason in tables.report.left_out.values():
            self._print(wrap_text(f"left out: {reason}"))
        candidates = None if self.model == "auto" else zoo_candidates(self.model)
        config = {**describe_parameters(estimator), "model": self.model, "tables": vars(options)}
        inputs = {name: hash_file(path) for name, path in self._paths.items()}
        with Run.start(self.out, KIND, config, inputs) as run:
            if run.result is None:
                self._fit(run, estimator, tables, {**split, "candidates": candidates})
            else:
                self._print(f"{self.out} was finished before; nothing is fitted.")
        self._report()
        if self.report and not self.quiet and not self.json:
            self._print(add_report(self.out))
        return self.out

    @property
    def _paths(self) -> dict[str, Path]:
        return {"edges": self.edges} | ({} if self.nodes is None else {"nodes": self.nodes})

    def _read_options(self) -> ReadOptions:
        from polynsd.data.tables import ReadOptions

        options = {field.name: getattr(self, field.name) for field in fields(ReadOptions)}
        return ReadOptions(**{**options, "delimiter": DELIMITERS.get(self.delimiter or "", self.delimiter)})

    def _make_estimator(self, tables: ReadResult) -> SheafEstimator:
        from polynsd.estimator import SheafClassifier, SheafRegressor

        common: dict[str, Any] = {
            "budget": self.budget,
            "ensemble": "auto" if self.ensemble is None else self.ensemble,
            "inductive": self.inductive,
            "test_fraction": self.test,
            "validation_fraction": self.validation_fraction,
            "random_state": self.seed,
            "device": self.device,
        }
        if tables.schema.task == "classification":
            names = tables.graph.class_names or ()
            weights = parse_class_weight(self.class_weight, names)
            metric, decision = parse_metric(self.metric), parse_decision(self.decision, names)
            return SheafClassifier(
                metric=metric, positive=self.positive, class_weight=weights, decision=decision, **common
            )
        of_classes = (self.class_weight, self.positive, self.decision)
        if self.metric not in ("auto", "r2") or any(of_classes):
            raise ConfigError(
                f"'{self.label}' is a number to predict, so there are no classes: leave out --metric, "
                "--positive, --class-weight and --decision, or say --task classification."
            )
        return SheafRegressor(**common)

    def _split(self, tables: ReadResult) -> dict[str, Any]:
        """The groups of the rows, or by their times the rows to fit, to choose on and to test on."""
        from polynsd.data.splits import split_by_time

        groups, times, labelled = tables.groups, tables.times, tables.graph.is_labelled
        if groups is not None and times is not None:
            raise ConfigError(
                "rows are held out by --group or by --time, not by both; leave out one of them."
            )
        if times is None:
            return {} if groups is None else {"groups": groups}
        test = np.zeros_like(labelled) if self.test is None else split_by_time(times, labelled, self.test)
        val = split_by_time(times, labelled & ~test, self.validation_fraction)
        return {"train": labelled & ~test & ~val, "val": val, "test": None if self.test is None else test}

    def _fit(self, run: Run, estimator: SheafEstimator, tables: ReadResult, options: dict[str, Any]) -> None:
        """Fits, and finishes the run."""
        from polynsd.cli.fit_result import describe_split, predict_unlabelled, summarize_fit
        from polynsd.estimator.storage import learned_values, model_weights
        from polynsd.report.fit_progress import FitProgress

        kept = len(run.parts)
        if kept:
            self._print(f"{self.out} goes on; {kept} of its candidates were fitted before.")
        start = time.perf_counter()
        with FitProgress(quiet=self.quiet or self.json) as progress:

            def on_candidate(row: dict[str, Any], share: float) -> None:
                run.log({name: value for name, value in row.items() if name != "seconds"})
                progress.metric = estimator.metric_
                progress.candidate(row, share)

            estimator.fit(
                tables.graph,
                on_epoch=progress.epoch,
                on_candidate=on_candidate,
                parts=run.parts,
                **options,
            )
        seconds = {row["name"]: row.pop("seconds") for row in estimator.candidates_}  # differ every time
        result = {
            **learned_values(estimator),
            "schema": tables.schema.to_dict(),
            "dataset": tables.graph.name,
            "model": type(estimator).__name__ if self.model == "auto" else self.model,
            "metric": estimator.metric_,
            "splits": [describe_split(estimator, tables.graph)],
            "summary": summarize_fit(estimator, tables, self.label),
            "paths": {name: str(path.resolve()) for name, path in self._paths.items()},
        }
        timings = {"seconds": time.perf_counter() - start, "candidates": seconds}
        run.finish(result, model_weights(estimator), predict_unlabelled(estimator, tables), timings)

    def _report(self) -> None:
        from polynsd.report.fit_summary import format_fit
        from polynsd.runs import read_run

        record = read_run(self.out)
        summary, seconds = (record.result or {})["summary"], record.timings.get("seconds")
        if self.json:
            print(json.dumps({"run": str(self.out), "seconds": seconds, **summary}))
        else:
            self._print("\n" + format_fit(summary, str(self.out), seconds))

    def _print(self, text: str) -> None:
        if not self.quiet and not self.json:
            print(text)
