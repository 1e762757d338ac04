"""Fitted estimators as run folders: the parameters in `config.json`, what was learned in `result.json`
and `model.safetensors`. The graph of `fit` is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data.tables.encoder import FeatureEncoder
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.base import Chosen, SheafEstimator
from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.decision import Decision
from polynsd.estimator.estimate import Estimate
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.kinds import kind_of, restore_member
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.sklearn_compat import as_python
from polynsd.runs import Run, RunRecord, read_run

KIND = "model"
ESTIMATORS: dict[str, type[SheafEstimator]] = {
    "SheafClassifier": SheafClassifier,
    "SheafRegressor": SheafRegressor,
}
FORMAT = 2  # of what `learned_values` and `model_weights` hold
SCALINGS = ("edge_scaling_", "target_scaling_")
VALUES = (
    "n_features_in_",
    "seed_",
    "n_train_",
    "n_val_",
    "metric_",
    "val_score_",
    "has_edge_weights_",
    "temperature_",
    "candidates_",
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
    """What `fit` has learned beside the tensors, as plain data."""
    state = vars(estimator)
    names = state.get("feature_names_in_")
    return {
        "format": FORMAT,
        "members": [
            {
                "weight": weight,
                "temperature": temperature,
                "data": {"kind": kind_of(member), **member.state()[0]},
            }
            for member, weight, temperature in estimator.members_
        ],
        "treatments": estimator.treatments_.state()[0],
        "values": {name: state[name] for name in VALUES if name in state},
        "estimate": estimator.estimate_.to_dict(),
        "decision": None if "decision_" not in state else state["decision_"].state(),
        "scalings": {name: _scaling(state[name]) for name in SCALINGS if state.get(name) is not None},
        "classes": _classes(state.get("classes_")),
        "feature_names": None if names is None else names.tolist(),
        "column_encoders": [asdict(encoder) for encoder in state.get("column_encoders_", ())],
    }


def model_weights(estimator: SheafEstimator) -> dict[str, Tensor]:
    """The tensors of all members and of the treatment of features."""
    parts = {f"member{i}": chosen.member.state()[1] for i, chosen in enumerate(estimator.members_)}
    parts["treatments"] = estimator.treatments_.state()[1]
    return {
        f"{part}.{name}": values.contiguous() if values.numel() else values.new_empty(values.shape)
        for part, tensors in parts.items()
        for name, values in tensors.items()
    }


def _set_learned(estimator: SheafEstimator, result: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    if result.get("format") != FORMAT:
        raise ConfigError(
            "this model was stored by a version that kept a single network; fit it again with this one."
        )
    estimator.edge_scaling_ = estimator._everywhere = None
    for name, value in result["values"].items():
        setattr(estimator, name, value)
    for name, pair in result["scalings"].items():
        setattr(estimator, name, Scaling(np.array(pair["mean"]), np.array(pair["scale"])))
    if result["classes"] is not None:
        estimator.classes_ = np.array(result["classes"]["names"], dtype=result["classes"]["dtype"])
    if result["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(result["feature_names"], dtype=object)
    if result.get("column_encoders"):
        estimator.column_encoders_ = tuple(map(FeatureEncoder.from_dict, result["column_encoders"]))
    estimator.estimate_ = Estimate(**result["estimate"])
    if result["decision"] is not None:
        estimator.decision_ = Decision.restore(result["decision"])
    estimator.treatments_ = FeatureTreatments.restore(result["treatments"], _part(state, "treatments"))
    estimator.members_ = [
        Chosen(
            restore_member(one["data"], _part(state, f"member{i}")),
            one["weight"],
            one["temperature"],
        )
        for i, one in enumerate(result["members"])
    ]


def _part(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors whose names begin with that of a part."""
    return {name.removeprefix(f"{part}."): t for name, t in state.items() if name.startswith(f"{part}.")}


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
    if isinstance(stored.get("decision"), np.ndarray):
        stored["decision"] = stored["decision"].tolist()
    weights = stored.get("class_weight")
    if isinstance(weights, Mapping):
        stored["class_weight"] = [[as_python(name), as_python(weight)] for name, weight in weights.items()]
    return stored
