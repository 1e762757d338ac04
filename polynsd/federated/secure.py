"""Secure aggregation (SecAgg+, Bell et al., 2020): the server learns the weighted sum of what clients send.

The protocol is Flower's, in four exchanges per round: keys, shares of keys, masked arrays, shares that unmask
the sum. Its client part is `secaggplus_mod`; its server part, `SecAggPlusWorkflow`, is written for Flower's
older strategies, so `aggregate_securely` gives it one that only says whom to ask and keeps the sum.

What is summed are changes of the received arrays, so numbers are small: times n_i / max n and within [−1, 1],
each is rounded at random to one of 2²² values. The mean of n clients is exact to
5·10⁻⁷ n / Σ_i (n_i / max n).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.app.message import make_message
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg as OlderFedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey

from polynsd.errors import DataError
from polynsd.federated.payload import Array
from polynsd.federated.records import ARRAYS, NUMBERS, SCORES, WEIGHT, to_arrays
from polynsd.federated.roster import MeteredGrid

RANGE = 1.0  # changes beyond it would be clipped
LEVELS = 2**22


def mask_answer(message: Message, context: Context, answer: RecordDict) -> Message:
    """The answer of a client as it leaves it: masked, if the message belongs to a secure aggregation."""
    if RECORD_KEY_CONFIGS not in message.content.config_records:
        return Message(answer, reply_to=message)
    # the protocol takes its part out of the message, which clients of one process share
    own = ConfigRecord(dict(message.content.config_records[RECORD_KEY_CONFIGS]))
    asked = make_message(message.metadata, RecordDict({RECORD_KEY_CONFIGS: own}))
    return secaggplus_mod(
        asked, context, lambda _, __: Message(_to_fit_result(answer, message.content), reply_to=message)
    )


def _to_fit_result(answer: RecordDict, asked: RecordDict) -> RecordDict:
    """An answer in the form that the protocol masks: changes of arrays in the order of names, one weight."""
    received = to_arrays(asked.array_records[ARRAYS])
    changes = {n: array - received[n] for n, array in to_arrays(answer.array_records[ARRAYS]).items()}
    for name, change in changes.items():
        if not (np.isfinite(change).all() and np.abs(change).max(initial=0) <= RANGE):
            raise DataError(
                f"'{name}' is not finite or changes by more than {RANGE:g} in a round, which secure "
                "aggregation would clip; use a smaller rate or fewer local epochs."
            )
    scores: dict[str, Any] = dict(answer.metric_records.get(SCORES, {}))
    result = FitRes(
        Status(Code.OK, ""),
        ndarrays_to_parameters([changes[name] for name in sorted(changes)]),
        int(answer.metric_records[NUMBERS][WEIGHT]),  # type: ignore[arg-type]
        scores,
    )
    return compat.fitres_to_recorddict(result, keep_input=False)


class _Sum(OlderFedAvg):
    """Says whom to ask, and keeps what the protocol finds."""

    def __init__(self, nodes: Mapping[int, RecordDict]) -> None:
        super().__init__()
        self.nodes = nodes
        self.total: list[Array] | None = None
        self.scores: dict[int, dict[str, float]] = {}

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> list[Any]:
        nothing = FitIns(Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), nothing) for node in self.nodes]

    def aggregate_fit(
        self, server_round: int, results: list[Any], failures: list[Any]
    ) -> tuple[None, dict[str, Any]]:
        self.total = parameters_to_ndarrays(results[0][1].parameters) if results else None
        self.scores = {
            proxy.node_id: {**result.metrics, WEIGHT: result.num_examples} for proxy, result in results
        }
        return None, {}


class _Workflow(SecAggPlusWorkflow):
    """The protocol with our messages in the exchange in which clients train."""

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        goes_on = super().setup_stage(grid, context, state)
        if goes_on:
            state.nid_to_fitins = dict(context.strategy.nodes)
        return goes_on


def aggregate_securely(
    grid: MeteredGrid, contents: Mapping[int, RecordDict], server_round: int, largest: int, timeout: float
) -> tuple[dict[str, Array] | None, dict[int, dict[str, float]]]:
    """The mean of what clients send, weighted by nodes, and the scores by node id.

    Args:
        grid: to the clients.
        contents: by node id, what asks a client to train; arrays of the answers are named as those in it.
        server_round: from 1 on.
        largest: number of nodes of the largest client.
        timeout: seconds for each of the four exchanges.

    Returns:
        None for the mean where too few clients stayed until the end; who did not stay has no scores.
    """
    strategy = _Sum(contents)
    state = RecordDict(
        {
            MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: server_round}),
            MAIN_PARAMS_RECORD: ArrayRecord(),
        }
    )
    context = LegacyContext(Context(0, 0, {}, state, {}), strategy=strategy)
    workflow = _Workflow(
        1.0, 0.5, max_weight=float(largest), clipping_range=RANGE, quantization_range=LEVELS, timeout=timeout
    )
    workflow(grid, context)
    if strategy.total is None:
        return None, strategy.scores
    sent = to_arrays(next(iter(contents.values())).array_records[ARRAYS])
    changes = dict(zip(sorted(sent), strategy.total, strict=True))
    return {n: (array + changes[n]).astype(array.dtype) for n, array in sent.items()}, strategy.scores
