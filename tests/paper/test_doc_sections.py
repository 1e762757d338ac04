"""Generated sections are what the records give, and nothing else of a page is touched."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from invented_records import invent, invent_search, summary

from polynsd.bench.estimators import Record, append_record
from polynsd.errors import DataError
from polynsd_paper.claims.comparisons import difference_text
from polynsd_paper.doc_sections import (
    CONTROL_ROWS,
    OTHER_ROWS,
    leaderboard_section,
    replace_section,
    sections,
    strongest_others,
    update_pages,
)
from polynsd_paper.estimator_sections import estimator_sections
from polynsd_paper.experiments.searched import STANDARD
from polynsd_paper.leaderboards import OURS
from polynsd_paper.published import find_published, published
from polynsd_paper.records import load_records

ROOT = Path(__file__).parents[2]
ZOO = {"sgc": 0.61, "gat": 0.62, "h2gcn": 0.66, "gcnii": 0.64, "fagcn": 0.65, "ggcn": 0.63, "sage": 0.2}
MEANS = {
    **dict(zip(OURS, (0.80, 0.70, 0.75), strict=True)),
    **dict.fromkeys(CONTROL_ROWS, 0.5),
    "identity-sheaf-1": 0.68,
    **ZOO,
}
VALIDATION = {"polynsd-orthogonal": 0.9}  # not the best on test


def searched(dataset, model, mean):
    val = VALIDATION.get(model, 0.5)
    return invent("leaderboard", dataset, {"model": model}, mean, val=val, search=invent_search(4, 0.9))


RECORDS = [searched(dataset, model, mean) for dataset in STANDARD for model, mean in MEANS.items()]


def results_section(records):
    return leaderboard_section(summary(*records))


@cache
def section():
    return results_section(RECORDS)


def rows(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {line[0]: line[1:] for line in lines[2:]}


def test_rows_and_columns():
    text = section()
    head = text.splitlines()[0]
    assert [name.strip() for name in head.strip("|").split("|")] == ["", *STANDARD]
    others = ["h2gcn", "fagcn", "gcnii", "ggcn", "gat"]
    assert list(rows(text)) == [
        "polynsd (maps by validation)",
        *OURS,
        *CONTROL_ROWS,
        *others,
        *(f"*paper:* {model}" for model in OURS),
    ]
    assert {len(row) for row in rows(text).values()} == {9}


def test_the_maps_are_those_of_the_best_validation():
    assert set(rows(section())["polynsd (maps by validation)"]) == {"70.0 ± 2.0"}


def test_numbers_of_the_paper_are_as_printed():
    printed = published("leaderboard")
    for model in OURS:
        for dataset, text in zip(STANDARD, rows(section())[f"*paper:* {model}"], strict=True):
            number = find_published(printed, dataset, f"model={model}")
            assert text == f"{number['mean']:.1f} ± {number['std']:.1f}"


def test_bold_is_what_beats_all_rivals_also_those_that_are_not_shown():
    assert re.findall(r"\*\*(.*?)\*\*", section()) == ["80.0 ± 2.0"] * 9
    rival = [
        replace(record, cell={"model": "mixhop"}) for record in RECORDS if record.cell["model"] == OURS[0]
    ]
    hidden = results_section([*RECORDS, *(record for record in rival if record.dataset == "texas")])
    assert "mixhop" not in hidden  # one graph is not all
    assert re.findall(r"\*\*(.*?)\*\*", hidden) == ["80.0 ± 2.0"] * 8
    assert "Bold: the best mean" in " ".join(section().split())


def test_without_enough_splits_nothing_is_bold():
    few = [replace(record, scores=record.scores[:2]) for record in RECORDS]
    text = results_section(few)
    assert "**" not in text
    assert "Nothing is bold" in " ".join(text.split())


def test_others_are_the_best_ranks_of_those_that_are_complete():
    assert len(strongest_others(summary(*RECORDS))) == OTHER_ROWS
    short = [record for record in RECORDS if (record.dataset, record.cell["model"]) != ("cora", "h2gcn")]
    assert strongest_others(summary(*short)) == ["fagcn", "gcnii", "ggcn", "gat", "sgc"]


def test_what_has_not_been_trained_is_left_out():
    models = ("polynsd-general", "mlp")
    some = [record for record in RECORDS if record.cell["model"] in models and record.dataset != "cora"]
    shown = rows(results_section(some))
    assert tuple(shown)[:2] == models
    assert len(shown) == 2 + 3
    assert shown["mlp"][-1] == "—"
    assert "others with the best" not in results_section(some)


def test_the_text_says_how_the_numbers_came_about():
    text = " ".join(section().split())
    assert "over 10 splits × 1 seeds ± population standard deviation (ddof 0) of the split means." in text
    assert f"{len(MEANS)} models, each with the best on validation of 4 configurations" in text
    longer = [replace(RECORDS[0], search={**RECORDS[0].search, "trials": 32}), *RECORDS[1:]]
    assert "of 4–32 configurations" in " ".join(results_section(longer).split())


def test_partial_records_are_left_out():
    part = [
        replace(record, settings={"first": 3}) if record.cell["model"] == OURS[0] else record
        for record in RECORDS
    ]
    assert OURS[0] not in rows(results_section(part))


def test_gaps_are_explained_and_so_is_cornell():
    text = " ".join(results_section(RECORDS[1:]).split())
    assert "— not run." in text
    assert "— not run." not in " ".join(section().split())
    assert "`cornell` carries the features and labels of Texas" in text


def test_only_what_is_between_the_marks_is_replaced():
    begin, end = "<!-- table:begin -->", "<!-- table:end -->"
    page = f"above\n{begin}\nold\n{end}\nbelow\n"
    once = replace_section(page, "table", "new")
    assert once == f"above\n{begin}\nnew\n{end}\nbelow\n"
    assert replace_section(once, "table", "new") == once
    for text in ("nothing", f"{begin} only", f"{end} before {begin}", page.replace("table", "other")):
        with pytest.raises(DataError, match="no section 'table'"):
            replace_section(text, "table", "new")


def test_differences_are_bold_where_the_interval_does_not_contain_zero():
    cells = summary(*RECORDS[: len(MEANS)]).set_index("row")
    better, same = cells.loc["polynsd-diagonal"], cells.loc["gcn"]
    text = difference_text(better, same)
    assert re.fullmatch(r"\*\*30\.0 \(.* to .*\)\*\*", text)
    assert difference_text(same, better).startswith("**−30.0 (−")
    assert "**" not in difference_text(same, cells.loc["mlp"])
    assert difference_text(better, None) == "—"
    short = summary(replace(RECORDS[0], scores=RECORDS[0].scores[:4])).iloc[0]
    assert difference_text(short, same) == "—"  # other splits


def test_without_records_the_pages_stay_as_they_are(tmp_path):
    (tmp_path / "README.md").write_text("old", encoding="utf-8")
    with pytest.raises(DataError, match="polynsd reproduce transport"):
        update_pages(tmp_path / "results", tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "old"


def test_the_comparison_of_the_estimator_is_written_where_there_is_one(tmp_path):
    assert estimator_sections(tmp_path) == {}
    for method, score in (("estimator", 0.8), ("gcn", 0.7)):
        record = Record("a", 0.8, 0, method, "accuracy", score, score, 1.0, None, 1)
        append_record(tmp_path / "estimator.jsonl", record)
    pages = estimator_sections(tmp_path)
    assert rows(pages["README.md"]["estimator"])["gcn"] == ["2.00", "+10.0"]
    assert rows(pages["docs/comparison.md"]["estimator"])["a"] == ["80.0", "70.0", "gcn", "+10.0"]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
def test_the_pages_of_the_repository_are_up_to_date(tmp_path):
    """Not so? `python -m polynsd_paper.doc_sections`"""
    records = load_records(ROOT / "results")
    for pages in (sections(records[records["is_current"]]), estimator_sections(ROOT / "results")):
        for page, texts in pages.items():
            text = (ROOT / page).read_text(encoding="utf-8")
            for name, section in texts.items():
                assert replace_section(text, name, section) == text, f"{page}, section {name}"
