"""The kinds of members by name, to store them and to make them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.linear import LinearMember
from polynsd.estimator.links import LinkMember
from polynsd.estimator.members import Member, State
from polynsd.estimator.networks import NetworkMember
from polynsd.estimator.propagation import PropagationMember
from polynsd.estimator.structure import COLUMNS
from polynsd.estimator.trees import TreesMember

KINDS: dict[str, type[Member]] = {
    "linear": LinearMember,
    "links": LinkMember,
    "network": NetworkMember,
    "propagation": PropagationMember,
    "trees": TreesMember,
}


class Parts(Protocol):
    """Where fitted candidates are kept while a search goes on, e.g. `polynsd.runs.RunParts`."""

    def load(self) -> Sequence[State]:
        """What has been kept so far."""
        ...

    def append(self, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Keeps one more."""
        ...


def kind_of(member: Member) -> str:
    """The name of a member's kind."""
    return next(name for name, kind in KINDS.items() if isinstance(member, kind))


def restore_member(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Member:
    """The member of these data, which name its kind."""
    plain = dict(data)
    kind = plain.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"there is no kind of member {kind!r}")
    return KINDS[kind].restore(plain, tensors)


def check_member(member: Member, columns: int, num_outputs: int) -> None:
    """Raises unless a member takes so many treated features and has so many outputs."""
    found: tuple[float, int] = (columns, num_outputs)
    if isinstance(member, LinkMember):
        check_member(member.base, columns + member.num_links, num_outputs)
    elif isinstance(member, LinearMember):
        found = (member.weights.shape[1] / (member.hops + 1), member.intercepts.shape[1])
    elif isinstance(member, NetworkMember):
        found = member.sizes
    elif isinstance(member, TreesMember):
        given, width = (columns, columns) if member.components is None else member.components.shape
        most = (member.hops + 1) * (width + (len(COLUMNS) if member.hops else 0))  # of the table
        is_inside = int(member.forest.feature.max(initial=0)) < most
        found = (given if is_inside else -1, member.start.shape[1])
    elif isinstance(member, PropagationMember):
        found = (columns, member.prior.shape[1])
        if member.base is not None:
            check_member(member.base, columns, num_outputs)
    if found != (columns, num_outputs):
        raise DataError(
            f"the member {member.name[:80]!r} does not take {columns} features to {num_outputs} outputs"
        )
