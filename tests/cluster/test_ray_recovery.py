"""Workers that die, hang, crash or are slow change no bit."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray
from engines import bits, make_spec, make_task, run
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    WorkerCrashedError,
)
from rollmill.batch import Ledger
from rollmill.cluster import engine as cluster_engine
from rollmill.cluster import troubles
from rollmill.cluster.troubles import EnvironmentCrash
from rollmill.engine import ThreadEngine


def gone(pid, seconds=15.0):  # Ray waits 5 s before it kills one that is stopped
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def acting(engine, act, after=1, **members):
    """A ledger that calls act(ledger, busy actors) once, when `after` answers have arrived."""

    class Acting(Ledger):
        arrived = 0
        acted = False

        def add(self, answer):
            fresh = super().add(answer)
            self.arrived += 1
            busy = [
                actor for actor in engine.fleet.actors
                if any(call.job is not None and not all(map(call.job.has, call.items))
                       for call in actor.calls.values())
            ]  # fmt: skip
            if self.arrived >= after and busy and not self.acted:
                self.acted = True
                act(self, busy)
            return fresh

    for name, value in members.items():
        setattr(Acting, name, value)
    return Acting


def test_killed_worker_costs_nothing(drift, engine_of, expected):
    spec = make_spec(drift, "drift_slow", unit_pairs=1)
    task = make_task(spec)
    engine = engine_of(spec, num_workers=3, slots_per_actor=1)
    killed, in_flight = [], []

    def kill(ledger, busy):
        actor = busy[-1]
        killed.append(actor.description.pid)
        in_flight.extend(
            unit for call in actor.calls.values() for unit in call.items if not ledger.has(unit)
        )  # fmt: skip
        os.kill(actor.description.pid, signal.SIGKILL)

    ledger = run(engine, task, spec, 60, 0, acting(engine, kill, after=4))
    assert bits(ledger) == expected(task, spec, 60)
    assert gone(killed[0])
    assert in_flight
    assert ledger.reissued >= len(in_flight)
    assert len(ledger.units_by_source) >= 3
    facts = engine.facts()
    assert facts["deaths"] == 1
    assert facts["crashes"] == 0
    assert facts["dropped"] == []
    assert facts["reproducible"]
    later = make_task(spec, 1)
    assert bits(run(engine, later, spec, 60)) == expected(later, spec, 60)
    assert engine.facts()["replaced"] == 1


def test_straggler_is_issued_twice_and_its_answer_dropped(drift, engine_of, expected):
    spec = make_spec(drift, "drift")
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    stopped = []

    def stop(ledger, busy):
        stopped.append(busy[0].description.pid)
        os.kill(stopped[0], signal.SIGSTOP)

    class Patient(acting(engine, stop)):
        """Complete only when the answer that nobody needs any more has come."""

        @property
        def complete(self):
            if self.length is not None and not self.duplicates:
                os.kill(stopped[0], signal.SIGCONT)
            return self.length is not None and self.duplicates > 0

        def wanted(self):
            return 0 if self.length is not None else super().wanted()

    ledger = run(engine, task, spec, 400, 0, Patient)
    assert bits(ledger) == expected(task, spec, 400)
    assert ledger.reissued >= 1
    assert ledger.duplicates >= 1
    assert engine.facts()["duplicates"] == ledger.duplicates
    assert engine.facts()["deaths"] == 0


def test_batch_does_not_wait_for_who_still_computes(drift, engine_of, expected):
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    stopped = []

    def stop(ledger, busy):
        stopped.append(busy[0].description.pid)
        os.kill(stopped[0], signal.SIGSTOP)

    first, second = make_task(spec, 0), make_task(spec, 1)
    assert bits(run(engine, first, spec, 400, 0, acting(engine, stop))) == expected(
        first, spec, 400
    )
    os.kill(stopped[0], signal.SIGCONT)
    for _ in range(3):
        assert bits(run(engine, second, spec, 400)) == expected(second, spec, 400)
    assert engine.facts()["deaths"] == 0


def test_hung_worker_is_replaced_on_its_deadline(drift, engine_of, expected):
    spec = make_spec(drift, "drift")
    task = make_task(spec)
    engine = engine_of(spec, num_workers=1, deadline_s=1.0)
    stopped = []

    def stop(ledger, busy):
        stopped.append(busy[0].description.pid)
        os.kill(stopped[0], signal.SIGSTOP)

    ledger = run(engine, task, spec, 400, 0, acting(engine, stop))
    assert bits(ledger) == expected(task, spec, 400)
    assert gone(stopped[0])
    assert ledger.reissued >= 1
    assert stopped[0] != engine.fleet.actors[0].description.pid
    assert engine.facts()["deaths"] == 1
    assert engine.facts()["reproducible"]


def test_unit_that_never_returns_ends_the_run(hazard, engine_of):
    spec = make_spec(hazard, "hazard_hang")
    engine = engine_of(spec, num_workers=2, slots_per_actor=1, deadline_s=0.5)
    with pytest.raises(EnvironmentCrash, match=r"unit 1 did not answer .* 0\.5 s in 3 processes"):
        run(engine, make_task(spec), spec, 40)


@pytest.mark.parametrize(
    ("library", "symbol", "normal"),
    [("drift", "drift_crash", "drift"), ("hazard", "hazard_exit", None)],
)
def test_poison_unit_is_dropped_after_three_processes(
    request, engine_of, expected, library, symbol, normal
):
    path = request.getfixturevalue(library)
    spec = make_spec(path, symbol)
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    ledger = run(engine, task, spec, 200)
    pairs = ledger.batch().pairs
    bad = pairs["status"] == -5
    assert np.flatnonzero(bad).tolist() == [2, 3], "unit 1, which holds pair 3, and no other"
    assert pairs["pair"].tolist() == list(range(len(pairs)))
    assert (pairs["length"][bad] == 0).all()
    assert (pairs["return"][bad] == 0).all()
    assert ledger.batch().stats[1].tolist() == [0] * ledger.batch().stats.shape[1]
    facts = engine.facts()
    assert facts["dropped"] == [("units", 0, 1)]
    assert not facts["reproducible"]
    assert facts["crashes"] >= 3
    if normal:
        _, want, _ = expected(task, make_spec(path, normal), 200)
        want = np.frombuffer(want, pairs.dtype)
        assert pairs[~bad].tobytes() == want[~bad].tobytes()


def test_unit_whose_processes_are_killed_is_never_dropped(hazard, engine_of, monkeypatch):
    monkeypatch.setattr(troubles, "DEATHS", 5)
    spec = make_spec(hazard, "hazard_kill")
    engine = engine_of(spec, num_workers=1)
    with pytest.raises(EnvironmentCrash, match=r"5 processes ended .* unit 1, 0 of them by a"):
        run(engine, make_task(spec), spec, 40)
    assert engine.facts()["dropped"] == []
    assert engine.facts()["crashes"] == 0


def test_killed_idle_worker_is_replaced(drift, engine_of, expected):
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    pid = engine.fleet.actors[0].description.pid
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    for iteration in range(2):
        task = make_task(spec, iteration)
        assert bits(run(engine, task, spec, 200)) == expected(task, spec, 200)
    assert engine.facts()["deaths"] == 1


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (OutOfMemoryError("too much"), "deaths"),
        (NodeDiedError("gone"), "deaths"),
        (WorkerCrashedError(), "deaths"),
        (ActorUnavailableError("away", None), "quarantines"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ray_reports_costs_no_unit(drift, engine_of, expected, monkeypatch, error, counted):
    spec = make_spec(drift, "drift")
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    get, replies = ray.get, []

    def get_or_fail(ref):
        found = get(ref)
        replies.append(ref)
        if len(replies) == 2:
            raise error
        return found

    monkeypatch.setattr(cluster_engine.ray, "get", get_or_fail)
    ledger = run(engine, task, spec, 400)
    assert bits(ledger) == expected(task, spec, 400)
    assert ledger.reissued >= 1
    facts = engine.facts()
    assert facts[counted] == 1
    assert facts["deaths"] + facts["quarantines"] == 1
    assert facts["reproducible"]
    later = make_task(spec, 1)
    ledger = run(engine, later, spec, 400)
    assert bits(ledger) == expected(later, spec, 400)
    until = time.monotonic() + 10
    while len(engine.fleet.ready) < 2 and time.monotonic() < until:
        run(engine, later, spec, 400)
    assert len(engine.fleet.ready) == 2, "who was lost is there again"


def test_episodes_survive_a_kill(drift, engine_of):
    spec = make_spec(drift, "drift_slow")
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    pid = engine.fleet.actors[0].description.pid
    timer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    timer.start()
    found = engine.run_episodes(task, "report", 40)
    timer.join()
    threads = ThreadEngine(spec, 2)
    assert found.tobytes() == threads.run_episodes(task, "report", 40).tobytes()
    threads.close()
    assert gone(pid)
    assert engine.facts()["reissued"] >= 1
