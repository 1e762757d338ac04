"""Which parameters a trial gets: a function of the seed, the model, its place and the trials stored so far.

Trials of one start share a shape, and so do all other trials of places p with equal p div batch, so that they
can train as replicas. A shape has a seed of its own, whichever of its trials comes first. No state is kept
between trials: a search that is interrupted and resumed, or continued elsewhere, draws the same parameters.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from polynsd.errors import require_choice
from polynsd.optional import load_optuna
from polynsd.search.heartbeat import claim_trial
from polynsd.search.space import Space
from polynsd.search.study import START, find_places

SAMPLERS = ("tpe", "random")
TRIAL_DRAWS, BATCH_DRAWS, START_DRAWS = 1, 2, 3  # what a seed is for
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
        self._study: Any = None
        self._trial: Any = None

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Makes the sampler of a new trial; Optuna calls this first.

        The trial is claimed before anything is drawn, so that it is missed if its worker dies while asking.
        """
        claim_trial(study, trial)
        self._study = InPlaceOrder(study)
        self._trial = self._study.trials[trial.number]
        self._inner = self._for_trial()
        return self._inner.infer_relative_search_space(self._study, self._trial)

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        return self._inner.sample_relative(self._study, self._trial, search_space)

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        return self._inner.sample_independent(self._study, self._trial, name, distribution)

    def _for_trial(self) -> Any:
        """A fresh sampler, so that nothing but the seed, the model, the place and stored trials decide."""
        shape = self._shared_shape() or self._draw_shape()
        base = self._seeded(TRIAL_DRAWS, self._trial.number)
        return _without_warnings(load_optuna().samplers.PartialFixedSampler, shape, base) if shape else base

    def _seeded(self, *place: int) -> Any:
        samplers = load_optuna().samplers
        seed = int(np.random.SeedSequence([*self._seeds, *place]).generate_state(1)[0])
        if self._name == "random":
            return samplers.RandomSampler(seed)
        return _without_warnings(
            samplers.TPESampler,
            seed=seed,
            multivariate=True,
            constant_liar=True,  # running trials count as bad ones, so that workers spread out
            n_startup_trials=self._startup,
        )

    def _shared_shape(self) -> dict[str, Any]:
        """The shape parameters of another trial that shares them with this one, if there is any."""
        varying, group = set(self._space.distributions()), self._group(self._trial)
        for trial in self._study.trials:
            if set(trial.params) == varying and self._group(trial) == group:
                return self._space.shape(trial.params)
        return {}

    def _draw_shape(self) -> dict[str, Any]:
        """What the sampler would give a trial with the seed of the group, without the free parameters."""
        base = self._seeded(*self._group(self._trial))
        common = base.infer_relative_search_space(self._study, self._trial)
        drawn = base.sample_relative(self._study, self._trial, common)
        return {
            name: drawn[name]
            if name in drawn
            else base.sample_independent(self._study, self._trial, name, distribution)
            for name, distribution in self._space.shape(self._space.distributions()).items()
        }

    def _group(self, trial: Any) -> tuple[int, int]:
        """Equal for trials that share their shape: the start, or the first place of the batch."""
        start = trial.user_attrs.get(START)
        if start is not None:
            return START_DRAWS, start
        return BATCH_DRAWS, trial.number // self._batch * self._batch


class InPlaceOrder:
    """A study for samplers, as it is now, in which the number of a trial is its place.

    Attributes:
        trials: in the order of their numbers in the storage.
    """

    def __init__(self, study: Any) -> None:
        self._study = study
        stored = study.get_trials(deepcopy=False)
        self.trials = [copy(trial) for trial in stored]
        for trial, place in zip(self.trials, find_places(stored), strict=True):
            trial.number = place
        tried = [trial for trial in self.trials if trial.state.name != "FAIL"]
        self._in_place_order = sorted(tried, key=lambda trial: int(trial.number))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def _get_trials(self, deepcopy: bool = True, states: Any = None, use_cache: bool = False) -> list[Any]:
        """As samplers of Optuna ask for them; those that failed or were lost are left out."""
        return [trial for trial in self._in_place_order if states is None or trial.state in states]


def _without_warnings(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Multivariate TPE and fixed parameters call themselves experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", load_optuna().exceptions.ExperimentalWarning)
        return make(*arguments, **options)


def _hash_model(space: Space) -> int:
    rules = [space.rules[name].plain() if name in space.rules else None for name in OWN_DRAWS]
    return zlib.crc32(json.dumps(rules).encode())
