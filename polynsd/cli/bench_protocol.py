"""`polynsd bench protocol`: all splits of a graph trained together, against one after another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polynsd.bench.cases import Row
from polynsd.bench.environment import environment, require_device
from polynsd.bench.protocols import WAYS, Protocol, measure_protocol, polynsd_model
from polynsd.bench.samples import load_sample
from polynsd.bench.tables import number
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.report import ProgressReporter, print_table
from polynsd.runs.files import require_file_name, write_json

EPOCHS = {"cpu": 50, "cuda": 500}


@dataclass(frozen=True)
class BenchProtocol:
    """Time a protocol: all splits as replicas, against one split after another in the same process."""

    graphs: tuple[str, ...] = ("texas",)
    """texas, chameleon, squirrel, tolokers, minesweeper: real where at hand, else generated alike."""
    splits: int = 10
    """How many."""
    epochs: int | None = None
    """Per split, each with an evaluation; 50 on a CPU, 500 on a GPU unless given."""
    maps: str = "diagonal"
    """The family of maps."""
    degree: int = 8
    """K."""
    stalk_dim: int = 4
    """d."""
    channels: int = 16
    """C."""
    layers: int = 2
    """L."""
    dropout: float = 0.5
    """Of the state."""
    ways: tuple[str, ...] = tuple(WAYS)
    """plain, sequence, replicas; speed-ups are over the first."""
    device: str = "cpu"
    """cpu or cuda."""
    json: Path | None = None
    """A file for environment and rows."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Row:
        """Measures, prints, and writes the record where asked for."""
        require_device(self.device)
        require_file_name(self.json)
        require_at_least("splits", self.splits, 1)
        for option in ("graphs", "ways"):
            if not getattr(self, option):
                raise ConfigError(f"nothing to measure: --{option} is an empty list.")
        for way in self.ways:
            require_choice("way", way, WAYS)
        record: Row = {"environment": environment(self.device), "rows": []}
        with ProgressReporter(len(self.graphs), unit="graphs", quiet=self.quiet) as progress:
            for graph in self.graphs:
                progress.advance(0, graph)
                record["rows"] += self._rows(graph)
                progress.advance(1, graph)
        if self.json is not None:
            write_json(self.json, record)
        self._print(record)
        return record

    def _rows(self, graph: str) -> list[Row]:
        sample = load_sample(graph).to(self.device)
        sizes = (self.maps, self.degree, self.stalk_dim, self.channels, self.layers, self.dropout)
        epochs = EPOCHS[self.device] if self.epochs is None else self.epochs
        protocol = Protocol(sample, polynsd_model(*sizes), self.splits, epochs)
        facts = dict(zip(("maps", "K", "d", "C", "L", "dropout"), sizes, strict=True))
        return [{**sample.facts, **facts, **row} for row in measure_protocol(protocol, self.ways)]

    def _print(self, record: Row) -> None:
        cells = {
            "graph": lambda row: row["graph"] if row["source"] == "data" else f"{row['graph']} (generated)",
            "way": lambda row: row["way"],
            "seconds": number("seconds", 2),
            "ms per split and epoch": number("ms_per_epoch", 3),
            f"speed-up over {self.ways[0]}": number("speedup", 2, "x"),
        }
        about = record["environment"]
        sizes = f"{self.maps}, K={self.degree}, L={self.layers}, d={self.stalk_dim}, C={self.channels}"
        title = (
            f"{self.splits} splits × {record['rows'][0]['epochs']} epochs, {sizes}; {about['device_name']}"
        )
        print_table(title, list(cells), [[cell(row) for cell in cells.values()] for row in record["rows"]])
