"""A node's links as features: [A, X], one column for every node.

Where a class hangs on *whom* a node is linked to rather than on what the neighbours are like, this beats any
smoothing (Lim et al., 2021). The columns are the nodes of `fit`: on a graph of others they are zero, which is
said, and the model answers by features alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scipy import sparse
from torch import Tensor

from polynsd.estimator.features import STANDARD, Matrix, Numbers
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.members import Candidate, FitData, Fitted, Member, Outputs, State
from polynsd.estimator.propagation import are_nodes_of_fit, fingerprints
from polynsd.fields import require_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("polynsd")


class LinkedInputs(Inputs):
    """A graph whose features are [A, X], with A zero where its nodes are others.

    Args:
        inputs: the graph.
        num_links: the number of nodes of `fit`.
        are_known: whether these are its nodes.
    """

    def __init__(self, inputs: Inputs, num_links: int, are_known: bool = True) -> None:
        super().__init__(inputs.graph, inputs.treatments, inputs.edge_scaling, inputs.device)
        self.num_links, self.are_known, self._plain = num_links, are_known, inputs

    def adjacency(self, kind: str) -> Any:
        return self._plain.adjacency(kind)

    @property
    def structure(self) -> Numbers:
        return self._plain.structure

    @property
    def num_sparse(self) -> int:
        return self.num_links + super().num_sparse

    def features(self, treatment: str = STANDARD) -> Matrix:
        if treatment not in self._features:
            A = self.adjacency("plain")
            if not self.are_known:
                A = sparse.csr_array((self.num_nodes, self.num_links))
            x = sparse.csr_array(self._plain.features(treatment))
            self._features[treatment] = sparse.csr_array(sparse.hstack([A, x], format="csr"))
        return self._features[treatment]


@dataclass(frozen=True, eq=False)
class LinkMember:
    """A member of [A, X], and the fingerprints of the graph whose nodes are the columns of A."""

    base: Member
    graph: Sequence[str]
    num_links: int

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def family(self) -> str:
        return self.base.family

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"links": self.num_links, **self.base.parameters}

    def outputs(self, inputs: Inputs) -> Outputs:
        is_same = are_nodes_of_fit(inputs, self.num_links, self.graph)
        if not is_same:
            logger.warning("%s: these are not the nodes of fit, links to which are left out.", self.name)
        return self.base.outputs(LinkedInputs(inputs, self.num_links, is_same))

    def state(self) -> State:
        from polynsd.estimator.kinds import store_member

        base, tensors = store_member(self.base)
        graph = {"graph": list(self.graph), "num_links": self.num_links}
        return {"name": self.name, **graph, "base": base}, tensors

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LinkMember:
        from polynsd.estimator.kinds import restore_member

        require_fields(data, name=str, graph=list[str], num_links=int, base=dict[str, Any])
        return cls(restore_member(data["base"], tensors), data["graph"], data["num_links"])

    def takes(self, columns: int, num_outputs: int) -> bool:
        return self.base.takes(columns + self.num_links, num_outputs)


@dataclass(frozen=True)
class LinkCandidate:
    """Fits another candidate to [A, X]."""

    base: Candidate

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def family(self) -> str:
        return self.base.family

    def fit(self, data: FitData) -> Fitted:
        inputs, num_nodes = data.inputs, data.inputs.num_nodes
        base, outputs = self.base.fit(replace(data, inputs=LinkedInputs(inputs, num_nodes)))
        return Fitted(LinkMember(base, fingerprints(inputs), num_nodes), outputs)
