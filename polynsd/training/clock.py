"""How long a training took in all its sessions: the time so far travels with the snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from polynsd.training.replica import Snapshots

SECONDS = "clock.seconds"


class ClockedSnapshots:
    """Snapshots that also keep the time of the work in them (`polynsd.training.Snapshots`).

    What an interrupted session did after its last snapshot is done again, and counted once.

    Args:
        inner: where they are kept.
    """

    def __init__(self, inner: Snapshots) -> None:
        self._inner, self._earlier = inner, 0.0
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of this session and the work of earlier ones that it goes on from."""
        return self._earlier + time.perf_counter() - self._start

    def load(self) -> Mapping[str, Tensor] | None:
        """What was kept last, without the time."""
        kept = self._inner.load()
        if kept is None:
            return None
        self._earlier = float(kept.get(SECONDS, torch.tensor(0.0)))
        return {name: tensor for name, tensor in kept.items() if name != SECONDS}

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps `state()` and the time, if it is time to."""
        self._inner.offer(lambda: {**state(), SECONDS: torch.tensor(self.seconds, dtype=torch.float64)})
