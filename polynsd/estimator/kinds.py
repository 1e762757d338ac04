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
from polynsd.estimator.trees import TreesMember

KINDS: dict[str, type[Member]] = {
    "linear": LinearMember,
    "links": LinkMember,
    "network": NetworkMember,
    "propagation": PropagationMember,
    "trees": TreesMember,
}


class CandidateStore(Protocol):
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
    if not member.takes(columns, num_outputs):
        raise DataError(
            f"the member {member.name[:80]!r} does not take {columns} features to {num_outputs} outputs"
        )
