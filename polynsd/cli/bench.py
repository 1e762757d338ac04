"""`polynsd bench`: how fast, and in how much memory, on every backend in one run.

`bench kernels` times the polynomial filter alone, `bench step` a whole training step, both against
`assembled`, the published way, in the same run; `bench protocol` times all splits of a graph.
See `polynsd.bench` for what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import subcommand
from tyro.constructors import PrimitiveConstructorSpec

from polynsd.bench import filters, steps, tables
from polynsd.bench.cases import Case, Row, grid
from polynsd.bench.environment import environment, require_device
from polynsd.bench.record import Measure, make_record, measure_row
from polynsd.bench.samples import NAMES, load_sample, sized
from polynsd.cli.bench_protocol import BenchProtocol
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.report import ProgressReporter
from polynsd.runs.files import require_file_name, write_json

GRAPHS = {"cpu": ("texas", "chameleon"), "cuda": ("chameleon", "squirrel")}
FAST = {"cpu": "cpu", "cuda": "gpu"}


def _listed(item: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec[tuple[Any, ...]]:
    """`8,16` and `8 16` alike."""

    def parse(words: list[str]) -> tuple[Any, ...]:
        return tuple(item(part.strip()) for word in words for part in word.split(",") if part.strip())

    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, value))] if value else [],
    )


def _whole_number(text: str) -> int:
    if not text.lstrip("-").isdigit():
        raise ValueError(f"expected whole numbers such as 8,16; got {text!r}.")
    return int(text)


Numbers = Annotated[tuple[int, ...], _listed(_whole_number, "INT,INT,…")]
Names = Annotated[tuple[str, ...], _listed(str, "NAME,NAME,…")]


@dataclass(frozen=True)
class Options:
    """What both benchmarks ask for; lists are separated by commas."""

    graphs: Names = ()
    """texas, chameleon, squirrel, tolokers, minesweeper: real where at hand (POLYNSD_DATA), else generated
    alike. Unless given: texas,chameleon on a CPU, chameleon,squirrel on a GPU, none beside --sizes."""
    sizes: Numbers = ()
    """Numbers of nodes of generated graphs of mean degree 20, to see growth with the number of edges."""
    degrees: Numbers = (8,)
    """K."""
    maps: Names = ("diagonal", "orthogonal", "general")
    """Families."""
    stalk_dims: Numbers = (4,)
    """d."""
    channels: Numbers = (16,)
    """C, per stalk coordinate."""
    backends: Names = ()
    """assembled, reference, cpu, gpu, auto. Unless given: the first two and the fast one of the device."""
    repeats: int = 5
    """Timed runs per number; the median counts."""
    device: str = "cpu"
    """cpu or cuda."""
    json: Path | None = None
    """A file for environment, rows and fits; written anew after every row."""
    quiet: bool = False
    """No progress."""

    def cases(self) -> list[Case]:
        """The grid; mistakes raise before anything is measured."""
        require_device(self.device)
        require_at_least("repeats", self.repeats, 1)
        require_file_name(self.json)
        for option in ("degrees", "maps", "stalk_dims", "channels"):
            if not getattr(self, option):
                raise ConfigError(f"nothing to measure: --{option.replace('_', '-')} is an empty list.")
        for graph in self.graphs:
            require_choice("graph", graph, NAMES)
        for size in self.sizes:
            sized(size)
        graphs = self.graphs or (() if self.sizes else GRAPHS[self.device])
        generated = tuple(f"random-{size}" for size in self.sizes)
        backends = self.backends or ("assembled", "reference", FAST[self.device])
        return grid((*graphs, *generated), self.stalk_dims, self.channels, self.maps, self.degrees, backends)

    def environment(self) -> Row:
        """On what, and how often."""
        return {**environment(self.device), "repeats": self.repeats}

    def measured(self, cases: Sequence[Case], about: Row, measure: Measure, fields: Sequence[str]) -> Row:
        """The record of all cases; the graph of a case is loaded when its turn comes."""
        rows: list[Row] = []
        sample = None
        with ProgressReporter(len(cases), unit="rows", quiet=self.quiet) as reporter:
            for case in cases:
                reporter.advance(0, str(case))
                if sample is None or sample.name != case.graph:
                    sample = load_sample(case.graph).to(self.device)
                rows.append(measure_row(sample, case, measure, fields))
                reporter.advance(1, str(case))
                if self.json is not None:
                    write_json(self.json, make_record(about, rows))
        return make_record(about, rows)


@dataclass(frozen=True)
class BenchKernels(Options):
    """Time the polynomial filter alone: forward, and forward with backward."""

    degrees: Numbers = (4, 8, 16)
    """K."""
    maps: Names = ("diagonal", "general")
    """Families."""
    tune: bool = False
    """Measure tile sizes of the GPU kernels first, and remember the fastest for this GPU."""

    def run(self) -> Row:
        """Measures, prints, and writes the record where asked for."""
        cases, about = self.cases(), self.environment()
        measure = partial(
            filters.measure_filter,
            device=self.device,
            repeats=self.repeats,
            copy_gbs=about["copy_gbs"],
            tune=self.tune,
        )
        record = self.measured(cases, about, measure, filters.FIELDS)
        tables.print_record("polynomial filter", tables.KERNELS, record)
        return record


@dataclass(frozen=True)
class BenchStep(Options):
    """Time a whole training step of PolyNSD, and inference."""

    layers: int = 2
    """L."""

    def run(self) -> Row:
        """Measures, prints, and writes the record where asked for."""
        require_at_least("layers", self.layers, 1)
        cases, about = self.cases(), self.environment()
        measure = partial(steps.measure_step, layers=self.layers, device=self.device, repeats=self.repeats)
        record = self.measured(cases, about, measure, steps.FIELDS)
        columns = tables.GPU_STEP if self.device == "cuda" else tables.STEP
        tables.print_record(f"training step, {self.layers} layers", columns, record)
        return record


@dataclass(frozen=True)
class Bench:
    """Time the filter (kernels) or a training step (step) on every backend, or a protocol (protocol)."""

    what: (
        Annotated[BenchKernels, subcommand("kernels")]
        | Annotated[BenchStep, subcommand("step")]
        | Annotated[BenchProtocol, subcommand("protocol")]
    )

    def run(self) -> Row:
        """Runs the benchmark that was chosen."""
        return self.what.run()
