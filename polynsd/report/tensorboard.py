"""Curves in TensorBoard: a run per split, their mean, and the trials of a search.

Needs the extra: `pip install 'polynsd[tensorboard]'`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polynsd.errors import ConfigError, require_at_least
from polynsd.report.protocol_state import ProtocolState
from polynsd.training.callback import Callback, ProtocolPlan, TrialStatus

if TYPE_CHECKING:
    from polynsd.training import Epoch, FitResult

SCALARS = ("train_loss", "val_loss", "val_metric")


class TensorBoardLog(Callback):
    """Writes `train_loss`, `val_loss` and `val_metric` of every split, and their mean over splits.

    Folders: `split-<name>` and `mean` for a protocol, `trial-<number>` for a search. The mean at an
    epoch is written when every split has reached it or is over; one that is over counts with its best
    epoch, since that is the model that is kept. Epochs written before a resume are replaced.

    Args:
        folder: where to write.
        every: of the splits, the improvements and every so manieth epoch; of the mean, every so manieth.
    """

    def __init__(self, folder: Path | str, every: int = 1) -> None:
        require_at_least("every", every, 1)
        self.folder, self.every = Path(folder), every
        self._new_writer = _summary_writer()
        self._writers: dict[str, Any] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def begin(self, plan: ProtocolPlan) -> None:
        """Forgets the protocol before."""
        self._state = ProtocolState(plan)
        self._pending: dict[int, dict[int, Epoch]] = defaultdict(dict)  # epoch → split → what it said

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        """The best so far counts in the mean."""
        self._state.resume(split, last, best)

    def epoch(self, split: int, epoch: Epoch) -> None:
        """Curves of the split, and of the mean where all are there."""
        self._state.epoch(split, epoch)
        regular = epoch.epoch % self.every == 0
        if regular or epoch.is_best:
            self._write(f"split-{self._state.splits[split].name}", epoch.epoch, [epoch])
        if regular:
            self._pending[epoch.epoch][split] = epoch
            self._write_mean(epoch.epoch)

    def done(self, split: int, result: FitResult) -> None:
        """From here on the mean need not wait for it."""
        self._state.done(split, result)
        for number in sorted(self._pending):  # those that waited for this split
            self._write_mean(number)

    def trial(self, trial: TrialStatus) -> None:
        """Parameters, state and value, for the HPARAMS page."""
        if trial.state == "running":
            return
        about = {name: _hyper_parameter(value) for name, value in trial.params.items()}
        score = {} if trial.value is None else {"value": trial.value}
        run = f"trial-{trial.number}"
        self._writer(".").add_hparams({**about, "state": trial.state}, score, run_name=run)

    def _write_mean(self, number: int) -> None:
        told, splits = self._pending[number], self._state.splits
        if not all(i in told or self._state.is_over(split) for i, split in enumerate(splits)):
            return
        del self._pending[number]
        epochs = [told.get(i, split.best) for i, split in enumerate(splits)]
        self._write("mean", number, [epoch for epoch in epochs if epoch is not None])

    def _write(self, run: str, epoch: int, told: list[Epoch]) -> None:
        # purge_step: what an interrupted run has written from here on is forgotten
        writer = self._writer(run, purge_step=epoch)
        for name in SCALARS:
            writer.add_scalar(name, fmean(getattr(one, name) for one in told), epoch)

    def _writer(self, run: str, **options: Any) -> Any:
        if run not in self._writers:
            self._writers[run] = self._new_writer(str(self.folder / run), **options)
        return self._writers[run]


def _hyper_parameter(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "logging to TensorBoard needs the package 'tensorboard', which is not installed; "
            "install it with: pip install 'polynsd[tensorboard]'"
        ) from error
    return SummaryWriter
