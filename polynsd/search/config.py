"""`SearchConfig`: how many trials a search has, and which come next."""

from __future__ import annotations

from dataclasses import dataclass

from polynsd.errors import ConfigError, require_at_least


@dataclass(frozen=True)
class SearchConfig:
    """How many trials, and which come next."""

    trials: int = 100
    """Number of trials of all workers and sessions together."""
    batch: int = 16
    """Trials of one shape that train together; 1 lets every trial have its own."""
    sampler: str = "tpe"
    """tpe (learns from the trials so far) or random."""
    pruner: str = "median"
    """What ends a trial early: median, percentile(q) or none."""
    screen: int = 0
    """Train on so many splits first, and on the rest only where they look good; 0 for all at once."""
    startup: int = 32
    """Trials before anything is learned or pruned: two batches, so that there are two shapes to compare."""
    prune_interval: int = 25
    """Epochs between two comparisons with other trials."""
    finalists: int = 3
    """The best so many are trained again with other seeds, where validation decides; 1 for no run-off."""
    seed: int = 0
    """Seed of the sampler."""

    def __post_init__(self) -> None:
        for name in ("trials", "batch", "startup", "prune_interval", "finalists"):
            require_at_least(name, getattr(self, name), 1)
        for name in ("screen", "seed"):
            require_at_least(name, getattr(self, name), 0)

    def stages(self, splits: int) -> list[range]:
        """The splits of the first training and those of the second, if there is one."""
        if self.screen >= splits:
            raise ConfigError(f"screen must be less than the number of splits, {splits}; got {self.screen}.")
        return [range(self.screen), range(self.screen, splits)] if self.screen else [range(splits)]
