"""Claims read from the paper's own tables and text (C30 to C32)."""

from __future__ import annotations

from polynsd_paper.claims.claim import (
    PARTLY,
    REFUTED,
    Finding,
    check,
    confirm_if,
)
from polynsd_paper.published import published


@check("C30")
def check_basis_selection() -> Finding:
    """In how many cells the leaderboard prints the greatest test mean over the bases."""
    best: dict[tuple[str, str], float] = {}
    bases = [number for number in published("bases") if number.source == "paper" and number.mean is not None]
    for number in bases:
        key = (number.dataset, str(number.cell["maps"]))
        best[key] = max(best.get(key, 0.0), number.mean or 0.0)
    leaderboard = {
        (number.dataset, str(number.cell["model"]).removeprefix("polynsd-")): number.mean
        for number in published("leaderboard")
        if number.source == "paper" and str(number.cell.get("model", "")).startswith("polynsd-")
    }
    shared = [key for key in leaderboard if key in best]
    same = sum(leaderboard[key] == best[key] for key in shared)
    evidence = (
        f"in {same} of {len(shared)} cells the leaderboard prints the greatest of "
        f"{len({number.cell['basis'] for number in bases})} test means, one per basis. Epochs may have been "
        "chosen on validation; the basis was chosen on test"
    )
    return confirm_if(same < len(shared) / 2, evidence)


@check("C31")
def check_hardware() -> Finding:
    """The devices that the text names."""
    return Finding(
        REFUTED,
        "read in the text, not computed: it names two, each for all experiments: one A100 with 80 GB "
        "(hyper-parameters, synthetic table); one L4 (hardware section)",
    )


@check("C32")
def check_search_space() -> Finding:
    """What the table of hyper-parameters shares with NSD's, and what it adds."""
    return Finding(
        PARTLY,
        "read in the text, not computed: width, stalk dimension, depth, dropout, rates and decays have "
        "ranges like NSD's; PolyNSD also searches K among seven values, with a basis for every cell (C30), "
        "and NSD's rows are its published ones, not searched again",
    )
