"""Learning over clients that keep their graphs to themselves (docs/federated.md).

|                | module                           | holds                                                 |
|----------------|----------------------------------|-------------------------------------------------------|
| settings       | `config.py`                      | `FederatedConfig`, `ServerOptions`, `Privacy`         |
| partition      | `partition.py`, `communities.py` | a graph divided among clients                         |
|                | `data.py`                        | `ClientData`: the graph of one client; all as one     |
| models, masks  | `backbones.py`                   | sheaf models and graph networks, with scores of edges |
|                | `branches.py`                    | the networks of a client, its masks and its loss      |
| local training | `client.py`                      | `LocalClient`: one client, without any transport      |
|                | `batch.py`, `replicas.py`        | clients that train together; trainings side by side   |
| methods        | `methods.py`, `rivals/`          | FedAvg and its kin; methods to compare with           |
| server         | `server.py`, `scores.py`         | the rounds, and the choice of one                     |
|                | `roster.py`, `records.py`        | who takes part, and what travels                      |
|                | `aggregation.py`                 | how replies are put together                          |
| client         | `client_app.py`                  | what a client answers, and what it keeps              |
| one machine    | `training.py`, `simulation.py`   | `train_federated`; clients in one process, or by Ray  |
| processes      | `deployment.py`, `node.py`       | `serve` and `join`                                    |
|                | `children.py`                    | Flower's programs, which end with us                  |
| storage        | `runs.py`                        | run folders, written and read                         |

Flower is needed by server, client, `simulation.py` and processes, and by `train_federated` when it is called.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalGraph, LocalOutput
    from polynsd.federated.client import LocalClient, initial_payload
    from polynsd.federated.config import FederatedConfig
    from polynsd.federated.data import ClientData
    from polynsd.federated.methods import Method, Payload, ServerState, average, build_method, register_method

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
            "data": ("ClientData",),
            "methods": ("Method", "Payload", "ServerState", "average", "build_method", "register_method"),
        },
    )
