"""Tables over many runs."""

import json
import sys
import time

import pandas
import pytest
from fuzzing import seal_again
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from many_runs import finished, unfinished

from polynsd.errors import ConfigError
from polynsd.runs import Run, find_runs, query, runs_table
from polynsd.runs.compare import compare_rows
from polynsd.runs.table import RUNS, SPLITS, filter_runs, split_rows, summarise_runs, write_rows

pytestmark = pytest.mark.usefixtures("quick")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@pytest.fixture
def root(tmp_path):
    finished(tmp_path / "a" / "poly", "PolyNSD", [0.8, 0.9], degree=4)
    finished(tmp_path / "a" / "gcn", "GCN", [0.5, 0.7, 0.6])
    finished(tmp_path / "b", "PolyNSD", [0.3], dataset="squirrel")
    unfinished(tmp_path / "c")
    return tmp_path


def test_runs_are_found_and_other_folders_are_not(root):
    (root / ".hidden").mkdir()
    finished(root / ".hidden" / "run", "GCN", [0.1])
    (root / "hub").mkdir()
    (root / "hub" / "config.json").write_text("{}")
    found = [folder.relative_to(root).as_posix() for folder in find_runs(root)]
    assert found == ["a/gcn", "a/poly", "b", "c"]
    assert find_runs(root / "b") == [root / "b"]


def test_a_row_per_run_and_split(root):
    table = runs_table(root)
    assert list(table.columns) == list(SPLITS)
    assert list(table["folder"]) == ["a/gcn"] * 3 + ["a/poly"] * 2 + ["b", "c"]
    assert table["test"].tolist()[:6] == [0.5, 0.7, 0.6, 0.8, 0.9, 0.3]
    assert table["split"].dtype == "Int64"
    last = table.iloc[-1]
    assert (last["state"], last["dataset"]) == ("unfinished", "texas")
    assert pandas.isna(last["test"])


def test_sql_over_splits_and_runs(root):
    answer = query(root, "SELECT model, count(*) AS n FROM splits WHERE test > 0.4 GROUP BY model ORDER BY n")
    assert answer.to_dict("list") == {"model": ["PolyNSD", "GCN"], "n": [2, 3]}
    answer = query(root, "SELECT config ->> '$.degree' AS k, splits, std FROM runs WHERE folder = 'a/poly'")
    assert answer["k"].tolist() == ["4"]
    assert answer["splits"].tolist() == [2]
    assert answer["std"][0] == pytest.approx(0.05)


@pytest.mark.parametrize(
    "sql", ["SELECT nothing FROM runs", "SELEC", "SELECT * FROM read_csv('/etc/passwd')"]
)
def test_bad_sql_is_explained(root, sql):
    with pytest.raises(ConfigError, match="Columns of runs: folder, kind"):
        query(root, sql)


def test_conditions(root):
    rows = split_rows(root)
    assert [row["folder"] for row in filter_runs(rows, "dataset = 'texas' AND test > 0.7")] == ["a/poly"]
    assert list(filter_runs(rows, "true")[0]) == list(RUNS)
    assert filter_runs(rows, "true") == summarise_runs(rows)


def test_no_runs_are_an_empty_table(tmp_path):
    assert runs_table(tmp_path).empty
    assert query(tmp_path, "SELECT * FROM runs").empty


def test_a_damaged_run_is_a_row_that_says_so(root):
    (root / "b" / "result.json").write_text("{")
    row = next(row for row in summarise_runs(split_rows(root)) if row["folder"] == "b")
    assert row["state"] == "damaged"
    assert "result.json is damaged" in row["problem"]


def test_other_kinds_have_their_own_keys(tmp_path):
    with Run.start(tmp_path / "model", "model", {"model": {"name": "x"}}, {}) as run:
        run.finish({"metric": "r2", "val": 1, "test": 0.5}, {})
    with Run.start(tmp_path / "other", "other", {}, {"dataset": "texas"}) as run:
        run.finish({"metric": "accuracy", "val": 0.7, "trials": [1, 2]}, {})
    model, other = split_rows(tmp_path)
    assert (model["model"], model["metric"], model["val"], model["test"]) == ('{"name":"x"}', "r2", 1.0, 0.5)
    assert (other["dataset"], other["val"], other["test"]) == ("texas", 0.7, None)


def test_results_of_protocols_and_estimators(tmp_path):
    with Run.start(tmp_path / "a", "protocol", {"model": {"model": "nsd"}}, {"splits": ["f0", "f1"]}) as run:
        splits = [{"split": 0, "seed": 7, "val": 0.7}, {"split": 1, "seed": 8, "val": 0.8, "test": 0.6}]
        run.finish({"splits": splits}, {})
    with Run.start(tmp_path / "b", "model", {}, {}) as run:
        values = {"val_score_": 0.9, "metric_": "accuracy"}
        run.finish({"values": values, "model": {"model": "polynsd", "layer": {}}}, {})
    first, second, estimator = split_rows(tmp_path)
    assert (first["model"], first["split"], first["seed"], first["fingerprint"]) == ("nsd", 0, 7, "f0")
    assert (second["val"], second["test"], second["seed"], second["best_epoch"]) == (0.8, 0.6, 8, None)
    assert (estimator["model"], estimator["metric"]) == ("polynsd", "accuracy")
    assert (estimator["val"], estimator["test"]) == (0.9, None)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    result=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["splits", "dataset", "test", "model", "values"], anything)
    )
)
def test_whatever_a_result_holds_there_is_a_table(tmp_path, result):
    folder = tmp_path / "run"
    if not folder.exists():
        finished(folder, "x", [0.1])
    content = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**content, "result": result}))
    seal_again(folder)
    assert len(query(tmp_path, "SELECT * FROM runs")) == 1


def test_hundreds_of_runs_take_a_second(tmp_path):
    for number in range(300):
        finished(tmp_path / f"{number // 100}" / f"{number}", "GCN", [0.1] * 10, seed=number)
    began = time.process_time()
    assert query(tmp_path, "SELECT count(*) AS n FROM splits")["n"].tolist() == [3_000]
    assert time.process_time() - began < 1


def test_groups_and_paired_differences(root):
    finished(root / "again", "GCN", [0.7], seed=9)  # averaged with the 0.5 on the same split
    table = compare_rows(split_rows(root), ["model"])
    rows = {(row["dataset"], row["model"]): row for row in table}
    gcn, poly = rows["texas", "GCN"], rows["texas", "PolyNSD"]
    assert (gcn["runs"], gcn["n"], gcn["pairs"], gcn["wins"], gcn["against"]) == (2, 4, 2, 0, "PolyNSD")
    assert gcn["test"] == pytest.approx((0.5 + 0.7 + 0.6 + 0.7) / 4)
    assert gcn["difference"] == pytest.approx(((0.6 - 0.8) + (0.7 - 0.9)) / 2)
    assert gcn["difference_std"] == pytest.approx(0)
    assert poly["difference"] is None  # it is the one that the others are compared with
    assert rows["squirrel", "PolyNSD"]["against"] is None


def test_groups_by_a_key_of_the_configuration(root):
    table = compare_rows(split_rows(root), ["config.degree", "dataset"])
    assert {(row["dataset"], row["config.degree"]) for row in table} == {
        ("texas", "4"),
        ("texas", "None"),
        ("squirrel", "None"),
    }


def test_metrics_are_never_mixed(tmp_path):
    finished(tmp_path / "a", "GCN", [0.5])
    finished(tmp_path / "b", "GCN", [0.9], metric="roc_auc")
    assert [row["test"] for row in compare_rows(split_rows(tmp_path), ["model"])] == [0.5, 0.9]


def test_without_shared_splits_there_is_no_difference(tmp_path):
    finished(tmp_path / "a", "GCN", [0.5])
    finished(tmp_path / "b", "MLP", [0.4])
    rows = [{**row, "fingerprint": row["model"]} for row in split_rows(tmp_path)]
    mlp = compare_rows(rows, ["model"])[1]
    assert (mlp["pairs"], mlp["difference"]) == (0, None)


def test_mistakes_in_a_comparison(root):
    rows = split_rows(root)
    with pytest.raises(ConfigError, match=r"unknown column 'modle'.*Did you mean 'model'"):
        compare_rows(rows, ["modle"])
    with pytest.raises(ConfigError, match=r"unknown baseline 'GNC'.*Did you mean 'GCN'"):
        compare_rows(rows, ["model"], "GNC")
    with pytest.raises(ConfigError, match="no finished run"):
        compare_rows([row for row in rows if row["test"] is None], ["model"])


def test_tables_are_written(root):
    rows = compare_rows(split_rows(root), ["model"])
    csv = pandas.read_csv(write_rows(root / "new" / "table.csv", rows))
    parquet = pandas.read_parquet(write_rows(root / "table.parquet", rows))
    assert csv["test"].tolist() == parquet["test"].tolist() == [row["test"] for row in rows]
    with pytest.raises(ConfigError, match=r"\.csv or \.parquet"):
        write_rows(root / "table.xlsx", rows)


@pytest.mark.parametrize("package", ["pandas", "pyarrow", "duckdb"])
def test_missing_packages_are_named(root, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"'{package}'.*polynsd\[runs\]"):
        query(root, "SELECT 1") if package == "duckdb" else runs_table(root)
    assert len(summarise_runs(split_rows(root))) == 4  # plain rows need none of them
