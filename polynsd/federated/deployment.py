"""`serve`: the server of a federation over processes, a SuperLink of Flower's and the training.

Flower's own programs are children, which end with us (`children.py`). A server opens one port, on which
clients, the training and Flower's command line are served; with certificates it speaks TLS, and with keys of
clients it lets only these in.

The training itself is the ServerApp, in a process that the SuperLink starts. It finds its settings in a file
that the environment names, and writes events to another, which `serve` reads. It holds the lock of their
folder: Flower ends its programs one after the other and takes its time, so the training ends as soon as
nobody holds it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from polynsd.config import from_options, to_dict
from polynsd.errors import ConfigError
from polynsd.federated.children import read_tail, run_child
from polynsd.federated.config import FederatedConfig, ServerOptions
from polynsd.federated.runs import (
    KIND,
    SeedResult,
    finish_run,
    identify,
    read_result,
    restore_model,
    summarise,
)
from polynsd.federated.scores import Outcome
from polynsd.federated.server import Event
from polynsd.federated.training import (
    QUIET,
    FederationError,
    SeedSnapshots,
    check_training,
    require_flower,
    serve_rounds,
)
from polynsd.runs import Run
from polynsd.runs.files import RESULT, compact_json, to_json
from polynsd.runs.lock import hold_lock, is_locked
from polynsd.runs.record import RunIdentity
from polynsd.runs.run import check_folder

SETTINGS = "POLYNSD_FEDERATED"  # the variable that names the file of settings
POLL_SECONDS = 0.2
START_SECONDS = 60.0

PROJECT = """\
[project]
name = "polynsd-federated"
version = "1.0.0"
description = "Federated sheaf learning"
license = "Apache-2.0"
dependencies = []
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.flwr.app]
publisher = "polynsd"
[tool.flwr.app.components]
serverapp = "polynsd_federated.apps:server_app"
clientapp = "polynsd_federated.apps:client_app"
"""
APPS = """\
from polynsd.federated import client_app as client
from polynsd.federated import deployment as server

client_app = client.client_app
server_app = server.server_app
"""  # Flower looks for assignments


@dataclass(frozen=True)
class Certificates:
    """TLS of a server: files in PEM format."""

    certificate: Path
    key: Path
    authority: Path


def serve(
    config: FederatedConfig,
    options: ServerOptions,
    out: Path,
    tell: Callable[[Event], None] = lambda event: None,
    *,
    name: str = "clients",
    classes: Sequence[str] = (),
    host: str = "127.0.0.1",
    port: int = 9092,
    certificates: Certificates | None = None,
    client_keys: Sequence[Path] = (),
) -> Outcome:
    """Waits for clients, trains, writes the run folder.

    Args:
        config: the training.
        options: of the server.
        out: the run folder; started again after a kill, the training goes on from its last round, and a
            finished one is read.
        tell: takes events (`polynsd.federated.server`); nobody is told unless given.
        name: under which the run is filed.
        classes: their names, for predictions; numbers unless given.
        host: the address to listen at.
        port: the one that clients name.
        certificates: for TLS; without them everybody on the way can read along.
        client_keys: public keys (OpenSSH, of elliptic curves) of the clients that may join; all unless given.

    Raises:
        ConfigError: an option does not fit, a file is not there, or another program listens at the port.
        FederationError: Flower's server ended, or the training failed.
    """
    require_flower()
    if client_keys and certificates is None:
        raise ConfigError("keys of clients need TLS; give --certificate, --key and --authority too.")
    check_training(config, options.privacy)
    inputs = {"dataset": name, "classes": list(classes)}
    check_folder(out, RunIdentity.create(KIND, identify(config, options), inputs))  # before anybody joins
    if (out / RESULT).exists():
        return read_result(out).outcome
    _require_tls_files(certificates, client_keys)
    _require_free_port(host, port)
    with TemporaryDirectory() as folder, hold_lock(Path(folder)):  # the training ends when the lock is free
        place = Path(folder)
        events = place / "events.jsonl"
        events.touch()
        settings: dict[str, Any] = {"config": to_dict(config), "options": asdict(options)}
        settings |= {"out": str(out.resolve()), "inputs": inputs, "events": str(events)}
        (place / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        environment = child_environment(place) | {SETTINGS: str(place / "settings.json")}
        command = ["flower-superlink", "--host", host, "--port", str(port), *_server_tls(certificates)]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--enable-supernode-auth"] if client_keys else []
        with run_child(command, environment, place / "log") as superlink:
            _wait_for_port(host, port, superlink, place / "log")
            _connect(place, host, port, certificates)
            for key in client_keys:
                _call(["flwr", "supernode", "register", str(key.resolve()), "here"], environment)
            _call(["flwr", "run", str(_write_app(place)), "here"], environment)
            _follow(events, tell, superlink, place / "log")
    return read_result(out).outcome


def require_files(files: Mapping[str, Path | None]) -> None:
    """Raises unless all files are there; options that name none are passed over."""
    for option, path in files.items():
        if path is not None and not path.is_file():
            raise ConfigError(f"{option}: a file was expected at {path}; there is none. Check the path.")


def _require_tls_files(certificates: Certificates | None, client_keys: Sequence[Path]) -> None:
    if certificates is not None:
        require_files({f"--{name}": path for name, path in vars(certificates).items()})
    for key in client_keys:
        require_files({"--client-keys": key})


def _require_free_port(host: str, port: int) -> None:
    """Raises unless we can listen there: another server would otherwise be taken for ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen at port {port} of {host}: {error}. End the program that listens there, or choose "
            "another port with --port."
        ) from error


def child_environment(place: Path) -> dict[str, str]:
    """Of children: Flower's files in a folder of their own, its programs of this installation first."""
    programs = str(Path(sys.executable).parent)
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**QUIET, **os.environ, "FLWR_HOME": str(place / "flower"), "PATH": path}


def _server_tls(certificates: Certificates | None) -> list[str]:
    if certificates is None:
        return ["--insecure"]
    files = {"--ssl-certfile": "certificate", "--ssl-keyfile": "key", "--ssl-ca-certfile": "authority"}
    return [word for flag, name in files.items() for word in (flag, str(getattr(certificates, name)))]


def _connect(place: Path, host: str, port: int, certificates: Certificates | None) -> None:
    """Tells Flower's command line where the server is."""
    trust = "insecure = true"
    if certificates is not None:
        trust = f"root-certificates = {json.dumps(str(certificates.authority.resolve()))}"
    lines = [
        "[superlink]",
        'default = "here"',
        "[superlink.here]",
        f'address = "{_reachable(host)}:{port}"',
        trust,
    ]
    (place / "flower").mkdir(exist_ok=True)
    (place / "flower" / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_app(place: Path) -> Path:
    """The bundle that Flower wants to have: two imports."""
    app = place / "app"
    (app / "polynsd_federated").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (app / "polynsd_federated" / "__init__.py").touch()
    (app / "polynsd_federated" / "apps.py").write_text(APPS, encoding="utf-8")
    return app


def _call(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise FederationError(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()}")


def _wait_for_port(host: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise FederationError(f"Flower's server did not start:\n{read_tail(log)}")
        try:
            with socket.create_connection((_reachable(host), port), timeout=1):
                return
        except OSError:
            time.sleep(POLL_SECONDS)
    raise FederationError(
        f"Flower's server did not open port {port} in {START_SECONDS:g} s:\n{read_tail(log)}"
    )


def _follow(events: Path, tell: Callable[[Event], None], process: subprocess.Popen[bytes], log: Path) -> None:
    """Passes the events of the training on until it is done."""
    with events.open(encoding="utf-8") as file:
        while True:
            line = file.readline()
            if not line.endswith("\n"):
                file.seek(file.tell() - len(line.encode()))
                if process.poll() is not None:
                    raise FederationError(f"Flower's server ended:\n{read_tail(log)}")
                time.sleep(POLL_SECONDS)
                continue
            event = json.loads(line)
            if event["event"] == "done":
                return
            if event["event"] == "failed":
                raise FederationError(f"the training failed: {event['reason']}")
            tell(event)


def _reachable(host: str) -> str:
    """An address of this machine at which a server that listens everywhere is reached."""
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host


server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """The training, in the process that the SuperLink starts."""
    if SETTINGS not in os.environ:
        raise ConfigError("this server has no settings; start it with polynsd federated serve.")
    path = Path(os.environ[SETTINGS])
    settings = json.loads(path.read_text(encoding="utf-8"))
    Thread(target=_end_with_server, args=(path.parent,), daemon=True).start()

    def tell(event: Event) -> None:
        with Path(settings["events"]).open("a", encoding="utf-8") as file:
            file.write(compact_json(to_json(dict(event), "event")) + "\n")

    try:
        train(grid, settings, tell)
    except Exception as error:
        tell({"event": "failed", "reason": f"{type(error).__name__}: {error}"})
        raise
    tell({"event": "done"})


def _end_with_server(folder: Path) -> None:
    """Ends this process, as a kill would, when the one that holds the lock of a folder is gone."""
    while is_locked(folder):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def train(grid: Grid, settings: Mapping[str, Any], tell: Callable[[Event], None]) -> Outcome:
    """All rounds over the clients of a grid, and the run folder; settings are those that `serve` writes."""
    config = from_options(FederatedConfig, settings["config"])
    options = from_options(ServerOptions, settings["options"])
    inputs = settings["inputs"]
    with Run.start(settings["out"], KIND, identify(config, options), inputs, snapshot_seconds=0) as run:
        outcome = serve_rounds(config, options, grid, tell, SeedSnapshots(run, state=run.snapshots.load()))
        protocol = f"{len(outcome.names)} clients"
        about = {"dataset": inputs["dataset"], "protocol": protocol, "features": "of the clients"}
        model = restore_model(config, outcome.num_features, outcome.num_classes, outcome.arrays)
        seed = SeedResult(outcome, model, {})
        finish_run(run, config, options, [seed], summarise(config, options, [seed], about))
    return outcome
