"""Saved estimators come back as they were, and nothing in the files is trusted."""

import json

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from toy import classifier, regressor, toy_graph

from polynsd import ConfigError, DataError
from polynsd.estimator import SheafClassifier, SheafRegressor, load_estimator
from polynsd.runs import Run


@pytest.fixture
def saved(tmp_path):
    return classifier(calibrate="temperature").fit(toy_graph(names=True)).save(tmp_path / "model")


def test_a_classifier_comes_back(tmp_path):
    graph = toy_graph(names=True)
    model = classifier(calibrate="temperature", maps="orthogonal").fit(graph)
    back = SheafClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(back.predict_proba(graph), model.predict_proba(graph))
    np.testing.assert_array_equal(back.predict(graph), model.predict())
    assert back.get_params() == model.get_params()
    assert back.score(graph) == model.score(graph)
    for name in ("classes_", "temperature_", "metric_", "val_score_", "n_features_in_", "candidates_"):
        assert np.all(getattr(back, name) == getattr(model, name))


def test_a_regressor_comes_back(tmp_path):
    graph = toy_graph(regression=True)
    model = regressor().fit(graph)
    back = SheafRegressor.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(back.predict(graph), model.predict(graph))


@pytest.mark.parametrize("classes", [[3, 11], ["a", "bb"], [True, False], [1.0, 2.0]])
def test_classes_keep_their_type(tmp_path, classes):
    x, y = np.random.default_rng(0).normal(size=(20, 2)), np.array(classes * 10)
    model = classifier(epochs=1).fit(x, y)
    back = load_estimator(model.save(tmp_path / "model"))
    assert back.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(back.predict(x), model.predict(x))


def test_a_loaded_model_saves_again_and_needs_a_graph(saved, tmp_path):
    back = load_estimator(saved)
    with pytest.raises(ConfigError, match="pass the graph"):
        back.predict()
    again = load_estimator(back.save(tmp_path / "again"))
    np.testing.assert_array_equal(again.predict_proba(toy_graph()), back.predict_proba(toy_graph()))


def test_the_folder_holds_no_pickles(saved):
    assert {path.suffix for path in saved.iterdir() if path.stat().st_size} <= {
        ".json",
        ".safetensors",
        ".jsonl",
    }


def test_a_model_is_not_overwritten(saved):
    with pytest.raises(ConfigError, match="holds a model already"):
        classifier(calibrate="temperature").fit(toy_graph()).save(saved)


def test_the_wrong_class_is_refused(saved):
    with pytest.raises(ConfigError, match="holds a SheafClassifier"):
        SheafRegressor.load(saved)


def test_unfitted_estimators_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        classifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_other_runs_are_no_estimators(tmp_path):
    with Run.start(tmp_path / "run", "protocol", {}, {}) as run:
        run.finish({}, {})
    with pytest.raises(ConfigError, match="a fitted estimator was expected"):
        load_estimator(tmp_path / "run")
    with pytest.raises(DataError):
        load_estimator(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04cos\nsystem\n", b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}"]
)
def test_a_strange_weights_file_is_refused(saved, content):
    (saved / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors"):
        load_estimator(saved)


def test_weights_of_another_model_are_refused(saved):
    state = load_file(saved / "model.safetensors")
    save_file(dict(list(state.items())[1:]), saved / "model.safetensors")
    with pytest.raises(DataError):
        load_estimator(saved)


def test_a_damaged_result_is_refused(saved):
    content = json.loads((saved / "result.json").read_text())
    del content["result"]["treatments"]
    (saved / "result.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="damaged"):
        load_estimator(saved)
