"""Generated sections are what the records give, and nothing else of a page is touched."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from invented_records import invent, invent_search, summary

from polynsd.bench.estimators import Record, append_record
from polynsd.errors import DataError
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.searched import STANDARD
from polynsd_paper.pages.doc_sections import (
    estimator_sections,
    families_section,
    replace_section,
    sections,
    spent_section,
    update_pages,
    webkb_section,
)
from polynsd_paper.records import load_records
from polynsd_paper.tables.formatting import gap_text
from polynsd_paper.tables.leaderboards import compare_cells

ROOT = Path(__file__).parents[2]
MEANS = {
    **dict(zip((f"polynsd-{maps}" for maps in FAMILIES), (0.80, 0.70, 0.75), strict=True)),
    **{f"nsd-{maps}": 0.5 for maps in FAMILIES},
    "gcn": 0.5,
    "mlp": 0.5,
}


def searched(dataset, model, mean, experiment="leaderboard"):
    return invent(experiment, dataset, {"model": model}, mean, val=0.5, search=invent_search(4, 0.9))


RECORDS = [searched(dataset, model, mean) for dataset in STANDARD for model, mean in MEANS.items()]


def rows(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {line[0]: line[1:] for line in lines[2:]}


def test_families_are_counted_in_both_forms_and_cornell_once():
    found = rows(families_section(summary(*RECORDS)))
    count, points, wins, losses, ties, undecided = found["NSD, the same maps"]
    assert (count, points) == ("24", "25.0")  # eight graphs, three families
    assert (wins, losses, ties, undecided) == ("24 (24)", "0 (0)", "0 (0)", "0 (0)")
    assert found["the filter without a sheaf"] == ["0", *["—"] * 5]


def test_published_splits_stand_beside_folds():
    assert "polynsd reproduce webkb" in webkb_section(summary(*RECORDS))
    fold = searched("texas", "mlp", 0.6, experiment="webkb")
    text = webkb_section(summary(*RECORDS, fold))
    assert "| texas | mlp | 50.00 ± 2.00 | 60.00 ± 2.00 |" in text


def test_what_was_spent_is_listed_by_device():
    text = spent_section(summary(*RECORDS))
    assert f"{len(RECORDS)} records on " in text
    assert f"{4 * len(RECORDS):,} trials" in text


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
    assert re.fullmatch(r"\*\*30\.0 \(.* to .*\)\*\*", gap_text(compare_cells(better, same)))
    assert gap_text(compare_cells(same, better)).startswith("**−30.0 (−")
    assert "**" not in gap_text(compare_cells(same, cells.loc["mlp"]))
    assert gap_text(compare_cells(better, None)) == "—"
    short = summary(replace(RECORDS[0], scores=RECORDS[0].scores[:4])).iloc[0]
    assert gap_text(compare_cells(short, same)) == "—"  # other splits


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
    assert pages["README.md"]["estimator"].startswith("- 80 % of the nodes labelled: mean rank 1.00 of 2")
    assert rows(pages["docs/comparison.md"]["estimator"])["a"] == ["80.0", "70.0", "gcn", "+10.0"]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
def test_the_records_of_the_repository_are_current_and_its_pages_up_to_date():
    """Not so? `python -m polynsd_paper.pages.doc_sections`"""
    records = load_records(ROOT / "results")
    assert records["is_current"].all()
    cells = records.groupby(["experiment", "dataset", "cell"], dropna=False)
    assert cells.ngroups == len(list(ROOT.glob("results/records/*/*/*.yaml"))) > 700
    for pages in (sections(records[records["is_current"]]), estimator_sections(ROOT / "results")):
        for page, texts in pages.items():
            text = (ROOT / page).read_text(encoding="utf-8")
            for name, section in texts.items():
                assert replace_section(text, name, section) == text, f"{page}, section {name}"
