"""Records read back as they were written; means and deviations are those of the literature."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_records import invent, invent_search

from polynsd import PolyNSDError
from polynsd_paper.records import Record, Score, read_record, read_records

share = st.floats(0, 1, allow_nan=False)
scores = st.lists(st.tuples(share, share), min_size=1, max_size=6).map(
    lambda rows: tuple(Score(i, 10_000 + i, val, test, 3, 9) for i, (val, test) in enumerate(rows))
)


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
    record = Record(**{**vars(invent("x", "cora", {"model": "gcn"}, 0.5)), "scores": rows[::-1]})
    means = [0.6, 0.8, 0.7]
    assert np.allclose(record.by_split(), [[0.5, 0.7], [0.8, 0.8], [0.9, 0.5]])
    assert record.mean == pytest.approx(0.7)
    assert record.std == pytest.approx(np.std(means))
    assert Record(**{**vars(record), "ddof": 1}).std == pytest.approx(np.std(means, ddof=1))
    one = Record(**{**vars(record), "scores": rows[:2]})  # of a split alone the seeds tell
    assert one.std == pytest.approx(0.1)
    assert replace(one, ddof=1).std == pytest.approx(np.std([0.5, 0.7], ddof=1))
    single = replace(one, scores=rows[:1])
    assert math.isnan(single.std)
    assert single.row()["std"] is None
    assert (record.row()["splits"], record.row()["seeds"], record.row()["trials"]) == (3, 2, 0)


def test_shares_are_those_of_the_sizes():
    record = invent("malignant", "texas", {"model": "gcn"}, 0.5, sizes={"train": 85, "val": 37, "test": 61})
    assert record.shares.test / record.shares.train == pytest.approx(61 / 85)
    assert replace(record, sizes={}).shares is None


def test_a_record_of_some_splits_is_partial():
    record = invent("x", "texas", {"model": "gcn"}, 0.5)
    assert not record.is_partial
    assert replace(record, settings={"first": 3}).is_partial
    assert replace(record, settings={"first": 3}).row()["is_partial"]


def test_records_without_sizes_and_question_are_read(tmp_path):
    path = tmp_path / "cora" / "gcn.yaml"
    invent("x", "cora", {"model": "gcn"}, 0.5).save(path)
    old = path.read_text().split("sizes:")[0]
    path.write_text(old)
    (record,) = read_records(tmp_path)
    assert (record.sizes, record.settings) == ({}, {})


def test_records_of_a_folder(tmp_path):
    assert read_records(tmp_path) == []
    for dataset in ("texas", "cora"):
        invent("x", dataset, {"model": "gcn"}, 0.5).save(tmp_path / dataset / "gcn.yaml")
    assert [record.dataset for record in read_records(tmp_path)] == ["cora", "texas"]


@pytest.mark.parametrize("text", ["", "a: [1", "just words", "scores: []", "scores: [[1, 2]]", "[1, 2]"])
def test_what_is_no_record_is_named(tmp_path, text):
    path = tmp_path / "cora" / "gcn.yaml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(PolyNSDError, match=r"gcn\.yaml is no record"):
        read_records(tmp_path)
