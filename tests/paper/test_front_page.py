"""The README's table is what the records of the leaderboard give, and nothing else of the page is touched."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from invented_records import invent, invent_search

from polynsd.errors import DataError
from polynsd_paper.boards import OURS, boards
from polynsd_paper.experiments.searched import LEADERBOARD, STANDARD
from polynsd_paper.front_page import CONTROLS, OTHERS, main, results_section, strongest_others
from polynsd_paper.marked_section import BEGIN, END, replace_section
from polynsd_paper.published import find_published, published
from polynsd_paper.records import cell_settings, current_records

ROOT = Path(__file__).parents[2]
ZOO = {"sgc": 0.61, "gat": 0.62, "h2gcn": 0.66, "gcnii": 0.64, "fagcn": 0.65, "ggcn": 0.63, "sage": 0.2}
MEANS = {
    **dict(zip(OURS, (0.80, 0.70, 0.75), strict=True)),
    **dict.fromkeys(CONTROLS, 0.5),
    "identity-sheaf-1": 0.68,
    **ZOO,
}
VALIDATION = {"polynsd-orthogonal": 0.9}  # not the best on test


def searched(dataset, model, mean):
    val = VALIDATION.get(model, 0.5)
    return invent("leaderboard", dataset, {"model": model}, mean, val=val, search=invent_search(4, 0.9))


RECORDS = [searched(dataset, model, mean) for dataset in STANDARD for model, mean in MEANS.items()]


def rows(section):
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return {line[0]: line[1:] for line in lines[2:]}


def test_rows_and_columns():
    section = results_section(RECORDS[::-1])
    head = section.splitlines()[0]
    assert [name.strip() for name in head.strip("|").split("|")] == ["", *STANDARD]
    others = ["h2gcn", "fagcn", "gcnii", "ggcn", "gat"]
    assert list(rows(section)) == [
        "polynsd (maps by validation)",
        *OURS,
        *CONTROLS,
        *others,
        *(f"*paper:* {model}" for model in OURS),
    ]
    assert {len(row) for row in rows(section).values()} == {9}


def test_the_maps_are_those_of_the_best_validation():
    assert set(rows(results_section(RECORDS))["polynsd (maps by validation)"]) == {"70.0 ± 2.0"}


def test_numbers_of_the_paper_are_as_printed():
    printed = published("leaderboard")
    for model in OURS:
        for dataset, text in zip(STANDARD, rows(results_section(RECORDS))[f"*paper:* {model}"], strict=True):
            one = find_published(printed, dataset, {"model": model})
            assert text == f"{one.mean:.1f} ± {one.std:.1f}"


def test_bold_is_what_beats_all_rivals_also_those_that_are_not_shown():
    section = results_section(RECORDS)
    assert re.findall(r"\*\*(.*?)\*\*", section) == ["80.0 ± 2.0"] * 9
    rival = [replace(one, cell={"model": "mixhop"}) for one in RECORDS if one.cell["model"] == OURS[0]]
    hidden = results_section([*RECORDS, *(one for one in rival if one.dataset == "texas")])
    assert "mixhop" not in hidden  # one graph is not all
    assert re.findall(r"\*\*(.*?)\*\*", hidden) == ["80.0 ± 2.0"] * 8
    assert "Bold: the best mean" in " ".join(section.split())


def test_without_enough_splits_nothing_is_bold():
    few = [replace(one, scores=one.scores[:2]) for one in RECORDS]
    section = results_section(few)
    assert "**" not in section
    assert "Nothing is bold" in " ".join(section.split())


def test_others_are_the_best_ranks_of_those_that_are_complete():
    (board,) = boards(RECORDS)
    assert len(strongest_others(board)) == OTHERS
    (short,) = boards([one for one in RECORDS if (one.dataset, one.cell["model"]) != ("cora", "h2gcn")])
    assert strongest_others(short) == ["fagcn", "gcnii", "ggcn", "gat", "sgc"]


def test_what_has_not_been_trained_is_left_out():
    models = ("polynsd-general", "mlp")
    some = [one for one in RECORDS if one.cell["model"] in models and one.dataset != "cora"]
    found = rows(results_section(some))
    assert tuple(found)[:2] == models
    assert len(found) == 2 + 3
    assert found["mlp"][-1] == "—"
    assert "others with the best" not in results_section(some)


def test_the_text_says_how_the_numbers_came_about():
    text = " ".join(results_section(RECORDS).split())
    assert "over 10 splits × 1 seeds ± population standard deviation (ddof 0) of the split means." in text
    assert f"{len(MEANS)} models, each with the best on validation of 4 configurations" in text
    longer = [replace(RECORDS[0], search={**RECORDS[0].search, "trials": 32}), *RECORDS[1:]]
    assert "of 4–32 configurations" in " ".join(results_section(longer).split())


def test_partial_records_are_left_out():
    part = [replace(one, settings={"first": 3}) if one.cell["model"] == OURS[0] else one for one in RECORDS]
    assert OURS[0] not in rows(results_section(part))


def test_only_what_is_between_the_marks_is_replaced(tmp_path, capsys):
    asked = {(c.dataset, c.options["model"]): cell_settings(LEADERBOARD, c) for c in LEADERBOARD.cells()}
    for one in RECORDS:
        one = replace(one, settings=asked[one.dataset, one.cell["model"]])
        one.save(tmp_path / "results" / "records" / "leaderboard" / one.dataset / f"{one.cell['model']}.yaml")
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n", encoding="utf-8")
    for _ in range(2):  # the second time changes nothing
        main([str(page), str(tmp_path / "results")])
        text = page.read_text(encoding="utf-8")
        assert text == f"above\n{BEGIN}\n{results_section(RECORDS)}\n{END}\nbelow\n"


@pytest.mark.parametrize("text", ["nothing", f"{BEGIN} only", f"{END} before {BEGIN}"])
def test_a_page_without_marks_is_refused(text):
    with pytest.raises(DataError, match="no place for results"):
        replace_section(text, "table")


def test_without_records_the_page_stays_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\nold\n{END}", encoding="utf-8")
    with pytest.raises(SystemExit, match="polynsd reproduce leaderboard"):
        main([str(page), str(tmp_path)])
    assert "old" in page.read_text(encoding="utf-8")


def test_the_readme_shows_what_the_records_give():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    records, _ = current_records(LEADERBOARD, ROOT / "results" / "records" / "leaderboard")
    if not records:
        pytest.skip("there are no records of the leaderboard yet")
    assert replace_section(text, results_section(records)) == text, (
        "the table is old: python -m polynsd_paper.front_page README.md results"
    )
