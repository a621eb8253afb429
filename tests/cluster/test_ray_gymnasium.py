"""Environments that the interpreter steps, on Ray: the bits of one thread, whoever dies."""

import dataclasses
import os
import signal

import gymnasium as gym
import numpy as np
import pytest
from engines import bits, run
from interpreted_env import Walk
from rollmill import ESConfig
from rollmill.envs import env_spec, gymnasium_spec
from rollmill.rollouts import RolloutSpec, Task, make_rollouts
from test_ray_recovery import acting, gone


def make_spec(**options):
    return RolloutSpec(
        env=gymnasium_spec(Walk, **options), hiddens=(8,), activation="tanh", key=7,
        noise_size=1 << 16, unit_pairs=2, action_noise_stdev=0.1,
        observation_filter="MeanStdFilter",
    )  # fmt: skip


def make_task(spec, iteration=0):
    rollouts = make_rollouts(spec)
    return Task(iteration, rollouts.policy.kernel.init(3), 0.2)


def test_two_workers_give_the_bits_of_one_thread(engine_of, expected):
    spec = make_spec()
    engine = engine_of(spec, num_workers=2)
    assert [actor.slots for actor in engine.fleet.actors] == [1, 1]  # processes, not threads
    for iteration in range(2):
        task = make_task(spec, iteration)
        ledger = run(engine, task, spec, 80)
        assert bits(ledger) == expected(task, spec, 80)
    records = engine.run_episodes(task, "report", 9)
    assert (
        records == make_rollouts(spec).episodes(task, "report", 0, 9, np.zeros(1, np.int32))
    ).all()
    facts = engine.facts()
    assert facts["reproducible"]
    assert facts["deaths"] == 0


def test_a_killed_worker_costs_nothing(engine_of, expected):
    spec = make_spec(seconds=0.002)
    engine = engine_of(spec, num_workers=2)
    killed = []

    def kill(ledger, busy):
        killed.append(busy[-1].description.pid)
        os.kill(killed[0], signal.SIGKILL)

    task = make_task(spec)
    ledger = run(engine, task, spec, 60, 0, acting(engine, kill, after=2))
    assert bits(ledger) == expected(task, spec, 60)
    assert gone(killed[0])
    assert engine.facts()["deaths"] == 1
    assert engine.facts()["reproducible"]


def test_what_raised_in_a_worker_is_said_by_the_driver(engine_of, expected):
    spec = make_spec(raises_above=3)
    engine = engine_of(spec, num_workers=2)
    task = make_task(spec)
    with pytest.warns(UserWarning, match=r"Walk, step \d+: OverflowError: left the world at 3"):
        ledger = run(engine, task, spec, 80)
    with pytest.warns(UserWarning, match="OverflowError"):
        assert bits(ledger) == expected(task, spec, 80)
    assert 0 < (ledger.batch().pairs["status"] != 0).sum() < 40


def test_an_environment_that_always_raises_ends_the_run(engine_of):
    spec = make_spec(raises_above=-100)
    engine = engine_of(spec, num_workers=2)
    with pytest.raises(RuntimeError, match=r"in each of \d+ episodes.*OverflowError"):
        run(engine, make_task(spec), spec, 400)


def test_an_id_that_the_driver_registered(engine_of, expected):
    """Workers have never imported what registers it."""
    if "rollmill-test/Walk-v0" not in gym.registry:
        gym.register("rollmill-test/Walk-v0", "interpreted_env:Walk", max_episode_steps=9)
    env = env_spec("rollmill-test/Walk-v0")
    assert env.describe().max_episode_steps == 9
    spec = dataclasses.replace(make_spec(), env=env)
    task = make_task(spec)
    engine = engine_of(spec, num_workers=2)
    assert bits(run(engine, task, spec, 40)) == expected(task, spec, 40)


def test_training_by_a_class_that_has_no_path(ray4):
    """A class of a notebook travels by value."""

    class Local(Walk):
        pass

    def trained(**options):
        config = ESConfig().environment(Local).training(
            seed=1, preset="none", noise_size=1 << 16, episodes_per_batch=16, train_batch_size=0,
            fcnet_hiddens=(8,), max_episode_steps=15, **options,
        )  # fmt: skip
        with config.build() as algo:
            algo.train()
            algo.train()
            return algo.policy.sha256

    assert trained(num_workers=2) == trained()
