"""Saved estimators come back as they were, and nothing in the files is trusted."""

import json
import resource
import shutil
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from fuzzing import fuzz_cases, seal_again
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from toy import QUICK, classifier, regressor, toy_graph

from polynsd import ConfigError, DataError, PolyNSDError
from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.estimator import SheafClassifier, SheafRegressor, load_estimator
from polynsd.estimator.label_trees import LabelTreesCandidate
from polynsd.estimator.linear import LinearCandidate
from polynsd.estimator.links import LinkCandidate
from polynsd.estimator.networks import Network
from polynsd.estimator.propagation import PropagationCandidate
from polynsd.estimator.trees import TreesCandidate
from polynsd.runs import Run, read_tensors, write_tensors
from polynsd.training import Configuration


@pytest.fixture(scope="module")
def fitted():
    """A classifier with a member of every kind."""
    graph = toy_graph(names=True)
    few = TrainConfig(epochs=3, patience=3)
    network = Network("network", "sheaf", Configuration(ModelConfig(layer=LayerConfig(degree=1)), few))
    linear, options = LinearCandidate("linear", "features", hops=1), {**QUICK, "calibrate": "temperature"}
    candidates = [network, linear, TreesCandidate("trees", "trees", 1), LinkCandidate(linear),
                  PropagationCandidate("labels", "labels", linear), LabelTreesCandidate()]  # fmt: skip
    models = [SheafClassifier(**options).fit(graph, candidates=[each]) for each in candidates]
    models[0].members_ = [model.members_[0] for model in models]
    return models[0]


@pytest.fixture(scope="module")
def original(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def saved(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "model"))


def test_every_kind_of_member_comes_back(fitted, saved):
    graph = toy_graph(names=True)
    np.testing.assert_array_equal(load_estimator(saved).predict_proba(graph), fitted.predict_proba(graph))


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


# Damage: no byte may change unnoticed.


SEALED = (
    "config.json",
    "environment.json",
    "manifest.json",
    "model.safetensors",
    "result.json",
)


@pytest.mark.fuzz("model folders")
@settings(max_examples=fuzz_cases(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(SEALED), place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(original, tmp_path, name, place, bit):
    folder = Path(shutil.copytree(original, tmp_path / "model", dirs_exist_ok=True))
    content = bytearray((folder / name).read_bytes())
    content[place % len(content)] ^= 1 << bit
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"/model/({'|'.join(SEALED)}|metrics\.jsonl) "):
        load_estimator(folder)


def test_a_model_without_a_manifest_is_refused(saved):
    (saved / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"manifest\.json is missing.*fit again"):
        load_estimator(saved)


# Forgery: names and types are those we know, sizes those of the tensors, whatever the manifest says.


def forge(folder, change, name="result.json"):
    content = json.loads((folder / name).read_text())
    change(content["result" if name == "result.json" else "config"])
    (folder / name).write_text(json.dumps(content))
    seal_again(folder)


def network(result):
    return next(one["data"] for one in result["members"] if one["data"]["kind"] == "network")


def limited_load(folder):
    """Loads within 2 GB and 20 s."""
    used, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        return load_estimator(folder)
    finally:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 2_000_000  # kB
        assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: network(r)["model"].update(hidden_channels=30_000), "hidden_channels is 30,000"),
        (lambda r: network(r)["model"].update(hidden_channels=33), "of shape"),
        (lambda r: network(r)["model"].update(num_layers=4_000), "num_layers is 4,000"),
        (lambda r: network(r)["model"].update(num_layers=10**9), "at most"),
        (lambda r: network(r)["model"]["layer"].update(degree=4_096), "of shape|too large"),
        (lambda r: network(r)["model"].update(model="gat", options={"heads": 10**6}), ""),
        (lambda r: network(r)["model"].update(layer=3), "layer must be"),
        (lambda r: network(r).update(sizes=[10**9, 2]), "in_channels"),
        (lambda r: network(r).update(sizes=["a", "b"]), "sizes must be"),
        (lambda r: r["members"][1]["data"].update(hops=10**9), "hops"),
        (lambda r: r["members"][1]["data"].update(kind="__class__"), "no kind of member"),
        (lambda r: r["members"][1]["data"].update(extra=1), "extra is unknown"),
        (lambda r: r["members"][2]["data"].update(hops=10**9), "hops"),
        (lambda r: r["members"][3]["data"].update(num_nodes=2**40), "does not take"),
        (lambda r: r["members"].clear(), "does not belong|members"),
        (lambda r: r["values"].update(predict=3), "predict is unknown"),
        (lambda r: r["values"].update(__class__="x"), "__class__ is unknown"),
        (lambda r: r["values"].update(n_features_in_="3"), "n_features_in_ must be an integer"),
        (lambda r: r["classes"].update(dtype="<U99999999"), "classes cannot be of type"),
        (lambda r: r["classes"].update(dtype="O"), "classes cannot be of type"),
        (lambda r: r["classes"].update(names=["a", "b", "c"]), "outputs"),
        (lambda r: r["decision"].update(gains=[[1.0]]), "decision"),
        (lambda r: r["calibration"].update(temperature=0), "temperature"),
        (lambda r: r["members"][0]["calibration"].update(temperature=0), "temperature"),
        (lambda r: r["members"][0]["calibration"].update(offsets=[1.0]), "need 2 offsets"),
        (lambda r: r["decision"].update(positive=2), "positive class is number 0 or 1"),
        (lambda r: r["treatments"].update(width=1), "must lie from 0 to 0"),
        (lambda r: r.pop("treatments"), "treatments must be"),
    ],
    ids=range(28),
)  # fmt: skip
def test_a_forged_result_takes_neither_memory_nor_time(saved, change, message):
    forge(saved, change)
    with pytest.raises(DataError, match=rf"result\.json is damaged.*({message})"):
        limited_load(saved)


def test_forged_parameters_are_refused(saved):
    forge(saved, lambda config: config["parameters"].update(device=3), "config.json")
    with pytest.raises(DataError, match=r"config\.json is damaged: device must be a name; got 3"):
        load_estimator(saved)


def test_trees_that_lead_in_a_circle_are_refused(saved):
    tensors, about = read_tensors(saved / "model.safetensors")
    tensors["member2.left"] = torch.zeros_like(tensors["member2.left"])
    tensors["member2.feature"] = torch.zeros_like(tensors["member2.feature"])
    write_tensors(saved / "model.safetensors", tensors, about)
    seal_again(saved)
    with pytest.raises(DataError, match="leads back"):
        load_estimator(saved)


@pytest.mark.parametrize("names", [["member5.labels"], ["nodes.features", "nodes.signs"]])
def test_a_member_that_knows_other_nodes_than_those_of_fit_is_refused(saved, names):
    tensors, about = read_tensors(saved / "model.safetensors")
    tensors |= {name: tensors[name][..., 1:].contiguous() for name in names}
    write_tensors(saved / "model.safetensors", tensors, about)
    seal_again(saved)
    with pytest.raises(DataError, match=r"nodes? of fit"):
        load_estimator(saved)


def places(value, path=()):
    """The ways to all parts of plain data."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(way for key, item in items for way in places(item, (*path, key)))]


odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from([2**31, 2**62, -1, 30_000, "orthogonal(euler)", [], {}, [[]], {"a": 1}, ["x"], "<U9999"]),
)  # fmt: skip


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.fuzz("model folders")
@settings(max_examples=fuzz_cases(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(["config.json", "result.json", "result.json"]))
def test_a_forged_model_is_loaded_or_refused(original, tmp_path, data, name):
    folder = Path(shutil.copytree(original, tmp_path / "model", dirs_exist_ok=True))
    content = json.loads((folder / name).read_text())
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(places(content)[1:]))
        part = content
        for key in way:
            part = part[key]
        if data.draw(st.booleans()):
            part[last] = data.draw(odd)
        else:
            del part[last]
    (folder / name).write_text(json.dumps(content))
    seal_again(folder)
    with suppress(PolyNSDError):
        limited_load(folder).predict(toy_graph(names=True))
