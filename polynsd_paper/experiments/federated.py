"""Learning over ten clients that keep their graphs: the paper's rows, backbones × masks, and brackets.

The graph is divided by Louvain's communities, packed as FedATH does (δ = 20), with local splits per class. A
split of a record is a seed, of partition and weights, and every row sees the same five. The round is chosen
by weighted validation; scores are those of the clients' own models in that round, and `global_test` is that
of the model on the server in the round that its own validation chooses.

The paper has Roman-Empire alone, whose features are not among the archives; with them `roman_empire` runs
like the others. Here are its graph and labels with other features (`roman_empire_glovesub`), and three more
graphs. Where one client has everything (`union`, `whole`), ROC AUC is over all nodes, else it is a mean over
clients.

Rate (0.003, 0.01), λ of masks (0, 1, 7) and K of PolyNSD (2, 4, 8) are chosen by the mean validation of the
first three seeds: rate and λ together at K = 4, then K. The rest is fixed: two layers, 60 or 64 channels,
dropout 0.5, Adam with decay 5e−4, 100 rounds of 3 epochs, mean entropy for masks. `gcn+fedath as published`
has FedATH's own: 512 channels, rate 0.001, λ = 7 and entropies summed over nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.datasets.entries import ENTRIES
from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS
from polynsd.data.transforms import apply
from polynsd.errors import DataError
from polynsd.federated.client import LocalClient
from polynsd.federated.config import FederatedConfig
from polynsd.federated.data import ClientData, pool_clients
from polynsd.federated.partition import Partition, partition_graph
from polynsd.federated.replicas import can_train_side_by_side, train_side_by_side
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment, Procedure, Trained
from polynsd_paper.experiments.models import FAMILIES

CLIENTS, SPLITS, SEARCHED = 10, 5, 3  # seeds of all scores, and of a search
RATES, PENALTIES, DEGREES = (3e-3, 1e-2), (0.0, 1.0, 7.0), (2, 4, 8)
MOST_NODES = {"cpu": 20_000, "cuda": 250_000}  # of trainings side by side
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
    """One federated training per split, with the best settings of a grid."""

    config: FederatedConfig
    division: str = "clients"
    clients: int = CLIENTS
    splits: int = SPLITS
    grid: Mapping[str, Sequence[float]] = field(
        default_factory=dict
    )  # values of options of the configuration

    def settings(self) -> dict[str, Any]:
        config = {name: value for name, value in asdict(self.config).items() if name != "seed"}
        grid = {name: list(values) for name, values in self.grid.items()}
        return {"federated": config, "division": self.division, "clients": self.clients, "grid": grid}

    def complete(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        config = {**asdict(FederatedConfig()), **recorded.get("federated", {})}
        config.pop("seed")
        return {"grid": {}, **recorded, "federated": config}

    def shortened(self) -> Federation:
        grid = {name: values for name, values in self.grid.items() if name == "rate"}
        config = replace(self.config, rounds=2)
        if config.method == "fedsage":
            config = replace(config, options={**config.options, "generator_rounds": 1})
        return replace(self, config=config, clients=3, splits=1, grid=grid)

    def train(
        self, source: Source, splits: Sequence[int], on_step: Callable[[str], None]
    ) -> Iterator[Trained]:
        start = time.perf_counter()
        federations = Federations(self, source, on_step)
        config = federations.choose(range(min(SEARCHED, self.splits)))
        played = federations.play([replace(config, seed=split) for split in splits])
        chosen = {name: float(getattr(config, name)) for name in self.grid}
        seconds = round((time.perf_counter() - start) / max(len(splits), 1), 2)
        for split, rounds in zip(splits, played, strict=True):
            data, best = federations.clients_of(split), rounds.choose("local")
            yield Trained(
                val=rounds.curves["local_val"][best - 1],
                test=rounds.curves["local_test"][best - 1],
                best=best,
                steps=config.rounds,
                parameters=rounds.parameters,
                seconds=seconds,
                about={
                    "metric": federations.metric,
                    "protocol": f"{self.clients} clients by louvain, {self.division}",
                    "features": federations.features,
                },
                sizes={part: float(sum(getattr(client, part).sum() for client in data)) for part in PARTS},
                measured=rounds.measure() | chosen | {"majority": majority_rate(data)},
            )


class Federations:
    """Trainings of one row on one graph: other seeds, other settings; each is played once.

    Args:
        row: what is trained.
        source: the graph, and the device.
        on_step: is called with a line of text now and then.
    """

    def __init__(self, row: Federation, source: Source, on_step: Callable[[str], None]) -> None:
        entry = ENTRIES.get(str(source.dataset))
        self.row, self.source, self.on_step = row, source, on_step
        self.features = source.features or ("raw" if entry is None else entry.preprocessing)
        self.metric = source.metric or ("accuracy" if entry is None else entry.metric)
        self._played: dict[str, Rounds] = {}
        self._traffic: dict[str, Rounds] = {}

    def clients_of(self, seed: int) -> list[ClientData]:
        """The graphs of a seed's partition."""
        return open_clients(
            str(self.source.dataset), self.features, self.row.clients, seed, self.row.division
        )

    def choose(self, seeds: Sequence[int]) -> FederatedConfig:
        """The configuration of the grid with the best mean validation: K last, all others together."""
        grid = dict(self.row.grid)
        last = {name: grid.pop(name) for name in ("degree",) if name in grid}
        best = self.row.config
        for names in (grid, last):
            if not names:
                continue
            values: list[dict[str, Any]] = [
                dict(zip(names, combination, strict=True)) for combination in product(*names.values())
            ]
            trials = [replace(best, **options) for options in values]
            played = self.play([replace(trial, seed=seed) for trial in trials for seed in seeds])
            scores = np.array([max(rounds.curves["local_val"]) for rounds in played])
            best = trials[int(scores.reshape(len(trials), -1).mean(1).argmax())]
            chosen = ", ".join(f"{name} {getattr(best, name):g}" for name in names)
            self.on_step(f"{chosen} of {len(trials)} by validation {100 * scores.max():.1f}")
        return best

    def play(self, configs: Sequence[FederatedConfig]) -> list[Rounds]:
        """The rounds of every configuration; side by side where they have one shape."""
        shapes: dict[str, list[FederatedConfig]] = {}
        for config in configs:
            if repr(config) not in self._played:
                shape = replace(config, seed=0, rate=0.0, penalty=0.0)
                shapes.setdefault(repr(shape), []).append(config)
        for alike in shapes.values():
            self._play_alike(alike)
        return [self._played[repr(config)] for config in configs]

    def _play_alike(self, configs: Sequence[FederatedConfig]) -> None:
        nodes = sum(client.num_nodes for client in self.clients_of(configs[0].seed))
        most = max(MOST_NODES["cpu" if self.source.device == "cpu" else "cuda"] // nodes, 1)
        for batch in (configs[i : i + most] for i in range(0, len(configs), most)):
            trainings = [
                [
                    LocalClient(data, config, i, self.source.device)
                    for i, data in enumerate(self.clients_of(config.seed))
                ]
                for config in batch
            ]
            if can_train_side_by_side([client for training in trainings for client in training]):
                played = self._play_side_by_side(trainings)
            else:
                del trainings
                played = [self._play_by_server(config) for config in batch]
            self._played |= {repr(config): rounds for config, rounds in zip(batch, played, strict=True)}

    def _play_by_server(self, config: FederatedConfig) -> Rounds:
        return play(self.clients_of(config.seed), config, self.metric, self.source.device, self.on_step)

    def _play_side_by_side(self, trainings: Sequence[Sequence[LocalClient]]) -> list[Rounds]:
        config = trainings[0][0].config

        def report(number: int, scores: Sequence[Mapping[str, float]]) -> None:
            if number % 10 == 0:
                val = np.mean([score["local_val"] for score in scores])
                self.on_step(
                    f"{len(scores)} trainings, round {number} of {config.rounds}, validation {100 * val:.1f}"
                )

        sent = self._measure_traffic(config)
        return [replace(sent, curves=curves) for curves in train_side_by_side(trainings, self.metric, report)]

    def _measure_traffic(self, config: FederatedConfig) -> Rounds:
        """Parameters and bytes of a shape: messages have one size in all rounds, so two rounds show it."""
        short = replace(config, masks="none", rounds=2, local_epochs=1, seed=0, rate=0.01, penalty=0.0)
        if repr(short) not in self._traffic:
            self._traffic[repr(short)] = self._play_by_server(short)
        return self._traffic[repr(short)]


@lru_cache(maxsize=2 * SPLITS)  # of the row and of the next ones
def open_clients(dataset: str, features: str, clients: int, seed: int, division: str) -> list[ClientData]:
    """The graphs of the clients of a seed; one graph where one has everything."""
    graph, partition = _divide(dataset, features, clients, seed)
    if division == "clients":
        return [ClientData.of(part, partition.num_classes) for part in partition.graphs]
    pooled = pool_clients(partition, graph if division == "whole" else None)
    return [ClientData.of(pooled.graphs[0], pooled.num_classes)]


@lru_cache(maxsize=SPLITS)
def _divide(dataset: str, features: str, clients: int, seed: int) -> tuple[Graph, Partition]:
    graph = _open(dataset, features)
    return graph, partition_graph(graph, clients, seed=seed)


@lru_cache(maxsize=1)
def _open(dataset: str, features: str) -> Graph:
    graph, _, _ = open_graph(dataset)
    if graph.x is None:
        raise DataError(f"{graph.name} has no features here; roman_empire_glovesub has other ones.")
    return apply(features, graph)


def majority_rate(clients: Sequence[ClientData]) -> float:
    """The share of test nodes that have the most frequent class of their client's training nodes."""
    right = sum(int((c.y[c.test] == c.y[c.train].mode().values).sum()) for c in clients)
    return round(right / sum(int(c.test.sum()) for c in clients), DIGITS)


@dataclass
class Rounds:
    """Scores and traffic of a training, round by round."""

    parameters: int = 0
    curves: dict[str, list[float]] = field(default_factory=dict)  # local_val, local_test, global_…
    sent: list[int] = field(default_factory=list)  # bytes, of all clients
    received: list[int] = field(default_factory=list)

    def log(self, event: Mapping[str, Any]) -> None:
        """Takes an event of the server."""
        if event["event"] == "scores":
            for name, value in event.items():
                if name not in ("event", "round"):
                    self.curves.setdefault(name, []).append(float(value))
        elif event["event"] == "round":
            self.sent.append(event["sent"])
            self.received.append(event["received"])

    def choose(self, kind: str) -> int:
        """The round, from 1 on, of best validation; the first of equals."""
        return int(np.argmax(self.curves[f"{kind}_val"])) + 1

    def measure(self) -> dict[str, float]:
        """Scores of the last round and of the global model, bytes per round, and curves at some rounds."""
        measured = {"last_test": self.curves["local_test"][-1]}
        if "global_val" in self.curves:
            measured["global_test"] = self.curves["global_test"][self.choose("global") - 1]
        for name, counts in (("sent_mib", self.sent), ("received_mib", self.received)):
            measured[name] = sum(counts) / len(counts) / 2**20
        for name in ("local_val", "local_test", "global_test"):
            for number in shown_rounds(len(self.curves.get(name, ()))):
                measured[f"{name}_{number}"] = self.curves[name][number - 1]
        return {name: float(f"{value:.{DIGITS}g}") for name, value in measured.items()}


def shown_rounds(count: int) -> list[int]:
    """The rounds whose scores a record keeps: 1, 2, 5, 10, 15, …"""
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
    from polynsd.federated.client_app import Site
    from polynsd.federated.config import ServerOptions
    from polynsd.federated.server import FederatedServer
    from polynsd.federated.simulation import LocalGrid

    rounds = Rounds()

    def tell(event: Mapping[str, Any]) -> None:
        rounds.log(event)
        if event["event"] == "fault":
            on_step(f"round {event['round']}: {event['client']}: {event['reason']}")
        elif event["event"] == "scores" and event["round"] % 10 == 0:
            val = event.get("local_val", float("nan"))
            on_step(f"round {event['round']} of {config.rounds}, validation {100 * val:.1f}")

    grid = LocalGrid([Site(f"client {i}", client, device=device) for i, client in enumerate(data)])
    options = ServerOptions(clients=len(data), metric=metric)
    outcome = FederatedServer(config, options, grid, tell).run()
    rounds.parameters = sum(int(np.size(array)) for array in outcome.arrays.values())
    return rounds


def _configure(dataset: str, model: str) -> Cell:
    source = Source(dataset, protocol=f"{CLIENTS} clients by louvain")
    return Cell(dataset, {"model": model}, ROWS[model], sources=(source,))


def _federation(backbone: str, masks: str = "none", division: str = "clients", **options: Any) -> Federation:
    kind, _, maps = backbone.partition("-")
    config = FederatedConfig(
        backbone=kind,
        maps=maps or "diagonal",  # of the sheaf whose maps score edges
        masks=masks,
        **options,
    )
    grid: dict[str, Sequence[float]] = {"rate": RATES}
    grid |= {} if masks == "none" else {"penalty": PENALTIES}
    grid |= {"degree": DEGREES} if kind == "polynsd" else {}
    return Federation(config, division, grid=grid)


def _make_rows() -> dict[str, Federation]:
    """All rows, those of the paper first, in its order."""
    rows = {"fedavg": _federation("gcn")}
    rows |= {name: _federation("gcn", method=name) for name in RIVALS}
    grid = {
        f"{backbone}+{masks}": _federation(backbone, masks)
        for backbone in BACKBONES
        for masks in MASKS
        if (backbone, masks) != ("gcn", "none") and (masks != "current" or backbone in SHEAVES)
    }
    rows |= {name: grid[name] for name in PRINTED if name in grid} | grid
    published = FederatedConfig("gcn", "fedath", width=512, rate=1e-3, penalty=7.0, entropy="sum")
    rows["gcn+fedath as published"] = Federation(published)
    rows["fgssl as published"] = _federation("gcn", method="fgssl", options={"variant": "published"})
    for backbone in BRACKETED:
        rows[f"{backbone} local"] = _federation(backbone, method="local")
        for division in DIVISIONS[1:]:
            rows[f"{backbone} {division}"] = _federation(backbone, division=division)
    return rows


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
    minutes="beside eleven others on an H200 10–270 s per cell of cora and chameleon_filtered, 40–510 of "
    "minesweeper, 100–480 of roman_empire_glovesub; rivals 2–8 minutes of a CPU core, "
    "FedSage+ more than an hour",
    paper="the federated table",
    report="polynsd_paper.reports.federated:report_federated",
    fast_datasets=("texas",),
    fast_axes={"model": FAST_ROWS},
)
