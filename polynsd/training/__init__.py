"""Training: one model, or many replicas together, with early stopping on validation."""

from polynsd.training.callback import Callback, CallbackList
from polynsd.training.capture import CapturedStep
from polynsd.training.protocol import ProtocolResult, run_splits
from polynsd.training.replica import Epoch, FitResult, Replica, Snapshots
from polynsd.training.replicas import fit_replicas
from polynsd.training.task import Task, get_task
from polynsd.training.trainer import fit

__all__ = [
    "Callback",
    "CallbackList",
    "CapturedStep",
    "Epoch",
    "FitResult",
    "ProtocolResult",
    "Replica",
    "Snapshots",
    "Task",
    "fit",
    "fit_replicas",
    "get_task",
    "run_splits",
]
