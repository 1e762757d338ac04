"""Sampled neighbourhoods through PyG's NeighborLoader: an approximation with a bounded number of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from polynsd.errors import ConfigError, require_at_least
from polynsd.scale.halo import Halo

if TYPE_CHECKING:
    from torch_geometric.data import Data


def neighbor_batches(
    data: Data, nodes: Tensor, num_neighbors: Sequence[int], batch_size: int, *, shuffle: bool = True
) -> Iterator[Halo]:
    """Batches of core nodes with sampled halos; degrees, and so the normaliser, are those of the sample.

    Args:
        data: a PyG graph.
        nodes: mask or numbers of the core nodes.
        num_neighbors: how many neighbours are drawn at every hop, −1 for all.
        batch_size: core nodes per batch.
        shuffle: draws the batches by the global random state.

    Needs pyg-lib or torch-sparse, which are not on the package index; `Halos` and `partition` need neither.
    """
    require_at_least("batch_size", batch_size, 1)
    if not _sampler_is_installed():
        raise ConfigError(
            "neighbor_batches needs pyg-lib, which is not on the package index; see "
            "https://github.com/pyg-team/pyg-lib for how to install it, or use fit_in_parts."
        )
    from torch_geometric.loader import NeighborLoader

    loader = NeighborLoader(
        data, num_neighbors=list(num_neighbors), input_nodes=nodes, batch_size=batch_size, shuffle=shuffle
    )
    return (Halo(batch, batch.n_id, int(batch.batch_size), len(num_neighbors)) for batch in loader)


def _sampler_is_installed() -> bool:
    from torch_geometric import typing

    return bool(typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE)
