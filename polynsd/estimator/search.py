"""The search over candidates: cheap ones first, and what validation favours to the end.

Every family is tried by its first shape. Then families are pursued in turn, the best first, as long as they
are not behind by more than noise, what is left of the budget suffices (`budget.py`), and the ensemble still
gains.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from polynsd.errors import DataError, PolyNSDError
from polynsd.estimator.budget import Budget
from polynsd.estimator.calibration import UNCALIBRATED, Calibration
from polynsd.estimator.ensemble import Predictions, average, select_ensemble
from polynsd.estimator.judge import Judge, as_predictions
from polynsd.estimator.kinds import restore_member, store_member
from polynsd.estimator.label_trees import LabelTreesCandidate
from polynsd.estimator.links import LinkCandidate
from polynsd.estimator.members import FAMILIES, Candidate, FitData, Fitted, Member, State
from polynsd.estimator.networks import Network, NetworkMember, fit_again, fit_networks
from polynsd.estimator.trees import TreesCandidate
from polynsd.threads import PASS_BYTES, use_threads_for

logger = logging.getLogger("polynsd")

GROUPS_WITHOUT_GAIN = 3  # that end a search
FAR_BEHIND = 0.05  # by which a family is behind another that is not tried by networks at all
SMALLEST_MARGIN = 0.01  # by which a family may be behind the best to be pursued
TABLE_BYTES = 24  # of a feature of a node and of its neighbours in the tables of cheap candidates
GAIN = 1e-3  # of the ensemble's objective, that counts as one
CHEAP_SHARE = 0.4  # of the time that cheap candidates usually take; budgets of work count networks alone

OnCandidate = Callable[[dict[str, Any], float], None]


class CandidateStore(Protocol):
    """Where fitted candidates are kept while a search goes on, e.g. `polynsd.runs.RunParts`."""

    def load(self) -> Sequence[State]:
        """What has been kept so far."""
        ...

    def append(self, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Keeps one more."""
        ...


@dataclass(eq=False)
class Attempt:
    """A candidate that was tried."""

    name: str
    family: str
    seconds: float
    member: Member | None = None
    failure: str | None = None
    """Why there is no member."""
    calibration: Calibration = UNCALIBRATED
    everywhere: Predictions = field(default_factory=lambda: np.empty((0, 0)))
    """`[N, O]` the mean over the folds on all nodes; empty where there is no member."""
    judged: Predictions = field(default_factory=lambda: np.empty((0, 0)))
    """`[n, O]` out of fold, on the nodes that judge; likewise."""
    score: float = math.nan
    objective: float = -math.inf
    weight: float = 0.0
    """Its weight in the ensemble."""

    def describe(self) -> dict[str, Any]:
        """A row of the table of candidates."""
        parameters = {} if self.member is None else dict(self.member.parameters)
        return {
            "family": self.family,
            "name": self.name,
            "val_score": self.score,
            "seconds": round(self.seconds, 2),
            "weight": self.weight,
            "parameters": parameters,
            "failure": self.failure,
        }


@dataclass(eq=False)
class CandidateSearch:
    """The candidates that were tried on a graph, and those to come.

    Args:
        data: what candidates are fitted to.
        judge: compares predictions.
        seconds: the budget; None: a fixed amount of work.
        size: the most members of the ensemble.
        parts: where fitted candidates are kept, so that an interrupted search goes on from them.
        on_candidate: called with the row of a candidate that has ended, and how far the search is, from 0 to
            1: a guess, as it ends when nothing gains any more.
    """

    data: FitData
    judge: Judge
    seconds: float | None = None
    size: int = 1
    parts: CandidateStore | None = None
    on_candidate: OnCandidate | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def run(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        """Tries candidates until all are tried or nothing more is to be expected.

        Ctrl-C ends it with what is complete by then. With `parts` it is passed on: it can go on later.
        """
        self.budget = Budget(self.seconds, candidates, self.data.inputs, len(self.data.folds))
        parts = [] if self.parts is None else self.parts.load()
        self._stored = {data["name"]: restore_member(data, tensors) for data, tensors in parts}
        self._cheap = sum(not isinstance(candidate, Network) for candidate in candidates)
        groups = list(_groups(candidates, together=self.budget.on_gpu))
        try:
            rest = self._try_families(groups)
            self._pursue(rest)
        except KeyboardInterrupt:
            if self.parts is not None or not self.complete:
                raise
            logger.warning("interrupted; the best of the %d candidates so far is kept.", len(self.complete))
        if not self.complete:
            raise DataError(f"no candidate could be fitted: {self.attempts[0].failure}")
        self._weigh()
        self._fit_again()
        return self.attempts

    @property
    def complete(self) -> list[Attempt]:
        """The attempts that have a member."""
        return [attempt for attempt in self.attempts if attempt.member is not None]

    def _try_families(self, groups: Sequence[Sequence[Candidate]]) -> list[Sequence[Candidate]]:
        """Tries everything cheap, and the first network of every family; the groups that are left."""
        rest: list[Sequence[Candidate]] = []
        networks = [group for group in groups if isinstance(group[0], Network)]
        cheap = [group for group in groups if not isinstance(group[0], Network)]
        later: list[Sequence[Candidate]] = []
        if self.seconds is not None:  # which may end before all are tried: the first of every family first
            cheap, later = _split_families(cheap)
        self._try_cheap(cheap)
        treatments = self._rank_treatments()
        seen = set()
        for group in sorted(
            networks, key=lambda group: treatments.get(getattr(group[0], "treatment", ""), 0)
        ):
            if group[0].family in seen:
                rest.append(group)
                continue
            seen.add(group[0].family)
            if group[0].family != "features" or not self._needs_neighbours():
                self._try(group)
        self._try_cheap(later)
        return rest

    def _try_cheap(self, groups: Iterable[Sequence[Candidate]]) -> None:
        for group in groups:
            families = _families_of(group[0])
            if not families or not all(map(self._is_behind, families)):
                self._try(group)

    def _needs_neighbours(self) -> bool:
        """Whether cheap models show that features alone are not enough."""
        return self._best_score("features") < self._best_score("smoothed") - FAR_BEHIND

    def _is_behind(self, family: str) -> bool:
        """Whether what was tried of a family is behind the best by more than noise."""
        best, top = self._best_score(family), self._best_score()
        return -math.inf < best < top - max(2 * SMALLEST_MARGIN, self.judge.noise(top))

    def _best_score(self, family: str | None = None) -> float:
        """The best score in a family, or of all; −∞ where nothing is complete."""
        scores = (attempt.score for attempt in self.complete if family in (None, attempt.family))
        return max(scores, default=-math.inf)

    def _rank_treatments(self) -> dict[str, int]:
        """The place of every treatment of features in the order of what linear models make of them."""
        best: dict[str, float] = {}
        for attempt in self.complete:
            name = getattr(attempt.member, "treatment", None)
            if name is not None:
                best[name] = max(best.get(name, -math.inf), attempt.objective)
        return {name: place for place, name in enumerate(sorted(best, key=lambda name: -best[name]))}

    def _pursue(self, rest: list[Sequence[Candidate]]) -> None:
        """Tries further groups of the families that are ahead, one of each in turn."""
        without_gain, objective, tried = 0, self._weigh(), Counter[str]()
        while rest and without_gain < GROUPS_WITHOUT_GAIN:
            best = {family: self._best_score(family) for family in FAMILIES}
            top = max(best.values())
            margin = max(self.judge.noise(top), SMALLEST_MARGIN)
            rest = [group for group in rest if best[group[0].family] >= top - margin]
            if not rest:
                return
            rest.sort(key=lambda group: (tried[group[0].family], -best[group[0].family]))
            group = rest.pop(0)
            tried[group[0].family] += 1
            if not self._try(group):
                continue
            now = self._weigh()
            without_gain = 0 if now > objective + GAIN else without_gain + 1
            objective = max(now, objective)

    def _try(self, group: Sequence[Candidate]) -> bool:
        """Fits the candidates of a group; whether there was time for it."""
        began = time.monotonic()
        try:
            fitted = self._fit(group)
        except PolyNSDError as error:
            seconds = time.monotonic() - began
            failed = [Attempt(c.name, c.family, seconds, failure=str(error)) for c in group]
            logger.warning("%s failed and is left out: %s", ", ".join(c.name for c in group), error)
            self.attempts += failed
            self._report(failed)
            return True
        seconds = (time.monotonic() - began) / max(len(fitted), 1)
        for candidate, each in zip(group, fitted, strict=False):
            self._judge(Attempt(candidate.name, candidate.family, seconds), each)
        self._report(self.attempts[len(self.attempts) - len(fitted) :])
        return bool(fitted)

    def _report(self, attempts: Sequence[Attempt]) -> None:
        if self.on_candidate is not None:
            for attempt in attempts:
                self.on_candidate(attempt.describe(), self._share_done())

    def _share_done(self) -> float:
        spent = self.budget.share_spent
        if self.seconds is not None:
            return spent
        if not spent:  # no network so far
            return CHEAP_SHARE * min(len(self.attempts) / max(self._cheap, 1), 1.0)
        return CHEAP_SHARE + (1 - CHEAP_SHARE) * spent

    def _fit(self, group: Sequence[Candidate]) -> Sequence[Fitted | None]:
        """The fitted candidates; none where there is no time for any."""
        stored = [self._stored.pop(candidate.name, None) for candidate in group]
        if all(member is not None for member in stored):
            fitted = self._with_outputs(stored)
        elif self.budget.is_over and self.complete:
            return []
        else:
            if isinstance(group[0], Network):
                networks = [candidate for candidate in group if isinstance(candidate, Network)]
                networks = self.budget.shorten(networks, is_first=not self.complete)
                if not networks:
                    return []
                fitted = self._with_outputs(fit_networks(networks, self._data_in_time()))
            else:
                rows, columns = self.data.inputs.graph.num_nodes, len(self.data.inputs.treatments.columns)
                with use_threads_for(TABLE_BYTES * rows * max(columns, 1)):
                    fitted = [candidate.fit(self._data_in_time()) for candidate in group]
            for each in fitted:
                if each is not None and self.parts is not None:
                    self.parts.append(*store_member(each.member))
        self.budget.charge(
            [each.member for each in fitted if each and isinstance(each.member, NetworkMember)]
        )
        return fitted

    def _with_outputs(self, members: Sequence[Member | None]) -> list[Fitted | None]:
        inputs = self.data.inputs
        with use_threads_for(inputs.graph.num_nodes * PASS_BYTES):
            return [None if member is None else Fitted(member, member.outputs(inputs)) for member in members]

    def _judge(self, attempt: Attempt, fitted: Fitted | None) -> None:
        self.attempts.append(attempt)
        if fitted is None:
            attempt.failure = "its loss was not finite"
            return
        attempt.calibration, predictions = self.judge.predictions(fitted.outputs, self.data.folds)
        if not np.isfinite(predictions).all():
            attempt.failure = "its predictions are not finite"
            return
        attempt.member, attempt.everywhere = fitted.member, predictions.mean(0)
        attempt.judged = self.data.folds.out_of_fold(predictions)[self.judge.nodes]
        attempt.score = self.judge.score(attempt.judged)
        attempt.objective = self.judge.objective(attempt.judged)
        logger.info("%s: %.4f in %.1f s", attempt.name, attempt.score, attempt.seconds)

    def _weigh(self) -> float:
        """Chooses the ensemble; its objective."""
        complete = self.complete
        if not complete:
            return -math.inf
        predictions = [attempt.judged for attempt in complete]
        noise = self.judge.noise(max(attempt.score for attempt in complete))
        weights = select_ensemble(predictions, self.judge.objective, self.size, noise)
        for attempt, weight in zip(complete, weights.tolist(), strict=True):
            attempt.weight = weight
        return self.judge.objective(average(predictions, weights))

    def _fit_again(self) -> None:
        """Adds a model of all labelled nodes to the networks of the ensemble, where a part never trained."""
        if len(self.data.folds) > 1:
            return  # every node has trained most of the models
        for attempt in self.complete:
            member = attempt.member
            if not attempt.weight or not isinstance(member, NetworkMember):
                continue
            if not self.budget.allows_again(member, attempt.seconds):
                continue
            try:
                member = fit_again(member, self._data_in_time())
            except KeyboardInterrupt:
                if self.parts is not None:
                    raise
                logger.warning("interrupted; the models are kept as they are.")
                return
            attempt.member = member
            outputs, is_regression = member.outputs(self.data.inputs), self.data.task.is_regression
            attempt.everywhere = as_predictions(outputs, attempt.calibration, is_regression).mean(0)

    def _data_in_time(self) -> FitData:
        """What the next candidate is fitted to, with the end of its share of the budget."""
        return replace(self.data, deadline=self.budget.deadline(is_first=not self.complete))


def _families_of(candidate: Candidate) -> tuple[str, ...]:
    """Of a candidate that is dear though no network: one of these must not be behind, or it is left out."""
    if isinstance(candidate, LabelTreesCandidate):
        return "labels", "trees"
    return (candidate.family,) if isinstance(candidate, LinkCandidate | TreesCandidate) else ()


def _groups(candidates: Iterable[Candidate], together: bool) -> Iterable[Sequence[Candidate]]:
    """Candidates of one shape `together`, where they train in the time of one, or each by itself."""
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        shape = candidate.shape if together and isinstance(candidate, Network) else candidate.name
        groups.setdefault(shape, []).append(candidate)
    return groups.values()


def _split_families(
    groups: Iterable[Sequence[Candidate]],
) -> tuple[list[Sequence[Candidate]], list[Sequence[Candidate]]]:
    """The first group of every family, and all others."""
    first: dict[str, Sequence[Candidate]] = {}
    others = [group for group in groups if first.setdefault(group[0].family, group) is not group]
    return list(first.values()), others
