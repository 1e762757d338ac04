"""NSD against PolyNSD as both grow: in depth, in width, and in the degree of the filter.

The published comparison (d = 4, C = 16, one fixed channel, dropout 0.7) sweeps depth and width of NSD and the
degree of PolyNSD; here the depth and width of both are swept.
"""

from __future__ import annotations

from typing import Any

from polynsd_paper.entrants import FAMILIES
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.fixed import RULES, sheaf, trained

LAYERS, WIDTHS, DEGREES = (2, 4, 8, 16, 32), (16, 32, 64, 128, 256), (2, 4, 6, 8, 16)
SETTINGS = (
    *(f"layers={n}" for n in LAYERS),
    *(f"hidden={n}" for n in WIDTHS[1:]),
    *(f"K={n}" for n in DEGREES),
)
DECAYS = {"weight_decay": 1.3351e-4, "sheaf_decay": 7.1535e-5}


def _cell(dataset: str, model: str, setting: str) -> Cell | None:
    kind, _, maps = model.partition("-")
    name, _, number = setting.partition("=")
    if name == "K" and kind == "nsd":
        return None
    changes: dict[str, Any] = {"degree" if name == "K" else name: int(number)}
    plan = sheaf(dataset, kind, **{"hidden": 16, "stalk_dim": 4, "maps": maps, **COMMON, **changes})
    return Cell(dataset, {"model": model, name: int(number)}, trained(plan, **DECAYS), RULES)


COMMON: dict[str, Any] = {"fixed_channels": ("laplacian",), "dropout": 0.7}

NSD_VS_POLY = Experiment(
    "nsd-vs-poly",
    "NSD and PolyNSD against depth, width and degree",
    "geom-gcn",
    ("pubmed", "chameleon", "squirrel"),
    {
        "model": tuple(f"{kind}-{maps}" for kind in ("nsd", "polynsd") for maps in FAMILIES),
        "setting": SETTINGS,
    },
    _cell,
    minutes="3 s of an H200 per cell of chameleon with diagonal maps",
)
