"""Every engine gives the same bits, and the Ray engine treats the cluster as it should."""

import dataclasses
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from engines import bits, make_spec, make_task, run
from rollmill.batch import Ledger
from rollmill.cluster import fleet, session, slots
from rollmill.engine import ThreadEngine
from rollmill.envs.native import env_spec
from rollmill.rollouts import RolloutSpec

EPISODES, STEPS = 300, 25_000


def test_engines_give_the_same_bits(drift, engine_of, expected):
    spec = make_spec(drift, "drift_nan")
    tasks = [make_task(spec, iteration) for iteration in range(3)]
    want = [expected(task, spec, EPISODES, STEPS) for task in tasks]
    assert len({units for units, *_ in want}) == 3, "the step bound decides the batch"
    assert b"\xf9\xff\xff\xff" in want[0][1], "one pair is NaN and dropped"
    threads = ThreadEngine(spec, 2)
    assert [bits(run(threads, task, spec, EPISODES, STEPS)) for task in tasks] == want
    threads.close()
    for workers in (1, 2, 3):
        engine = engine_of(spec, num_workers=workers, slots_per_actor=1)
        ledgers = [run(engine, task, spec, EPISODES, STEPS) for task in tasks]
        assert [bits(ledger) for ledger in ledgers] == want
        assert all(len(ledger.units_by_source) == workers for ledger in ledgers)
        facts = engine.facts()
        assert facts["reproducible"]
        assert (facts["num_workers"], facts["actors"], facts["nodes"]) == (workers, workers, 1)
        engine.close()


def test_one_process_with_two_threads_and_a_noise_table_gives_the_same_bits(
    drift, engine_of, expected
):
    spec = make_spec(drift, "drift")
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2, table=True)
    ledger = run(engine, task, spec, EPISODES, STEPS)
    assert bits(ledger) == expected(task, spec, EPISODES, STEPS)
    assert len(ledger.units_by_source) == engine.facts()["actors"] == 1
    assert engine.num_workers == 2


def test_episodes_are_the_same_and_in_order(drift, engine_of):
    spec = make_spec(drift, "drift")
    threads, engine = ThreadEngine(spec, 2), engine_of(spec, num_workers=3, slots_per_actor=1)
    for kind, count in (("iteration", 1), ("iteration", 37), ("report", 100), ("report", 0)):
        task = make_task(spec, 4)
        found = engine.run_episodes(task, kind, count)
        assert found["episode"].tolist() == list(range(count))
        if count:
            assert found.tobytes() == threads.run_episodes(task, kind, count).tobytes()
    threads.close()


def test_columns_are_each_visited_once(drift, engine_of):
    engine = engine_of(make_spec(drift, "drift"), num_workers=1, num_threads=3)
    seen = np.zeros(1000, int)

    def visit(begin, end):
        assert begin % 64 == 0
        seen[begin:end] += 1

    engine.map_columns(visit, 1000, 64)
    assert (seen == 1).all()


def test_error_of_a_worker_arrives_as_it_was_raised(drift, engine_of):
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=1)
    task = make_task(spec)
    wrong = dataclasses.replace(task, theta=task.theta[:-1])
    threads = ThreadEngine(spec, 1)
    with pytest.raises(ValueError, match="theta must be a C-contiguous") as want:
        run(threads, wrong, spec, 4)
    with pytest.raises(ValueError, match="theta must be a C-contiguous") as found:
        run(engine, wrong, spec, 4)
    assert type(found.value) is ValueError
    assert str(found.value) == str(want.value)
    assert engine.facts()["deaths"] == 0
    assert bits(run(engine, task, spec, 4)) == bits(run(threads, task, spec, 4))
    threads.close()


def test_running_ray_is_used_and_left_running(drift, ray4, engine_of):
    spec = make_spec(drift, "drift")
    here = ray4.get_runtime_context().gcs_address
    engine = engine_of(spec, num_workers=1, address=here)
    engine.close()
    engine.close()
    assert engine.facts()["actors"] == 1
    with pytest.raises(RuntimeError, match="the engine is closed"):
        run(engine, make_task(spec), spec, 4)
    assert ray4.is_initialized()
    assert ray4.get(ray4.put(3), timeout=10) == 3
    with pytest.raises(ValueError, match=f"contradicts the Ray cluster at {here}"):
        engine_of(spec, num_workers=1, address="192.0.2.1:6379")


def test_fewer_processors_than_workers_are_said_and_none_is_refused(
    drift, engine_of, caplog, monkeypatch
):
    monkeypatch.setattr(slots, "GRANT_SECONDS", 1.5)
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=6)
    assert engine.num_workers == 4
    assert "6 workers were asked for and 4 CPUs are free: going on with 4" in caplog.text
    assert run(engine, make_task(spec), spec, 4).complete
    with pytest.raises(RuntimeError, match=r"2 workers .* none of the cluster's 4 CPUs is free"):
        engine_of(spec, num_workers=2)


def test_small_batches_are_said_to_be_faster_in_threads(drift, engine_of, caplog):
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=2, slots_per_actor=1)
    for iteration in range(4):
        run(engine, make_task(spec, iteration), spec, 8)
    said = [text for text in caplog.messages if "threads would be faster" in text]
    assert len(said) == 1
    assert "ms of work and took" in said[0]


@pytest.mark.parametrize("option", ["num_workers", "slots_per_actor"])
def test_bad_numbers_are_refused(drift, option):
    from rollmill.cluster.engine import RayEngine

    with pytest.raises(ValueError, match=f"{option} must be at least 1, got 0"):
        RayEngine(make_spec(drift, "drift"), **{"num_workers": 1, option: 0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "9.9"}, "has rollmill .*, and the driver on .* has 9.9"),
        ({"build": "abc"}, "has a build of rollmill .*, and the driver on .* has abc"),
    ],
)
def test_worker_of_another_build_is_refused(drift, engine_of, monkeypatch, change, message):
    here = fleet.describe()
    monkeypatch.setattr(fleet, "describe", lambda: dataclasses.replace(here, **change))
    with pytest.raises(RuntimeError, match=message):
        engine_of(make_spec(drift, "drift"), num_workers=1)


def test_other_processor_is_recorded_where_it_matters(drift, engine_of, monkeypatch, caplog):
    here = fleet.describe()
    monkeypatch.setattr(fleet, "describe", lambda: dataclasses.replace(here, processor="other"))
    ours = RolloutSpec(
        env=env_spec("rollmill/Maze-v0"), hiddens=(8,), activation="tanh", key=1, noise_size=4096
    )
    engine = engine_of(ours, num_workers=1)
    assert engine.facts()["mixed_processors"]
    assert engine.facts()["reproducible"], "our kernels give the same bits everywhere"
    theirs = engine_of(make_spec(drift, "drift"), num_workers=2, slots_per_actor=1)
    assert not theirs.facts()["reproducible"], "an environment of others may not"
    assert sum("processors differ" in text for text in caplog.messages) == 2


def test_other_library_is_refused(drift, engine_of, monkeypatch):
    monkeypatch.setattr(fleet, "library_digest", lambda env: "abc")
    with pytest.raises(RuntimeError, match=r"has the hash .* and on the driver's .* abc"):
        engine_of(make_spec(drift, "drift"), num_workers=1)


def test_table_that_does_not_fit_is_refused(drift, engine_of):
    spec = make_spec(drift, "drift", noise_size=2**32)
    with pytest.raises(ValueError, match=r"a noise table of 17\.2 GB does not fit the object"):
        engine_of(spec, num_workers=1, table=True)


class TestAddress:
    """What can be seen without starting a cluster."""

    @pytest.fixture(autouse=True)
    def alone(self, monkeypatch):
        monkeypatch.setattr(session.ray, "is_initialized", lambda: False)
        monkeypatch.setattr(session, "CONNECT_SECONDS", 1.0)

    def test_where_nothing_listens(self):
        with pytest.raises(ConnectionError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: "):
            session.connect("127.0.0.1:1", 1)

    def test_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:1")
        with pytest.raises(
            ConnectionError, match=r"no Ray cluster answers at ray://127\.0\.0\.1:1"
        ):
            session.connect(None, 1)

    def test_where_a_name_is_unknown(self):
        with pytest.raises(ConnectionError, match=r"no Ray cluster answers at nowhere\.invalid:1"):
            session.connect("nowhere.invalid:1", 1)

    def test_where_something_else_listens(self):
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(ConnectionError, match=f"no Ray cluster answers at {address}: tim"):
                session.connect(address, 1)

    @pytest.mark.parametrize("address", ["nonsense", "host:", "host:99999", ":1"])
    def test_that_is_none(self, address):
        with pytest.raises(ValueError, match="address must be"):
            session.connect(address, 1)


def test_local_ray_is_started_and_ended_and_an_interrupt_leaves_no_noise(drift, expected):
    """Also with a HOME that cannot be written, and more workers than processors."""
    program = """
        import os, signal, sys, threading
        sys.path.insert(0, sys.argv[1])
        from engines import make_spec, make_task, run, bits
        from rollmill.batch import Ledger
        from rollmill.cluster.engine import RayEngine
        import hashlib, ray
        spec = make_spec(sys.argv[2], "drift")
        engine = RayEngine(spec, num_workers=3)
        ledger = run(engine, make_task(spec), spec, 300, 25000)
        print(engine.num_workers, hashlib.sha256(bits(ledger)[1]).hexdigest())
        class Interrupted(Ledger):
            def add(self, answer):
                os.kill(os.getpid(), signal.SIGINT)
                return super().add(answer)
        try:
            run(engine, make_task(spec, 1), spec, 300, 25000, Interrupted)
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            engine.close()
            engine.close()
        print(ray.is_initialized())
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | {"HOME": "/proc/no"}
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), os.path.dirname(__file__), str(drift)],
        env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    import hashlib

    spec = make_spec(drift, "drift")
    digest = hashlib.sha256(expected(make_task(spec), spec, 300, 25_000)[1]).hexdigest()
    assert found.stdout.split() == ["3", digest, "interrupted", "False"]
    assert "Traceback" not in found.stderr
    assert "ignored" not in found.stderr


def test_ledger_is_not_confused_by_an_earlier_run_of_the_same_iteration(drift, engine_of, expected):
    spec = make_spec(drift, "drift")
    engine = engine_of(spec, num_workers=3, slots_per_actor=1)
    first, second = make_task(spec, 0), dataclasses.replace(make_task(spec, 1), iteration=0)
    for task in (first, second, first, second):
        ledger = run(engine, task, spec, 60, 0, Ledger)
        assert bits(ledger) == expected(task, spec, 60)
