"""Numbers carry what has to be known of them, and PolyNSD stands beside its matched control."""

from dataclasses import replace

import pytest
from invented_records import invent

from polynsd_paper.experiments import get_experiment
from polynsd_paper.records import Flags, records_table, summarize
from polynsd_paper.tables.leaderboards import control_gaps, control_of
from polynsd_paper.tables.marks import (
    BELOW,
    EARLIER,
    ELSEWHERE,
    TRIVIAL,
    constant_score,
    find_best,
    mark_cells,
)


def board(*rows, known=None, dataset="cornell"):
    """Records of (model, mean, changes) on one graph, as a marked table."""
    records = [
        replace(invent("leaderboard", dataset, {"model": model}, mean), **changes)
        for model, mean, changes in rows
    ]
    return mark_cells(summarize(records_table(records, known)))


def test_every_mark_has_its_reason():
    cells = board(
        ("gcn", 0.80, {}),
        ("gcnii", 0.589, {}),  # the largest class, and far below what is published
        ("mlp", 0.85, {"device": "another"}),
        ("sage", 0.85, {}),
        known=[Flags(), Flags(), Flags(), Flags(is_earlier=True)],
    )
    marks = dict(zip(cells["row"], cells["marks"], strict=True))
    assert marks == {"gcn": "", "gcnii": BELOW + TRIVIAL, "mlp": ELSEWHERE, "sage": EARLIER}
    gcnii = cells[cells["row"] == "gcnii"].iloc[0]
    assert gcnii["best_published"] == pytest.approx(0.7786)
    assert gcnii["best_published_in"] == "paper"


def test_a_reference_row_is_compared_with_the_best_of_its_families():
    cells = board(("polynsd-reference", 0.5, {}), ("nsd-reference", 0.5, {}), dataset="cora")
    families = {
        "polynsd": ("diagonal", "orthogonal", "general"),
        "nsd": ("diagonal", "orthogonal", "general"),
    }
    for (_, cell), (model, maps) in zip(cells.iterrows(), families.items(), strict=True):
        rows = board(*((f"{model}-{name}", 0.5, {}) for name in maps), dataset="cora")
        assert find_best(cell).mean == max(find_best(row).mean for _, row in rows.iterrows())


def test_chance_is_known_for_every_graph_of_the_leaderboard():
    experiment = get_experiment("leaderboard")
    for dataset in experiment.datasets:
        (cell,) = [row for _, row in board(("gcn", 0.5, {}), dataset=dataset).iterrows()]
        cell = cell.copy()
        cell["protocol"] = experiment.protocol
        assert 0.15 < constant_score(cell) < 0.6


def test_what_maps_add_is_the_difference_to_the_matched_control():
    cells = board(("polynsd", 0.8, {}), ("control of polynsd", 0.75, {}), ("gcn", 0.9, {}))
    gaps = control_gaps(cells)
    assert list(gaps) == [("cornell", "model=polynsd")]
    gap = gaps["cornell", "model=polynsd"]
    assert gap.difference == pytest.approx(0.05)
    assert gap.low <= gap.difference <= gap.high
    assert control_of("rule=luan-60-20-20;model=polynsd") == "rule=luan-60-20-20;model=control of polynsd"
    assert control_of("variant=learned maps") == "variant=same reach"
    assert control_of("model=gcn") is None
