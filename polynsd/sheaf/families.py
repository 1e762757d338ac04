"""Families of restriction maps: what turns raw numbers into F_{v⊴e}, and what FᵀF looks like.

A map is stored on a half-edge as a block in the sense of `polynsd.kernels.ops.blocks`: `[..., H, d, d]`
for matrices, `[..., H, d, 1]` for diagonal maps, `[..., H, 1, 1]` for scalars. That shape is all
the Laplacian needs; nothing else in the library asks which family a map comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polynsd.errors import ConfigError, require_choice
from polynsd.kernels.ops import blocks
from polynsd.memo import TensorMemo
from polynsd.sheaf.orthogonal import METHODS
from polynsd.spec import parse_spec, resolve
from polynsd.topology import Topology


class MapFamily(Protocol):
    """What a family of maps owes."""

    @property
    def is_learned(self) -> bool:
        """Whether the maps depend on any numbers at all."""
        ...

    @property
    def orthogonal_columns(self) -> bool:
        """Whether FᵀF is diagonal, so that the degree blocks D_v are diagonal too."""
        ...

    def num_params(self, d: int) -> int:
        """The raw numbers that make a map on a stalk of dimension d."""
        ...

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Maps from raw numbers `[..., H, num_params]`."""
        ...

    def neutral(self, d: int) -> Tensor:
        """Raw numbers `[num_params]` of a map that, at both ends of an edge, transports by the identity."""
        ...


@dataclass(frozen=True)
class Identity:
    """F = I: the constant sheaf, i.e. d copies of the ordinary graph. The control experiment."""

    is_learned = False
    orthogonal_columns = True

    def num_params(self, d: int) -> int:
        return 0

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Scalar blocks `[..., H, 1, 1]` of one."""
        return raw.new_ones(*raw.shape[:-1], 1, 1)

    def neutral(self, d: int) -> Tensor:
        return torch.zeros(0)

    def __repr__(self) -> str:
        return "identity"


@dataclass(frozen=True)
class Diagonal:
    """F = diag(f): every stalk coordinate is scaled and may flip its sign on its own."""

    is_learned = True
    orthogonal_columns = True

    def num_params(self, d: int) -> int:
        return d

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Diagonal blocks `[..., H, d, 1]`."""
        return raw[..., None]

    def neutral(self, d: int) -> Tensor:
        return torch.ones(d)

    def __repr__(self) -> str:
        return "diagonal"


@dataclass(frozen=True)
class Orthogonal:
    """F ∈ O(d): a discrete vector bundle, transport without stretching. Methods: see `orthogonal.py`."""

    method: str = "householder"
    is_learned = True
    orthogonal_columns = True

    def __post_init__(self) -> None:
        require_choice("orthogonal method", self.method, METHODS)

    def num_params(self, d: int) -> int:
        """The dimension of SO(d)."""
        if d < 2:
            raise ConfigError(
                "orthogonal maps need stalk_dim of at least 2: for d = 1 they are ±1 and cannot be "
                "learned. Use maps='diagonal' or maps='identity'."
            )
        allowed = METHODS[self.method].dimensions
        if d not in allowed:
            others = [name for name, method in METHODS.items() if d in method.dimensions]
            hint = f"Use orthogonal({others[-1]})." if others else "Use maps='diagonal' or maps='general'."
            raise ConfigError(
                f"orthogonal({self.method}) needs stalk_dim from {allowed.start} to "
                f"{allowed.stop - 1}; got {d}. {hint}"
            )
        return d * (d - 1) // 2

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Matrix blocks `[..., H, d, d]`."""
        return METHODS[self.method].build(raw, d)

    def split(self, raw: Tensor, d: int) -> tuple[None, Tensor]:
        """(None, Q): a map is a rotation alone."""
        return None, METHODS[self.method].fastest(raw, d)

    def neutral(self, d: int) -> Tensor:
        """Some Q, the same everywhere: QᵀQ = I."""
        return torch.zeros(self.num_params(d))

    def __repr__(self) -> str:
        return f"orthogonal({self.method})"


@dataclass(frozen=True)
class Conformal:
    """F = c Q with c > 0 and Q orthogonal: transport that turns and stretches. c = exp(first raw number)."""

    method: str = "householder"
    is_learned = True
    orthogonal_columns = True

    @property
    def rotation(self) -> Orthogonal:
        """The family of Q."""
        return Orthogonal(self.method)

    def num_params(self, d: int) -> int:
        return 1 + self.rotation.num_params(d)

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Matrix blocks `[..., H, d, d]`."""
        c, Q = self.split(raw, d)
        return c * Q

    def split(self, raw: Tensor, d: int) -> tuple[Tensor, Tensor]:
        """(c `[..., H, 1, 1]`, Q `[..., H, d, d]`)."""
        return raw[..., :1, None].exp(), METHODS[self.method].fastest(raw[..., 1:], d)

    def neutral(self, d: int) -> Tensor:
        return torch.zeros(self.num_params(d))

    def __repr__(self) -> str:
        return f"conformal({self.method})"


@dataclass(frozen=True)
class General:
    """F any d×d matrix: the most expressive family, with d² numbers per map."""

    is_learned = True
    orthogonal_columns = False

    def num_params(self, d: int) -> int:
        return d * d

    def build(self, raw: Tensor, d: int) -> Tensor:
        """Matrix blocks `[..., H, d, d]`."""
        return raw.reshape(*raw.shape[:-1], d, d)

    def neutral(self, d: int) -> Tensor:
        return torch.eye(d).flatten()

    def __repr__(self) -> str:
        return "general"


FAMILIES: dict[str, Callable[..., MapFamily]] = {
    "identity": Identity,
    "diagonal": Diagonal,
    "orthogonal": Orthogonal,
    "conformal": Conformal,
    "general": General,
}


def get_family(spec: str | MapFamily) -> MapFamily:
    """A family from its name, e.g. `diagonal`, `orthogonal(cayley)`."""
    return resolve("maps", parse_spec(spec), FAMILIES) if isinstance(spec, str) else spec


CHANNELS = ("laplacian", "signless")


def append_channels(maps: Tensor, channels: tuple[str, ...], topology: Topology, d: int) -> Tensor:
    """Adds fixed one-dimensional channels to the stalks: F ↦ F ⊕ (±1) ⊕ ….

    `laplacian` has the map 1 at both ends and contributes D − A; `signless` has opposite signs and
    contributes D + A. A channel is thus just another block on the diagonal of the map.

    Args:
        maps: blocks of a stalk of dimension d.
        channels: names from `CHANNELS`.
        topology: the graph.
        d: dimension of the learned stalk.
    """
    if not channels:
        return maps
    fixed = fixed_maps(channels, topology, maps.dtype).squeeze(-1)
    fixed = fixed.expand(*maps.shape[:-3], *fixed.shape)
    if blocks.is_elementwise(maps):
        learned = maps.squeeze(-1).expand(*maps.shape[:-2], d)
        return torch.cat([learned, fixed], -1)[..., None]
    size = d + len(channels)
    whole = maps.new_zeros(*maps.shape[:-2], size, size)
    whole[..., :d, :d] = maps
    whole[..., d:, d:] = torch.diag_embed(fixed)
    return whole


_fixed = TensorMemo[Tensor]()


def fixed_maps(channels: tuple[str, ...], topology: Topology, dtype: torch.dtype) -> Tensor:
    """`channel_maps` of a graph, found once."""

    def find() -> Tensor:
        return channel_maps(channels, topology.row < topology.col).to(dtype)

    if torch.compiler.is_compiling():
        return find()
    return _fixed(topology.row, find, id(topology.col), channels, dtype)


def channel_maps(channels: tuple[str, ...], is_forward: Tensor) -> Tensor:
    """`[H, f, 1]` the maps of fixed channels alone, as diagonal blocks."""
    ones = torch.ones_like(is_forward, dtype=torch.get_default_dtype())
    sign = {"laplacian": ones, "signless": torch.where(is_forward, ones, -ones)}
    return torch.stack([sign[name] for name in channels], -1)[..., None]
