"""Which parameters a trial gets: a function of the seed, its number and the trials stored so far.

Trials n with equal n div batch share their shape parameters, those of the first of them, so that they
train as replicas of one batch. No state is kept between trials: a search that is interrupted and
resumed, or continued elsewhere, draws the same parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from polynsd.errors import require_choice
from polynsd.optional import load_optuna
from polynsd.search.space import Space

SAMPLERS = ("tpe", "random")


class BatchSampler(load_optuna().samplers.BaseSampler):  # type: ignore[misc]
    """Optuna's sampler of that name, with the shape of a batch held fixed.

    Args:
        space: says which parameters belong to the shape.
        name: `tpe` (multivariate) or `random`.
        batch: trials of one shape.
        startup: trials before TPE stops drawing at random.
        seed: of everything drawn.
    """

    def __init__(self, space: Space, name: str, batch: int, startup: int, seed: int) -> None:
        require_choice("sampler", name, SAMPLERS)
        self._space, self._name, self._batch, self._startup, self._seed = space, name, batch, startup, seed
        self._inner: Any = None

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Makes the sampler of a new trial; Optuna calls this first."""
        self._inner = self._for_trial(study, trial.number)
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        return self._inner.sample_independent(study, trial, name, distribution)

    def _for_trial(self, study: Any, number: int) -> Any:
        """A fresh sampler, so that nothing but the seed and the number decides."""
        optuna, samplers = load_optuna(), load_optuna().samplers
        seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        shape = self._shape_of_batch(study.get_trials(deepcopy=False), number)
        with warnings.catch_warnings():  # multivariate TPE and fixed parameters call themselves experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if self._name == "random":
                base = samplers.RandomSampler(seed)
            else:
                base = samplers.TPESampler(
                    seed=seed,
                    multivariate=True,
                    constant_liar=True,  # running trials count as bad ones, so that workers spread out
                    n_startup_trials=self._startup,
                )
            return samplers.PartialFixedSampler(shape, base) if shape else base

    def _shape_of_batch(self, trials: Sequence[Any], number: int) -> dict[str, Any]:
        """The shape parameters of the first trial of the batch, if it is not this one."""
        varying = self._space.distributions()
        for trial in sorted(trials, key=lambda trial: trial.number):
            same_batch = trial.number // self._batch == number // self._batch
            if same_batch and trial.number < number and set(trial.params) == set(varying):
                return self._space.shape(trial.params)
        return {}
