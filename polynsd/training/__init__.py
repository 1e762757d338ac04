"""Training: from a configuration and a graph with its splits to scores.

`fit_splits` trains a `Configuration` on all splits of a `Problem` and returns a `ProtocolResult`; `Source`
makes a problem from names. `fit` trains one model on one split, `fit_replicas` many models together.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polynsd.training.callback import Callback, CallbackList, EventLog
    from polynsd.training.capture import CapturedStep
    from polynsd.training.configuration import Configuration
    from polynsd.training.problem import Problem
    from polynsd.training.protocol import fit_splits
    from polynsd.training.replica import Epoch, FitResult, Replica, Snapshots
    from polynsd.training.replicas import fit, fit_replicas
    from polynsd.training.result import ProtocolResult, SplitResult
    from polynsd.training.source import Source
    from polynsd.training.task import Task, get_task

__all__ = [
    "Callback",
    "CallbackList",
    "CapturedStep",
    "Configuration",
    "Epoch",
    "EventLog",
    "FitResult",
    "Problem",
    "ProtocolResult",
    "Replica",
    "Snapshots",
    "Source",
    "SplitResult",
    "Task",
    "fit",
    "fit_replicas",
    "fit_splits",
    "get_task",
]

if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists
    from polynsd.lazy import import_on_use as _import_on_use

    __getattr__ = _import_on_use(
        __name__,
        {
            "callback": ("Callback", "CallbackList", "EventLog"),
            "capture": ("CapturedStep",),
            "configuration": ("Configuration",),
            "problem": ("Problem",),
            "source": ("Source",),
            "protocol": ("fit_splits",),
            "replica": ("Epoch", "FitResult", "Replica", "Snapshots"),
            "replicas": ("fit", "fit_replicas"),
            "result": ("ProtocolResult", "SplitResult"),
            "task": ("Task", "get_task"),
        },
    )
