"""`polynsd federated …`: a graph divided among clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from polynsd.cli.options import Numbers
from polynsd.errors import ConfigError

if TYPE_CHECKING:
    from polynsd.federated.partition import Partition


@dataclass(frozen=True, kw_only=True)
class FederatedPartition:
    """Divide a graph among clients: an archive for each, and a manifest."""

    dataset: str
    """A benchmark by name (polynsd data list) or a graph file."""
    out: Path
    """The folder for client-0.npz, … and partition.json."""
    clients: int = 10
    """Number of clients."""
    method: Literal["louvain", "metis", "labels", "overlapping"] = "louvain"
    """Communities packed into equal clients; few cut edges; skewed labels; parts of which five clients have a
    random half each."""
    seed: int = 0
    """Of nodes and splits."""
    delta: int = 20
    """For louvain: how far the size of a client may be from the mean."""
    alpha: float = 0.5
    """For labels: the smaller, the more skewed."""
    fractions: Numbers = ()
    """Train, val and test of every class of a client; 0.2,0.4,0.4 for citation graphs, 0.5,0.2,0.3 for others
    unless given."""
    features: str | None = None
    """Preprocessing of the features before the graph is divided (raw, row-normalize, …); the benchmark's own
    unless given."""
    picture: Path | None = None
    """A PNG file with classes, edges and homophily by client."""

    def run(self) -> Partition:
        from polynsd.federated.partition import partition_dataset
        from polynsd.report import print_table

        if self.picture is not None and self.picture.suffix != ".png":
            raise ConfigError(f"pictures are PNG files; got {self.picture}. Let the name end in .png.")
        (partition,) = partition_dataset(
            self.dataset,
            self.features,
            clients=self.clients,
            method=self.method,
            seeds=(self.seed,),
            delta=self.delta,
            alpha=self.alpha,
            fractions=self.fractions or None,
        )
        partition.save(self.out)
        rows = partition.statistics()
        lines = [[f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for v in row.values()] for row in rows]
        header = [name.replace("_", " ") for name in rows[0]]
        print_table(f"{partition.name}, {len(partition)} clients by {self.method}", header, lines)
        print(f"{self.out}: partition {partition.digest[:12]}")
        if self.picture is not None:
            partition.plot(self.picture)
            print(f"picture: {self.picture}")
        return partition
