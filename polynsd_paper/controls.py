"""What the maps add: PolyNSD minus its matched control, the same configuration with identity maps.

gaps = control_gaps(summarize(load_records(Path("results"), "leaderboard")))
gaps["cora", "model=polynsd"]  # difference and 95 % interval over splits
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polynsd.stats import Comparison
from polynsd_paper.claims.comparisons import compare_cells
from polynsd_paper.experiment import cell_text
from polynsd_paper.experiments.block import AS_CHANGE, LEARNED, SAME_REACH
from polynsd_paper.experiments.searched import CONTROL
from polynsd_paper.leaderboards import complete
from polynsd_paper.published import parse_cell

if TYPE_CHECKING:
    from pandas import DataFrame

CONTROLLED = ("model", "variant", "change")  # options that tell a winner from its control
CONTROL_OF = {LEARNED: SAME_REACH, AS_CHANGE[LEARNED]: AS_CHANGE[SAME_REACH]}
ADDED = "maps add"  # what the line of differences is called


def control_of(cell: str) -> str | None:
    """The cell of the matched control, `model=control of polynsd` of `model=polynsd`; None of others."""
    options = parse_cell(cell)
    for name in CONTROLLED:
        value = options.get(name, "")
        control = CONTROL_OF.get(value) or (CONTROL + value if value.startswith("polynsd") else None)
        if control is not None:
            return cell_text({**options, name: control})
    return None


def control_gaps(cells: DataFrame) -> dict[tuple[str, str], Comparison]:
    """By dataset and cell, the difference to the control of every cell of an experiment that has one."""
    whole = complete(cells)
    rows = {(row["dataset"], row["cell"]): row for _, row in whole.iterrows()}
    found = {}
    for (dataset, cell), row in rows.items():
        gap = compare_cells(row, rows.get((dataset, control_of(cell) or "")))
        if gap is not None:
            found[dataset, cell] = gap
    return found
