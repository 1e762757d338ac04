"""All files of an experiment follow from its records: every cell once, bold by a test over splits."""

import csv
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from invented_records import invent, invent_search, scores_of, summary
from small_experiment import SMALL, runner

from polynsd.errors import DataError
from polynsd.stats import compare, holm
from polynsd_paper.experiments import get_experiment
from polynsd_paper.records import Flags, Record, Score, records_table
from polynsd_paper.tables import terminal, writer
from polynsd_paper.tables.leaderboards import (
    architecture,
    choose_maps,
    compare_with_controls,
    leaderboards,
    paired_scores,
    rank_rows,
    winners,
)

MODELS = {
    "polynsd-diagonal": 0.70,
    "polynsd-general": 0.90,
    "polynsd-orthogonal": 0.75,
    "nsd-general": 0.8,
    "identity-sheaf": 0.6,
    "poly-spectral": 0.5,
    "gcn": 0.7,
}
VALIDATION = {"texas": "polynsd-orthogonal", "cora": "polynsd-general", "film": "polynsd-diagonal"}


def searched(name, dataset, model, mean, val, **more):
    return invent(name, dataset, {"model": model}, mean, val=val, search=invent_search(4, 0.9), **more)


BOARD = [
    searched("leaderboard", dataset, model, mean, 0.9 if model == winner else 0.5)
    for dataset, winner in VALIDATION.items()
    for model, mean in MODELS.items()
]
SWEEP = [invent("k-sweep", "texas", {"maps": "general", "K": K}, 0.8) for K in (2, 16, 1)]


def write_tables(experiment, records, out, draw=False, **options):
    with nullcontext() if draw else patch.object(writer, "draw_figures"):  # figures take their time
        return writer.write_tables(experiment, out, records_table(records, **options))


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row(page, label):
    line = next(line for line in page.splitlines() if line.startswith(f"| {label}"))
    return [text.strip() for text in line.strip("|").split("|")]


def test_an_experiment_from_its_training_to_its_page(tmp_path, capsys):
    trained = runner(tmp_path)
    records = [trained.record(cell) for cell in SMALL.cells()]
    results = tmp_path / "out"
    page = writer.write_tables(SMALL, results)
    assert page == results / "tables" / "small.md"
    rows = read(results / "tables" / "small.csv")
    assert [(line["dataset"], line["model"]) for line in rows] == [
        (cell.dataset, cell.options["model"]) for cell in SMALL.cells()
    ]
    for line, record in zip(rows, records, strict=True):
        assert float(line["mean"]) == pytest.approx(scores_of(record).mean(), abs=1e-6)
        assert line["trials"] == ("4" if line["model"] == "mlp" else "0")
    assert {path.name for path in results.glob("*/small*.*")} == {
        "small.csv", "small.md", "small.png", "small-search.png",
        "small.scores.parquet",
    }  # fmt: skip
    out = capsys.readouterr().out
    assert "small: test accuracy in %" in out
    assert "nsd-diagonal" in out
    text = page.read_text()
    assert "Small: three models on two graphs" in text
    assert "![small](../figures/small.png)" in text


def test_scores_of_every_split_and_seed(tmp_path):
    pandas = pytest.importorskip("pandas")
    write_tables(get_experiment("leaderboard"), BOARD, tmp_path)
    table = pandas.read_parquet(tmp_path / "tables" / "leaderboard.scores.parquet")
    assert len(table) == 10 * len(BOARD)
    means = table.groupby(["dataset", "model"]).test.mean()
    for record in BOARD:
        assert means[record.dataset, record.cell["model"]] == pytest.approx(scores_of(record).mean())


def test_the_maps_are_chosen_by_validation_and_not_by_test(tmp_path):
    page = write_tables(get_experiment("leaderboard"), BOARD, tmp_path).read_text()
    assert row(page, "polynsd (maps by validation)")[2:] == [
        "75.00 ± 2.00 (orthogonal)",
        "70.00 ± 2.00 (diagonal)",
        "90.00 ± 2.00 (general)",
    ]  # texas, film, cora: the order of the experiment
    rows = [line for line in read(tmp_path / "tables" / "leaderboard.csv") if line["model"] == "polynsd-best"]
    assert {line["dataset"]: line["chosen"] for line in rows} == VALIDATION
    assert "the family with the best validation" in page


def test_maps_are_chosen_only_where_all_families_were_searched():
    assert choose_maps(
        summary(*(record for record in BOARD if record.cell["model"] != "polynsd-general"))
    ).empty
    fixed = [replace(record, search=None) if record.dataset == "cora" else record for record in BOARD]
    assert set(choose_maps(summary(*fixed))["dataset"]) == {"texas", "film"}


def test_bold_is_what_beats_every_other_architecture(tmp_path):
    page = write_tables(get_experiment("leaderboard"), BOARD, tmp_path).read_text()
    assert re.findall(r"\*\*(.*?)\*\*", page) == ["90.00 ± 2.00"] * 3
    assert "corrected for their overlap" in page
    close = [
        replace(record, cell={"model": "sgc"})
        for record in BOARD
        if record.cell["model"] == "polynsd-general"
    ]
    assert winners(summary(*BOARD, *close)) == set()  # a rival with the same scores
    family = [replace(record, cell={"model": "polynsd-diagonal"}) for record in close]
    others = [record for record in BOARD if record.cell["model"] != "polynsd-diagonal"]
    assert len(winners(summary(*family, *others))) == 3  # relatives are no rivals


@pytest.mark.parametrize("splits", [1, 2])
def test_no_bold_without_a_test(splits, tmp_path):
    few = [replace(record, scores=record.scores[:splits]) for record in BOARD]
    page = write_tables(get_experiment("leaderboard"), few, tmp_path).read_text()
    assert "**" not in page
    assert "Nothing is bold" in page
    assert not (tmp_path / "tables" / "leaderboard-comparisons.csv").exists()


def test_cells_with_fewer_splits_are_in_no_test():
    short = replace(BOARD[3], scores=BOARD[3].scores[:4])
    column = [*BOARD[:3], short]
    assert list(paired_scores(summary(*column))) == [record.cell["model"] for record in BOARD[:3]]
    assert paired_scores(summary(*(replace(record, sizes={}) for record in column))) == {}


def test_comparisons_are_those_of_the_same_splits(tmp_path):
    write_tables(get_experiment("leaderboard"), BOARD, tmp_path)
    rows = read(tmp_path / "tables" / "leaderboard-comparisons.csv")
    column = {record.cell["model"]: record for record in BOARD if record.dataset == "texas"}
    pair = next(
        line
        for line in rows
        if (line["dataset"], line["model"], line["against"]) == ("texas", "polynsd-general", "nsd-general")
    )
    ours, theirs = (scores_of(column[model]) for model in ("polynsd-general", "nsd-general"))
    wanted = compare(ours, theirs, (0.48, 0.32, 0.2))
    for name in ("difference", "p", "p_wilcoxon", "d_z", "rank_biserial", "wins", "ties", "losses"):
        assert float(pair[name]) == pytest.approx(getattr(wanted, name), rel=1e-4)
    assert pair["is_best_other"] == "True"  # nsd-general, once and not twice
    pairs = [(line["model"], line["against"]) for line in rows if line["dataset"] == "texas"]
    assert len(set(pairs)) == len(pairs) == 3 * 3
    assert np.allclose(
        [float(line["p_holm"]) for line in rows], holm([float(line["p"]) for line in rows]), rtol=1e-3
    )


def test_rules_of_splits_are_boards_of_their_own(tmp_path):
    rules = ("luan-60-20-20", "random-60-20-20")
    records = [
        replace(record, cell={"rule": rule, **record.cell}, protocol=rule, experiment="malignant")
        for record in BOARD
        for rule in rules
        if record.dataset != "cora"
    ]
    assert [(shared, len(board)) for shared, board in leaderboards(summary(*records))] == [
        ({"rule": rule}, 14) for rule in rules
    ]
    page = write_tables(get_experiment("malignant"), records, tmp_path, draw=True).read_text()
    for rule in rules:
        assert (tmp_path / "figures" / f"malignant-{rule}.png").exists()
        assert f"(../figures/malignant-search-{rule}.png)" in page
    assert {line["rule"] for line in read(tmp_path / "tables" / "malignant-comparisons.csv")} == set(rules)
    assert len(compare_with_controls(summary(*records))) == 2 * 2 * 9


@pytest.fixture
def only_ranks(monkeypatch):
    """Of the figures only those of ranks are drawn."""
    for name in ("leaderboard_figure", "search_figure"):
        monkeypatch.setattr(writer, name, lambda *_: None)


@pytest.mark.usefixtures("only_ranks")
def test_ranks_need_three_models_and_three_datasets(tmp_path):
    experiment = get_experiment("leaderboard")
    write_tables(
        experiment, [record for record in BOARD if record.dataset != "cora"], tmp_path / "two", draw=True
    )
    write_tables(experiment, BOARD, tmp_path / "three", draw=True)
    assert not (tmp_path / "two" / "figures" / "leaderboard-ranks.png").exists()
    assert (tmp_path / "three" / "figures" / "leaderboard-ranks.png").exists()
    page = write_tables(
        experiment, [record for record in BOARD if record.dataset != "cora"], tmp_path / "three", draw=True
    )
    assert not (tmp_path / "three" / "figures" / "leaderboard-ranks.png").exists()  # of other records
    assert "ranks" not in page.read_text()


def test_a_sweep_has_no_bold_and_no_comparisons(tmp_path, capsys):
    page = write_tables(get_experiment("k-sweep"), SWEEP, tmp_path).read_text()
    assert row(page, "dataset")[3:] == ["K=1", "K=2", "K=16"]
    assert "Bold" not in page
    assert not list(tmp_path.glob("*/*comparisons*"))
    assert [line["K"] for line in read(tmp_path / "tables" / "k-sweep.csv")] == ["2", "16", "1"]
    assert "K=16" in capsys.readouterr().out


def test_changes_of_one_architecture_are_rows_with_a_picture(tmp_path, capsys):
    experiment = get_experiment("ablations")
    records = [
        invent("ablations", dataset, {"change": change}, 0.8)
        for dataset in ("texas", "cora")
        for change in ("degree 8", "base")
    ]
    page = write_tables(experiment, records, tmp_path, draw=True).read_text()
    assert row(page, "change")[2:] == ["cora", "texas"]
    assert page.index("| base") < page.index("| degree 8")
    assert "![ablations](../figures/ablations.png)" in page
    assert (tmp_path / "figures" / "ablations.png").exists()
    assert "degree 8" in capsys.readouterr().out


def test_rows_come_as_the_experiment_lists_them_whatever_is_trained(tmp_path):
    some = [
        record
        for record in BOARD
        if record.dataset != "texas" or record.cell["model"] in ("gcn", "nsd-general")
    ]
    page = write_tables(get_experiment("leaderboard"), some, tmp_path).read_text()
    ours = [model for model in MODELS if f"| {model}" in page]
    listed = [model for model in get_experiment("leaderboard").axes["model"] if model in ours]
    assert sorted(ours, key=lambda model: page.index(f"| {model} ")) == listed


@pytest.mark.usefixtures("only_ranks")
def test_the_ranks_say_how_many_models_they_leave_out(tmp_path, monkeypatch):
    titles = []
    draw = writer.critical_difference_figure
    monkeypatch.setattr(
        writer,
        "critical_difference_figure",
        lambda *args, title, **more: titles.append(title) or draw(*args, title=title, **more),
    )
    for records in (BOARD, BOARD[1:]):
        write_tables(get_experiment("leaderboard"), records, tmp_path, draw=True)
    assert ["models have all" in title for title in titles] == [False, True]
    assert titles[1].endswith("(6 of 7 models have all)")


def test_cells_of_different_options_fit_into_one_file(tmp_path):
    records = [
        invent("nsd-vs-poly", "squirrel", {"model": "nsd-general", "layers": 2}, 0.2),
        invent("nsd-vs-poly", "squirrel", {"model": "polynsd-general", "K": 8}, 0.4),
    ]
    write_tables(get_experiment("nsd-vs-poly"), records, tmp_path)
    first, second = read(tmp_path / "tables" / "nsd-vs-poly.csv")
    assert (first["layers"], first["K"], second["layers"], second["K"]) == ("2", "", "", "8")
    assert list(first)[:5] == ["dataset", "model", "layers", "K", "metric"]


@pytest.mark.parametrize(
    ("module", "words", "missing"),
    [
        ("matplotlib", r"pictures need the package 'matplotlib'", "figures/leaderboard.png"),
        ("pyarrow.parquet", r"needs the package 'pyarrow'", "tables/leaderboard.scores.parquet"),
    ],
)
def test_what_is_not_installed_is_said_and_the_rest_written(
    module, words, missing, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, module, None)
    page = write_tables(get_experiment("leaderboard"), BOARD, tmp_path)
    assert page.exists()
    assert words in capsys.readouterr().out
    assert not (tmp_path / missing).exists()
    assert len(read(tmp_path / "tables" / "leaderboard.csv")) == len(BOARD) + 3


def test_the_ratio_of_test_to_training_nodes_is_that_of_the_records():
    """Luan's rule leaves 61 of texas' nodes for testing and 85 for training, whatever it is called."""
    sizes = {"train": 85, "val": 37, "test": 61}
    texas = [
        replace(record, sizes=sizes, protocol="luan-60-20-20")
        for record in BOARD
        if record.dataset == "texas"
    ]
    pair = compare_with_controls(summary(*texas)).iloc[0]
    column = {record.cell["model"]: record for record in texas}
    ours, theirs = (scores_of(column[pair[name]]) for name in ("model", "against"))
    wanted = compare(ours, theirs, (85 / 183, 37 / 183, 61 / 183))
    assert pair["p"] == pytest.approx(wanted.p, rel=1e-4)


def part(record):
    return replace(record, settings={"first": 3}, scores=record.scores[:3])


def test_partial_records_are_shown_marked_and_are_nobodys_rivals(tmp_path, capsys):
    some = [
        part(record) if record.cell["model"] in ("polynsd-general", "gcn") else record for record in BOARD
    ]
    page = write_tables(get_experiment("leaderboard"), some, tmp_path).read_text()
    assert all(text.endswith("‡") for text in row(page, "polynsd-general")[2:])
    assert "**" not in row(page, "polynsd-general")[2]
    assert "maps by validation" not in page  # record of the three families is partial
    out = capsys.readouterr().out
    assert "‡ of the first splits only" in out
    best = next(line for line in out.splitlines() if line.strip().startswith("nsd-general"))
    assert best.count("*") == 3
    assert {line["model"] for line in read(tmp_path / "tables" / "leaderboard-comparisons.csv")} == {
        "polynsd-diagonal",
        "polynsd-orthogonal",
    }
    assert "gcn" not in paired_scores(summary(*some)[: len(MODELS)])
    assert rank_rows(summary(*some))[-2:] == ["polynsd-general", "gcn"]
    gcn = [line for line in read(tmp_path / "tables" / "leaderboard.csv") if line["model"] == "gcn"]
    assert {line["is_partial"] for line in gcn} == {"True"}


def test_a_table_of_partial_records_alone(tmp_path, capsys):
    page = write_tables(
        get_experiment("leaderboard"), [part(record) for record in BOARD], tmp_path
    ).read_text()
    assert "Nothing is bold" in page
    assert "*" not in "".join(line for line in capsys.readouterr().out.splitlines() if "polynsd-" in line)
    assert not (tmp_path / "figures" / "leaderboard-ranks.png").exists()


def test_what_is_left_out_is_said(tmp_path, capsys):
    known = [Flags(is_current=False)] * 2 + [Flags()] * (len(BOARD) - 2)
    page = write_tables(get_experiment("leaderboard"), BOARD, tmp_path, known=known).read_text()
    assert "trained with other settings: 2." in page
    assert "trained with other settings: 2." in capsys.readouterr().out
    stale = [Flags(is_current=False)] * len(BOARD)
    with pytest.raises(DataError, match=r"no results yet. Records with other settings: 21"):
        write_tables(get_experiment("leaderboard"), BOARD, tmp_path, known=stale)


def test_rows_of_one_architecture():
    assert architecture("polynsd-general") == architecture("polynsd-diagonal") == "polynsd"
    assert architecture("mlp+adjacency") != architecture("polynsd+adjacency")
    assert architecture("control of polynsd") == architecture("identity-sheaf") != "polynsd"
    assert architecture("nsd-reference") == architecture("nsd-general") == "nsd"
    assert architecture("unheard of") == "unheard of"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_wide_table_fits_into_the_terminal(width, monkeypatch, capsys):
    datasets = get_experiment("leaderboard").datasets
    records = [
        Record(**{**vars(record), "dataset": dataset, "scores": (Score(0, 0, 0.5, mean, 1, 1),)})
        for dataset in datasets
        for record, mean in zip(BOARD, MODELS.values(), strict=False)
    ]
    monkeypatch.setattr(terminal, "line_width", lambda: width)
    terminal.print_results("board", summary(*records))
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    for dataset in datasets:
        assert dataset in out
    assert out.count("*") == len(datasets)
    first = next(line.split()[0] for line in out.splitlines() if "polynsd-" in line)
    assert first == "polynsd-general"
