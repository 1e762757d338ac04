"""Features: numbers as they are, dates as days, everything else one-hot, gaps filled and marked. Labels:
classes under the owner's names, targets, and rows to predict.
"""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from polynsd.data.tables import ReadOptions, TableSchema, read_graph, read_tables, read_tables_like
from polynsd.data.tables.labels import read_labels
from polynsd.data.tables.table import Table
from polynsd.errors import ConfigError, DataError, GraphError


@pytest.fixture
def read(tmp_path):
    def read(nodes, edges="s,t\n1,2\n", **options):
        (tmp_path / "e.csv").write_text(edges)
        (tmp_path / "n.csv").write_text(nodes)
        return read_graph(tmp_path / "e.csv", tmp_path / "n.csv", **options)

    return read


def test_numbers_and_categories(read):
    graph, report = read("id,age,city,ok\n1,3.5,Oslo,true\n2,4,Bern,false\n")
    assert graph.feature_names == ("age", "city=Bern", "city=Oslo", "ok=false", "ok=true")
    assert graph.x.dtype == np.float32
    assert graph.x.tolist() == [[3.5, 0, 1, 0, 1], [4, 1, 0, 1, 0]]
    assert report.one_hot == {"city": 2, "ok": 2}


def test_choosing_columns(read):
    nodes = "id,a,b,c\n1,1,2,3\n2,4,5,6\n"
    graph, report = read(nodes, features=["c", "a"], categorical=["a"])
    assert graph.feature_names == ("c", "a=1", "a=4")
    assert report.unused == ("b",)
    graph, report = read(nodes, features=())
    assert graph.x is None
    assert graph.feature_names is None
    assert report.unused == ("a", "b", "c")


def test_missing_values_are_filled_and_marked(read):
    nodes = "id,age,city\n1,3,\n2,,Bern\n3,5,Oslo\n"
    with pytest.raises(DataError, match=r"column 'age': 1 of 3 values are missing.*missing='mean'"):
        read(nodes, missing="error")
    graph, report = read(nodes)
    assert graph.feature_names == ("age", "age is missing", "city=Bern", "city=Oslo", "city is missing")
    assert graph.x.tolist() == [[3, 0, 0, 0, 1], [4, 1, 1, 0, 0], [5, 0, 0, 1, 0]]
    assert report.filled == {"age": 1, "city": 1}
    assert "filled with the mean and marked: age (1); missing categories marked: city (1)" in str(report)


@pytest.mark.parametrize(
    ("nodes", "options", "error", "fragment"),
    [
        ("id,a\n1,\n2,\n", {"features": ["a"]}, DataError, "all values are missing"),
        ("id,a\n1,2\n2,3\n", {"exclude": ["b"]}, ConfigError, "unknown column to exclude 'b'"),
        ("id,a\n1,2\n2,3\n", {"features": ["a"], "exclude": ["a"]}, ConfigError, "not both; 'a'"),
        ("id,a\n1,3/4/2024\n2,3/5/2024\n", {}, DataError, "may be day/month or month/day"),
        ("id,a\n1,2024-02-28\n2,2024-02-31\n", {}, DataError, "'2024-02-31' is none"),
        ("id,t\n1,a\n2,b\n", {"time": "t"}, DataError, "times must be numbers or dates"),
        ("id,a\n1,12\n2,12a\n", {}, ConfigError, "mixes numbers and words.*'12' and '12a'"),
        ("id,a\n1,2.1.2024\n2,soon\n3,1.1.2024\n", {}, DataError, "dates such as '1.1.2024', but 'soon'"),
        ("id,a\n1,inf\n2,3\n", {}, DataError, "must be finite"),
        ("id,a\n1,2\n2,3\n", {"features": ["b"]}, ConfigError, "unknown column of n.csv 'b'"),
        ("id,a\n1,2\n2,3\n", {"features": "a"}, ConfigError, "must be a list of columns"),
        ("id,a\n1,2\n2,3\n", {"features": ["id"]}, ConfigError, "must not name the id"),
        ("id,a\n1,2\n2,3\n", {"features": ["a"], "label": "a"}, ConfigError, "got 'a'"),
        ("id,a\n1,2\n2,3\n", {"categorical": ["b"]}, ConfigError, "unknown categorical column 'b'"),
        ("id,a\n1,2\n2,3\n", {"missing": "median"}, ConfigError, "unknown rule for missing values"),
    ],
)
def test_features_that_cannot_be(read, nodes, options, error, fragment):
    with pytest.raises(error, match=fragment):
        read(nodes, **options)


def test_mixed_values_are_categories_when_said(read):
    graph, _ = read("id,ward\n1,12\n2,12a\n", categorical=["ward"])
    assert graph.feature_names == ("ward=12", "ward=12a")


@pytest.mark.parametrize("value", ["0,5", "5%", "7.5 %", "1.234,5"])
def test_text_that_was_meant_as_numbers(read, value):
    nodes = f'id,a\n1,"{value}"\n2,"{value}"\n'
    with pytest.raises(
        DataError, match=rf"'{value}' looks like a number.*decimal=','.*exclude=.*categorical="
    ):
        read(nodes)
    assert read(nodes, categorical=["a"])[0].num_features == 1


def test_decimal_commas(read):
    nodes = 'id,a,b\n1,"0,5",3\n2,"-1,5",4\n'
    assert read(nodes, decimal=",")[0].x.tolist() == [[0.5, 3], [-1.5, 4]]


def test_a_column_without_features_is_left_out_and_said(read, caplog):
    nodes = "id,name,empty,v\n" + "".join(f"{i},n{i}x,,{i}\n" for i in range(1, 31))
    graph, report = read(nodes)
    assert graph.feature_names == ("v",)
    assert list(report.left_out) == ["name", "empty"]
    assert "30 of 30 values are different" in caplog.text
    assert "columns left out: name, empty" in str(report)
    with pytest.raises(
        DataError, match=r"(?s)2 problems.*1\. .*'name'.*2\. .*'empty': all values are missing"
    ):
        read(nodes, features=["name", "empty"])
    assert read(nodes, categorical=["name"])[0].num_features == 31


def test_dates_are_days(read):
    nodes = "id,d,e,f\n1,1970-01-02,3.1.1970,1/31/1970\n2,1970-01-01T12:00,,12/1/1970\n"
    graph, report = read(nodes)
    assert graph.x.tolist() == [[1, 2, 0, 30], [0.5, 2, 1, 334]]
    assert report.dates == ("d", "e", "f")
    assert "dates as days since 1970: d, e, f" in str(report)


def test_dates_beyond_those_that_nanoseconds_hold(read):
    graph, _ = read("id,until\n1,9999-12-31\n2,0001-01-01\n3,1970-01-02\n")
    assert graph.x[:, 0].tolist() == [2932896, -719162, 1]


@pytest.mark.parametrize(
    ("first", "second", "days"),
    [
        ("17-Jul-2015", "1-Jan-1970", 16633),
        ("2015-07", "1970-01", 16617),
        ("07/17/2015 12:00", "01/01/1970 00:00", 16633.5),
        ("17/07/2015 12:00", "01/01/1970 00:00", 16633.5),
    ],
)
def test_other_ways_to_write_dates(read, first, second, days):
    graph, report = read(f"id,d\n1,{first}\n2,{second}\n")
    assert graph.x[:, 0].tolist() == [days, 0]
    assert report.dates == ("d",)


def test_dates_are_hardly_classes(read):
    nodes = "id,x,d\n1,1,2015-07-01\n2,2,2015-08-01\n"
    with pytest.raises(ConfigError, match="holds dates, which are hardly classes"):
        read(nodes, label="d")
    assert read(nodes, label="d", task="classification")[0].class_names == ("2015-07-01", "2015-08-01")


def test_a_class_that_is_called_none_is_told(read, caplog):
    read("id,kind\n1,none\n2,card\n3,None \n4,card\n5,\n", label="kind")
    assert "1 × 'none', 1 × 'None' mean that there is no label" in caplog.text


def test_another_table_writes_dates_in_the_same_way(tmp_path):
    (tmp_path / "e.csv").write_text("s,t\n1,2\n")
    (tmp_path / "n.csv").write_text("id,d\n1,1/31/1970\n2,2/1/1970\n")
    first = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", ReadOptions())
    (tmp_path / "n.csv").write_text("id,d\n1,2/3/1970\n2,\n")
    again = read_tables_like(TableSchema.from_dict(first.schema.to_dict()), None, tmp_path / "n.csv")
    assert again.graph.x.tolist() == [[33], [30.5]]
    assert again.graph.num_edges == 0
    (tmp_path / "n.csv").write_text("id,d\n1,1970-01-01\n")
    with pytest.raises(DataError, match=r"dates are written like %m/%d/%Y here; '1970-01-01' is none"):
        read_tables_like(first.schema, None, tmp_path / "n.csv")


def test_rare_categories_are_pooled_and_stored_sparsely(tmp_path):
    rows = [f"c{i}" for i in range(200) for _ in range(5)] + [f"rare{i}" for i in range(300)]
    (tmp_path / "e.csv").write_text("s,t\n0,1\n")
    (tmp_path / "n.csv").write_text("id,c\n" + "".join(f"{i},{v}\n" for i, v in enumerate(rows)))
    first = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", ReadOptions())
    x, names = first.graph.x, first.graph.feature_names
    assert sparse.issparse(x)
    assert x.shape == (1300, 201)
    assert names[-1] == "c=(other)"
    assert (x.sum(1) == 1).all()
    assert x[:, -1].sum() == 300
    assert first.report.pooled == {"c": 300}
    (tmp_path / "n.csv").write_text("id,c\n0,c7\n1,never seen\n")
    again = read_tables_like(first.schema, tmp_path / "e.csv", tmp_path / "n.csv")
    assert [names[i] for i in again.graph.dense_x.argmax(1)] == ["c=c7", "c=(other)"]


def test_sentences_become_counts_of_their_words(tmp_path):
    kinds = ("a fast red car", "a slow, slow blue boat")
    rows = [f"{kinds[i % 2]} of owner{i}" for i in range(30)] + [""]
    (tmp_path / "e.csv").write_text("s,t\n0,1\n")
    (tmp_path / "n.csv").write_text("id,about\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(rows)))
    first = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", ReadOptions())
    words = ("blue", "boat", "car", "fast", "of", "red", "slow")
    assert first.graph.feature_names == (*(f"about: {word}" for word in words), "about is missing")
    assert first.graph.dense_x[:2].tolist() == [[0, 0, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0, 2, 0]]
    assert first.graph.dense_x[30].tolist() == [0] * 7 + [1]
    assert "words counted: about (7); missing texts marked: about (1)" in str(first.report)
    (tmp_path / "n.csv").write_text("id,about\n0,A RED zeppelin\n1,7\n")
    again = read_tables_like(TableSchema.from_dict(first.schema.to_dict()), None, tmp_path / "n.csv")
    assert again.graph.dense_x.tolist() == [[0, 0, 0, 0, 0, 1, 0, 0], [0] * 8]


def test_most_frequent_words_of_many_are_kept_sparsely(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 6000, 12)) for _ in range(3000)]
    (tmp_path / "e.csv").write_text("s,t\n0,1\n")
    (tmp_path / "n.csv").write_text("id,c\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))
    graph, _ = read_graph(tmp_path / "e.csv", tmp_path / "n.csv")
    assert sparse.issparse(graph.x)
    assert graph.num_features == 4000
    counts = Counter(word for text in texts for word in set(text.split()))
    kept = {name.removeprefix("c: ") for name in graph.feature_names}
    assert min(counts[word] for word in kept) >= max(n for word, n in counts.items() if word not in kept)
    expected = [text.split().count("w7") for text in texts]
    assert graph.x[:, graph.feature_names.index("c: w7")].toarray().ravel().tolist() == expected


def test_groups_and_times_are_no_features(tmp_path):
    (tmp_path / "e.csv").write_text("s,t\n1,2\n")
    (tmp_path / "n.csv").write_text("id,firm,day,v\n1,b,1970-01-03,1\n2,a,1970-01-02,2\n3,,1970-01-02,2\n")
    result = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", ReadOptions(group="firm", time="day"))
    assert result.graph.feature_names == ("v",)
    assert result.groups.tolist() == [1, 0, -1]
    assert result.times.tolist() == [2, 1, 1]
    assert result.report.unused == ()


def test_categories_that_repeat(read):
    nodes = "id,a\n" + "".join(f"{i},n{i % 10}x\n" for i in range(20))
    assert read(nodes)[0].num_features == 10


def test_edge_features(read):
    edges = "s,t,w,kind,km\n1,2,1,road,3\n2,1,3,rail,3\n2,3,1,road,1\n"
    graph, report = read("id\n1\n2\n3\n", edges, weight="w", edge_features=["kind", "km"])
    assert graph.edge_weight.tolist() == [2, 1]
    assert graph.edge_attr.tolist() == [[0.5, 0.5, 3], [0, 1, 1]]
    assert report.edge_feature_names == ("kind=rail", "kind=road", "km")
    assert report.edges.averaged == 1
    summed, report = read("id\n1\n2\n3\n", edges, weight="w", edge_features=["km"], aggregate="sum")
    assert summed.edge_weight.tolist() == [4, 1]
    assert summed.edge_attr.tolist() == [[6], [1]]
    assert report.edges.summed == 1
    counted, _ = read("id\n1\n2\n3\n", edges, aggregate="sum")
    assert counted.edge_weight.tolist() == [2, 1]


def test_many_categories_of_edges_are_dense(read):
    edges = "s,t,kind\n" + "".join(f"{i},{i + 1},k{i % 60}\n" for i in range(2000))
    nodes = "id\n" + "".join(f"{i}\n" for i in range(2001))
    graph, report = read(nodes, edges, edge_features=["kind"])
    assert graph.edge_attr.shape == (2000, 50)
    assert (graph.edge_attr.sum(1) == 1).all()
    assert report.pooled == {"kind": 11}


@pytest.mark.parametrize(
    ("weight", "error", "fragment"),
    [
        ("-2", GraphError, r"e.csv, column 'w': weights must not be negative.*got -2.0"),
        ("", DataError, "1 have none"),
        ("inf", DataError, "must be finite"),
        ("x", DataError, "weights must be numbers"),
    ],
)
def test_weights_that_cannot_be(read, weight, error, fragment):
    with pytest.raises(error, match=fragment):
        read("id\n1\n2\n3\n", f"s,t,w\n1,2,1\n2,3,{weight}\n", weight="w")


def test_all_problems_are_named_at_once(read):
    with pytest.raises(DataError) as caught:
        read(
            "id,age,ward,y\n1,,12,0.5\n1,3,12a,inf\n",
            "s,t,w\n1,2,-1\n",
            missing="error",
            label="y",
            weight="w",
        )
    first, *problems = str(caught.value).splitlines()
    assert first == "the tables have 6 problems."
    expected = ("name every id once", "missing there", "finite", "'age'", "'ward'", "negative")
    for number, fragment in enumerate(expected):
        assert problems[number].startswith(f"{number + 1}. ")
        assert fragment in problems[number]


def test_a_table_of_ordered_levels(tmp_path):
    pd.DataFrame({"s": [1], "t": [2]}).to_parquet(tmp_path / "e.parquet")
    levels = pd.Categorical(["low", "high"], ["low", "high"], ordered=True)
    pd.DataFrame({"id": [1, 2], "level": levels}).to_parquet(tmp_path / "n.parquet")
    graph, _ = read_graph(tmp_path / "e.parquet", tmp_path / "n.parquet")
    assert graph.feature_names == ("level=low", "level=high")


def labels(values, task="auto", is_text=False):
    table = Table("nodes", pd.DataFrame({"l": values}, dtype=object), frozenset("l" * is_text))
    return read_labels(table.column("l"), task)


@pytest.mark.parametrize(
    ("values", "is_text", "y", "names"),
    [
        (["b", "a", None], False, [1, 0, -1], ("a", "b")),
        ([10, 9, None], False, [1, 0, -1], ("9", "10")),
        ([1.0, 0.0, None], False, [1, 0, -1], ("0", "1")),
        ([True, None, False], False, [1, -1, 0], ("False", "True")),
        (["10", "9", ""], True, [1, 0, -1], ("9", "10")),
        (["007", "7", "NA"], True, [0, 0, -1], ("7",)),
        (["1.0", "2.0", "nan"], True, [0, 1, -1], ("1", "2")),
        (["none", "flu", "?"], True, [-1, 0, -1], ("flu",)),
        (["10", "2", "1", "01", "1.0", "-1", "1e1"], True, [2, 1, 0, 0, 0, -1, 2], ("1", "2", "10")),
        ([-1, 3, 5], False, [-1, 0, 1], ("3", "5")),
        ([-1.0, 3.0, None], False, [-1, 0, -1], ("3",)),
        ([2**60, 2**60 + 1, -1], False, [0, 1, -1], (str(2**60), str(2**60 + 1))),
        ([None, None], False, [-1, -1], ()),
        (["", ""], True, [-1, -1], ()),
    ],
)
def test_label_classes(values, is_text, y, names):
    read = labels(values, is_text=is_text)
    assert (read.task, read.y.tolist(), read.class_names) == ("classification", y, names)
    assert read.y.dtype == np.int64


@pytest.mark.parametrize(("start", "is_told"), [(1_700_000_000, True), (0, False)])
def test_numbers_that_single_precision_cannot_tell_apart_are_told(read, start, is_told, caplog):
    read("id,time\n" + "".join(f"{i},{start + i}\n" for i in range(1, 3)))
    assert ("of 2 different numbers single precision tells 1 apart" in caplog.text) == is_told


def test_rows_of_minus_one_are_told(caplog):
    labels(["1", "-1", "-1.0", "0"], is_text=True)
    assert "2 rows hold -1, which means 'no label'" in caplog.text


@pytest.mark.parametrize(
    ("values", "task", "is_text"),
    [
        ([0.5, 2.0, None], "auto", False),
        (["0.5", "2", ""], "auto", True),
        ([1, 2, None], "regression", False),
        (["1", "2", "NA"], "regression", True),
    ],
)
def test_label_targets(values, task, is_text):
    read = labels(values, task, is_text)
    assert (read.task, read.class_names, int(np.isnan(read.y).sum())) == ("regression", None, 1)
    assert read.y.dtype == np.float32
    assert np.isnan(read.y[2])


def test_fractions_may_be_classes_when_said():
    assert labels([0.5, 1.0], "classification").class_names == ("0.5", "1")


def test_what_cannot_be_decided_or_read():
    with pytest.raises(ConfigError, match=r"51 different whole numbers.*task='regression'"):
        labels(list(range(51)) * 20)
    with pytest.raises(ConfigError, match=r"30 different whole numbers"):
        labels(list(range(30)) * 2)
    assert labels(list(range(30)) * 10).task == labels(list(range(20))).task == "classification"
    with pytest.raises(DataError, match="targets must be numbers"):
        labels(["a"], "regression")
    for task in ("auto", "classification"):
        with pytest.raises(DataError, match="must be finite"):
            labels([1.5, float("inf")], task)
        with pytest.raises(DataError, match="must be finite"):
            labels(["1", "inf", "2"], task, is_text=True)
