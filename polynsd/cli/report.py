"""`polynsd report`: one HTML file about finished runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from polynsd.cli.options import MemoryOption

NAME = "report.html"


@dataclass(frozen=True)
class Report(MemoryOption):
    """Write a report about finished runs that opens in any browser, without a network."""

    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN …")]
    """Run folders of polynsd train, polynsd fit and polynsd federated; several are compared."""
    out: Path = Path(NAME)
    """The file."""
    dataset: str | None = None
    """The file of the graph, if a run was trained on one."""
    edges: Path | None = None
    """The edges of a fit, if they are not where they were."""
    nodes: Path | None = None
    """The node table of a fit, likewise."""
    quiet: bool = False
    """Print nothing."""

    def run(self) -> Path:
        """Writes the file and says where it is."""
        from polynsd.report.html import Sources, write_report
        from polynsd.report.progress import ProgressReporter

        steps = 5 * len(self.runs) + 1
        with ProgressReporter(steps, unit="steps", quiet=self.quiet) as progress:
            path = write_report(
                self.runs,
                self.out,
                sources=Sources(self.dataset, self.edges, self.nodes),
                on_step=lambda name: progress.advance(1, name),
            )
        if not self.quiet:
            print(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)")
        return path


def add_report(run: Path) -> str:
    """Writes the report of a run into its folder; a line that says where it is, or why there is none.

    The run is finished, so nothing that happens here may end the command.
    """
    if find_spec("plotly") is None:
        return "a report to open in a browser needs Plotly: pip install 'polynsd[report]'"
    try:
        from polynsd.report.html import write_report

        return f"report: {write_report([run], run / NAME)}"
    except Exception as error:  # whatever it is, the run is there
        return (
            f"no report was written ({type(error).__name__}: {error}); try again with: polynsd report {run}"
        )
