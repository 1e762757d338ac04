"""From tables to a run folder to predictions, through the two commands."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import tyro

from polynsd import ConfigError, DataError, GraphError
from polynsd.cli import main, parse_command
from polynsd.cli.explain import Explain
from polynsd.cli.fit import Fit
from polynsd.cli.options import parse_decision
from polynsd.cli.predict import Predict
from polynsd.cli.runs import RunsShow
from polynsd.cli.runs_compare import RunsCompare
from polynsd.data import Graph
from polynsd.estimator import SheafClassifier, SheafRegressor, base, candidates, load_estimator
from polynsd.runs import RunParts, read_run

FIT = ["--label", "kind", "--quiet", "--out"]
MAKE_ESTIMATOR = Fit._make_estimator
QUICK = {
    "maps": "diagonal",
    "stalk_dim": 2,
    "degree": 2,
    "hidden_channels": 4,
    "num_layers": 1,
    "dropout": 0.1,
    "learning_rate": 0.05,
    "weight_decay": 0.0,
    "epochs": 3,
    "device": "cpu",
}


def tables(seed: int = 0, num_nodes: int = 30) -> tuple[pd.DataFrame, pd.DataFrame]:
    """An edge table and a node table: a number, a category, and a label with gaps, under odd ids."""
    rng = np.random.default_rng(seed)
    ids = [f"{number:03d}" for number in range(num_nodes)]
    size = rng.normal(50, 20, num_nodes).round(2)
    nodes = pd.DataFrame(
        {
            "id": ids,
            "size": size,
            "colour": rng.choice(["red", "green", "blue"], num_nodes),
            "kind": np.where(np.arange(num_nodes) % 4 == 0, "", np.where(size > 50, "big", "small")),
        }
    )
    ends = rng.integers(0, num_nodes, (2, 2 * num_nodes))
    edges = pd.DataFrame({"from": [ids[i] for i in ends[0]], "to": [ids[i] for i in ends[1]]})
    return edges, nodes


def test_options_reach_the_estimator(tmp_path):
    graph = Graph("g", np.zeros((2, 0), int), 2, class_names=("no", "yes"))
    classes, numbers = (
        SimpleNamespace(graph=graph, schema=SimpleNamespace(task=task))
        for task in ("classification", "regression")
    )
    command = Fit(
        *(Path("e"), "kind", Path("r")),
        **{
            "metric": "ROC-AUC",
            "class_weight": ("yes=5",),
            "budget": 3.5,
            "ensemble": 1,
            "test": 0.2,
            "seed": 7,
        },
    )
    model = MAKE_ESTIMATOR(command, classes)
    chosen = (model.metric, model.class_weight, model.budget, model.ensemble, model.test_fraction)
    assert chosen == ("roc_auc", {"yes": 5.0}, 3.5, 1, 0.2)
    assert model.random_state == 7
    with pytest.raises(ConfigError, match="'kind' is a number to predict"):
        MAKE_ESTIMATOR(command, numbers)
    assert model.decision == "auto"
    assert MAKE_ESTIMATOR(replace(command, decision=("Balanced",)), classes).decision == "balanced_accuracy"
    for wrong in ({"class_weight": ("maybe=2",)}, {"class_weight": ("yes=no",)}, {"metric": "acuracy"}):
        with pytest.raises(ConfigError, match=r"--class-weight is balanced|--metric acuracy.*Did you mean"):
            MAKE_ESTIMATOR(replace(command, **wrong), classes)


def test_costs_are_of_pairs_of_classes():
    # the order is that of the estimator's classes, not of the table
    assert parse_decision(["9/10=8"], ["9", "10"]) == [[0, 1], [8, 0]]
    assert parse_decision(["a/b=3", "b/b=-1"], ["a", "b", "a/b"])[0] == [0, 1, 3]
    for wrong in (["yes/maybe=2"], ["yes/no"], ["yes/no=many"], ["f1", "balanced"]):
        with pytest.raises(ConfigError, match=r"--decision is one rule.*among no, yes, such as yes/no=10"):
            parse_decision(wrong, ["no", "yes"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The command searches for a model; here the model is fixed."""

    def build(command, tables):
        kind = SheafClassifier if tables.schema.task == "classification" else SheafRegressor
        return kind(
            **QUICK,
            ensemble=1,
            validation_fraction=0.5,
            test_fraction=command.test,
            random_state=command.seed,
        )

    monkeypatch.setattr(Fit, "_make_estimator", build)
    monkeypatch.setattr("polynsd.estimator.folds.REPEATS", 1)


def write(folder: Path, edges: pd.DataFrame, nodes: pd.DataFrame, extension: str = ".csv") -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    paths = {"edges": folder / f"edges{extension}", "nodes": folder / f"nodes{extension}"}
    for table, path in zip((edges, nodes), paths.values(), strict=True):
        table.to_parquet(path, index=False) if extension == ".parquet" else table.to_csv(path, index=False)
    return paths


def train(folder: Path, edges: pd.DataFrame, nodes: pd.DataFrame, extension: str = ".csv", **options) -> Path:
    paths = write(folder / "train", edges, nodes, extension)
    return Fit(**paths, **{"label": "kind", "out": folder / "run", "quiet": True, **options}).run()


def predict(folder: Path, edges: pd.DataFrame, nodes: pd.DataFrame, extension: str = ".csv", **options):
    paths = write(folder / "new", edges, nodes, extension)
    out = folder / f"predictions{extension}"
    Predict(folder / "run", **paths, out=out, **{"quiet": True, **options}).run()
    if extension == ".parquet":
        return pd.read_parquet(out)
    return pd.read_csv(out, dtype={"id": str, "prediction": str})


def test_tables_become_a_run_and_the_run_predicts_other_tables(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    new_edges, new_nodes = tables(seed=1, num_nodes=12)
    table = predict(tmp_path, new_edges, new_nodes.drop(columns="kind"))
    assert list(table.columns) == ["id", "prediction", "big", "small"]
    assert table["id"].tolist() == [f"{i:03d}" for i in range(12)]
    assert set(table["prediction"]) <= {"big", "small"}
    np.testing.assert_allclose(table[["big", "small"]].sum(axis=1), 1, atol=1e-6)
    winners = table[["big", "small"]].idxmax(axis=1)
    assert winners.tolist() == table["prediction"].tolist()


def test_rows_without_a_label_are_predicted_in_the_run_folder(tmp_path):
    edges, nodes = tables()
    run = train(tmp_path, edges, nodes)
    table = read_run(run).predictions()
    assert table["id"].tolist() == nodes["id"][nodes["kind"] == ""].tolist()
    again = predict(tmp_path, edges, nodes).set_index("id").loc[table["id"]]
    np.testing.assert_allclose(again["big"].to_numpy(), table["big"].to_numpy(), atol=1e-6)


def test_the_order_of_columns_and_rows_does_not_matter(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    first = predict(tmp_path, edges, nodes).set_index("id")
    mixed = nodes[["kind", "colour", "id", "size"]].sample(frac=1, random_state=0)
    second = predict(tmp_path, edges[["to", "from"]], mixed).set_index("id").loc[first.index]
    np.testing.assert_allclose(second["big"], first["big"], atol=1e-6)


def test_another_table_does_not_change_what_a_value_means(tmp_path):
    """Categories, means and scales are those of the training tables."""
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    alone = nodes.assign(colour="red").iloc[:1]
    crowd = nodes.assign(colour=["red", *["blue"] * 29], size=[nodes["size"][0], *[1e6] * 29])
    nobody = edges.iloc[:0]
    one, many = (predict(tmp_path, nobody, table) for table in (alone, crowd))
    np.testing.assert_allclose(one.iloc[0, 2:].astype(float), many.iloc[0, 2:].astype(float), atol=1e-6)


def test_unseen_categories_are_an_error_or_a_row_of_zeros(tmp_path, capsys):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    strange = nodes.assign(colour=["mauve", "mauve", *nodes["colour"][2:]])
    with pytest.raises(DataError, match=r"1 categories were not there in training, e\.g\. 'mauve'"):
        predict(tmp_path, edges, strange)
    assert not (tmp_path / "predictions.csv").exists()
    table = predict(tmp_path, edges, strange, unseen="ignore", quiet=False)
    assert len(table) == 30
    assert "column 'colour': 2 rows with an unseen category" in capsys.readouterr().out


def test_missing_columns_are_named_and_others_are_noted(tmp_path, capsys):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    with pytest.raises(DataError, match="missing: size, colour"):
        predict(tmp_path, edges, nodes[["id", "kind"]])
    predict(tmp_path, edges, nodes.assign(mood=1), quiet=False)
    assert "columns not used: mood" in capsys.readouterr().out


def test_gaps_are_filled_as_in_training(tmp_path):
    edges, nodes = tables()
    nodes["height"] = np.arange(30.0)
    nodes.loc[3, "size"] = np.nan
    train(tmp_path, edges, nodes, missing="mean")
    schema = read_run(tmp_path / "run").result["schema"]
    size, _, height = schema["node_features"]
    assert size["mean"] == pytest.approx(nodes["size"].mean())
    assert (size["marks_missing"], height["marks_missing"]) == (True, False)
    gaps = nodes.assign(size=np.nan, height=np.nan, colour="")
    assert len(predict(tmp_path, edges, gaps)) == 30
    filled = gaps.assign(height=height["mean"])
    np.testing.assert_allclose(predict(tmp_path, edges, filled)["big"], predict(tmp_path, edges, gaps)["big"])


def test_gaps_are_an_error_where_training_had_none_and_no_rule(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes, missing="error")
    with pytest.raises(DataError, match="1 of 30 values are missing"):
        predict(tmp_path, edges, nodes.assign(size=[np.nan, *nodes["size"][1:]]))
    with pytest.raises(DataError, match="trained on numbers"):
        predict(tmp_path, edges, nodes.assign(size="tall"))


def test_isolated_nodes_no_edges_and_unknown_ends(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    assert len(predict(tmp_path, edges.iloc[:0], nodes)) == 30
    more = pd.concat([nodes, nodes.assign(id=[f"new{i}" for i in range(30)])])
    assert predict(tmp_path, edges, more)["id"].tolist()[30] == "new0"
    with pytest.raises(GraphError, match="'ghost'"):
        predict(tmp_path, pd.concat([edges, pd.DataFrame({"from": ["ghost"], "to": ["001"]})]), nodes)


@pytest.mark.parametrize(
    "ids",
    [
        [f"{i:03d}" for i in range(30)],
        [str(9007199254740993 + i) for i in range(30)],
        [str(10**25 + i) for i in range(30)],
        [f"Ünï {i}" for i in range(30)],
    ],
)
def test_ids_survive(tmp_path, ids):
    edges, nodes = tables()
    new = dict(zip(nodes["id"], ids, strict=True))
    edges, nodes = edges.map(new.get), nodes.assign(id=ids)
    train(tmp_path, edges, nodes)
    assert predict(tmp_path, edges, nodes)["id"].tolist() == ids


def test_parquet_keeps_types(tmp_path):
    edges, nodes = tables()
    number = {name: 2**60 + i for i, name in enumerate(nodes["id"])}
    edges, nodes = edges.map(number.get), nodes.assign(id=list(number.values()))
    train(tmp_path, edges, nodes, ".parquet")
    assert predict(tmp_path, edges, nodes, ".parquet")["id"].tolist() == list(number.values())


def test_labels_in_the_new_table_are_scored_and_not_looked_at(tmp_path, capsys):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    first = predict(tmp_path, edges, nodes)
    other = nodes.assign(kind=["huge", *["small"] * 29])
    second = predict(tmp_path, edges, other, quiet=False, json=True)
    pd.testing.assert_frame_equal(first, second)
    facts = json.loads(capsys.readouterr().out)
    assert facts["scored"] == 29
    assert facts["foreign_labels"] == 1
    assert facts["score"] == pytest.approx((second["prediction"][1:] == "small").mean())


def test_whole_number_classes_are_in_the_order_of_their_values(tmp_path):
    edges, nodes = tables()
    nodes["kind"] = np.where(nodes["kind"] == "", "", np.where(nodes["size"] > 50, "10", "9"))
    train(tmp_path, edges, nodes)
    assert list(predict(tmp_path, edges, nodes).columns) == ["id", "prediction", "9", "10"]


def test_fractions_are_regression(tmp_path):
    edges, nodes = tables()
    nodes["kind"] = np.where(np.arange(30) % 4 == 0, np.nan, nodes["size"] / 7)
    run = train(tmp_path, edges, nodes)
    assert isinstance(load_estimator(run), SheafRegressor)
    summary = read_run(run).result["summary"]
    rmse, mae, deviation = *map(summary["errors"].get, ("rmse", "mae")), np.nanstd(nodes["kind"])
    assert 0 < mae <= rmse
    assert 1 - (rmse / deviation) ** 2 == pytest.approx(summary["estimate"]["score"], abs=0.05)  # R²
    table = predict(tmp_path, edges, nodes)
    assert list(table.columns) == ["id", "prediction"]
    assert read_run(run).predictions()["id"].tolist() == nodes["id"][nodes["kind"].isna()].tolist()


def test_edge_weights_and_features_are_asked_for_again(tmp_path):
    edges, nodes = tables()
    rich = edges.assign(strength=np.linspace(0, 1, len(edges)), sort=["a", "b"] * 30)
    train(tmp_path, rich, nodes, weight="strength", edge_features=("sort",))
    assert len(predict(tmp_path, rich, nodes)) == 30
    with pytest.raises(DataError, match="missing: sort"):
        predict(tmp_path, rich.drop(columns="sort"), nodes)
    with pytest.raises(ConfigError, match="'strength'"):
        predict(tmp_path, rich.drop(columns="strength"), nodes)


def test_columns_of_another_name_can_be_named(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    edges, nodes = edges.rename(columns={"from": "a", "to": "b"}), nodes.rename(columns={"id": "key"})
    with pytest.raises(ConfigError, match="'from'"):
        predict(tmp_path, edges, nodes)
    assert len(predict(tmp_path, edges, nodes, source="a", target="b", id_column="key")) == 30


def test_a_finished_run_is_not_trained_again_and_another_one_not_overwritten(tmp_path, capsys, monkeypatch):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    monkeypatch.setattr(Fit, "_fit", None)
    train(tmp_path, edges, nodes, quiet=False)
    assert "was finished before" in capsys.readouterr().out
    with pytest.raises(ConfigError):
        train(tmp_path, edges.iloc[1:], nodes)


def test_an_interrupted_run_goes_on_to_the_same_result(tmp_path, monkeypatch, capsys):
    edges, nodes = tables()
    paths = map(str, write(tmp_path / "train", edges, nodes).values())
    restore, keep = SheafClassifier._keep_ensemble, RunParts.append
    fitted = []

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(SheafClassifier, "_keep_ensemble", interrupted)
    monkeypatch.setattr(RunParts, "append", lambda *arguments: fitted.append(1) or keep(*arguments))
    with pytest.raises(SystemExit) as stop:
        main(["fit", *paths, *FIT, str(tmp_path / "run")])
    assert stop.value.code == 130
    told = capsys.readouterr().err
    kept = f"1 fitted candidate is kept in {tmp_path / 'run'}, and the same command goes on with the others"
    assert told.splitlines()[-1] == f"polynsd: interrupted; {kept}"
    with pytest.raises(DataError, match="has not finished"):
        predict(tmp_path, edges, nodes)
    monkeypatch.setattr(SheafClassifier, "_keep_ensemble", restore)
    again = read_run(train(tmp_path, edges, nodes))
    assert len(fitted) == 1
    whole = read_run(train(tmp_path, edges, nodes, out=tmp_path / "other"))
    assert again.result == whole.result
    assert again.metrics() == whole.metrics()
    for name, value in again.weights().items():
        assert value.equal(whole.weights()[name])


def test_training_tells_what_it_did(tmp_path, capsys):
    edges, nodes = tables()
    run = train(tmp_path, edges, nodes, quiet=False, test=0.3)
    told = capsys.readouterr()
    assert "classification with 8 unlabelled nodes" in " ".join(told.out.split())
    assert "100 %  done in 0:00:0" in told.err
    RunsShow(run).run()
    shown = capsys.readouterr().out.replace(str(tmp_path), "").splitlines()
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 100
    told = " ".join(told.out.split())
    for words in ("majority", "precision recall", "chosen by accuracy", "the 8 rows without a label"):
        assert words in " ".join(" ".join(shown).split())
        assert words in told


def test_json_is_one_object(tmp_path, capsys):
    edges, nodes = tables()
    for _ in range(2):  # fitted, and reported again
        train(tmp_path, edges, nodes, quiet=False, json=True)
        told = capsys.readouterr()
        facts = json.loads(told.out)
        assert told.err == ""
        assert facts["rows"] == {"nodes": 30, "labelled": 22, "fitted": 22, "scored": 22, "predicted": 8}
        assert np.sum(facts["confusion"]) == 22
        right = np.trace(facts["confusion"]) / 22
        assert facts["estimate"]["score"] == pytest.approx(right)
        assert facts["estimate"]["low"] < right < facts["estimate"]["high"]


def test_fits_are_compared_where_the_same_rows_were_scored(tmp_path):
    edges, nodes = tables()
    runs = [train(tmp_path, edges, nodes, out=tmp_path / name, test=0.3) for name in ("a", "b")]
    (row,) = [row for row in RunsCompare(tuple(runs), json=True).run() if row["against"]]
    assert (row["pairs"], row["difference"], row["only_this"], row["only_other"]) == (1, 0.0, 0, 0)
    assert row["difference_low"] == -row["difference_high"] < 0  # equal on a few rows is not equal on all
    other = train(tmp_path, edges, nodes, out=tmp_path / "c", test=0.3, seed=1)
    with pytest.raises(ConfigError, match="tested on different rows"):
        RunsCompare((runs[0], other)).run()
    with pytest.raises(ConfigError, match="a is named twice"):
        RunsCompare((runs[0], other, runs[0] / ".." / "a")).run()


@pytest.mark.parametrize("label", ["kind", "size"])
def test_two_fits_are_compared_row_by_row(tmp_path, monkeypatch, capsys, label):
    """The interval holds the difference, and turns round with the two; without the tables there is none."""
    monkeypatch.setattr(candidates, "ZOO_EPOCHS", 5)
    edges, nodes = tables()
    runs = [
        train(tmp_path, edges, nodes, out=tmp_path / name, test=0.3, model=name, label=label)
        for name in ("gcn", "mlp")
    ]
    capsys.readouterr()
    (row,) = [row for row in RunsCompare(tuple(runs)).run() if row["against"]]
    (turned,) = [row for row in RunsCompare(tuple(runs[::-1])).run() if row["against"]]
    assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    assert row["difference_low"] == pytest.approx(-turned["difference_high"])
    assert (row["only_this"], row["only_other"]) == (turned["only_other"], turned["only_this"])
    assert "±" not in capsys.readouterr().out
    next(tmp_path.rglob("edges.csv")).unlink()
    (row,) = [row for row in RunsCompare(tuple(runs)).run() if row["against"]]
    assert row["difference_low"] is None
    assert "The rows cannot be paired" in capsys.readouterr().out


def test_the_future_is_held_out():
    rng = np.random.default_rng(0)
    times, graph = rng.integers(0, 6, 60).astype(float), SimpleNamespace(is_labelled=rng.random(60) < 0.8)
    command = Fit(Path("e"), "kind", Path("r"), test=0.3)
    parts = command._split(SimpleNamespace(graph=graph, groups=None, times=times))
    np.testing.assert_array_equal(np.sum(list(parts.values()), axis=0), graph.is_labelled)
    train, val, test = (set(times[mask]) for mask in parts.values())
    assert max(train) < min(val) <= max(val) < min(test)


def test_groups_stay_together_and_each_is_judged(tmp_path, monkeypatch):
    edges, nodes = tables()
    seen, divide = [], base.divide_nodes
    monkeypatch.setattr(base, "divide_nodes", lambda *given: seen.append(divide(*given)) or seen[-1])
    nodes["owner"] = [f"P{i // 3}" for i in range(30)]
    run = train(tmp_path, edges, nodes, group="owner", test=0.3)
    folds, test = seen[-1]
    owners, labelled = nodes["owner"].to_numpy(), (nodes["kind"] != "").to_numpy()
    np.testing.assert_array_equal(folds.val.sum(0), labelled & ~test)
    for one, other in [*zip(folds.train, folds.val, strict=True), (folds.used, test)]:
        assert not set(owners[one]) & set(owners[other])
    assert read_run(run).result["summary"]["rows"]["scored"] == test.sum() > 0


def test_a_rival_is_fitted_to_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "ZOO_EPOCHS", 2)
    edges, nodes = tables()
    ours, gcn = (train(tmp_path, edges, nodes, out=tmp_path / m, model=m, test=0.3) for m in ("auto", "gcn"))
    assert {member["family"] for member in read_run(gcn).result["summary"]["ensemble"]} == {"zoo"}
    names = [row["folder"] for row in RunsCompare((ours, gcn), json=True).run() if row["against"] == "auto"]
    assert names == ["gcn"]
    assert len(Predict(gcn, quiet=True).run()) == 30
    with pytest.raises(ConfigError, match="unknown model 'gnc'"):
        train(tmp_path, edges, nodes, out=tmp_path / "gnc", model="gnc")
    assert not (tmp_path / "gnc").exists()


def test_the_tables_of_the_fit_are_predicted_unless_they_have_changed(tmp_path, capsys):
    edges, nodes = tables()
    run = train(tmp_path, edges, nodes)
    named = predict(tmp_path, edges, nodes)
    main(["predict", str(run), "--quiet"])
    shown = pd.read_csv(StringIO(capsys.readouterr().out), dtype={"id": str, "prediction": str})
    pd.testing.assert_frame_equal(shown, named)
    write(tmp_path / "train", edges, nodes.iloc[::-1])
    with pytest.raises(DataError, match="has changed since the fit"):
        Predict(run).run()


def test_the_positive_class_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Fit, "_make_estimator", MAKE_ESTIMATOR)
    quick = {"budget": 1e-3, "quiet": False, "report": False}
    for positive in ("big", None):
        train(tmp_path, *tables(), out=tmp_path / str(positive), metric="f1", positive=positive, **quick)
        told = " ".join(capsys.readouterr().out.split())
        name = positive or "small"
        assert f"F1 of '{name}'" in told
        Predict(tmp_path / str(positive), out=tmp_path / "p.csv").run()
        assert f"f1 of '{name}' on the 22 rows with a label" in capsys.readouterr().out
        assert f"positive class, of F1, precision and recall: '{name}', predicted from" in told
    paths = list(map(str, write(tmp_path / "train", *tables()).values()))
    with pytest.raises(SystemExit):
        main(["fit", *paths, *FIT, str(tmp_path / "run"), "--positive", "huge"])
    assert "--positive must be one of the classes ['big', 'small']; got 'huge'" in capsys.readouterr().err


def test_costs_decide_what_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setattr(Fit, "_make_estimator", MAKE_ESTIMATOR)
    paths = list(map(str, write(tmp_path / "train", *tables()).values()))
    words = ["--decision", "big/small=50", "small/big=2", "--budget", "0.001"]
    main(["fit", *paths, *FIT, str(tmp_path / "run"), *words])
    model, table = load_estimator(tmp_path / "run"), Predict(tmp_path / "run", quiet=True).run()
    assert model.decision_.threshold == pytest.approx(50 / 52)  # of 'small'
    assert (table["prediction"] == "big").equals(table["big"] > 2 / 52)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": -1.0},
        {"validation_fraction": 2.0},
        {"device": "foo"},
        {"metric": "mse"},
        {"seed": -1},
        {"label": "unlabelled"},
    ],
)
def test_what_is_refused_leaves_no_folder(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(Fit, "_make_estimator", MAKE_ESTIMATOR)
    edges, nodes = tables()
    nodes["unlabelled"] = "one class"
    with pytest.raises((ConfigError, DataError)):
        train(tmp_path, edges, nodes, features=("size",), **wrong)
    assert not (tmp_path / "run").exists()


def test_mistakes_are_found_before_any_work(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    with pytest.raises(ConfigError, match="extension of the predictions"):
        Predict(tmp_path / "run", tmp_path / "train/edges.csv", Path("x.xlsx")).run()
    with pytest.raises(ConfigError, match="pass the node table"):
        Predict(tmp_path / "run", tmp_path / "train/edges.csv", tmp_path / "x.csv").run()
    with pytest.raises(ConfigError, match="unseen"):
        predict(tmp_path, edges, nodes, unseen="guess")
    with pytest.raises(DataError, match="no such folder"):
        Predict(tmp_path / "nowhere", tmp_path / "train/edges.csv", tmp_path / "x.csv").run()


def test_a_graphml_file_holds_everything(tmp_path):
    edges, nodes = tables()
    graph = nx.from_pandas_edgelist(edges, "from", "to")
    for row in nodes.to_dict("records"):
        label = {"kind": row["kind"]} if row["kind"] else {}
        graph.add_node(row["id"], size=row["size"], colour=row["colour"], **label)
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    Fit(tmp_path / "graph.graphml", "kind", tmp_path / "run", quiet=True).run()
    Predict(tmp_path / "run", tmp_path / "graph.graphml", tmp_path / "p.csv", quiet=True).run()
    table = pd.read_csv(tmp_path / "p.csv", dtype={"id": str})
    assert sorted(table["id"]) == sorted(nodes["id"])
    with pytest.raises(ConfigError, match="holds its own nodes"):
        Predict(tmp_path / "run", tmp_path / "graph.graphml", tmp_path / "p.csv", nodes=tmp_path).run()


def test_models_of_python_have_no_tables(tmp_path):
    SheafClassifier(**QUICK).fit(np.random.default_rng(0).normal(size=(20, 2)), [0, 1] * 10).save(
        tmp_path / "run"
    )
    edges, nodes = tables()
    with pytest.raises(ConfigError, match="not trained on tables"):
        predict(tmp_path, edges, nodes)


def test_the_command_line_takes_the_run_first():
    config = (tyro.conf.OmitArgPrefixes,)
    words = ["runs/mine", "--edges", "e.csv", "--nodes", "n.csv", "--out", "p.csv", "--unseen", "ignore"]
    command = tyro.cli(Predict, args=words, config=config)
    assert (command.run_folder, command.unseen) == (Path("runs/mine"), "ignore")
    options = ["--label", "kind", "--out", "r", "--features", "a", "b"]
    command = parse_command(["fit", "e.csv", "n.csv", *options])
    assert (command.edges, command.nodes, command.features) == (Path("e.csv"), Path("n.csv"), ("a", "b"))
    assert parse_command(["train", "--edges", "e.csv", *options, "--nodes=n.csv"]) == command


def test_errors_speak_of_the_command_line(tmp_path, capsys):
    edges, nodes = tables()
    gaps = nodes.assign(size=[np.nan, *nodes["size"][1:]], note=[*"1a", *("b" * 28)])
    paths = list(map(str, write(tmp_path / "train", edges, gaps).values()))

    def failure(*words):
        with pytest.raises(SystemExit) as stop:
            main(["fit", *words])
        assert stop.value.code == 2
        return capsys.readouterr().err

    text = failure(*paths, *FIT, str(tmp_path / "run"), "--missing", "error")
    assert "the tables have 2 problems" in text
    assert "column 'size': 1 of 30 values are missing" in text
    assert "--missing mean" in text
    assert "=" not in text
    few = ["--missing", "mean", "--features", "size", "--test", "2"]
    text = failure(*paths, *FIT, str(tmp_path / "run"), *few)
    assert "polynsd: --test must lie between 0 and 1" in text
    text = failure(*paths, *FIT, str(tmp_path / "run"), *few[:-1], "0.99")
    assert "--test 0.99 leaves 2 of 22 labelled nodes to train and choose on" in text
    wrong = write(tmp_path / "wrong", edges, nodes.assign(a=np.inf, b=[*("2024-01-01",) * 29, "soon"]))
    text = failure(*map(str, wrong.values()), *FIT, str(tmp_path / "run"))
    assert "--exclude a.\n2." in text
    assert "'soon' is not written so. Correct it, leave the column out with --exclude b" in text


def test_a_folder_of_other_options_is_refused_in_their_words(tmp_path, capsys):
    edges, nodes = tables()
    run = train(tmp_path, edges, nodes)
    paths = [str(tmp_path / "train" / name) for name in ("edges.csv", "nodes.csv")]
    nodes.assign(size=1.0).to_csv(paths[1], index=False)
    with pytest.raises(SystemExit):
        main(["fit", *paths, *FIT, str(run), "--seed", "7", "--test", "0.3", "--missing", "error"])
    lines = capsys.readouterr().err.splitlines()
    expected = [
        "--test: null there, 0.3 here",
        "--seed: 0",
        "--missing: ",
        "NODES: the content is another one",
    ]
    for text in expected:
        assert any(text in line for line in lines), lines


def test_a_prediction_is_explained_under_the_ids_of_the_tables(tmp_path, capsys):
    run = train(tmp_path, *tables())
    found = Explain(run, "007", top=3).run()
    text = capsys.readouterr().out
    assert "node 007" in text
    assert (run / "explain-007.png").exists()
    assert set(found.features["feature"]) <= {"size", "colour=red", "colour=green", "colour=blue"}
    Explain(run, "007", top=3, json=True, target="small", out=tmp_path / "a.svg").run()
    plain = json.loads(capsys.readouterr().out)
    assert plain["target"] == "small"
    assert {row["node"] for row in plain["neighbours"]} <= set(tables()[1]["id"])
    assert (tmp_path / "a.svg").exists()
    with pytest.raises(GraphError, match="no node '7'"):
        Explain(run, "7").run()


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("empty", "'empty' has no value in any row.*name another column with label=…"),
        ("name", "'name' has a label of its own in each of 30 rows.*task='regression'"),
    ],
)
def test_labels_that_teach_nothing_are_refused_before_there_is_a_folder(tmp_path, label, message):
    edges, nodes = tables()
    with pytest.raises(DataError, match=message):
        train(tmp_path, edges, nodes.assign(empty="", name="n" + nodes["id"]), label=label)
    assert not (tmp_path / "run").exists()


def test_a_changed_table_is_said_to_be_one(tmp_path):
    edges, nodes = tables()
    train(tmp_path, edges, nodes)
    with pytest.raises(ConfigError, match=r"inputs\.nodes: the content is another one"):
        train(tmp_path, edges, nodes.iloc[::-1])


def test_a_picture_of_another_kind_is_refused_before_any_work(tmp_path):
    with pytest.raises(ConfigError, match=r"pictures are \.png, \.svg, \.pdf files; got why\.bmp"):
        Explain(tmp_path / "no run", "n3", out=Path("why.bmp")).run()
