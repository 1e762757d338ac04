"""Learning over clients that keep their graphs to themselves (docs/federated.md).

| module           | holds                                                                              |
|------------------|------------------------------------------------------------------------------------|
| `config.py`      | `FederatedConfig`                                                                  |
| `payload.py`     | `Payload`, what travels; `ClientData`, what does not; `pool_clients`: all as one   |
| `client.py`      | `LocalClient`: one client, `initial_payload`                                       |
| `methods.py`     | `Method`, FedAvg, FedProx, FedAdam; `build_method`                                 |
| `rivals/`        | methods to compare with                                                            |
| `branches.py`    | the networks of a client and its loss                                              |
| `backbones.py`   | sheaf models and graph networks with scores of edges                               |
| `masks.py`, `pretraining.py`   | where the scores come from                                           |
| `batch.py`, `stack.py`         | clients that train together                                          |
| `replicas.py`    | several trainings side by side                                                     |
| `partition.py`, `communities.py` | a graph divided among clients                                      |
| `outcome.py`     | `ServerOptions`, `Privacy`, `Watcher`, `Outcome`: the two ends of a training        |
| `training.py`    | `train_federated`: a partition, trained on one machine                             |
| `runs.py`        | trainings as run folders, written and read                                         |
| `sources.py`     | clients from archives and tables                                                   |
| `server.py`, `roster.py`, `strategies.py` | the rounds, over any of Flower's grids                    |
| `site.py`, `records.py`        | what a client answers, and how it travels                            |
| `local_grid.py`, `client_app.py`, `server_app.py` | clients of this process; Flower's two apps        |
| `secure.py`      | SecAgg+                                                                            |
| `deployment.py`, `node.py`, `children.py` | processes: `serve`, `join`, and Flower's programs         |

Flower is needed by the last five lines alone, and by `train_federated` when it is called.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalGraph, LocalOutput
    from polynsd.federated.client import LocalClient, initial_payload
    from polynsd.federated.config import FederatedConfig
    from polynsd.federated.methods import Method, ServerState, average, build_method, register_method
    from polynsd.federated.payload import ClientData, Payload

__all__ = [
    "ClientData",
    "FederatedConfig",
    "LocalClient",
    "LocalGraph",
    "LocalOutput",
    "Method",
    "Payload",
    "ServerState",
    "average",
    "build_method",
    "initial_payload",
    "register_method",
]

if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists
    from polynsd.lazy import import_on_use as _import_on_use

    __getattr__ = _import_on_use(
        __name__,
        {
            "branches": ("LocalGraph", "LocalOutput"),
            "client": ("LocalClient", "initial_payload"),
            "config": ("FederatedConfig",),
            "methods": ("Method", "ServerState", "average", "build_method", "register_method"),
            "payload": ("ClientData", "Payload"),
        },
    )
