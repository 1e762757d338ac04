"""`polynsd bench`: how fast, and in how much memory, on every backend in one run.

`bench kernels` times the polynomial filter alone, `bench step` a whole training step, both against
`assembled`, the published way, in the same run; `bench layer` times maps on nodes and on edges against
identity maps; `bench protocol` times all splits of a graph, `bench search` a whole search.
See `polynsd.bench` for what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from polynsd.cli.options import Integers, Names
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.runs.files import require_file_name, write_json
from polynsd.training.source import Source

if TYPE_CHECKING:
    from polynsd.bench.results import Measure
    from polynsd.bench.samples import Case, Row

GRAPHS = {"cpu": ("texas", "chameleon"), "cuda": ("chameleon", "squirrel")}
FAST_BACKENDS = {"cpu": "cpu", "cuda": "gpu"}
EPOCHS = {"cpu": 50, "cuda": 500}  # of `bench protocol`
SEARCH_EPOCHS = {"cpu": 10, "cuda": 100}


@dataclass(frozen=True)
class BenchOptions:
    """Options of `bench kernels` and `bench step`; lists are separated by commas."""

    graphs: Names = ()
    """texas, chameleon, squirrel, tolokers, minesweeper: real where at hand (POLYNSD_DATA), else generated
    alike. Unless given: texas,chameleon on a CPU, chameleon,squirrel on a GPU, none beside --sizes."""
    sizes: Integers = ()
    """Numbers of nodes of generated graphs of mean degree 20, to see growth with the number of edges."""
    degrees: Integers = (8,)
    """Degrees K of the filter."""
    maps: Names = ("diagonal", "orthogonal", "general")
    """Families of maps: diagonal, orthogonal, conformal, general, identity; on nodes as orthogonal@nodes."""
    stalk_dims: Integers = (4,)
    """Dimensions d of the stalks."""
    channels: Integers = (16,)
    """Channels C per stalk coordinate."""
    backends: Names = ()
    """assembled, reference, cpu, gpu, auto. Unless given: the first two and the fast one of the device."""
    repeats: int = 5
    """Timed runs per number; the median counts."""
    device: str = "cpu"
    """cpu or cuda."""
    json: Path | None = None
    """A file for environment, rows and fits; written anew after every row."""
    quiet: bool = False
    """Show no progress."""

    def make_cases(self) -> list[Case]:
        """The grid; mistakes raise before anything is measured."""
        from polynsd.bench.measures import require_device
        from polynsd.bench.samples import NAMES, Case, shape_of_size

        require_device(self.device)
        require_at_least("repeats", self.repeats, 1)
        require_file_name(self.json)
        for option in ("degrees", "maps", "stalk_dims", "channels"):
            if not getattr(self, option):
                raise ConfigError(f"nothing to measure: --{option.replace('_', '-')} is an empty list.")
        for graph in self.graphs:
            require_choice("graph", graph, NAMES)
        for size in self.sizes:
            shape_of_size(size)
        graphs = self.graphs or (() if self.sizes else GRAPHS[self.device])
        generated = tuple(f"random-{size}" for size in self.sizes)
        backends = self.backends or ("assembled", "reference", FAST_BACKENDS[self.device])
        options = (self.stalk_dims, self.channels, self.maps, self.degrees)
        # backends to be compared come one after another
        return [Case(*values) for values in product((*graphs, *generated), *options, backends)]

    def describe_environment(self) -> Row:
        from polynsd.bench.measures import describe_environment

        return {**describe_environment(self.device), "repeats": self.repeats}

    def measure_all(self, cases: Sequence[Case], about: Row, measure: Measure, fields: Sequence[str]) -> Row:
        """The record of all cases; the graph of a case is loaded when its turn comes."""
        from polynsd.bench import results
        from polynsd.bench.samples import load_sample
        from polynsd.report import ProgressReporter

        rows: list[Row] = []
        sample = None
        with ProgressReporter(len(cases), unit="rows", quiet=self.quiet) as reporter:
            for case in cases:
                reporter.advance(0, str(case))
                if sample is None or sample.name != case.graph:
                    sample = load_sample(case.graph).to(self.device)
                rows.append(results.measure_row(sample, case, measure, fields))
                reporter.advance(1, str(case))
                if self.json is not None:
                    write_json(self.json, results.make_record(about, rows))
        return results.make_record(about, rows)


@dataclass(frozen=True)
class BenchKernels(BenchOptions):
    """Time the polynomial filter alone: forward, and forward with backward."""

    degrees: Integers = (4, 8, 16)
    """Degrees K of the filter."""
    maps: Names = ("diagonal", "general")
    """Families of maps: diagonal, orthogonal, general, identity."""
    tune: bool = False
    """Measure tile sizes of the GPU kernels first, and remember the fastest for this GPU."""

    def run(self) -> Row:
        from polynsd.bench import filters, results

        cases, about = self.make_cases(), self.describe_environment()
        measure = partial(
            filters.measure_filter,
            device=self.device,
            repeats=self.repeats,
            copy_gbs=about["copy_gbs"],
            tune=self.tune,
        )
        record = self.measure_all(cases, about, measure, filters.FIELDS)
        results.print_record("polynomial filter", filters.COLUMNS, record)
        return record


@dataclass(frozen=True)
class BenchStep(BenchOptions):
    """Time a whole training step of PolyNSD, and inference."""

    layers: int = 2
    """Number of layers L."""

    def run(self) -> Row:
        from polynsd.bench import results, steps

        require_at_least("layers", self.layers, 1)
        cases, about = self.make_cases(), self.describe_environment()
        measure = partial(steps.measure_step, layers=self.layers, device=self.device, repeats=self.repeats)
        record = self.measure_all(cases, about, measure, steps.FIELDS)
        columns = steps.GPU_COLUMNS if self.device == "cuda" else steps.COLUMNS
        results.print_record(f"training step, {self.layers} layers", columns, record)
        return record


@dataclass(frozen=True)
class BenchLayer(BenchOptions):
    """Time one layer, its filter and its learner: maps on nodes and on edges against identity maps."""

    maps: Names = ("identity", "orthogonal@nodes", "conformal@nodes", "orthogonal", "conformal")
    """Families of maps, each compared with identity maps that take turns with it."""
    repeats: int = 15
    """Timed runs per number; the median counts."""

    def run(self) -> Row:
        from polynsd.bench import layers, results

        backends = self.backends or (FAST_BACKENDS[self.device],)
        cases, about = replace(self, backends=backends).make_cases(), self.describe_environment()
        measure = partial(
            layers.measure_layer, device=self.device, repeats=self.repeats, copy_gbs=about["copy_gbs"]
        )
        record = self.measure_all(cases, about, measure, layers.FIELDS)
        results.print_record("one layer, forward and backward", layers.COLUMNS, record)
        return record


@dataclass(frozen=True)
class BenchProtocol:
    """Time a protocol: all splits as replicas, against one split after another in the same process."""

    graphs: tuple[str, ...] = ("texas",)
    """texas, chameleon, squirrel, tolokers, minesweeper: real where at hand, else generated alike."""
    splits: int = 10
    """Number of splits."""
    epochs: int | None = None
    """Per split, each with an evaluation; 50 on a CPU, 500 on a GPU unless given."""
    maps: str = "diagonal"
    """The family of maps."""
    degree: int = 8
    """Degree K of the filter."""
    stalk_dim: int = 4
    """Dimension d of the stalks."""
    channels: int = 16
    """Channels C per stalk coordinate."""
    layers: int = 2
    """Number of layers L."""
    dropout: float = 0.5
    """Probability of dropout in the state."""
    ways: tuple[str, ...] = ("plain", "sequence", "replicas")
    """plain, sequence, replicas; speed-ups are over the first."""
    device: str = "cpu"
    """cpu or cuda."""
    json: Path | None = None
    """A file for environment and rows."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> Row:
        from polynsd.bench.measures import describe_environment, require_device
        from polynsd.bench.protocols import WAYS, print_protocols
        from polynsd.report import ProgressReporter

        require_device(self.device)
        require_file_name(self.json)
        require_at_least("splits", self.splits, 1)
        for option in ("graphs", "ways"):
            if not getattr(self, option):
                raise ConfigError(f"nothing to measure: --{option} is an empty list.")
        for way in self.ways:
            require_choice("way", way, WAYS)
        record: Row = {"environment": describe_environment(self.device), "rows": []}
        with ProgressReporter(len(self.graphs), unit="graphs", quiet=self.quiet) as progress:
            for graph in self.graphs:
                progress.advance(0, graph)
                record["rows"] += self._measure_graph(graph)
                progress.advance(1, graph)
        if self.json is not None:
            write_json(self.json, record)
        sizes = f"{self.maps}, K={self.degree}, L={self.layers}, d={self.stalk_dim}, C={self.channels}"
        print_protocols(record, sizes)
        return record

    def _measure_graph(self, graph: str) -> list[Row]:
        from polynsd.bench.protocols import TimedProtocol, measure_protocol
        from polynsd.bench.samples import load_sample
        from polynsd.published import published_model

        sample = load_sample(graph).to(self.device)
        layer = {"maps": self.maps, "degree": self.degree, "stalk_dim": self.stalk_dim}
        model = published_model(
            hidden_channels=self.channels,
            num_layers=self.layers,
            layer={**layer, "dropout": self.dropout},
        )
        epochs = EPOCHS[self.device] if self.epochs is None else self.epochs
        protocol = TimedProtocol(sample, model, self.splits, epochs)
        facts: Row = {"maps": self.maps, "K": self.degree, "d": self.stalk_dim}
        facts |= {"C": self.channels, "L": self.layers, "dropout": self.dropout}
        return [{**sample.facts, **facts, **row} for row in measure_protocol(protocol, self.ways)]


@dataclass(frozen=True)
class BenchSearch:
    """Time a small search, from the first trial to the tested winner, and say what takes the time."""

    dataset: str | None = None
    """A benchmark by name or a graph file; otherwise a graph is generated."""
    space: str = "default"
    """What is tried: default, paper, or a YAML file."""
    maps: str | None = None
    """The family of maps; what the space says unless given."""
    trials: int = 32
    """Number of trials."""
    batch: int = 16
    """Trials of one shape that train together."""
    splits: int = 3
    """Number of splits."""
    epochs: int | None = None
    """Per training, none stopped early; 10 on a CPU, 100 on a GPU unless given."""
    device: str = "cpu"
    """cpu or cuda."""
    json: Path | None = None
    """A file for environment and rows."""

    def run(self) -> Row:
        from polynsd.bench.measures import describe_environment, require_device
        from polynsd.bench.searches import TimedSearch, measure_search, print_search  # needs Optuna
        from polynsd.search import SearchConfig, get_space

        require_device(self.device)
        require_file_name(self.json)
        epochs = SEARCH_EPOCHS[self.device] if self.epochs is None else self.epochs
        require_at_least("epochs", epochs, 1)
        problem = Source(self.dataset, splits=self.splits, device=self.device).problem()
        space = get_space(self.space, self.dataset, None, self.maps)
        config = SearchConfig(trials=self.trials, batch=self.batch)
        row = measure_search(TimedSearch(problem, space, config, epochs))
        facts = {"graph": problem.about["dataset"], "nodes": problem.data.num_nodes}
        record: Row = {"environment": describe_environment(self.device), "rows": [{**facts, **row}]}
        if self.json is not None:
            write_json(self.json, record)
        print_search(record)
        return record
