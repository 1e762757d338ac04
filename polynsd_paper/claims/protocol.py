"""Claims read from the paper's own tables and text (C30 to C32)."""

from __future__ import annotations

from polynsd_paper.claims.claim import (
    PARTLY,
    REFUTED,
    Finding,
    check,
    confirm_if,
)
from polynsd_paper.tables.printed_numbers import read_printed


@check("C30")
def check_basis_selection() -> Finding:
    """In how many cells the leaderboard prints the greatest test mean over the bases."""
    bases, board = (
        table[table["source"] == "paper"].assign(
            maps=table["cell"].str.extract(r"(?:maps=|model=polynsd-)(\w+)")[0]
        )
        for table in (read_printed("bases"), read_printed("leaderboard"))
    )
    best = bases.groupby(["dataset", "maps"], as_index=False)["mean"].max()
    both = board.merge(best, on=["dataset", "maps"], suffixes=("", "_of_bases"))
    same, total = int((both["mean"] == both["mean_of_bases"]).sum()), len(both)
    count = bases["cell"].str.extract("basis=([^;]+)")[0].nunique()
    evidence = (
        f"in {same} of {total} cells the leaderboard prints the greatest of {count} test means, one per "
        "basis. Epochs may have been chosen on validation; the basis was chosen on test"
    )
    return confirm_if(same < total / 2, evidence, number=f"{same} of {total} cells chosen on test")


@check("C31")
def check_hardware() -> Finding:
    """The devices that the text names."""
    return Finding(
        REFUTED,
        "read in the text, not computed: it names two, each for all experiments: one A100 with 80 GB "
        "(hyper-parameters, synthetic table); one L4 (hardware section)",
        number="2 devices named",
    )


@check("C32")
def check_search_space() -> Finding:
    """What the table of hyper-parameters shares with NSD's, and what it adds."""
    return Finding(
        PARTLY,
        "read in the text, not computed: width, stalk dimension, depth, dropout, rates and decays have "
        "ranges like NSD's; PolyNSD also searches K among seven values, with a basis for every cell (C30), "
        "and NSD's rows are its published ones, not searched again",
        number="7 values of K and 8 bases more",
    )
