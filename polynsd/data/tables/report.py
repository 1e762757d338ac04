"""`ReadReport`: what reading did with the owner's tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from polynsd.data.edges import EdgeReport

logger = logging.getLogger("polynsd")


@dataclass(frozen=True)
class ReadReport:
    """What became of every row and column that was given."""

    edges: EdgeReport
    num_nodes: int
    isolated: int = 0  # nodes without an edge
    task: str | None = None  # None without labels
    unlabelled: int = 0  # rows to predict
    one_hot: Mapping[str, int] = field(default_factory=dict)  # column -> number of categories
    filled: Mapping[str, int] = field(default_factory=dict)  # column -> missing values that were filled
    edge_feature_names: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # columns nobody asked for

    def __str__(self) -> str:
        parts = [f"{self.num_nodes} nodes, {self.isolated} without an edge", str(self.edges)]
        if self.task is not None:
            parts.append(f"{self.task} with {self.unlabelled} unlabelled nodes")
        if self.one_hot:
            parts.append("one-hot: " + _listed(self.one_hot))
        if self.filled:
            parts.append("missing values filled: " + _listed(self.filled))
        if self.unused:
            parts.append("columns not used: " + ", ".join(self.unused))
        return "; ".join(parts)


def log_report(name: str, report: ReadReport) -> None:
    """Logs the report, and as a warning the columns that went unused."""
    logger.info("%s: %s", name, report)
    if report.unused:
        logger.warning(
            "%s: columns not used: %s. Name those you want in weight, edge_features or features.",
            name,
            ", ".join(report.unused),
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items())
