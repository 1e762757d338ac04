"""A small federation for tests of the server: clients, what is told, replies that are tampered with."""

import numpy as np

from polynsd.data import make_graph
from polynsd.federated import ClientData, FederatedConfig
from polynsd.federated.client_app import Site
from polynsd.federated.config import Privacy, ServerOptions
from polynsd.federated.partition import partition_graph
from polynsd.federated.records import ARRAYS, to_payload
from polynsd.federated.server import FederatedServer
from polynsd.federated.simulation import LocalGrid

CLIENTS = 3
CONFIG = FederatedConfig(backbone="gcn", width=4, rounds=2, local_epochs=1)
PARTITION = partition_graph(
    make_graph("heterophily", num_nodes=90, num_classes=3, num_features=6),
    CLIENTS,
    "labels",
    alpha=50.0,
    fractions=(0.5, 0.25, 0.25),
)


class Events(list):
    """Remembers what it is told; `stop` breaks off after a round of a seed, as a kill would."""

    def __init__(self, stop=None, seed=0):
        super().__init__()
        self.stop, self.seed = stop, seed

    def __call__(self, event):
        self.append(event)
        if event["event"] == "round" and (event["round"], event.get("seed", 0)) == (self.stop, self.seed):
            raise KeyboardInterrupt

    def of(self, kind):
        return [event for event in self if event["event"] == kind]

    @property
    def faults(self):
        return [(event["round"], event["client"], event["reason"]) for event in self.of("fault")]


class Tampered(LocalGrid):
    """A grid that lets a function change, drop or add to the replies to `train`."""

    def __init__(self, sites, tamper):
        super().__init__(sites)
        self.tamper, self.replies = tamper, []

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        if replies and replies[0].metadata.message_type != "train":
            return replies
        self.replies.append([to_payload(r.content) for r in replies if ARRAYS in r.content])
        return self.tamper(replies)


def make_sites(graphs=PARTITION.graphs):
    return [
        Site(f"client-{number}", ClientData.of(graph, PARTITION.num_classes))
        for number, graph in enumerate(graphs)
    ]


def serve(config=CONFIG, tamper=lambda replies: replies, sites=None, **privacy):
    grid, events = Tampered(make_sites() if sites is None else sites, tamper), Events()
    server = FederatedServer(config, ServerOptions(CLIENTS, privacy=Privacy(**privacy)), grid, events)
    return server, server.run(), grid, events


def assert_equal(some, others, tolerance=0.0):
    assert some.keys() == others.keys()
    for name, array in some.items():
        np.testing.assert_allclose(array, others[name], rtol=0, atol=tolerance, err_msg=name)


class Leaving(LocalGrid):
    """A grid at which, one call after the other, these nodes are there; the last ones stay."""

    def __init__(self, sites, *present):
        super().__init__(sites)
        self.present = list(present)

    def get_node_ids(self):
        found = self.present.pop(0) if len(self.present) > 1 else self.present[0]
        for node in self.sites.keys() - found:
            self.sites[node].client = None  # its process is gone
        return found
