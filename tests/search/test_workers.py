"""Many workers, one study: every trial is trained once, and none dies with its worker."""

import platform
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from toys import by_params, toy_search
from worker import PATIENCE, start_worker, wait_for

from polynsd.search import count_finished, trial_rows, work, worker
from polynsd.search.heartbeat import LostTrials, heartbeat, machine_id, requeue_trial
from polynsd.search.study import SURPLUS
from polynsd.search.worker import ask_batch, run_batch

TRIALS = 18


class Killed(BaseException):
    """Stands for a signal that nothing handles."""


def check_shared(study, trials):
    """Exactly so many trials that count, no parameters twice."""
    values = by_params(study)
    assert len(values) == count_finished(study) == trials
    assert len({str(params) for params, *_ in values}) == trials
    assert not [trial for trial in study.trials if trial.state.name in ("RUNNING", "WAITING")]


def ended(process):
    process.join(PATIENCE)
    return process.exitcode


def share(url, folder):
    """Two processes and this one; the first is killed in its first batch, the others take over at once."""
    victim, worker = start_worker(url, TRIALS), start_worker(url, TRIALS, folder)
    try:
        assert ended(victim) == -signal.SIGKILL
        search = toy_search(url, trials=TRIALS, batch=3)
        wait_for(folder / "ready")
        (folder / "go").touch()
        work(search)
        assert ended(worker) == 0
    finally:
        victim.kill()
        worker.kill()
    check_shared(search.study, TRIALS)
    return search


@pytest.mark.slow
def test_processes_share_an_sqlite_file_and_survive_a_killed_one(tmp_path):
    search = share(f"sqlite:///{tmp_path}/study.db", tmp_path)
    states = [row["state"] for row in trial_rows(search.study)]
    assert states.count("lost") == 3  # the batch of the one that was killed


def test_two_workers_share_a_journal(tmp_path):
    url = f"journal:///{tmp_path}/study.log"
    first, second = (toy_search(url, trials=6, batch=2) for _ in range(2))
    one, other = ask_batch(first), ask_batch(second)
    run_batch(second, other)
    run_batch(first, one)
    work(first)
    check_shared(second.study, 6)


def dead_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_dead_process_of_this_machine_is_seen_at_once():
    search = toy_search(trials=4)
    lost = ask_batch(search)
    lost[0].set_user_attr("worker", f"{machine_id()}:{dead_process()}")
    assert LostTrials(search).requeue() == [0]
    retried = ask_batch(search)
    assert retried[0].params == lost[0].params
    assert search.study.trials[retried[0].number].user_attrs["retry_of"] == 0


def test_containers_of_one_name_do_not_take_each_others_trials(monkeypatch):
    """Equal host names; but a process number means another process there."""
    search = toy_search(trials=4)
    trial = ask_batch(search)[0]
    elsewhere = machine_id().rpartition("/")[0] + "/12345"
    for where in (elsewhere, platform.node()):
        trial.set_user_attr("worker", f"{where}:{dead_process()}")
        assert LostTrials(search).requeue() == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_machine_id_names_host_boot_and_container():
    name, boot, namespace = machine_id().rsplit("/", 2)
    assert name == platform.node()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert namespace.isdigit()


def test_a_trial_that_kills_its_workers_trains_alone_and_then_has_failed(monkeypatch):
    """The others of its batch, which died with it three times, are trained."""
    search = toy_search(trials=3, batch=3)
    monkeypatch.setattr("polynsd.search.heartbeat._is_dead_here", lambda worker: True)
    train, sizes, poison = worker.train_together, [], None

    def deadly(problem, configurations, *arguments):
        nonlocal poison
        poison = poison or configurations[1]
        sizes.append(len(configurations))
        if poison in configurations:
            raise Killed
        return train(problem, configurations, *arguments)

    monkeypatch.setattr(worker, "train_together", deadly)
    monkeypatch.setattr(worker, "requeue_trial", lambda *_, **__: None)  # a killed worker does nothing more
    for _ in range(6):
        with pytest.raises(Killed):
            work(search)
    work(search)
    assert sizes == [3, 3, 3, 1, 1, 1, 1, 1]
    states = Counter(row["state"] for row in trial_rows(search.study))
    assert (states["complete"], states["failed"]) == (2, 1)
    (row,) = (row for row in trial_rows(search.study) if row["state"] == "failed")
    assert row["place"] == 1
    assert "6 workers died while they trained it" in row["reason"]


def test_a_trial_without_a_new_heartbeat_is_lost(monkeypatch):
    """By the clock of the process that checks: clocks of other machines do not matter."""
    now = [0.0]
    monkeypatch.setattr("polynsd.search.heartbeat.time.monotonic", lambda: now[0])
    search = toy_search(trials=2, batch=2)
    silent, alive = ask_batch(search)
    for trial in (silent, alive):
        trial.set_user_attr("worker", "elsewhere:1")
    lost = LostTrials(search, timeout=10)
    for moment in (0, 9, 18):
        now[0] = moment
        alive.set_user_attr("heartbeat", moment)
        assert lost.requeue() == ([] if moment < 10 else [silent.number])


def test_heartbeats_are_written_while_trials_train():
    search = toy_search(trials=1)
    trials = ask_batch(search)
    with heartbeat(trials, seconds=0.01):
        while "heartbeat" not in search.study.trials[0].user_attrs:
            pass


def test_who_was_taken_for_dead_does_no_harm(caplog):
    """Its trial was given away; what it says of it afterwards does not count."""
    search = toy_search(trials=2, batch=2, pruner="median", prune_interval=1, startup=1)
    slow = ask_batch(search)
    for trial in slow:
        assert requeue_trial(search, trial.number)
        assert not requeue_trial(search, trial.number)
    run_batch(search, slow)
    assert "given to another worker" in caplog.text
    assert count_finished(search.study) == 0
    work(search)
    check_shared(search.study, 2)


def test_workers_that_ask_at_once_do_not_exceed_the_order(monkeypatch):
    search = toy_search(trials=3)
    # neither sees the trials of the other
    monkeypatch.setattr("polynsd.search.worker._count_taken", lambda study: 0)
    assert len(ask_batch(search)) == 3
    assert ask_batch(search) == []
    surplus = search.study.trials[3:]
    assert surplus
    assert all(trial.user_attrs["reason"] == SURPLUS for trial in surplus)
    assert trial_rows(search.study)[3]["state"] == "surplus"


def test_a_worker_that_only_helps_does_not_wait():
    search = toy_search(trials=4)
    other = ask_batch(search)
    work(search, wait=False)
    assert count_finished(search.study) == 0
    run_batch(search, other)


def test_who_waits_takes_over_in_the_end():
    search = toy_search(trials=2, batch=2)
    for trial in ask_batch(search):
        trial.set_user_attr("worker", "elsewhere:1")
    work(search, timeout=0.2)
    check_shared(search.study, 2)
