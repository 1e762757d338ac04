"""A node's links as features: [A, X], one column for every node.

Where a class hangs on *whom* a node is linked to rather than on what the neighbours are like, this beats any
smoothing (Lim et al., 2021). The columns are the nodes of `fit`: links to others are left out
(`nodes_of_fit.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from torch import Tensor

from polynsd.estimator.features import STANDARD, Matrix, Numbers
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.members import Candidate, FitData, Fitted, Member, Outputs, State
from polynsd.fields import require_fields


class LinkedInputs(Inputs):
    """A graph whose features are [A, X], with A zero where its nodes are others.

    Args:
        inputs: the graph.
        num_links: the number of nodes of `fit`.
    """

    def __init__(self, inputs: Inputs, num_links: int) -> None:
        super().__init__(inputs.graph, inputs.treatments, inputs.edge_scaling, inputs.device, inputs.places)
        self.num_links, self._plain = num_links, inputs

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
            if self.places is not None:  # a column for every node of fit
                row, place = np.repeat(np.arange(self.num_nodes), np.diff(A.indptr)), self.places[A.indices]
                is_known = place >= 0
                entries = (A.data[is_known], (row[is_known], place[is_known]))
                A = sparse.csr_array(entries, shape=(self.num_nodes, self.num_links))
            x = sparse.csr_array(self._plain.features(treatment))
            self._features[treatment] = sparse.csr_array(sparse.hstack([A, x], format="csr"))
        return self._features[treatment]


@dataclass(frozen=True, eq=False)
class LinkMember:
    """A member of [A, X], whose columns of A are the nodes of `fit`."""

    base: Member
    num_nodes: int  # of fit

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def family(self) -> str:
        return self.base.family

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"links": self.num_nodes, **self.base.parameters}

    def outputs(self, inputs: Inputs) -> Outputs:
        return self.base.outputs(LinkedInputs(inputs, self.num_nodes))

    def state(self) -> State:
        from polynsd.estimator.kinds import store_member

        base, tensors = store_member(self.base)
        return {"name": self.name, "num_nodes": self.num_nodes, "base": base}, tensors

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LinkMember:
        from polynsd.estimator.kinds import restore_member

        require_fields(data, name=str, num_nodes=int, base=dict[str, Any])
        return cls(restore_member(data["base"], tensors), data["num_nodes"])

    def takes(self, columns: int, num_outputs: int) -> bool:
        return self.base.takes(columns + self.num_nodes, num_outputs)


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
        return Fitted(LinkMember(base, num_nodes), outputs)
