"""Methods to compare with, under their names in `FederatedConfig.method`.

| method     | file              | what leaves a client beside weights                                    |
|------------|-------------------|------------------------------------------------------------------------|
| `moon`     | `contrast.py`     | nothing                                                                |
| `fgssl`    | `contrast.py`     | nothing                                                                |
| `fedproto` | `contrast.py`     | no weights; mean embeddings of classes, and which classes there are    |
| `fedpub`   | `personal.py`     | the mean output on a random graph that all clients know                |
| `fedtad`   | `distillation.py` | how reliable the client is for every class                             |
| `fedsage`  | `neighbours.py`   | nothing, unless `cross_client=True`, which sends features of nodes     |
"""

from polynsd.federated.rivals.contrast import FGSSL, MOON, FedProto
from polynsd.federated.rivals.distillation import FedTAD
from polynsd.federated.rivals.neighbours import FedSage
from polynsd.federated.rivals.personal import FedPUB

__all__ = ["FGSSL", "MOON", "FedPUB", "FedProto", "FedSage", "FedTAD"]
