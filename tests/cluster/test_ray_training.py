"""Whole training runs: threads and Ray, any number of workers, killed ones included, one result.

The environment is stochastic in its resets and its dynamics, its observations are filtered, the
batch is bound by steps so that its pairs vary, and one pair of each iteration returns NaN.
"""

import os
import signal
import warnings

import pytest
from rollmill import Algorithm, ARSConfig, ESConfig
from rollmill.batch import Ledger
from rollmill.cluster.jobs import UnitJob

ITERATIONS = 5


def config(library, symbol="drift_nan", **options):
    common = {
        "seed": 3,
        "episodes_per_batch": 24,
        "train_batch_size": 1500,
        "unit_pairs": 2,
        "fcnet_hiddens": (16, 8),
        "noise_stdev": 0.3,
        "noise_size": 1 << 16,
        "stepsize": 0.05,
        "eval_prob": 0.1,
        "slots_per_actor": 1,
    }
    return ESConfig().environment(f"{library}:{symbol}").training(**{**common, **options})


def train(algo, iterations=ITERATIONS):
    """Train; returns what the contract promises, iteration by iteration."""
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dropped pairs, and a batch that threads do faster
        for _ in range(iterations):
            result = algo.train()
            told.append(
                (
                    algo.parameters_sha256,
                    result["episodes_this_iter"],
                    result["timesteps_total"],
                    result["pairs_dropped"],
                    result["episode_reward_mean"],
                    algo.stats.tobytes(),
                )
            )
    return told


def accepted_sources(ledger):
    """The processes whose units make the batch."""
    return {ledger._answers[unit][0].source for unit in range(ledger.length)}


def run(made, iterations=ITERATIONS):
    with made.build() as algo:
        return train(algo, iterations)


@pytest.fixture(scope="module")
def in_one_thread(drift):
    return run(config(drift, num_threads=1))


@pytest.fixture
def ledgers(monkeypatch):
    """Every ledger that an ES run makes from here on."""
    made = []

    class Kept(Ledger):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr("rollmill.algorithms.es.Ledger", Kept)
    return made


def test_the_run_that_all_are_compared_with_is_not_trivial(in_one_thread, drift):
    hashes = [told[0] for told in in_one_thread]
    assert len(set(hashes)) == ITERATIONS
    assert len({told[1] for told in in_one_thread}) > 1
    assert [told[3] for told in in_one_thread] == [1, 2, 3, 4, 5]
    assert in_one_thread != run(config(drift, num_threads=1, seed=4))


def test_two_threads_give_the_same_bits(in_one_thread, drift):
    assert run(config(drift, num_threads=2)) == in_one_thread


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_ray_gives_the_same_bits(in_one_thread, drift, ray4, ledgers, workers):
    with config(drift, num_workers=workers).build() as algo:
        assert algo.engine.name == "ray"
        assert train(algo) == in_one_thread
        assert algo.reproducible
    assert all(len(accepted_sources(ledger)) >= workers for ledger in ledgers[:1])


@pytest.mark.parametrize("workers", [2, 3])
def test_a_killed_worker_changes_no_bit(drift, ray4, ledgers, workers):
    """In the middle of an iteration, with its units in flight; and what comes twice counts once."""
    slow = {"symbol": "drift_slow_nan", "episodes_per_batch": 8, "train_batch_size": 1200}
    want = run(config(drift, **slow, num_threads=2), 3)
    assert len({told[1] for told in want}) > 1  # bound by steps, so the pairs vary
    assert [told[3] for told in want] == [1, 2, 3]  # and one of them returns NaN
    ledgers.clear()
    killed, lost = [], []

    with config(drift, **slow, num_workers=workers).build() as algo:
        fleet = algo.engine.fleet
        started = {actor.description.pid for actor in fleet.actors}
        take = Ledger.add

        def add(ledger, answer):
            fresh = take(ledger, answer)
            if ledger.iteration == 1:
                take(ledger, answer)  # the same answer comes again
            busy = [
                (actor, unit)
                for actor in fleet.actors
                for call in actor.calls.values()
                if call.job is not None
                for unit in call.items
                if not ledger.has(unit)
            ]
            if ledger.iteration == 1 and busy and not killed:
                actor = busy[-1][0]
                killed.append(actor.description.pid)
                lost.extend(unit for owner, unit in busy if owner is actor)
                os.kill(killed[0], signal.SIGKILL)
            return fresh

        Ledger.add = add
        try:
            got = train(algo, 3)
        finally:
            Ledger.add = take
        facts = algo.engine.facts()
        assert algo.reproducible
    assert got == want
    assert len(started) == workers
    assert killed[0] in started
    assert lost, "units were in flight when their process died"
    ledger = next(ledger for ledger in ledgers if ledger.iteration == 1)
    assert ledger.reissued >= len(lost)
    assert ledger.duplicates >= ledger.length
    assert facts["deaths"] == 1
    assert facts["dropped"] == []
    first = next(ledger for ledger in ledgers if ledger.iteration == 0)
    assert len(accepted_sources(first)) >= workers


def test_a_run_goes_on_with_another_engine(in_one_thread, drift, ray4, tmp_path):
    with config(drift, num_threads=2).build() as algo:
        first = train(algo, 2)
        checkpoint = algo.save(tmp_path / "checkpoint")
    place = {"num_workers": 2, "slots_per_actor": 1}
    with Algorithm.from_checkpoint(checkpoint, **place) as algo:
        assert algo.engine.name == "ray"
        second = train(algo, 2)
        checkpoint = algo.save(tmp_path / "checkpoint")
    with Algorithm.from_checkpoint(checkpoint, num_threads=1) as algo:
        assert algo.engine.name == "threads"
        assert first + second + train(algo, 1) == in_one_thread


def ars(library, **options):
    """Seven directions in units of three: the last unit holds one."""
    common = {
        "seed": 3, "num_rollouts": 7, "rollouts_used": 4, "unit_pairs": 3, "noise_stdev": 0.3,
        "noise_size": 1 << 16, "sgd_stepsize": 0.05, "eval_prob": 0.3, "slots_per_actor": 1,
    }  # fmt: skip
    config = ARSConfig().environment(f"{library}:drift_nan")
    return config.training(**{**common, **options})


@pytest.mark.parametrize("workers", [1, 3])
def test_ars_on_ray_gives_the_bits_of_threads(ray4, drift, workers):
    expected = run(ars(drift, num_threads=1))
    assert len({hashed for hashed, *_ in expected}) == ITERATIONS
    assert [episodes for _, episodes, *_ in expected] == [14] * ITERATIONS
    assert run(ars(drift, num_workers=workers)) == expected


def test_a_dropped_last_unit_holds_the_directions_that_are_left():
    job = UnitJob(Ledger(0, 3, 0, 0, pairs=7), stats_size=9)
    for unit in (2, 0, 1):
        job.drop(unit)
    assert job.complete
    batch = job.ledger.batch()
    assert batch.pairs["pair"].tolist() == list(range(7))
    assert (batch.pairs["status"] != 0).all()
    assert batch.stats.shape == (3, 9)
