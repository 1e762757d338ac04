"""`polynsd federated serve` and `… join`: a federation over processes and machines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from polynsd.cli.federated_run import RoundsView, print_outcome
from polynsd.cli.options import Names
from polynsd.errors import ConfigError
from polynsd.federated.config import FederatedConfig, Privacy, ServerOptions
from polynsd.federated.scores import Outcome


@dataclass(frozen=True, kw_only=True)
class FederatedServe:
    """Wait for clients, train over them, and write a run folder."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("out", "clients", "rounds", "backbone", "masks", "method", "host", "port", "timeout"),
        *("certificate", "key", "authority", "client_keys", "secure_aggregation", "dp_noise", "dp_clip"),
    )

    out: Path
    """A run folder; started again with the same options, a killed server goes on from its last round."""
    clients: int
    """How many must have joined before the first round."""
    name: str = "clients"
    """Under which the run is filed."""
    classes: Names = ()
    """The names of the classes in the order that the clients agreed on, for predictions."""
    host: str = "127.0.0.1"
    """The address to listen at; 0.0.0.0 for other machines."""
    port: int = 9092
    """The port that clients name."""
    timeout: float = 600.0
    """Seconds that a client has for a round; who is later is left out of it."""
    metric: str = "accuracy"
    """accuracy, or roc_auc of two classes."""
    max_nodes: int = 10_000_000
    """The most nodes that a client may say it has, by which it is weighted: the size of the largest that you
    expect. Who says more is not let in."""
    certificate: Path | None = None
    """The server's certificate (PEM), for TLS."""
    key: Path | None = None
    """Its private key (PEM)."""
    authority: Path | None = None
    """The certificate of the authority that signed it (PEM); clients need it too."""
    client_keys: Annotated[tuple[Path, ...], arg(metavar="FILE …")] = ()
    """Public keys of the clients that may join; all unless given."""
    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """One JSON object per event, for machines."""
    training: FederatedConfig = field(default_factory=FederatedConfig)
    """Backbone, masks, method and rules of training."""
    privacy: Privacy = field(default_factory=Privacy)
    """Secure aggregation and differential privacy."""

    def after_interrupt(self) -> str:
        return f"the same command goes on with {self.out}" if self.out.exists() else ""

    def run(self) -> Outcome:
        from polynsd.federated.training import require_flower

        require_flower()
        from polynsd.federated.deployment import Certificates, serve

        files = (self.certificate, self.key, self.authority)
        if any(file is None for file in files) and any(file is not None for file in files):
            raise ConfigError("TLS needs --certificate, --key and --authority, all three.")
        certificates = Certificates(*files) if self.certificate else None  # type: ignore[arg-type]
        options = ServerOptions(self.clients, self.timeout, self.metric, self.privacy, self.max_nodes)
        shown = {"quiet": self.quiet, "as_json": self.json, "is_secure": self.privacy.secure_aggregation}
        with RoundsView(self.training, **shown) as view:
            outcome = serve(
                self.training,
                options,
                self.out,
                view.tell,
                name=self.name,
                classes=self.classes,
                host=self.host,
                port=self.port,
                certificates=certificates,
                client_keys=self.client_keys,
            )
        print_outcome([outcome], self.training, options, self.json)
        if not self.json:
            print(f"run: {self.out}")
        return outcome


@dataclass(frozen=True, kw_only=True)
class FederatedJoin:
    """Take part in a federated training with a graph of your own, which stays here."""

    server: Annotated[str, Positional, arg(metavar="HOST:PORT")]
    """The server of polynsd federated serve."""
    data: Path | None = None
    """An archive of polynsd federated partition, e.g. clients/client-0.npz."""
    edges: Path | None = None
    """Or a table with a row per edge,"""
    nodes: Path | None = None
    """with a table with a row per node: an id, numbers, a label."""
    label: str | None = None
    """The column of labels."""
    classes: Names = ()
    """All classes of all clients, in the order that they agreed on."""
    name: str | None = None
    """By which the server knows this client; that of the archive or of the tables' folder unless given."""
    state: Path | None = None
    """A folder for what this client keeps between rounds, and its own model in the end."""
    authority: Path | None = None
    """The certificate of the server's authority (PEM), for TLS."""
    private_key: Path | None = None
    """Of this client (OpenSSH, of an elliptic curve), where the server asks who joins."""
    device: str = "cpu"
    """Where to train: cpu, cuda, cuda:N, or auto."""
    wait: float = 60.0
    """Seconds to wait for a server that is not there, or not any more."""

    def after_interrupt(self) -> str:
        return "the server goes on without this client"

    def run(self) -> None:
        from polynsd.federated.training import require_flower

        require_flower()
        from polynsd.federated.client_app import LOCAL
        from polynsd.federated.data import open_archive, open_tables
        from polynsd.federated.methods import describe_leaving
        from polynsd.federated.node import join

        settings = self._settings()
        site = open_archive(**settings) if "path" in settings else open_tables(**settings)
        data = site.data
        print(
            f"{site.name}: {data.num_nodes:,} nodes, {data.num_features:,} features, "
            f"{data.num_classes} classes; joins {self.server}",
            flush=True,
        )
        state = self.state or _own_folder(site.name, settings)
        join(
            self.server,
            site,
            state,
            authority=self.authority,
            private_key=self.private_key,
            wait=self.wait,
            on_start=lambda config: print(
                f"{site.name}: trains by {config.method}; what leaves it every round: "
                f"{describe_leaving(config)}",
                flush=True,
            ),
            on_wait=lambda reason: print(
                f"{site.name}: not let in yet: {reason} If it is an earlier start of this client that has "
                "ended, this one takes its place soon.",
                flush=True,
            ),
        )
        own = f"its own model is {state / LOCAL}" if (state / LOCAL).exists() else "it has none of its own"
        print(f"{site.name}: the training is over, or the server gone; {own}")

    def _settings(self) -> dict[str, Any]:
        """The arguments of `open_archive` or `open_tables`."""
        common = {"name": self.name, "device": self.device}
        if self.data is not None and self.edges is None:
            return {"path": str(self.data.resolve()), **common}
        if self.data is not None or self.edges is None or self.nodes is None or self.label is None:
            raise ConfigError("name an archive with --data, or tables with --edges, --nodes and --label.")
        if not self.classes:
            raise ConfigError(
                "tables need --classes: all classes of all clients, in the same order everywhere."
            )
        tables = {"edges": str(self.edges.resolve()), "nodes": str(self.nodes.resolve())}
        return {**tables, "label": self.label, "classes": list(self.classes), **common}


def _own_folder(name: str, settings: dict[str, Any]) -> Path:
    """A folder below that of temporary files, the same for the same data."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
    return Path(gettempdir()) / f"polynsd-{name}-{digest}"
