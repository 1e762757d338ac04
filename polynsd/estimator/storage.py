"""Fitted estimators as run folders: the parameters in `config.json`, what was learned in `result.json`
and `model.safetensors`. The graph of `fit` is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polynsd.config import to_dict
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.sklearn_compat import as_python
from polynsd.published import published_model, published_training
from polynsd.runs import Run, RunRecord, read_run
from polynsd.training.configuration import Configuration
from polynsd.zoo import build_model

KIND = "model"
ESTIMATORS: dict[str, type[SheafEstimator]] = {
    "SheafClassifier": SheafClassifier,
    "SheafRegressor": SheafRegressor,
}
SCALINGS = ("feature_scaling_", "edge_scaling_", "target_scaling_")
VALUES = (
    "n_features_in_",
    "seed_",
    "n_train_",
    "n_val_",
    "metric_",
    "val_score_",
    "best_epoch_",
    "has_edge_weights_",
    "temperature_",
    "search_results_",
)


def save_estimator(estimator: SheafEstimator, folder: str | Path) -> Path:
    """Writes a fitted estimator into a new folder."""
    estimator._require_fitted()
    result = learned_values(estimator)  # refuses what cannot be stored before there is a folder
    with Run.start(folder, KIND, describe_parameters(estimator), {}) as run:
        if run.result is not None:
            raise ConfigError(f"{folder} holds a model already. Choose another folder, or remove it.")
        run.finish(result, model_weights(estimator))
    return Path(folder)


def load_estimator(folder: str | Path) -> SheafEstimator:
    """The estimator in a folder, of whichever kind it is."""
    return restore_estimator(read_run(folder))


def restore_estimator(record: RunRecord) -> SheafEstimator:
    """The estimator of a finished run."""
    name, result = record.config.get("estimator"), record.result
    if record.kind != KIND or name not in ESTIMATORS:
        raise ConfigError(f"{record.folder} holds a {record.kind} run; a fitted estimator was expected.")
    if result is None:
        raise DataError(f"the run {record.folder} has not finished. Start it again to go on.")
    try:
        parameters = dict(record.config["parameters"])
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        estimator = ESTIMATORS[name](**parameters)
        _set_learned(estimator, result, record.weights())
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{record.folder} is damaged or of another version: {error!r}.") from error
    return estimator


def describe_parameters(estimator: SheafEstimator) -> dict[str, Any]:
    """The estimator before `fit`, as plain data; of a RandomState the seed that was drawn."""
    parameters = estimator.get_params()
    if isinstance(parameters["random_state"], np.random.RandomState):
        parameters["random_state"] = estimator.seed_
    return {"estimator": type(estimator).__name__, "parameters": _to_plain(parameters)}


def learned_values(estimator: SheafEstimator) -> dict[str, Any]:
    """What `fit` has learned beside the weights, as plain data."""
    state = vars(estimator)
    names = state.get("feature_names_in_")
    return {
        "model": to_dict(estimator.config_),
        "training": to_dict(estimator.train_config_),
        "values": {name: state[name] for name in VALUES if name in state},
        "scalings": {name: _scaling(state[name]) for name in SCALINGS if state.get(name) is not None},
        "classes": _classes(state.get("classes_")),
        "feature_names": None if names is None else names.tolist(),
    }


def model_weights(estimator: SheafEstimator) -> dict[str, Tensor]:
    """The parameters of the model, as they were trained."""
    return {name: value.float().cpu() for name, value in estimator.model_.state_dict().items()}


def _set_learned(estimator: SheafEstimator, result: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    estimator.edge_scaling_ = estimator.graph_ = None
    for name, value in result["values"].items():
        setattr(estimator, name, value)
    for name, pair in result["scalings"].items():
        setattr(estimator, name, Scaling(np.array(pair["mean"]), np.array(pair["scale"])))
    if result["classes"] is not None:
        estimator.classes_ = np.array(result["classes"]["names"], dtype=result["classes"]["dtype"])
    if result["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(result["feature_names"], dtype=object)
    # an option that did not exist when it was stored has the value with which models stay as they were
    model, training = published_model(**result["model"]), published_training(**result["training"])
    network = build_model(model, estimator.n_features_in_, estimator._num_outputs())
    network.load_state_dict(dict(state))
    estimator._keep(Configuration(model, training), network)


def _scaling(scaling: Scaling) -> dict[str, Any]:
    return {"mean": scaling.mean.tolist(), "scale": scaling.scale.tolist()}


def _classes(classes: NDArray[Any] | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    if classes.dtype.kind not in "biufU":
        raise ConfigError(f"classes are stored if they are numbers or strings; got {classes.dtype}.")
    return {"names": classes.tolist(), "dtype": classes.dtype.str}


def _to_plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON can hold them: class weights are pairs, because keys of JSON are strings."""
    stored = {name: as_python(value) for name, value in parameters.items()}
    weights = stored.get("class_weight")
    if isinstance(weights, Mapping):
        stored["class_weight"] = [[as_python(name), as_python(weight)] for name, weight in weights.items()]
    return stored
