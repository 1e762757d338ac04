"""Many models trained together: ten splits, several seeds, trials of a search share one graph.

Replicas are trained in chunks that fit into memory. Every few epochs the host synchronises with the device:
it reports the epochs since, ends the replicas that `stop` names, offers a snapshot, and drops the replicas
that have ended once they are many. When it synchronises, and what it does then, depends on the state only, so
an interrupted training resumes to the same result.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.devices import on_device
from polynsd.errors import ConfigError, DataError
from polynsd.nn.integration import failures_as_nan
from polynsd.nn.precision import exact_products
from polynsd.threads import PASS_BYTES, use_threads_for
from polynsd.training.capture import capture_step
from polynsd.training.compiling import compile_step
from polynsd.training.optimizer import trainable
from polynsd.training.population import (
    IS_BEST,
    TRAIN_LOSS,
    VAL_LOSS,
    VAL_METRIC,
    WAS_ACTIVE,
    Population,
)
from polynsd.training.probe import (
    Predict,
    Probe,
    begin_like,
    build_undrawn,
    is_vectorisable,
    materialize,
    probe,
    replicas_at_once,
)
from polynsd.training.replica import (
    NOT_FINITE,
    Epoch,
    FitResult,
    Replica,
    Snapshots,
    call_model,
    check_model,
    check_output,
    check_replicas,
)
from polynsd.training.rows import CHANGING, Rows, find_replica_state, load_row, make_rows, named_state
from polynsd.training.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

WINDOWS = {"cpu": 1, "cuda": 25}  # epochs between two synchronisations; on a GPU each makes the host wait
HEAVY_STEP = 2**28  # bytes of a step, from which on a GPU needs longer for more replicas

OnEpoch = Callable[[int, Epoch], None]
Stop = Callable[[int], Collection[int]]


def fit_replicas(
    replicas: Sequence[Replica],
    data: Data,
    task: Task,
    *,
    on_epoch: OnEpoch | None = None,
    stop: Stop | None = None,
    snapshots: Snapshots | None = None,
    chunk: int | None = None,
    score_test: bool = True,
) -> list[FitResult]:
    """Trains all replicas; the results are in their order.

    Args:
        replicas: what is trained.
        data: a PyG graph with `x`, `edge_index` and `y`. Edge weights are used if present, edge features
            if the models were built for them (`edge_dim`).
        task: loss and metric.
        on_epoch: called with the number of the replica and its epoch; on a GPU in bunches.
        stop: called at every synchronisation with the number of the last epoch; replicas that it returns
            end there.
        snapshots: where the state is kept, and from which an interrupted training goes on.
        chunk: how many train at once; as many as fit into memory unless given.
        score_test: whether to score the test set, once, at the best epoch; False leaves `test_metric` NaN.

    The global random state is left as it was.
    """
    check_replicas(replicas, data, task, chunk)
    with torch.random.fork_rng(), on_device(data.x.device), failures_as_nan():
        with use_threads_for(data.num_nodes * PASS_BYTES):
            training = _Training(replicas, data, task, chunk)
        with use_threads_for(training.step_bytes):
            training.run(on_epoch, stop, snapshots)
            return training.results(score_test)


def fit(
    build: Callable[[], nn.Module],
    data: Data,
    split: Split,
    task: Task,
    config: TrainConfig | None = None,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Trains one model on one split.

    Args:
        build: makes the model; called under the seed, so that initial weights and dropout depend on it
            alone.
        data: a PyG graph with `x`, `edge_index` and `y`. Edge weights are used if present, edge features
            if the model was built for them (`edge_dim`).
        split: masks of the nodes to train on, to select on and to test on.
        task: loss and metric.
        config: the training rules.
        seed: of the weights and the dropout; the global random state is left as it was.
        on_epoch: called after every epoch, e.g. to move a progress bar.
    """
    replica = Replica(build, split, seed, TrainConfig() if config is None else config)
    report = None if on_epoch is None else (lambda _, epoch: on_epoch(epoch))
    (result,) = fit_replicas([replica], data, task, on_epoch=report)
    return require_finite(result)


def require_finite(result: FitResult) -> FitResult:
    """Raises if the loss was not finite at some point of the training."""
    if result.diverged:
        raise DataError(NOT_FINITE)
    return result


class _Training:
    """All replicas, one chunk after the other in a `Population`."""

    def __init__(self, replicas: Sequence[Replica], data: Data, task: Task, chunk: int | None) -> None:
        self.replicas, self.data, self.task, self.device = replicas, data, task, data.x.device
        self.y = data.y if task.is_regression else data.y.long()
        self.config = replicas[0].config
        self.window = WINDOWS.get(self.device.type, 1)
        self.predict: Predict = lambda model: call_model(model, data)
        self.models = self._build_models()
        compile_step(self.models[0], self.predict, self.config.precision)
        with exact_products():
            probes = self._probes()
        self.moving = find_replica_state(self.models, probes)
        self.all_rows = make_rows(self.models, replicas, self.moving, probes)
        row_bytes = 8 * self.all_rows.theta[0].numel() * self.all_rows.theta.element_size()
        self.bytes_each = probes[0].saved_bytes + row_bytes
        self.size = chunk or replicas_at_once(len(replicas), self.bytes_each, self.device)
        self.start, self.members, self.diverged = 0, self._members(0), set[int]()
        self.is_vectorised = True
        first = self.all_rows.take(self.members[:1])
        self.is_vectorised = is_vectorisable(self._population(first).try_pass)
        with exact_products():  # two ways to round would look like two models
            self._require_alike(probes)

    @property
    def step_bytes(self) -> float:
        """What an epoch of the replicas that train at once goes through; infinite where a GPU does it."""
        return self.bytes_each * min(self.size, len(self.replicas)) if self.device.type == "cpu" else math.inf

    def _build_models(self) -> list[nn.Module]:
        """One per replica. Where `start` allows, numbers are drawn once per seed, and modules made once."""
        firsts: dict[tuple[str, int], nn.Module] = {}
        models: list[nn.Module] = []
        for replica in self.replicas:
            first = None if replica.start is None else firsts.get((replica.start, replica.seed))
            if first is not None:
                known = zip(self.replicas, models, strict=False)
                twin = next((model for other, model in known if other.build == replica.build), None)
                new = build_undrawn(replica.build, self.device) if twin is None else copy.deepcopy(twin)
                models.append(begin_like(new, first))
                continue
            torch.manual_seed(replica.seed)
            model = replica.build().to(self.device)
            check_model(model, self.data)
            was_lazy = materialize(model, self.predict)
            if replica.start is not None and not was_lazy:
                firsts[replica.start, replica.seed] = model
            models.append(model)
        return models

    def _probes(self) -> list[Probe]:
        """One per replica; replicas with the same `build` share it.

        Models of one `start` are alike, so the output of the first speaks for them.
        """
        by_build: list[tuple[object, Probe]] = []  # a build need not be hashable
        probes = []
        for replica, model in zip(self.replicas, self.models, strict=True):
            shared = next((probe for build, probe in by_build if build == replica.build), None)
            if shared is None:
                is_first = not by_build
                is_alike = replica.start is not None and replica.start == self.replicas[0].start
                shared = probe(
                    model, self.predict, counts_bytes=is_first, needs_output=is_first or not is_alike
                )
                if shared.output is not None:
                    check_output(shared.output, self.y, self.task)
                by_build.append((replica.build, shared))
            probes.append(shared)
        return probes

    def _require_alike(self, probes: Sequence[Probe]) -> None:
        """The code of one model, run with another's parameters, must do what the other does."""
        firsts = {id(probe): number for number, probe in reversed(list(enumerate(probes)))}
        others = [number for number in sorted(firsts.values())[1:] if probes[number].output is not None]
        for start in range(0, len(others), self.size):
            numbers = others[start : start + self.size]
            rows = self.all_rows.take(torch.tensor(numbers, device=self.device))
            outputs = self._population(rows).outputs(rows.theta, rows.moving)
            for number, here in zip(numbers, outputs, strict=True):
                expected = probes[number].output
                assert expected is not None
                if not bool(expected.isfinite().all()):
                    continue  # training finds out, and ends this replica alone
                if not torch.allclose(here, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max() + 1)):
                    raise ConfigError(
                        "the models of a batch must differ in nothing but parameters and dropout rates; "
                        f"replica {number} computes something else than replica 0. Train it in another call."
                    )

    def _members(self, start: int) -> Tensor:
        numbers = range(len(self.replicas))[start : start + self.size]
        return torch.tensor(numbers, dtype=torch.long, device=self.device)

    def _population(self, rows: Rows) -> Population:
        return Population(
            self.models[0],
            rows,
            self.moving,
            self.y,
            self.task,
            self.predict,
            self.config.select,
            self.config.precision,
            self.window,
            self.is_vectorised,
        )

    def run(self, on_epoch: OnEpoch | None, stop: Stop | None, snapshots: Snapshots | None) -> None:
        """Trains chunk by chunk, from the snapshot on if there is one."""
        kept = None if snapshots is None else snapshots.load()
        epoch = 0 if kept is None else self._restore(kept)
        while self.start < len(self.replicas):
            try:
                self._train_chunk(epoch, on_epoch, stop, snapshots)
            except torch.OutOfMemoryError:
                if epoch or self.has_synced or self.size == 1:
                    raise  # a chunk that has begun cannot be divided
                self.size = -(-self.size // 2)  # it needed more memory than estimated
                self.members = self._members(self.start)
                continue
            epoch, self.start = 0, self.start + self.size
            self.members = self._members(self.start)

    def _train_chunk(
        self, epoch: int, on_epoch: OnEpoch | None, stop: Stop | None, snapshots: Snapshots | None
    ) -> None:
        self.has_synced = False
        while len(self.members):
            population = self._population(self.all_rows.take(self.members))
            population.epoch.fill_(epoch)
            step = capture_step(population.run_epoch, self.config.capture, self.device)
            while True:
                count = 1
                if self.window > 1:
                    rows = population.rows
                    count = min(self.window, int(rows.last_epoch[rows.active].max()) - epoch)
                for _ in range(count):
                    step()
                epoch += count
                self._synchronise(population, epoch, count, on_epoch, stop)
                compact = self._should_compact(population)
                if compact:
                    self.all_rows.put(self.members, population.rows)
                    self.members = self.members[population.rows.active]
                    population.rows = self.all_rows.take(self.members)
                if snapshots is not None:
                    snapshots.offer(partial(self._state, population, epoch))
                if compact:
                    break

    def _synchronise(
        self, population: Population, epoch: int, count: int, on_epoch: OnEpoch | None, stop: Stop | None
    ) -> None:
        """Reports the epochs since the last synchronisation, and ends the replicas that `stop` names."""
        members, self.has_synced = self.members.tolist(), True
        history = population.history.cpu()
        for number in range(epoch - count + 1, epoch + 1):
            for member, row in zip(members, history[(number - 1) % self.window].tolist(), strict=True):
                if not row[WAS_ACTIVE]:
                    continue
                if not (math.isfinite(row[TRAIN_LOSS]) and math.isfinite(row[VAL_LOSS])):
                    self.diverged.add(member)
                if on_epoch is not None:
                    losses_and_metric = (row[TRAIN_LOSS], row[VAL_LOSS], row[VAL_METRIC])
                    on_epoch(member, Epoch(number, *losses_and_metric, bool(row[IS_BEST])))
        ended = set(stop(epoch)) if stop is not None else set()
        if ended:
            going = [member not in ended for member in members]
            population.rows.active.logical_and_(torch.tensor(going, device=self.device))

    def _should_compact(self, population: Population) -> bool:
        """Whether to drop the replicas that have ended; on a GPU that costs a second for a new CUDA graph."""
        active, rows = int(population.rows.active.sum()), len(self.members)
        is_heavy = self.device.type != "cuda" or rows * self.bytes_each > HEAVY_STEP
        return active == 0 or (is_heavy and 2 * active <= rows)

    def _state(self, population: Population, epoch: int) -> dict[str, Tensor]:
        """Everything that training has changed so far, on the host."""
        self.all_rows.put(self.members, population.rows)
        state = {name: getattr(self.all_rows, name).cpu() for name in CHANGING}
        # files of interrupted runs have these names
        numbers = {"place": [self.size, self.start, epoch], "diverged": sorted(self.diverged)}
        state |= {name: torch.tensor(value, dtype=torch.long) for name, value in numbers.items()}
        return state | {"members": self.members.cpu()}

    def _restore(self, state: Mapping[str, Tensor]) -> int:
        expected = {name: getattr(self.all_rows, name) for name in CHANGING}
        for name in (*expected, "place", "members", "diverged"):
            kept, here = state.get(name), expected.get(name)
            if kept is None or (here is not None and (kept.shape, kept.dtype) != (here.shape, here.dtype)):
                raise DataError(f"the snapshot is of another training: '{name}' does not fit.")
        for name, here in expected.items():
            here.copy_(state[name])
        self.size, self.start, epoch = (int(number) for number in state["place"])
        self.members, self.diverged = state["members"].to(self.device), set(state["diverged"].tolist())
        numbers = {*self.members.tolist(), *self.diverged, self.start}
        if self.size < 1 or not numbers <= set(range(len(self.replicas) + self.size)):
            raise DataError("the snapshot is of another training: it speaks of other replicas.")
        return epoch

    def results(self, score_test: bool) -> list[FitResult]:
        """The test set is read here, once, with the best state of every replica, or not at all."""
        unknown = (math.nan, math.nan, math.nan)
        scores = self._final_scores() if score_test else [unknown] * len(self.replicas)
        results, rows = [], self.all_rows
        for number, (model, (test, *train)) in enumerate(zip(self.models, scores, strict=True)):
            load_row(trainable(model), rows.best_theta[number])
            load_row(named_state(model, self.moving), rows.best_moving[number])
            results.append(
                FitResult(
                    model=model.eval(),
                    best_epoch=int(rows.best_epoch[number]),
                    epochs=int(rows.ended[number]),
                    val_metric=float(rows.best_metric[number]),
                    test_metric=test,
                    val_loss=float(rows.best_loss[number]),
                    seed=self.replicas[number].seed,
                    diverged=number in self.diverged,
                    train_loss=train[0],
                    train_metric=train[1],
                )
            )
        return results

    def _final_scores(self) -> list[tuple[float, float, float]]:
        """Of every replica in its best state: test metric, training loss, training metric."""
        scores: list[tuple[float, float, float]] = []
        for start in range(0, len(self.replicas), self.size):
            rows = self.all_rows.take(self._members(start))
            output = self._population(rows).outputs(rows.best_theta, rows.best_moving)
            tests, metrics = (self.task.metrics(output, self.y, mask) for mask in (rows.test, rows.train))
            losses = self.task.losses(output, self.y, rows.train)
            scores += zip(tests.tolist(), losses.tolist(), metrics.tolist(), strict=True)
        return scores
