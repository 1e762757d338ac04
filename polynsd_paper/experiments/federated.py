"""Learning over ten clients that keep their graphs: the paper's rows, backbones × masks, and brackets.

The graph is divided by Louvain's communities, packed as FedATH does (δ = 20), with local splits per class. A
split of a record is a seed, of partition and weights, and every row sees the same five. The round is chosen
by weighted validation; scores are those of the clients' own models in that round, and `global_test` is that
of the model on the server in the round that its own validation chooses.

The paper has Roman-Empire alone, whose features are not among the archives; with them `roman_empire` runs
like the others. Here are its graph and labels with other features (`roman_empire_glovesub`), and three more
graphs. Where one client has everything (`union`, `whole`), ROC AUC is over all nodes, else it is a mean over
clients.

Settings are fixed and the same for all rows: two layers, 60 or 64 channels, dropout 0.5, Adam with rate 0.01
and decay 5e−4, 100 rounds of 3 epochs; λ = 1 and mean entropy for masks, K = 4. `gcn+fedath as published` has
FedATH's own: 512 channels, rate 0.001, λ = 7 and entropies summed over nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.splits import PARTS
from polynsd.data.transforms import apply
from polynsd.errors import DataError
from polynsd.federated.config import FederatedConfig
from polynsd.federated.partition import partition_graph
from polynsd.federated.payload import ClientData, pool_clients
from polynsd.training.problem import Source
from polynsd_paper.experiment import Cell, Experiment, Procedure, Trained
from polynsd_paper.experiments.models import FAMILIES

CLIENTS, SPLITS = 10, 5
DIVISIONS = ("clients", "union", "whole")  # who trains: ten clients; one, on their graphs or on all edges
MASKS = ("none", "fedath", "current", "loaded", "full")
SHEAVES = tuple(f"{kind}-{maps}" for kind in ("nsd", "polynsd") for maps in FAMILIES)
BACKBONES = ("gcn", "gatv2", "gin", "transformer", "identity", *SHEAVES)
BRACKETED = ("gcn", "polynsd-diagonal", "polynsd-general")
RIVALS = ("fedprox", "moon", "fedadam", "fedproto", "fedsage", "fgssl", "fedpub", "fedtad")
DIGITS = 6

PRINTED = {  # the paper's names of its rows
    "fedavg": "FedAvg", "fedprox": "FedProx", "moon": "MOON", "fedadam": "FedOPT", "fedproto": "FedProto",
    "fedsage": "FedSage+", "fgssl": "FGSSL", "fedpub": "FedPUB", "fedtad": "FedTAD",
    "gcn+fedath": "FedATH-GCN", "gatv2+fedath": "FedATH-GATv2", "gin+fedath": "FedATH-GIN",
    "transformer+fedath": "FedATH-Transformer",
    **{
        f"{kind}-{maps}+{masks}": f"{prefix}FedCausalSheaf-{name}{suffix}"
        for masks, prefix in (("current", ""), ("loaded", "LoadRMaps-"))
        for kind, suffix in (("nsd", ""), ("polynsd", "Poly"))
        for maps, name in zip(FAMILIES, ("Diag", "Bundle", "General"), strict=True)
    },
    "gcn+loaded": "LoadRMaps-FedATH-GCN",
}  # fmt: skip


@dataclass(frozen=True)
class Federation(Procedure):
    """One federated training per split."""

    config: FederatedConfig
    division: str = "clients"
    clients: int = CLIENTS
    splits: int = SPLITS

    def settings(self) -> dict[str, Any]:
        config = {name: value for name, value in asdict(self.config).items() if name != "seed"}
        return {"federated": config, "division": self.division, "clients": self.clients}

    def complete(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        config = {**asdict(FederatedConfig()), **recorded.get("federated", {})}
        config.pop("seed")
        return {**recorded, "federated": config}

    def shortened(self) -> Federation:
        return replace(self, config=replace(self.config, rounds=2), clients=3, splits=1)

    def train(self, source: Source, split: int, on_step: Callable[[str], None]) -> Trained:
        graph, entry, _ = open_graph(str(source.dataset))
        features = source.features or ("raw" if entry is None else entry.preprocessing)
        metric = source.metric or ("accuracy" if entry is None else entry.metric)
        if graph.x is None:
            raise DataError(f"{graph.name} has no features here; roman_empire_glovesub has other ones.")
        graph = apply(features, graph)
        partition = partition_graph(graph, self.clients, seed=split)
        if self.division == "clients":
            data = [ClientData.of(each, partition.num_classes) for each in partition.graphs]
        else:
            data = [pool_clients(partition, graph if self.division == "whole" else None)]
        config = replace(self.config, seed=split)
        start = time.perf_counter()
        rounds = play(data, config, metric, source.device, on_step)
        chosen = rounds.choose("local")
        sizes = {part: float(sum(getattr(each, part).sum() for each in data)) for part in PARTS}
        protocol = f"{self.clients} clients by louvain, {self.division}"
        return Trained(
            val=rounds.curves["local_val"][chosen - 1],
            test=rounds.curves["local_test"][chosen - 1],
            best=chosen,
            steps=config.rounds,
            parameters=rounds.parameters,
            seconds=round(time.perf_counter() - start, 2),
            about={"metric": metric, "protocol": protocol, "features": features},
            sizes=sizes,
            measured=rounds.measure() | {"majority": majority_rate(data)},
        )


def majority_rate(clients: Sequence[ClientData]) -> float:
    """The share of test nodes that have the most frequent class of their client's training nodes."""
    right = sum(int((each.y[each.test] == each.y[each.train].mode().values).sum()) for each in clients)
    return round(right / sum(int(each.test.sum()) for each in clients), DIGITS)


@dataclass
class Rounds:
    """What a server was told, round by round."""

    parameters: int = 0
    curves: dict[str, list[float]] = field(default_factory=dict)  # local_val, local_test, global_…
    sent: list[int] = field(default_factory=list)  # bytes, of all clients
    received: list[int] = field(default_factory=list)

    def log(self, record: Mapping[str, Any]) -> None:
        """Takes the record of a round; its scores are of the round before."""
        for name, value in record["scores"].items():
            self.curves.setdefault(name, []).append(float(value))
        if record["event"] == "round":
            self.sent.append(record["sent"])
            self.received.append(record["received"])

    def choose(self, kind: str) -> int:
        """The round, from 1 on, of best validation; the first of equals."""
        return int(np.argmax(self.curves[f"{kind}_val"])) + 1

    def measure(self) -> dict[str, float]:
        """Scores of the last round and of the global model, bytes per round, and curves at some rounds."""
        found = {"last_test": self.curves["local_test"][-1]}
        if "global_val" in self.curves:
            found["global_test"] = self.curves["global_test"][self.choose("global") - 1]
        for name, counts in (("sent_mib", self.sent), ("received_mib", self.received)):
            found[name] = sum(counts) / len(counts) / 2**20
        for name in ("local_val", "local_test", "global_test"):
            for number in shown_rounds(len(self.curves.get(name, ()))):
                found[f"{name}_{number}"] = self.curves[name][number - 1]
        return {name: float(f"{value:.{DIGITS}g}") for name, value in found.items()}


def shown_rounds(count: int) -> list[int]:
    """1, 2, 5, 10, 15, …"""
    return [n for n in range(1, count + 1) if n <= 2 or n % 5 == 0]


def play(
    data: Sequence[ClientData],
    config: FederatedConfig,
    metric: str,
    device: str,
    on_step: Callable[[str], None],
) -> Rounds:
    """All rounds over clients in this process, by Flower's server."""
    from polynsd.federated.training import require_flower

    require_flower()
    from polynsd.federated.local_grid import LocalGrid
    from polynsd.federated.outcome import RoundReport, ServerOptions
    from polynsd.federated.server import FederatedServer
    from polynsd.federated.site import Site

    class Teller:
        def waiting(self, present: int, wanted: int) -> None: ...

        def fault(self, round_: int, client: str, reason: str) -> None:
            on_step(f"round {round_}: {client}: {reason}")

        def report(self, report: RoundReport) -> None:
            if report.round % 10 == 0:
                val = report.scores.get("local_val", float("nan"))
                on_step(f"round {report.round} of {config.rounds}, validation {100 * val:.1f}")

    grid = LocalGrid([Site(f"client {i}", each, device=device) for i, each in enumerate(data)])
    rounds = Rounds()
    options = ServerOptions(clients=len(data), metric=metric)
    outcome = FederatedServer(config, options, grid, Teller(), log=rounds.log).run()
    rounds.parameters = sum(int(np.size(array)) for array in outcome.arrays.values())
    return rounds


def _configure(dataset: str, model: str) -> Cell:
    source = Source(dataset, protocol=f"{CLIENTS} clients by louvain")
    return Cell(dataset, {"model": model}, ROWS[model], sources=(source,))


def _federation(backbone: str, masks: str = "none", division: str = "clients", **options: Any) -> Federation:
    kind, _, maps = backbone.partition("-")
    maps = maps or "diagonal"  # of the sheaf whose maps score edges
    return Federation(FederatedConfig(backbone=kind, maps=maps, masks=masks, **options), division)


def _make_rows() -> dict[str, Federation]:
    """All rows, those of the paper first, in its order."""
    found = {"fedavg": _federation("gcn")}
    found |= {name: _federation("gcn", method=name) for name in RIVALS}
    grid = {
        f"{backbone}+{masks}": _federation(backbone, masks)
        for backbone in BACKBONES
        for masks in MASKS
        if (backbone, masks) != ("gcn", "none") and (masks != "current" or backbone in SHEAVES)
    }
    found |= {name: grid[name] for name in PRINTED if name in grid} | grid
    found["gcn+fedath as published"] = _federation(
        "gcn", "fedath", width=512, rate=1e-3, penalty=7.0, entropy="sum"
    )
    found["fgssl as published"] = _federation("gcn", method="fgssl", options={"variant": "published"})
    for backbone in BRACKETED:
        found[f"{backbone} local"] = _federation(backbone, method="local")
        for division in DIVISIONS[1:]:
            found[f"{backbone} {division}"] = _federation(backbone, division=division)
    return found


ROWS = _make_rows()
FAST_ROWS = (  # one of every kind
    "fedavg", *RIVALS, "gcn+fedath", *(f"polynsd-diagonal+{masks}" for masks in MASKS[2:]), "gcn local",
    "gcn union", "gcn whole",
)  # fmt: skip

FEDERATED = Experiment(
    "federated",
    "ten clients, backbones and sources of masks",
    "own",
    ("roman_empire_glovesub", "cora", "chameleon_filtered", "minesweeper", "roman_empire"),
    {"model": tuple(ROWS)},
    _configure,
    seeds=1,
    minutes="roman_empire_glovesub: 2 minutes of a CPU core (fedavg) to 22 (sheaves with masks) per cell",
    paper="the federated table",
    report="polynsd_paper.federated_report:report_federated",
    fast_datasets=("texas",),
    fast_axes={"model": FAST_ROWS},
)
