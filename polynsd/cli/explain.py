"""`polynsd explain`: which features, neighbours and edges moved the prediction of a node."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from polynsd.cli.options import MemoryOption
from polynsd.errors import ConfigError

if TYPE_CHECKING:
    from polynsd.estimator.explanation import Explanation

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Explain(MemoryOption):
    """Explain a prediction: which features, neighbours and edges moved it."""

    run_folder: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run folder that polynsd fit wrote."""
    node: Annotated[str, arg(metavar="ID")]
    """The id of the node."""
    target: Annotated[str | None, arg(metavar="CLASS")] = None
    """The class to explain; the predicted one unless given."""
    top: int = 10
    """Rows of every table."""
    out: Path | None = None
    """Where the picture goes (.png, .svg, .pdf); explain-ID.png in the run folder unless given."""
    edges: Path | None = None
    """The edges of the graph, in the format of the fit; the tables of the fit unless given."""
    nodes: Path | None = None
    """The node table of that graph."""
    json: bool = False
    """Print the tables as a JSON object."""

    def run(self) -> Explanation:
        """Explains, prints the tables and writes the picture."""
        from polynsd.estimator.explain_ensemble import find_date_formats
        from polynsd.estimator.storage import read_schema, read_tables_for, restore_estimator
        from polynsd.runs import read_run

        if self.out is not None and self.out.suffix not in PICTURES:
            raise ConfigError(f"pictures are {', '.join(PICTURES)} files; got {self.out}. Name such a file.")
        record = read_run(self.run_folder)
        estimator = restore_estimator(record)
        graph = read_tables_for(record, self.edges, self.nodes).graph
        dates = find_date_formats(read_schema(record).node_features)
        found = estimator.explain(self.node, graph, target=self.target, top=self.top, dates=dates)
        picture = self.out or self.run_folder / f"explain-{re.sub(r'[^A-Za-z0-9_.-]', '_', self.node)}.png"
        print(self._as_json(found) if self.json else str(found))
        found.plot(picture)
        if not self.json:
            print(f"\npicture: {picture}")
        return found

    def _as_json(self, found: Explanation) -> str:
        tables = ("features", "neighbours", "edges")
        return json.dumps(
            {
                "node": found.node,
                "target": found.target,
                "score": found.score,
                "probability": found.probability,
                "left_out": found.left_out,
                "dates": {name: asdict(date) for name, date in found.dates.items()},
                **{name: json.loads(getattr(found, name).to_json(orient="records")) for name in tables},
            },
            ensure_ascii=False,
        )
