"""The federated experiment: from procedures to records, to the page with printed rows, to C64 and C65."""

from dataclasses import replace

import pytest
from invented_cells import BY_ID, invent_cell

from polynsd.data.datasets.archive import save_graph
from polynsd.data.generators import make_graph
from polynsd.errors import DataError
from polynsd.optional import load_optional
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Trained, fast
from polynsd_paper.experiments.federated import (
    BACKBONES,
    FEDERATED,
    MASKS,
    PRINTED,
    ROWS,
    Federation,
    Federations,
    Rounds,
)
from polynsd_paper.records import differences, load_records, read_record
from polynsd_paper.reports.federated import report_federated, row_name
from polynsd_paper.runner import Runner
from polynsd_paper.tables.printed_numbers import read_printed
from polynsd_paper.tables.writer import write_tables

pytest.importorskip("polynsd.federated.server")  # Flower is optional

ROMAN = "roman_empire_glovesub"


def test_all_rows_of_the_paper_and_of_the_grid_are_there():
    assert set(PRINTED) <= set(ROWS)
    assert len(PRINTED) == 26
    assert {f"model={name}" for name in PRINTED} == set(read_printed("federated")["cell"])
    sheaves = 6
    assert sum(row_name(b, m) in ROWS for b in BACKBONES for m in MASKS) == 5 * len(BACKBONES) - 5
    assert sum(name.endswith("+current") for name in ROWS) == sheaves


@pytest.fixture
def board(tmp_path):
    """A small graph as a cell of the experiment, and what trains it."""
    archive = save_graph(tmp_path / "board.npz", make_graph("minesweeper", rows=12, cols=12))
    cell = Cell("board", {"model": "fedavg"}, replace(ROWS["fedavg"].shortened(), splits=2, grid={}),
                sources=(Source(str(archive)),))  # fmt: skip
    return cell, Runner(FEDERATED, tmp_path / "out", tmp_path / "work")


def test_a_procedure_becomes_a_record_that_is_current_as_long_as_its_settings_are(board):
    cell, runner = board
    record = runner.record(cell)
    assert [score.split for score in record.scores] == [0, 1]
    assert record.configuration["clients"] == 3
    assert {"majority", "global_test", "received_mib", "local_test_2"} <= record.measured.keys()
    assert sum(record.sizes.values()) == 144
    assert not differences(read_record(runner.path(cell)), runner.experiment, cell)
    older = {name: value for name, value in record.configuration["federated"].items() if name != "penalty"}
    older = replace(record, configuration={**record.configuration, "federated": older})
    assert not differences(older, runner.experiment, cell)  # an option that came later
    other = replace(cell.plan, config=replace(cell.plan.config, rate=0.5))
    assert differences(record, runner.experiment, replace(cell, plan=other)) == ["configuration"]


def test_a_procedure_goes_on_with_the_split_at_which_it_was_stopped(board, monkeypatch):
    cell, runner = board
    about = {"metric": "accuracy", "protocol": "p", "features": "raw"}
    sizes = {"train": 5.0, "val": 2.0, "test": 3.0}
    asked, can_go_on = [], [True, False, True]

    def train(self, source, splits, on_step):
        for split in splits:
            asked.append(split)
            if not can_go_on.pop(0):
                raise DataError("stopped")
            yield Trained(0.5, split / 10, 1, 2, 7, 1.0, about, sizes, {"majority": 0.3})

    monkeypatch.setattr(Federation, "train", train)
    with pytest.raises(DataError, match="stopped"):
        runner.record(cell)
    assert [score.test for score in runner.record(cell).scores] == [0.0, 0.1]
    assert asked == [0, 1, 1]


def test_settings_are_those_with_the_best_mean_validation_and_degrees_come_last(monkeypatch):
    row, asked = ROWS["polynsd-general+loaded"], []

    def play(self, configs):
        asked.append(len(configs))
        values = [
            -abs(c.rate - 3e-3) - abs(c.penalty - 7) - abs(c.degree - 8) + 1e-6 * c.seed for c in configs
        ]
        return [Rounds(curves={"local_val": [value - 1, value]}) for value in values]

    monkeypatch.setattr(Federations, "play", play)
    best = Federations(row, Source("texas"), lambda text: None).choose(range(3))
    assert (best.rate, best.penalty, best.degree) == (3e-3, 7.0, 8)
    assert asked == [2 * 3 * 3, 3 * 3]  # rates × λ × seeds, degrees × seeds


def test_fast_is_a_few_rounds_on_a_small_graph():
    experiment = fast(FEDERATED)
    plans = [cell.plan for cell in experiment.cells()]
    assert experiment.datasets == ("texas",)
    assert len(plans) < 20
    assert {(plan.config.rounds, plan.clients, plan.splits) for plan in plans} == {(2, 3, 1)}


def invent(graphs=(ROMAN,), **gains):
    """Cells whose score is the sum of the gains of the parts of their names."""
    majority = {
        "rate": [0.003] * 5,
        "degree": [8] * 5,
        "majority": [0.35] * 5,
        "global_test": [0.3] * 5,
        "received_mib": [1.0] * 5,
    }
    curves = {f"local_test_{n}": [0.3] * 5 for n in (1, 2, 5)}
    for graph in graphs:
        for name in ROWS:
            test = 0.35 + sum(amount for part, amount in gains.items() if part in name)
            cell = {"model": name}
            yield invent_cell(
                "federated", graph, test, cell=cell, shape=(5, 1), is_searched=False, metric="accuracy",
                measured=majority | curves,
            )  # fmt: skip


def examine(claim, rows):
    return BY_ID[claim].examine(load_optional("pandas", "", "").DataFrame(list(rows)))


def test_claims_follow_the_records():
    good = {"nsd-": 0.3, "polynsd": 0.05, "loaded": 0.05}  # "polynsd-…" has the first two
    assert examine("C64", invent(**good)).verdict == "confirmed"
    assert examine("C64", invent(**good | {"polynsd": -0.05})).verdict == "refuted"
    assert examine("C64", invent(**good | {"loaded": -0.05})).verdict == "partly"
    both = examine("C64", invent((ROMAN, "cora"), **good))
    assert "on other graphs: +30" in both.evidence
    assert examine("C64", invent(("cora",), **good)).verdict == "undecided"
    assert examine("C65", invent(loaded=0.1)).verdict == "confirmed"
    assert examine("C65", invent(loaded=0.1, moon=0.4)).verdict == "partly"
    assert "fedavg 3" in examine("C65", invent()).evidence


def test_the_page_has_printed_rows_grids_brackets_and_curves(tmp_path):
    cells = load_optional("pandas", "", "").DataFrame(list(invent((ROMAN, "cora"), loaded=0.1)))
    text = report_federated(cells, tmp_path)
    assert "| FedOPT" in text
    assert "80.24" in text
    assert "| 0.003, K 8 | 0.003, K 8 |" in text
    assert text.count("| polynsd-general ") == 4 + 3  # two grids, two brackets, settings
    assert (tmp_path / "figures" / "federated-rounds.png").exists()


def test_tables_are_written_from_records(tmp_path):
    assert load_records(tmp_path, FEDERATED).empty
    with pytest.raises(ValueError, match="no results yet"):
        write_tables(FEDERATED, tmp_path)
