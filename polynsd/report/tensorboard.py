"""Curves in TensorBoard: a run per split, their mean, and the trials of a search.

Needs the extra: `pip install 'polynsd[tensorboard]'`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polynsd.errors import require_at_least
from polynsd.optional import load_optional
from polynsd.report.protocol_view import ProtocolState
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
        every: epochs between two points; of a split, improvements are written too.
    """

    def __init__(self, folder: Path | str, every: int = 1) -> None:
        require_at_least("every", every, 1)
        self.folder, self.every = Path(folder), every
        load_optional("tensorboard", "logging to TensorBoard needs", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._new_writer: Any = SummaryWriter
        self._writers: dict[str, Any] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def begin(self, plan: ProtocolPlan) -> None:
        self._state = ProtocolState(plan)
        self._best: dict[int, Epoch] = {}  # by split
        self._pending: dict[int, dict[int, Epoch]] = defaultdict(dict)  # by number and split

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        self._state.resume(split, last, best)
        self._best[split] = best

    def epoch(self, split: int, epoch: Epoch) -> None:
        self._state.epoch(split, epoch)
        if epoch.is_best:
            self._best[split] = epoch
        is_regular = epoch.epoch % self.every == 0
        if is_regular or epoch.is_best:
            self._write(f"split-{self._state.splits[split].name}", epoch.epoch, [epoch])
        if is_regular:
            self._pending[epoch.epoch][split] = epoch
            self._write_mean(epoch.epoch)

    def done(self, split: int, result: FitResult) -> None:
        self._state.done(split, result)
        for number in sorted(self._pending):  # which may have waited for this split
            self._write_mean(number)

    def trial(self, trial: TrialStatus) -> None:
        """Parameters, state and value, for the HPARAMS page."""
        if trial.state == "running":
            return
        plain = bool | int | float | str
        about = {name: v if isinstance(v, plain) else str(v) for name, v in trial.params.items()}
        score = {} if trial.value is None else {"value": trial.value}
        run = f"trial-{trial.number}"
        self._writer(".").add_hparams({**about, "state": trial.state}, score, run_name=run)

    def _write_mean(self, number: int) -> None:
        reported, splits = self._pending[number], self._state.splits
        if not all(i in reported or self._state.is_over(split) for i, split in enumerate(splits)):
            return
        del self._pending[number]
        epochs = [reported.get(i, self._best.get(i)) for i in range(len(splits))]
        self._write("mean", number, [epoch for epoch in epochs if epoch is not None])

    def _write(self, run: str, number: int, epochs: list[Epoch]) -> None:
        # purge_step: what an interrupted run has written from here on is forgotten
        writer = self._writer(run, purge_step=number)
        for name in SCALARS:
            writer.add_scalar(name, fmean(getattr(epoch, name) for epoch in epochs), number)

    def _writer(self, run: str, **options: Any) -> Any:
        if run not in self._writers:
            self._writers[run] = self._new_writer(str(self.folder / run), **options)
        return self._writers[run]
