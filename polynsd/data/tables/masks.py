"""The masks that PyG's `Data` carries, as the splits of a `Graph`."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.graph import Masks
from polynsd.data.schema import check_masks
from polynsd.data.splits import PARTS
from polynsd.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

MASK = re.compile(r"(?:(\w+)_)?(train|val|test)_mask")

logger = logging.getLogger("polynsd")


def read_masks(data: Data, num_nodes: int) -> dict[str, Masks]:
    """The splits by protocol: `train_mask`, … are `default`, `public_train_mask`, … are `public`.

    Masks have the shape [N] or [N, S]; a single one beside masks [N, S] is shared by all S splits.
    """
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for key, mask in data.to_dict().items():
        match = MASK.fullmatch(key)
        if match and mask is not None:
            found.setdefault(match[1] or "default", {})[match[2]] = _rows(key, mask, num_nodes)
    return {
        protocol: _masks(protocol, parts, num_nodes)
        for protocol, parts in found.items()
        if _is_complete(protocol, parts)
    }


def _rows(key: str, mask: Any, num_nodes: int) -> NDArray[Any]:
    """A mask [N] or [N, S] as [S, N]."""
    values = torch.as_tensor(mask).cpu().numpy()
    if values.ndim not in (1, 2) or len(values) != num_nodes:
        raise DataError(
            f"{key} must have shape [{num_nodes}] or [{num_nodes}, num_splits]; got {list(values.shape)}. "
            "Transpose masks stored as [num_splits, num_nodes]."
        )
    return np.array(np.atleast_2d(values.T), order="C")


def _is_complete(protocol: str, parts: dict[str, NDArray[Any]]) -> bool:
    missing = [part for part in PARTS if part not in parts]
    if missing:
        logger.warning(
            "the masks '%s' are left out: there is one for %s but none for %s. Add it to keep the split.",
            protocol,
            ", ".join(parts),
            ", ".join(missing),
        )
    return not missing


def _masks(protocol: str, parts: dict[str, NDArray[Any]], num_nodes: int) -> Masks:
    counts = [len(parts[part]) for part in PARTS]
    if any(count not in (1, max(counts)) for count in counts):
        raise DataError(
            f"the three masks of '{protocol}' must hold the same number of splits; got {counts}. Give each "
            "the shape [num_nodes, num_splits]."
        )
    masks = Masks(*(np.repeat(parts[part], max(counts) // len(parts[part]), axis=0) for part in PARTS))
    check_masks(protocol, masks, num_nodes)
    return masks
