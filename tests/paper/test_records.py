"""Records read back as they were written; means and deviations are those of the literature."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invented_records import invent, invent_search, summary

from polynsd import PolyNSDError
from polynsd.published import published_model, published_training
from polynsd.training.configuration import plain_configuration as plain
from polynsd_paper.experiments import get_experiment
from polynsd_paper.records import (
    Record,
    Score,
    cell_settings,
    load_records,
    option_names,
    read_record,
    recorded_configuration,
    records_table,
    summarize,
)

share = st.floats(0, 1, allow_nan=False)
scores = st.lists(st.tuples(share, share), min_size=1, max_size=6).map(
    lambda rows: tuple(Score(i, 10_000 + i, val, test, 3, 9) for i, (val, test) in enumerate(rows))
)


@settings(max_examples=30)
@given(scores=scores, searched=st.booleans(), name=st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_record_reads_back(tmp_path_factory, scores, searched, name):
    path = tmp_path_factory.mktemp("records") / "a" / "cell.yaml"
    about = invent("k-sweep", "cora", {"maps": name, "K": 4}, 0.5)
    search = invent_search(5, 0.8) if searched else None
    record = Record(**{**vars(about), "scores": scores, "search": search})
    record.save(path)
    assert read_record(path) == record


def test_mean_and_deviation():
    rows = tuple(
        Score(split, seed, 0.5, test, 1, 1)
        for split, tests in enumerate(([0.5, 0.7], [0.8, 0.8], [0.9, 0.5]))
        for seed, test in enumerate(tests)
    )
    record = replace(invent("x", "cora", {"model": "gcn"}, 0.5), scores=rows[::-1])
    (cell,) = summary(record).to_dict("records")
    means = [0.6, 0.8, 0.7]
    assert np.allclose(cell["scores"], [[0.5, 0.7], [0.8, 0.8], [0.9, 0.5]])
    assert (cell["mean"], cell["std"]) == (pytest.approx(0.7), pytest.approx(np.std(means)))
    assert (cell["splits"], cell["seeds"], cell["split_numbers"], cell["trials"]) == (3, 2, (0, 1, 2), 0)

    def std(**changes):
        return summary(replace(record, **changes))["std"].iloc[0]

    assert std(ddof=1) == pytest.approx(np.std(means, ddof=1))
    assert std(scores=rows[:2]) == pytest.approx(0.1)  # of a split alone the seeds tell
    assert std(scores=rows[:2], ddof=1) == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert math.isnan(std(scores=rows[:1]))


def test_the_table_has_a_row_per_record_split_and_seed():
    records = [
        invent("nsd-vs-poly", "cora", {"model": "nsd-general", "layers": 2}, 0.5),
        invent("nsd-vs-poly", "cora", {"model": "polynsd-general", "K": 8}, 0.6, device="GPU, TF32"),
        invent("stalk", "cora", {"maps": "general", "stalk_dim": 3}, 0.6, search=invent_search(4, 0.9)),
        invent("ablations", "cora", {"change": "base"}, 0.6, sizes={"train": 85, "val": 37, "test": 61}),
    ]
    table = records_table(records)
    assert len(table) == 4 * 10
    assert option_names(table) == ["model", "layers", "K", "maps", "stalk_dim", "change"]
    first = table.groupby("cell", sort=False).first()
    assert list(first.index) == [
        "model=nsd-general;layers=2", "model=polynsd-general;K=8", "maps=general;stalk_dim=3", "change=base",
    ]  # fmt: skip
    assert list(first["row"]) == ["nsd-general", "polynsd-general", "polynsd-general", "polynsd"]
    assert list(table["K"].drop_duplicates()) == [None, 8]
    assert list(first["precision"]) == ["float32", "tf32", "float32", "float32"]
    assert list(first["is_searched"]) == [False, False, True, False]
    assert (first["test_share"] / first["train_share"]).iloc[3] == pytest.approx(61 / 85)
    assert option_names(summarize(table)) == option_names(table)
    assert summarize(table[:0]).empty
    assert summary(replace(records[0], sizes={}))["train_share"].isna().all()


def test_a_record_of_some_splits_is_partial():
    record = invent("x", "texas", {"model": "gcn"}, 0.5)
    partial = replace(record, settings={"first": 3})
    assert list(summary(record, replace(partial, dataset="cora"))["is_partial"]) == [False, True]


def test_records_without_sizes_and_settings_are_read(tmp_path):
    path = tmp_path / "gcn.yaml"
    invent("x", "cora", {"model": "gcn"}, 0.5).save(path)
    path.write_text(path.read_text().split("sizes:")[0])
    record = read_record(path)
    assert (record.sizes, record.settings) == ({}, {})


def test_only_current_records_are_current(tmp_path):
    """The same cell of other settings, and a cell that the experiment does not have, are stale."""
    experiment = get_experiment("stalk")
    first, second = experiment.cells(("texas",), {"maps": ("general",), "stalk_dim": (2, 3)})
    for cell, rules in ((first, "other"), (second, "default")):
        record = invent("stalk", "texas", dict(cell.options), 0.5, configuration=plain(cell.plan))
        settings = {**cell_settings(experiment, cell), "rules": rules}
        replace(record, settings=settings).save(tmp_path / "records" / "stalk" / cell.path)
    invent("stalk", "nowhere", {"maps": "general"}, 0.5).save(tmp_path / "records/stalk/nowhere/general.yaml")
    cells = summarize(load_records(tmp_path, "stalk"))
    assert list(zip(cells["dataset"], cells["stalk_dim"], cells["is_current"], strict=True)) == [
        ("texas", 3, True),
        ("texas", 2, False),
        ("nowhere", None, False),
    ]
    assert load_records(tmp_path).shape == load_records(tmp_path, experiment).shape
    assert load_records(tmp_path, "depth").empty


def test_an_option_that_a_record_does_not_name_is_the_published_one():
    named = {"model": {"model": "nsd", "layer": {"stalk_dim": 2}}, "training": {"epochs": 7}}
    record = invent("x", "texas", {"model": "nsd"}, 0.5, configuration=named)
    published = published_model("nsd", layer={"stalk_dim": 2}), published_training(epochs=7)
    assert recorded_configuration(record) == published


@pytest.mark.parametrize("text", ["", "a: [1", "just words", "scores: []", "scores: [[1, 2]]", "[1, 2]"])
def test_what_is_no_record_is_named(tmp_path, text):
    path = tmp_path / "gcn.yaml"
    path.write_text(text)
    with pytest.raises(PolyNSDError, match=r"gcn\.yaml is no record"):
        read_record(path)
