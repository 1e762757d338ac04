"""How the paper's numbers came about, as far as they and the text say it themselves. (C30 to C32)"""

from __future__ import annotations

from collections import defaultdict

from polynsd_paper.claims.claim import (
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
    decided,
    untestable,
)

MODEL = "polynsd-"


def basis_selection(evidence: Evidence) -> Finding:
    """In how many cells the leaderboard prints the greatest test mean over the bases."""
    best: dict[tuple[str, str], float] = defaultdict(float)
    bases = [one for one in evidence.published("bases") if one.source == "paper" and one.mean is not None]
    for one in bases:
        place = (one.dataset, str(one.cell["maps"]))
        best[place] = max(best[place], float(one.mean or 0.0))
    cells = {
        (one.dataset, str(one.cell["model"]).removeprefix(MODEL)): one.mean
        for one in evidence.published("leaderboard")
        if one.source == "paper" and str(one.cell.get("model", "")).startswith(MODEL)
    }
    shared = [place for place in cells if place in best]
    if not shared:
        return untestable("needs the paper's numbers of leaderboard and bases")
    same = sum(cells[place] == best[place] for place in shared)
    count = len({one.cell["basis"] for one in bases})
    numbers = (
        f"in {same} of {len(shared)} cells the leaderboard prints the greatest of {count} test means, one "
        "per basis. Epochs may have been chosen on validation; the basis was chosen on test"
    )
    return decided(same < len(shared) / 2, numbers)


def hardware(evidence: Evidence) -> Finding:
    """Documentary: read, not computed."""
    devices = ("one A100 with 80 GB (hyper-parameters, synthetic table)", "one L4 (hardware section)")
    return Finding(
        REFUTED, f"documentary: the text names two, each for all experiments: {'; '.join(devices)}"
    )


def search_space(evidence: Evidence) -> Finding:
    """Documentary: what the table of hyper-parameters shares with NSD's, and what it adds."""
    numbers = (
        "documentary: width, stalk dimension, depth, dropout, rates and decays have ranges like NSD's; "
        "PolyNSD searches K from seven values besides, with a basis for every cell (C30), and NSD's rows are "
        "its published ones, not searched again"
    )
    return Finding(PARTLY, numbers)


CLAIMS = (
    Claim("C30", "What is reported was chosen on validation.", "protocol", basis_selection),
    Claim("C31", "All experiments ran on one kind of hardware.", "protocol", hardware),
    Claim("C32", "The search space is that of NSD.", "protocol", search_space),
)
