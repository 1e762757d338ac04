"""Learning over clients that keep their graphs to themselves (docs/federated.md).

| module           | holds                                                                              |
|------------------|------------------------------------------------------------------------------------|
| `config.py`      | `FederatedConfig`                                                                  |
| `payload.py`     | `Payload`, what travels; `ClientData`, what does not                               |
| `client.py`      | `LocalClient`: one client, `initial_payload`                                       |
| `methods.py`     | `Method`, FedAvg, FedProx, FedAdam; `build_method`                                 |
| `branches.py`    | the networks of a client and its loss                                              |
| `backbones.py`, `attention.py` | sheaf models and graph networks with scores of edges                 |
| `masks.py`, `pretraining.py`   | where the scores come from                                           |
| `losses.py`      | cross entropy, HSIC, negative entropy                                              |
| `batch.py`, `stack.py`         | clients that train together                                          |
| `partition.py`, `communities.py` | a graph divided among clients                                      |
| `brackets.py`    | all clients as one                                                                 |
| `rivals/`        | methods to compare with                                                            |
| `training.py`    | `train_federated`: a partition, trained on one machine, as a run folder            |
| `server.py`, `roster.py`, `strategies.py`, `outcome.py` | the rounds, over any of Flower's grids      |
| `site.py`, `records.py`, `keeper.py`, `sources.py` | what a client answers, keeps and reads           |
| `local_grid.py`, `client_app.py`, `server_app.py`  | clients of this process; Flower's two apps       |
| `secure.py`, `privacy.py`      | SecAgg+, differential privacy                                        |
| `deployment.py`, `node.py`     | processes: `serve` and `join`                                        |
| `opened.py`, `predict.py`      | finished runs                                                        |

Flower is needed by the last seven lines alone.
"""

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
