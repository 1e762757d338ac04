"""`polynsd bench estimator`: the default estimator against what one would take instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from polynsd.cli.options import Names, Numbers
from polynsd.errors import ConfigError

if TYPE_CHECKING:
    from polynsd.bench.estimators import Record


@dataclass(frozen=True)
class BenchEstimator:
    """Compare the default estimator with nine rivals on the same nodes, each with as much time to search."""

    datasets: Names = ()
    """Benchmarks or archives; all in the folder POLYNSD_DATA unless given."""
    labels: Numbers = (0.8, 0.2, 0.05)
    """Shares of labelled nodes, a quarter of them for validation: 0.8 is 60/20/20."""
    splits: int = 5
    """Random splits per graph and share."""
    methods: Names = ()
    """estimator, gcn, sage, gat, mlp, gprgnn, tuned-gcn, tuned-sage, logistic, boosting; all unless given."""
    seconds_per_rival: float | None = None
    """For the search of a rival; as many as the estimator took on the same split unless given."""
    device: str = "auto"
    """cpu, cuda, cuda:N, or auto."""
    out: Path = Path("comparison.jsonl")
    """A file that gets a line per method and split as soon as it is there."""
    resume: bool = False
    """Go on with the file; what failed is tried again."""
    shard: str = "0/1"
    """i/n: this process does the i-th of n parts, counted from 0; all may write to one file."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> list[Record]:
        from polynsd.bench.comparison import (
            compare_methods,
            describe_estimates,
            explain_failures,
            score_table,
            summary_table,
            verdict,
        )
        from polynsd.bench.estimators import METHODS, compare_estimators, make_cases
        from polynsd.report import ProgressReporter, print_table

        methods, shard = self.methods or METHODS, self._parse_shard()
        total = len(make_cases(self.datasets, self.labels, self.splits, shard)) * len(methods)
        with ProgressReporter(total, unit="results", quiet=self.quiet) as progress:
            records = compare_estimators(
                self.datasets,
                labels=self.labels,
                splits=self.splits,
                methods=methods,
                seconds=self.seconds_per_rival,
                device=self.device,
                out=self.out,
                resume=self.resume,
                shard=shard,
                on_record=lambda record: progress.advance(1, f"{record.graph}, {record.method}"),
            )
        comparisons = compare_methods(records)
        for table in (*map(score_table, comparisons), summary_table(comparisons)):
            print_table(table.title, table.header, table.rows)
        for line in (
            *map(verdict, comparisons),
            *map(describe_estimates, comparisons),
            *explain_failures(records),
        ):
            print(line)
        return records

    def _parse_shard(self) -> tuple[int, int]:
        match = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        if match is None:
            raise ConfigError(f"--shard must be written i/n, such as 0/4; got {self.shard!r}.")
        return int(match[1]), int(match[2])
