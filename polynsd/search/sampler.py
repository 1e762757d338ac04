"""Which parameters a trial gets: a function of the seed, the model, its number and the trials stored so far.

Trials of one start share the shape parameters of the first of them, and so do all other trials n with equal
n div batch, so that they can train as replicas. No state is kept between trials: a search that is interrupted
and resumed, or continued elsewhere, draws the same parameters.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from polynsd.errors import require_choice
from polynsd.optional import load_optuna
from polynsd.search.space import Space
from polynsd.search.study import START

SAMPLERS = ("tpe", "random")
OWN_DRAWS = ("model.model", "model.layer.maps")  # searches that differ in these share no random draws


class BatchSampler(load_optuna().samplers.BaseSampler):  # type: ignore[misc]
    """Optuna's sampler of that name, with the shape of a batch held fixed.

    Args:
        space: says which parameters belong to the shape.
        name: `tpe` (multivariate) or `random`.
        batch: trials of one shape.
        startup: trials before TPE stops drawing at random.
        seed: of everything drawn, together with the model and the maps that the space names.
    """

    def __init__(self, space: Space, name: str, batch: int, startup: int, seed: int) -> None:
        require_choice("sampler", name, SAMPLERS)
        self._space, self._name, self._batch, self._startup = space, name, batch, startup
        self._seeds = [seed, _hash_model(space)]
        self._inner: Any = None

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Makes the sampler of a new trial; Optuna calls this first."""
        self._inner = self._for_trial(study, trial)
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        return self._inner.sample_independent(study, trial, name, distribution)

    def _for_trial(self, study: Any, trial: Any) -> Any:
        """A fresh sampler, so that nothing but the seed, the model and the number decides."""
        optuna, samplers = load_optuna(), load_optuna().samplers
        seed = int(np.random.SeedSequence([*self._seeds, trial.number]).generate_state(1)[0])
        shape = self._shared_shape(study.get_trials(deepcopy=False), trial)
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

    def _shared_shape(self, trials: Sequence[Any], new: Any) -> dict[str, Any]:
        """The shape parameters of the first trial that shares them with this one, if there is any."""
        varying = set(self._space.distributions())
        for trial in trials:
            is_earlier = trial.number < new.number and set(trial.params) == varying
            if is_earlier and self._group(trial) == self._group(new):
                return self._space.shape(trial.params)
        return {}

    def _group(self, trial: Any) -> tuple[str, int]:
        """Equal for trials that share their shape."""
        start = trial.user_attrs.get(START)
        return ("batch", trial.number // self._batch) if start is None else (START, start)


def _hash_model(space: Space) -> int:
    rules = [space.rules[name].plain() if name in space.rules else None for name in OWN_DRAWS]
    return zlib.crc32(json.dumps(rules).encode())
