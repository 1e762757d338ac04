"""A federation over processes: `serve` starts a SuperLink and the training, `join` a SuperNode.

Both start Flower's own programs as children and end them with themselves. A server opens one port, on which
clients, the training and Flower's command line are served; with certificates it speaks TLS, and with keys of
clients it lets only these in.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polynsd.config import to_dict
from polynsd.errors import ConfigError
from polynsd.federated.config import FederatedConfig
from polynsd.federated.flower import QUIET, require_flower
from polynsd.federated.outcome import (
    KINDS,
    Choice,
    FederationError,
    Outcome,
    RoundReport,
    ServerOptions,
    Watcher,
)
from polynsd.federated.server_app import SETTINGS
from polynsd.federated.site import Site

POLL_SECONDS = 0.2
PROBE_SECONDS = 5.0
CLOSE_SECONDS = 5.0
STARTS = 5  # of a SuperNode, which ends when its server was started again and does not know it
START_SECONDS = 60.0
LOG_LINES = 12

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
from polynsd.federated import server_app as server

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
    watcher: Watcher,
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
        out: the run folder; started again after a kill, the training goes on from its last round.
        watcher: gets told what happens.
        name: under which the run is filed.
        classes: their names, for predictions; numbers unless given.
        host: the address to listen at.
        port: the one that clients name.
        certificates: for TLS; without them everybody on the way can read along.
        client_keys: public keys (OpenSSH, of elliptic curves) of the clients that may join; all unless given.

    Raises:
        FederationError: Flower's server ended, or the training failed.
    """
    require_flower()
    if client_keys and certificates is None:
        raise ConfigError("keys of clients need TLS; give --certificate, --key and --authority too.")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        events = place / "events.jsonl"
        events.touch()
        settings: dict[str, Any] = {"config": to_dict(config), "options": asdict(options)}
        settings |= {"out": str(out.resolve()), "name": name, "events": str(events), "classes": list(classes)}
        (place / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        environment = _environment(place) | {SETTINGS: str(place / "settings.json")}
        command = ["flower-superlink", "--host", host, "--port", str(port), *_server_tls(certificates)]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--enable-supernode-auth"] if client_keys else []
        with _child(command, environment, place / "log") as superlink:
            _wait_for_port(host, port, superlink, place / "log")
            _connect(place, host, port, certificates)
            for key in client_keys:
                _call(["flwr", "supernode", "register", str(key.resolve()), "here"], environment)
            _call(["flwr", "run", str(_write_app(place)), "here"], environment)
            return _follow(events, watcher, superlink, place / "log")


def join(
    server: str,
    site: Site,
    state: Path,
    *,
    authority: Path | None = None,
    private_key: Path | None = None,
    wait: float = 60.0,
) -> None:
    """Takes part until the training is over or the server is gone.

    Args:
        server: its address, host:port.
        site: the client.
        state: a folder for what it keeps between rounds, and its own model in the end.
        authority: the certificate of the server's authority, for TLS.
        private_key: of this client, where the server wants to know who joins.
        wait: seconds to wait for a server that is not there, or not any more.
    """
    require_flower()
    from polynsd.federated.client_app import build_client_app
    from polynsd.federated.keeper import Keeper
    from polynsd.federated.node import do_tasks

    presence = _Presence(server, wait)
    app = build_client_app(lambda context: (site.afresh(), Keeper(state)), presence.close)
    with TemporaryDirectory() as folder:  # open to its owner alone
        place, secret = Path(folder), secrets.token_bytes(32)
        (place / "secret").write_bytes(secret)
        started = 0
        while presence.goes_on():
            port, log = _free_port(), place / "log"
            command = [
                "flower-supernode",
                "--superlink",
                server,
                "--isolation",
                "process",
                "--port",
                str(port),
            ]
            command += ["--superexec-auth-secret-file", str(place / "secret")]
            command += ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
            command += [] if private_key is None else ["--auth-supernode-private-key", str(private_key)]
            with _child(command, _environment(place), log) as supernode:
                do_tasks(
                    f"127.0.0.1:{port}", secret, app, lambda: supernode.poll() is None and presence.goes_on()
                )
            started += 1
            if supernode.returncode not in (0, -signal.SIGTERM) and started == STARTS:
                raise FederationError(f"Flower's client ended {STARTS} times:\n{_tail(log)}")


class _Presence:
    """Whether the training of a server goes on.

    Args:
        server: its address.
        wait: seconds that it may be out of reach.
    """

    def __init__(self, server: str, wait: float) -> None:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"the address of a server is HOST:PORT; got {server!r}.")
        self.address, self.wait = (host.strip("[]"), int(port)), wait
        self._seen = self._next = time.monotonic()
        self._end = math.inf

    def close(self) -> None:
        """The training is over; the last answer still has to leave."""
        self._end = time.monotonic() + CLOSE_SECONDS

    def goes_on(self) -> bool:
        """Asks the server now and then."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROBE_SECONDS
            with suppress(OSError), socket.create_connection(self.address, timeout=PROBE_SECONDS):
                self._seen = now
        return now < self._end and now - self._seen <= self.wait


def _environment(place: Path) -> dict[str, str]:
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


@contextmanager
def _child(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Flower's that ends with us, also when we are told to end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=dict(environment), stdout=output, stderr=subprocess.STDOUT)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _call(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise FederationError(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()}")


def _wait_for_port(host: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise FederationError(f"Flower's server did not start:\n{_tail(log)}")
        try:
            with socket.create_connection((_reachable(host), port), timeout=1):
                return
        except OSError:
            time.sleep(POLL_SECONDS)
    raise FederationError(f"Flower's server did not open port {port} in {START_SECONDS:g} s:\n{_tail(log)}")


def _follow(events: Path, watcher: Watcher, process: subprocess.Popen[bytes], log: Path) -> Outcome:
    """Passes the events of the training on until it is done."""
    with events.open(encoding="utf-8") as file:
        while True:
            line = file.readline()
            if not line.endswith("\n"):
                file.seek(file.tell() - len(line.encode()))
                if process.poll() is not None:
                    raise FederationError(f"Flower's server ended:\n{_tail(log)}")
                time.sleep(POLL_SECONDS)
                continue
            record = json.loads(line)
            kind = record.pop("event")
            if kind == "done":
                return read_outcome(record["outcome"])
            if kind == "failed":
                raise FederationError(f"the training failed: {record['reason']}")
            if kind == "round":
                watcher.report(RoundReport(**record))
            elif kind == "fault":
                watcher.fault(**record)
            else:
                watcher.waiting(**record)


def read_outcome(record: Mapping[str, Any]) -> Outcome:
    """The outcome in an event, without the weights, which are in the run folder."""
    choices = {kind: Choice(**record["choices"][kind]) for kind in KINDS}
    return Outcome(**{**record, "choices": choices})


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])


def _reachable(host: str) -> str:
    """An address of this machine at which a server that listens everywhere is reached."""
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
