"""The table of the front page: PolyNSD by validation, its own control, adjusted counts, what is missing."""

from dataclasses import replace

import pytest
from invented_records import invent, invent_search, summary

from polynsd_paper.pages.front_page import (
    GRAPHS,
    commands,
    front_family,
    front_rows,
    front_table,
    front_text,
    missing_records,
)


def searched(model, mean, val=0.5, dataset="cora"):
    return invent("leaderboard", dataset, {"model": model}, mean, val=val, search=invent_search(4, 0.9))


def transport(variant, mean, val=0.5, dataset="cora"):
    return invent("transport", dataset, {"variant": variant}, mean, val=val)


RIVALS = [searched(model, mean) for model, mean in (("nsd-diagonal", 0.5), ("tuned-gcn", 0.6), ("mlp", 0.4))]
SAGE = [searched("sage", 0.7, val=0.9), searched("tuned-sage", 0.8, val=0.1)]
OWN = [transport("learned maps", 0.9), transport("same reach", 0.85)]
ALL = [*RIVALS, *SAGE, *OWN]


def cora(*records):
    return front_rows(summary(*records))[GRAPHS.index("cora")]


def line(*records):
    found = front_table(front_rows(summary(*records))).splitlines()[2 + GRAPHS.index("cora")]
    return found.strip("| ").split(" | ")


def test_a_line_has_the_control_of_its_own_winner():
    best, *others = line(*ALL)[1:-1]
    assert best == "**90.00 ± 2.00**"  # better than every other of its row
    assert others == [f"{n}.00 ± 2.00" for n in (85, 50, 60, 70, 40)]
    winner = [searched("polynsd-general", 0.8, val=0.9), searched("control of polynsd-general", 0.7)]
    assert line(*ALL, *winner)[1:3] == ["**80.00 ± 2.00**", "70.00 ± 2.00"]
    adjacent = searched("polynsd+adjacency", 0.99, val=0.99)
    assert line(*ALL, adjacent)[1] == best


def test_what_the_sheaf_adds_has_its_interval_and_is_bold_where_it_is_decided():
    assert line(*ALL)[-1].startswith("**5.0 (")
    same = [replace(OWN[1], scores=OWN[0].scores)]
    assert line(*RIVALS, *SAGE, OWN[0], *same)[-1] == "0.0 (0.0 to 0.0)"
    assert line(*RIVALS, OWN[0])[-1] == "—"


def test_counts_are_those_of_the_family():
    rows = front_rows(summary(*ALL))
    assert str(front_family(rows, "NSD")) == "1 win, 0 losses, 0 ties, 0 undecided of 1"
    text = " ".join(front_text(rows))
    assert "against NSD 1 win, 0 losses, 0 ties, 0 undecided of 1" in text
    assert f"—: {6 * len(GRAPHS) - 6} cells are not trained yet." in text
    assert "4 trials per searched cell" in text


def test_missing_records_are_named_with_their_commands():
    rows = [cora(*RIVALS, *OWN[:1])]
    assert missing_records(rows) == [
        ("transport", "same reach", "cora"),
        ("leaderboard", "tuned-sage", "cora"),
    ]
    assert commands(missing_records(rows))[0] == (
        "polynsd reproduce transport --datasets cora --only 'variant=same reach' --device cuda"
    )
    winner = searched("polynsd-general", 0.8, val=0.9)
    assert ("leaderboard", "control of polynsd-general", "cora") in missing_records([cora(*ALL, winner)])
    assert missing_records([cora(*ALL)]) == []


@pytest.mark.parametrize("count", [2, 0])
def test_other_splits_are_not_compared(count):
    short = [replace(record, scores=record.scores[:count]) for record in OWN[1:]] if count else []
    assert cora(*RIVALS, OWN[0], *short).compare("matched control") is None
