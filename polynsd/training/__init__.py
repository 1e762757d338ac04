"""Training on one or several splits, with early stopping on validation."""

from polynsd.training.capture import CapturedStep
from polynsd.training.protocol import ProtocolResult, run_splits
from polynsd.training.task import Task, get_task
from polynsd.training.trainer import Epoch, FitResult, fit

__all__ = ["CapturedStep", "Epoch", "FitResult", "ProtocolResult", "Task", "fit", "get_task", "run_splits"]
