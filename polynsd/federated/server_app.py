"""The ServerApp: the server's loop in the process that Flower's SuperLink starts for a run.

`polynsd federated serve` names a file of settings in the environment and reads the events that are written
there; nothing of it goes to clients. It holds the lock of the folder of that file: Flower ends its programs
one after the other and takes its time, so the training itself ends as soon as nobody holds it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from polynsd.config import from_options
from polynsd.errors import ConfigError
from polynsd.federated.config import FederatedConfig
from polynsd.federated.outcome import Outcome, RoundReport, ServerOptions
from polynsd.federated.runs import KIND, collect_weights, extras, identify, summarise
from polynsd.federated.training import serve_rounds
from polynsd.runs import Run
from polynsd.runs.files import compact_json, to_json
from polynsd.runs.lock import is_locked

SETTINGS = "POLYNSD_FEDERATED"  # the variable that names the file
POLL_SECONDS = 0.2

server_app = ServerApp()


class EventFile:
    """A watcher that writes a JSON object per line, for the process that waits for them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Mapping[str, Any]) -> None:
        """Appends a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(compact_json(to_json(dict(record), "event")) + "\n")

    def waiting(self, present: int, wanted: int) -> None:
        self.write({"event": "waiting", "present": present, "wanted": wanted})

    def fault(self, round_: int, client: str, reason: str) -> None:
        self.write({"event": "fault", "round_": round_, "client": client, "reason": reason})

    def report(self, report: RoundReport) -> None:
        self.write({"event": "round", **asdict(report)})


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """One training."""
    if SETTINGS not in os.environ:
        raise ConfigError("this server has no settings; start it with polynsd federated serve.")
    path = Path(os.environ[SETTINGS])
    settings = json.loads(path.read_text(encoding="utf-8"))
    Thread(target=_end_with_server, args=(path.parent,), daemon=True).start()
    events = EventFile(Path(settings["events"]))
    try:
        outcome = _train(grid, settings, events)
    except Exception as error:
        events.write({"event": "failed", "reason": f"{type(error).__name__}: {error}"})
        raise
    events.write({"event": "done", "outcome": {**asdict(outcome), "arrays": {}}})


def _end_with_server(folder: Path) -> None:
    """Ends this process, as a kill would, when the one that holds the lock of a folder is gone."""
    while is_locked(folder):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _train(grid: Grid, settings: Mapping[str, Any], events: EventFile) -> Outcome:
    config = from_options(FederatedConfig, settings["config"])
    options = from_options(ServerOptions, settings["options"])
    inputs = settings["inputs"]
    with Run.start(settings["out"], KIND, identify(config, options), inputs, snapshot_seconds=0) as run:
        outcome = serve_rounds(config, options, grid, events, run)
        about = {
            "dataset": inputs["dataset"],
            "protocol": f"{len(outcome.names)} clients",
            "features": "of the clients",
        }
        model, result = summarise(config, options, outcome, about)
        run.finish({**result.to_dict(), **extras(outcome, options, config)}, collect_weights(model, {}))
    return outcome
