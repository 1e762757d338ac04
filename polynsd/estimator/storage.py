"""Fitted estimators as run folders: the parameters in `config.json`, what was learned in `result.json`
and `model.safetensors`. The graph of `fit` is not stored; a run of `polynsd fit` says where its tables
were, how they were read, and by a hash whether they have changed (`read_tables_for`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data.tables import ReadResult, TableSchema, read_tables_like
from polynsd.data.tables.encoder import FeatureEncoder
from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.calibration import Calibration
from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.decision import Decision
from polynsd.estimator.estimate import Estimate
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.fitted import Chosen
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.kinds import restore_member, store_member
from polynsd.estimator.members import Member
from polynsd.estimator.nodes_of_fit import NodesOfFit
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.sklearn_compat import as_python
from polynsd.fields import fit_fields, require_fields
from polynsd.runs import Run, RunRecord, read_run
from polynsd.runs.files import CONFIG, MODEL, RESULT

KIND = "model"
ESTIMATORS: dict[str, type[SheafEstimator]] = {
    "SheafClassifier": SheafClassifier,
    "SheafRegressor": SheafRegressor,
}
FORMAT = 6  # of what `learned_values` and `model_weights` hold
SCALINGS = ("edge_scaling_", "target_scaling_")
VALUES: dict[str, Any] = {
    "n_features_in_": int,
    "seed_": int,
    "n_train_": int,
    "n_val_": int,
    "metric_": str,
    "val_score_": float | None,
    "has_edge_weights_": bool,
    "has_edges_": bool,
    "candidates_": list[dict[str, Any]],
}
LEARNED: dict[str, Any] = {
    **dict.fromkeys(("members", "column_encoders"), list[dict[str, Any]]),
    **dict.fromkeys(("treatments", "values", "estimate", "scalings"), dict[str, Any]),
    **dict.fromkeys(("decision", "calibration", "classes"), dict[str, Any] | None),
    "feature_names": list[str] | None,
    "format": int,
}
CLASS_TYPE = re.compile(r"[<>|]?(b1|[iu][1248]|f[248]|U[0-9]{1,4})")
MOST_LETTERS = 2**24  # of all names of classes together, as NumPy stores them
BROKEN = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, IndexError, OverflowError)


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
    if result.get("format") != FORMAT:
        raise ConfigError(
            f"{record.folder} was stored by another version of polynsd; fit the model again with this one."
        )
    record.check_files()
    weights = record.weights()
    try:
        estimator = _make_estimator(ESTIMATORS[name], record.config.get("parameters"))
    except BROKEN as error:
        raise DataError(f"{record.folder / CONFIG} is damaged: {_reason(error)}") from error
    try:
        _set_learned(estimator, result, weights)
    except BROKEN as error:
        raise DataError(
            f"{record.folder / RESULT} is damaged, or does not belong to {MODEL}: {_reason(error)}"
        ) from error
    return estimator


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, PolyNSDError) else repr(error)
    return text if text.endswith(".") else f"{text}."


def _make_estimator(kind: type[SheafEstimator], stored: Any) -> SheafEstimator:
    """An estimator with the stored parameters."""
    hints = get_type_hints(kind.__init__)
    del hints["return"]
    require_fields(stored, **hints)
    parameters = dict(stored)
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    return kind(**parameters)


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
                "calibration": calibration.state(),
                "data": store_member(member)[0],
            }
            for member, weight, calibration in estimator.members_
        ],
        "treatments": estimator.treatments_.state()[0],
        "values": {name: state[name] for name in VALUES},
        "estimate": estimator.estimate_.to_dict(),
        "decision": None if "decision_" not in state else state["decision_"].state(),
        "calibration": None if "calibration_" not in state else state["calibration_"].state(),
        "scalings": {name: state[name].state() for name in SCALINGS if state.get(name) is not None},
        "classes": _classes(state.get("classes_")),
        "feature_names": None if names is None else names.tolist(),
        "column_encoders": [asdict(encoder) for encoder in state.get("column_encoders_", ())],
    }


def model_weights(estimator: SheafEstimator) -> dict[str, Tensor]:
    """The tensors of all members, of the treatment of features, of nodes, and of the estimate."""
    parts = {f"member{i}": chosen.member.state()[1] for i, chosen in enumerate(estimator.members_)}
    parts["treatments"] = estimator.treatments_.state()[1]
    parts["nodes"] = estimator.nodes_of_fit_.state()
    parts["estimate"] = estimator.estimate_.tensors()
    return {
        f"{part}.{name}": values.contiguous() if values.numel() else values.new_empty(values.shape)
        for part, tensors in parts.items()
        for name, values in tensors.items()
    }


def _set_learned(estimator: SheafEstimator, result: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    require_fields({name: result.get(name) for name in LEARNED}, **LEARNED)
    estimator.edge_scaling_ = estimator._everywhere = None
    require_fields(result["values"], **VALUES)
    for name, value in result["values"].items():
        setattr(estimator, name, value)
    for name in SCALINGS:
        if name in result["scalings"]:
            setattr(estimator, name, Scaling.restore(result["scalings"][name]))
    if result["classes"] is not None:
        estimator.classes_ = _restore_classes(result["classes"])
    if result["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(result["feature_names"], dtype=object)
    if result["column_encoders"]:
        estimator.column_encoders_ = tuple(
            fit_fields(FeatureEncoder, encoder) for encoder in result["column_encoders"]
        )
    estimator.estimate_ = Estimate.restore(result["estimate"], _part(state, "estimate"))
    if isinstance(estimator, SheafClassifier):
        estimator.decision_ = Decision.restore(result["decision"])
        estimator.calibration_ = Calibration.restore(result["calibration"])
    estimator.treatments_ = FeatureTreatments.restore(result["treatments"], _part(state, "treatments"))
    estimator.nodes_of_fit_ = NodesOfFit.restore(_part(state, "nodes"))
    parts = [f"member{i}" for i in range(len(result["members"]))]
    estimator.members_ = [
        _restore_chosen(one, _part(state, part)) for part, one in zip(parts, result["members"], strict=True)
    ]
    for name in state:
        if name.partition(".")[0] not in (*parts, "treatments", "nodes", "estimate"):
            raise DataError(f"the tensor {name} does not belong to the model")
    _check_agreement(estimator)


def _restore_chosen(stored: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Chosen:
    require_fields(stored, data=dict[str, Any], weight=float, calibration=dict[str, Any])
    calibration = Calibration.restore(stored["calibration"])
    return Chosen(restore_member(stored["data"], tensors), stored["weight"], calibration)


def _check_agreement(estimator: SheafEstimator) -> None:
    """Raises unless all members take the features of the model and answer for its classes."""
    columns, classes = len(estimator.treatments_.columns), vars(estimator).get("classes_")
    if not estimator.members_:
        raise DataError("a model has one or more members")
    count, num_nodes = 1 if classes is None else len(classes), len(estimator.nodes_of_fit_.features)
    for member, _, calibration in estimator.members_:
        check_member(member, columns, count)
        if getattr(member, "num_nodes", num_nodes) != num_nodes:
            raise DataError(f"the member {member.name[:80]!r} is not of the {num_nodes} nodes of fit")
        calibration.require_classes(count)
    if isinstance(estimator, SheafClassifier):
        decision, names = estimator.decision_, estimator.classes_.tolist()
        estimator.calibration_.require_classes(count)
        if decision.gains.shape != (count, count):
            raise DataError(f"there must be a decision between {count} classes; got {decision.gains.shape}")
        if decision.positive not in (0, 1):
            raise DataError(f"the positive class is number 0 or 1 of two; got {decision.positive}")
        predicted = estimator.estimate_.predictions
        if predicted is not None and predicted.shape[1:] != (count,):
            raise DataError(f"an estimate holds probabilities of {count} classes; got {predicted.shape}")
        estimator.positive_ = names[decision.positive] if count == 2 else None


def check_member(member: Member, columns: int, num_outputs: int) -> None:
    """Raises unless a member takes so many treated features and has so many outputs."""
    if not member.takes(columns, num_outputs):
        raise DataError(
            f"the member {member.name[:80]!r} does not take {columns} features to {num_outputs} outputs"
        )


def _restore_classes(stored: Any) -> NDArray[Any]:
    require_fields(stored, names=list[str] | list[float] | list[bool], dtype=str)
    names, kind = stored["names"], stored["dtype"]
    letters = int(kind.partition("U")[2] or 1) if CLASS_TYPE.fullmatch(kind) else MOST_LETTERS
    if not names or letters * len(names) >= MOST_LETTERS:
        raise DataError(f"classes cannot be of type {kind[:40]!r}")
    return np.array(names, dtype=kind)


def _part(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors whose names begin with that of a part."""
    return {name.removeprefix(f"{part}."): t for name, t in state.items() if name.startswith(f"{part}.")}


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


def read_tables_for(record: RunRecord, edges: Path | None, nodes: Path | None, **options: Any) -> ReadResult:
    """Tables as a fitted model takes them: those that are named, or those of its fit."""
    schema = read_schema(record)
    if edges is None and nodes is None:
        edges, nodes = _tables_of_fit(record)
    return read_tables_like(schema, edges, nodes, **options)


def _tables_of_fit(record: RunRecord) -> tuple[Path, Path | None]:
    """The tables that the model was fitted to, if they are where they were and as they were."""
    paths = {name: Path(path) for name, path in (record.result or {}).get("paths", {}).items()}
    for name, path in paths.items():
        if not path.exists():
            raise DataError(f"the {name} of the fit were in {path}; they are not there now. Name them.")
        if hash_file(path) != record.inputs.get(name):
            raise DataError(f"{path} has changed since the fit. Name the tables with --edges and --nodes.")
    if "edges" not in paths:
        raise ConfigError(f"{record.folder} does not say where its tables were; name them with --edges.")
    return paths["edges"], paths.get("nodes")


def read_schema(record: RunRecord) -> TableSchema:
    """How the tables of the fit were read."""
    schema = (record.result or {}).get("schema")
    if schema is None:
        raise ConfigError(
            f"{record.folder} holds a model that was not trained on tables; load it in Python with "
            "polynsd.estimator.load_estimator, or fit one with polynsd fit."
        )
    try:
        return TableSchema.from_dict(schema)
    except (KeyError, TypeError, ValueError) as error:
        path = record.folder / RESULT
        raise DataError(f"{path} is damaged: its schema cannot be read ({error}).") from error


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
