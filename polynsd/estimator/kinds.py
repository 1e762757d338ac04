"""The kinds of members by name, to store them and to make them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.label_trees import LabelTreesMember
from polynsd.estimator.linear import LinearMember
from polynsd.estimator.links import LinkMember
from polynsd.estimator.members import Member, State
from polynsd.estimator.networks import NetworkMember
from polynsd.estimator.propagation import PropagationMember
from polynsd.estimator.trees import TreesMember

KINDS: dict[str, type[Member]] = {
    "label trees": LabelTreesMember,
    "linear": LinearMember,
    "links": LinkMember,
    "network": NetworkMember,
    "propagation": PropagationMember,
    "trees": TreesMember,
}


def store_member(member: Member) -> State:
    """The plain data of a member, which name its kind, and its tensors."""
    data, tensors = member.state()
    kind = next(name for name, kind in KINDS.items() if isinstance(member, kind))
    return {"kind": kind, **data}, tensors


def restore_member(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Member:
    """The member that `store_member` described."""
    plain = dict(data)
    kind = plain.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"there is no kind of member {kind!r}")
    return KINDS[kind].restore(plain, tensors)
