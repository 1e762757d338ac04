"""Parameters of the models, counted. (C27, C28)"""

from __future__ import annotations

from typing import Any

import torch

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.nn.models import NSD, PolyNSD, count_parameters
from polynsd_paper.claims.claim import PARTLY, REFUTED, Claim, Evidence, Finding
from polynsd_paper.claims.sheaves import random_graph

PRINTED = {2: 48_659, 4: 48_661, 6: 48_663, 8: 48_665, 16: 48_673}  # PubMed, two diagonal layers, 16 channels
PRINTED_NSD = 48_655


def filter_parameters(evidence: Evidence) -> Finding:
    """Counts against K: one filter for all layers, a filter per layer, and as printed."""
    shared = {K: _count(PolyNSD, degree=K) for K in PRINTED}
    own = {K: _count(PolyNSD, degree=K, shared_filter=False) for K in PRINTED}
    matches = sum(shared[K] == printed for K, printed in PRINTED.items())
    numbers = (
        f"two layers, K from 2 to 16: {own[16] - own[2]} parameters more with a filter per layer, "
        f"{shared[16] - shared[2]} with one for both, {PRINTED[16] - PRINTED[2]} printed; with one for both "
        f"{matches} of {len(PRINTED)} printed counts are met exactly, and {_count(NSD)} = {PRINTED_NSD} for "
        "NSD. So it is as cheap as claimed, but the layers of the published models share one response"
    )
    return Finding(PARTLY if matches == len(PRINTED) else REFUTED, numbers)


def _count(kind: type[PolyNSD], **options: Any) -> int:
    fixed: dict[str, Any] = {"stalk_dim": 4, "fixed_channels": ("laplacian",), "second_linear": True}
    with torch.device("meta"):
        return count_parameters(kind.reference(500, 16, 2, 3, **fixed, **options))


def map_parameters(evidence: Evidence) -> Finding:
    """Trained and predicted numbers of a diagonal layer on two graphs."""
    layer = SheafLayer(8, LayerConfig(stalk_dim=4))
    assert layer.learner is not None
    trained, predicted = count_parameters(layer.learner), {}
    for edges in (20, 80):
        graph = random_graph(0, nodes=40, edges=edges)
        predicted[graph.num_edges] = layer.learner(torch.zeros(40, 4, 8), graph).numel()
    listed = " and ".join(f"{count} = 2·{E}·4 at |E| = {E}" for E, count in predicted.items())
    numbers = f"d = 4, 8 channels: numbers predicted {listed}; trained {trained} = 2·(4·8)·4 on both graphs"
    proportional = all(count == 8 * E for E, count in predicted.items())
    return Finding(PARTLY if proportional and trained == 256 else REFUTED, numbers)


CLAIMS = (
    Claim(
        "C27",
        "Degree K costs K + 1 scalars per layer, and every layer has its own response.",
        "efficiency",
        filter_parameters,
    ),
    Claim("C28", "Diagonal maps have O(|E| d) parameters.", "efficiency", map_parameters),
)
