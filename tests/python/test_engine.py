import os
import threading
import time

import numpy as np
import pytest
from drifting import drift_config
from rollmill import engine as engines
from rollmill._noise import Noise
from rollmill.batch import Ledger
from rollmill.engine import ThreadEngine, default_threads, make_engine, map_columns
from rollmill.rollouts import Rollouts


@pytest.fixture
def algo(drift_library):
    with drift_config(drift_library, num_threads=2).build() as algo:
        yield algo


def batch_of(algo, engine, **bounds):
    ledger = Ledger(0, 2, bounds.get("min_episodes", 8), bounds.get("min_steps", 1200))
    engine.run_batch(algo.task(), ledger)
    return ledger.batch()


def test_a_batch_is_what_its_units_are_alone(algo):
    batch = batch_of(algo, algo.engine)
    rollouts, stop = Rollouts(algo.spec), np.zeros(1, np.int32)
    for unit in range(batch.units):
        answer = rollouts.units(algo.task(), unit, 1, stop)
        assert np.array_equal(answer.pairs, batch.pairs[2 * unit : 2 * unit + 2])
        assert np.array_equal(answer.stats[0], batch.stats[unit])
    assert batch.pairs["length"].sum() >= 1200
    assert batch.pairs["length"][:-2].sum() < 1200  # and no unit more than needed


def test_episodes_come_in_order_whoever_runs_them(algo):
    records = {
        threads: ThreadEngine(algo.spec, threads).run_episodes(algo.task(), "report", 7)
        for threads in (1, 2, 5, 20)
    }
    assert list(records[1]["episode"]) == list(range(7))
    for other in records.values():
        assert np.array_equal(other, records[1])
    assert len(set(records[1]["return"])) == 7


def test_the_two_kinds_of_evaluation_meet_different_worlds(algo):
    kinds = [algo.engine.run_episodes(algo.task(), kind, 5) for kind in ("iteration", "report")]
    assert not set(kinds[0]["return"]) & set(kinds[1]["return"])


def test_the_table_is_the_noise(algo):
    engine = ThreadEngine(algo.spec, 3, table=True)
    noise = Noise(algo.spec.key, algo.spec.noise_size)
    assert np.array_equal(engine.table, noise.fill(0, algo.spec.noise_size))
    assert not engine.table.flags.writeable
    engine.close()


def test_a_raised_stop_ends_a_call_with_whole_units(algo):
    rollouts = Rollouts(algo.spec)
    answer = rollouts.units(algo.task(), 0, 4, np.ones(1, np.int32))
    assert answer.units == 0
    assert len(answer.pairs) == 0


def test_what_a_thread_raises_comes_out_and_nothing_hangs(algo):
    class Boom(Exception):
        pass

    def explode(*_):
        raise Boom

    algo.engine.rollouts.units = explode
    with pytest.raises(Boom):
        batch_of(algo, algo.engine)
    del algo.engine.rollouts.units
    assert batch_of(algo, algo.engine).units  # the engine goes on


def test_leaving_early_stops_the_threads(drift_library, monkeypatch):
    """An exception in the waiting thread ends calls that would run for minutes."""
    config = drift_config(drift_library, "drift_slow", episodes_per_batch=10**6, num_threads=2)
    with config.build() as algo:
        begun = threading.Semaphore(0)
        units = algo.engine.rollouts.units

        def watched(*arguments):
            begun.release()
            return units(*arguments)

        algo.engine.rollouts.units = watched

        def interrupt(*_, **__):
            begun.acquire()
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(engines, "wait", interrupt)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            algo.train()
        assert time.monotonic() - start < 2
        assert algo.iteration == 0


def test_columns_are_covered_once_in_whole_tiles():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        for columns in (1, 7, 8, 9, 63, 64, 65):
            for threads in (1, 2, 3, 9):
                seen, begins = np.zeros(columns, int), []

                def work(begin, end, seen=seen, begins=begins):
                    seen[begin:end] += 1
                    begins.append(begin)

                map_columns(pool, threads, work, columns, 8)
                assert (seen == 1).all()
                assert all(begin % 8 == 0 for begin in begins)
                assert len(begins) <= threads


def test_default_threads_are_the_processors_of_this_process(algo):
    assert default_threads() == len(os.sched_getaffinity(0))
    engine = ThreadEngine(algo.spec)
    assert engine.num_threads == default_threads()
    engine.close()


def test_close_twice_and_its_threads_are_gone(algo):
    engine = ThreadEngine(algo.spec, 3)
    before = threading.active_count()
    batch_of(algo, engine)
    assert threading.active_count() > before
    engine.close()
    engine.close()
    assert threading.active_count() <= before


def test_unknown_engine(algo):
    with pytest.raises(ValueError, match=r'unknown engine "thread". Did you mean "threads"'):
        make_engine("thread", algo.spec)


def test_what_an_engine_says_of_itself(algo):
    algo.train()
    assert algo.engine.name == "threads"
    assert algo.engine.num_workers == 0


def test_training_after_the_end_is_refused(drift_library):
    algo = drift_config(drift_library).build()
    algo.stop()
    algo.stop()
    with pytest.raises(RuntimeError, match="the algorithm was stopped"):
        algo.train()
