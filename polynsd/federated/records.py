"""`Payload`s as records of Flower: named arrays in NumPy's format and named numbers, never pickles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from polynsd.federated.methods import Array as NumpyArray
from polynsd.federated.methods import Payload

ARRAYS, NUMBERS, SCORES, CONFIG = "arrays", "numbers", "scores", "config"
WEIGHT = "num_nodes"  # the number by which replies are weighted
LARGEST = 1e6  # no weight of a model that learns is larger

Signature = tuple[tuple[str, tuple[int, ...], str], ...]


def to_array_record(arrays: Mapping[str, NumpyArray]) -> ArrayRecord:
    """The arrays as they travel."""
    return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in arrays.items()})


def to_arrays(record: ArrayRecord) -> dict[str, NumpyArray]:
    """The arrays of a record; NumPy refuses objects, which would be pickles."""
    return {name: array.numpy() for name, array in record.items()}


def to_records(payload: Payload) -> RecordDict:
    """A payload as it travels."""
    numbers = {name: float(value) for name, value in payload.numbers.items()}
    return RecordDict({ARRAYS: to_array_record(payload.arrays), NUMBERS: MetricRecord(cast(Any, numbers))})


def to_payload(content: RecordDict) -> Payload:
    """The payload of a message."""
    numbers: dict[str, Any] = dict(content.metric_records.get(NUMBERS, {}))
    return Payload(to_arrays(content.array_records[ARRAYS]), numbers)


def read_text(content: RecordDict, key: str, default: str = "") -> str:
    """A word of the configuration in a message."""
    return str(content.config_records.get(CONFIG, ConfigRecord()).get(key, default))


def count_bytes(content: RecordDict) -> int:
    """Of the records as Flower sends them."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())


def sign(record: ArrayRecord) -> Signature:
    """Names, shapes and dtypes."""
    return tuple(sorted((name, tuple(array.shape), array.dtype) for name, array in record.items()))


def choose_signature(replies: Iterable[Message], sent: Signature) -> Signature:
    """What replies should look like: what was sent, if any looks like it, otherwise what most look like."""
    found = Counter(sign(reply.content.array_records[ARRAYS]) for reply in replies if _has_arrays(reply))
    if not found or sent in found:
        return sent
    return found.most_common(1)[0][0]


def find_fault(reply: Message, expected: Signature | None = None, num_nodes: int | None = None) -> str | None:
    """Why a reply cannot be used; None for a good one.

    Args:
        reply: of a client.
        expected: of its arrays; None where it should have none.
        num_nodes: by which its arrays are weighted, as it said when it joined.
    """
    if reply.has_error():
        return f"failed: {_shorten(reply.error.reason or 'no reason given')}"
    if not reply.has_content():
        return "sent an empty reply"
    records = reply.content.metric_records
    numbers: dict[str, Any] = {**records.get(NUMBERS, {}), **records.get(SCORES, {})}
    fault = _find_number_fault(numbers)
    if fault is not None or expected is None:
        return fault
    if not _has_arrays(reply):
        return "sent no arrays"
    weight = numbers.get(WEIGHT)
    if weight is None:
        return f"sent no {WEIGHT}"
    if weight != num_nodes:
        return f"sent {WEIGHT} = {weight:g}; it joined with {num_nodes}"
    return _find_array_fault(reply.content.array_records[ARRAYS], expected)


def _find_number_fault(numbers: Mapping[str, Any]) -> str | None:
    for name, value in numbers.items():
        if isinstance(value, list) or not np.isfinite(value):
            return f"sent {name} = {value}"
    for name, value in numbers.items():  # local_val_correct, global_test_auc, …
        if name.endswith(("_correct", "_auc")):
            most = 1 if name.endswith("_auc") else numbers.get(f"{name.split('_')[1]}_count", 0)
            if not 0 <= value <= most:
                return f"sent {name} = {value:g}, which is not between 0 and {most:g}"
    return None


def _find_array_fault(record: ArrayRecord, expected: Signature) -> str | None:
    shapes = {name: (shape, dtype) for name, shape, dtype in expected}
    for name in shapes.keys() - record.keys():
        return f"left out the array '{name}'"
    for name, array in record.items():
        if name not in shapes:
            return f"sent an array '{name}' that nobody asked for"
        try:
            values = array.numpy()
        except Exception as error:  # whatever a client puts there
            return f"sent an array '{name}' that cannot be read: {_shorten(str(error))}"
        shape, dtype = shapes[name]
        if values.shape != shape or str(values.dtype) != dtype:
            return f"sent '{name}' as {values.dtype} of shape {values.shape}, not {dtype} of shape {shape}"
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return f"sent NaN or infinity in '{name}'"
        largest = np.abs(values).max(initial=0)
        if largest > LARGEST:
            return f"sent a number of {largest:.3g} in '{name}'; {LARGEST:g} is the largest that counts"
    return None


def _has_arrays(reply: Message) -> bool:
    return reply.has_content() and ARRAYS in reply.content.array_records


def _shorten(text: str, length: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[:length]}…"
