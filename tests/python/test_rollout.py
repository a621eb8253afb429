import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import bits, check_refused, read_only
from rollmill._isa import available
from rollmill._maze import maze
from rollmill._noise import Noise
from rollmill._policy import Network
from rollmill._rollout import EPISODE_DTYPE, PAIR_DTYPE, TERMINATED, TRUNCATED, Rollout
from rollmill.envs.native import load

examples = settings(deadline=None, derandomize=True, max_examples=12)
GO = read_only(np.zeros(1, np.int32))
NOISE = 100_000
ENONFINITE, EENV = -7, -5


def rollout_of(task, env=None, **changes):
    """The kernels' Rollout of a reference task."""
    if env is None:
        m = task.env
        env = maze(m.rows, m.columns, m.start, m.goal, m.max_episode_steps)
    options = {
        "key": task.key,
        "noise_size": task.noise_size,
        "gamma": task.gamma,
        "sample_actions": task.sampled,
        "gather_stats": task.gather,
    }
    return Rollout(env, Network(task.widths, task.activation), **{**options, **changes})


def eval_units(rollout, task, theta, first_unit, units, unit_pairs, stats=None, stop=GO):
    return rollout.eval_units(
        theta,
        task.iteration,
        task.noise_stdev,
        task.max_episode_steps,
        stats,
        first_unit,
        units,
        unit_pairs,
        stop,
    )


def check_unit(task, theta, pairs, first_pair, gathered=None):
    """Compare one unit's records with the reference, bit for bit."""
    want, stats = task.unit(theta, first_pair, len(pairs))
    for k, (index, *both) in enumerate(want):
        assert pairs[k]["pair"] == first_pair + k
        assert pairs[k]["noise_index"] == index
        assert pairs[k]["status"] == 0
        for m, one in enumerate(both):
            assert pairs[k]["return"][m] == one.total
            assert pairs[k]["fitness"][m] == one.fitness
            assert pairs[k]["length"][m] == one.length
    if task.gather:
        assert bits(gathered) == bits(stats)
    else:
        assert gathered is None


MAZE = reference.Task(
    reference.Maze(),
    (25, 9, 4),
    key=2**63 + 5,
    noise_size=NOISE,
    gamma=0.99,
    iteration=3,
    noise_stdev=0.7,
)
DRIFT = reference.Task(
    reference.Drift(),
    (4, 8, 3),
    key=99,
    noise_size=NOISE,
    gamma=0.97,
    gather=True,
    iteration=2,
    noise_stdev=0.5,
)


@pytest.fixture(scope="module")
def drift(drift_library):
    return load(f"{drift_library}:drift")


def filter_of(task):
    """A block of statistics near what the drift environment shows, and its frozen form."""
    rng = np.random.default_rng(4)
    block = np.zeros(9)
    for row in rng.normal([0, 0, 1000, 0], [1, 0.3, 100, 0.5], (50, 4)):
        reference.stats_push(block, row)
    return read_only(block), replace(task, frozen=reference.stats_freeze(block))


# Against the reference


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("widths", [(25, 4), (25, 9, 4), (25, 17, 5, 4)])
def test_maze_units_equal_the_reference(widths, sampled):
    task = replace(MAZE, widths=widths, sampled=sampled)
    theta = read_only(reference.init(widths, 1))
    for isa in available():
        done, pairs, stats = eval_units(rollout_of(task, isa=isa), task, theta, 2, 2, 3)
        assert done == 2
        assert stats is None
        assert pairs.dtype == PAIR_DTYPE
        for unit in range(2):
            check_unit(task, theta, pairs[3 * unit : 3 * unit + 3], 6 + 3 * unit)


@examples
@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.floats(0, 1),
    st.integers(0, 40),
    st.sampled_from(["tanh", "relu"]),
    st.integers(0, 1000),
)
def test_any_maze_unit_equals_the_reference(key, iteration, sampled, gamma, cap, activation, first):
    env = reference.Maze(3, 4, 1, 10, 30)
    task = reference.Task(
        env,
        (12, 7, 4),
        key,
        2000,
        activation,
        gamma,
        sampled,
        iteration=iteration,
        noise_stdev=1.0,
        max_episode_steps=cap,
    )
    theta = reference.init(task.widths, key)
    _, pairs, _ = eval_units(rollout_of(task), task, theta, first, 1, 2)
    check_unit(task, theta, pairs, 2 * first)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_box_units_equal_the_reference(drift, sampled, filtered):
    task = replace(DRIFT, sampled=sampled)
    block, task = filter_of(task) if filtered else (None, task)
    theta = read_only(reference.init(task.widths, 1))
    for isa in available():
        rollout = rollout_of(task, drift, isa=isa)
        done, pairs, stats = eval_units(rollout, task, theta, 1, 2, 3, block)
        assert done == 2
        assert len(np.unique(pairs["length"])) > 1
        for unit in range(2):
            check_unit(task, theta, pairs[3 * unit : 3 * unit + 3], 3 + 3 * unit, stats[unit])
    assert stats[0][0] == pairs["length"][:3].sum()


@pytest.mark.parametrize("cap", [0, 5])
def test_evaluation_equals_the_reference(drift, cap):
    block, drift_task = filter_of(DRIFT)
    for task, env, stats in ((MAZE, None, None), (drift_task, drift, block)):
        # The task samples in training; evaluation takes the arg-max all the same.
        task = replace(task, sampled=True, max_episode_steps=cap)
        theta = read_only(reference.init(task.widths, 1))
        got = rollout_of(task, env).eval_episodes(theta, task.iteration, cap, stats, 7, 10, 4, GO)
        assert got.dtype == EPISODE_DTYPE
        want = task.evaluation(theta, 7, 10, 4)
        for k, one in enumerate(want):
            assert got[k]["return"] == one.total
            assert got[k]["fitness"] == one.fitness
            assert got[k]["length"] == one.length
            assert got[k]["episode"] == 10 + k
            assert got[k]["status"] == 0
            assert got[k]["flags"] == TERMINATED * one.terminated + TRUNCATED * one.truncated


# What a unit is a function of


def test_both_signs_share_their_random_numbers(drift):
    task = replace(DRIFT, sampled=True, noise_stdev=1e-30)
    theta = reference.init(task.widths, 1)
    rollout = rollout_of(task, drift)
    _, pairs, _ = eval_units(rollout, task, theta, 0, 4, 4)
    assert np.array_equal(pairs["return"][:, 0], pairs["return"][:, 1])
    assert len(np.unique(pairs["return"][:, 0])) == 16
    _, later, _ = eval_units(rollout, replace(task, iteration=3), theta, 0, 4, 4)
    assert not np.intersect1d(pairs["return"], later["return"]).size


def test_units_do_not_depend_on_how_they_are_called(drift):
    theta = reference.init(DRIFT.widths, 1)
    rollout = rollout_of(DRIFT, drift)
    _, pairs, stats = eval_units(rollout, DRIFT, theta, 0, 6, 4)
    for unit in (5, 0, 3):
        _, one, one_stats = eval_units(rollout, DRIFT, theta, unit, 1, 4)
        assert bits(one) == bits(pairs[4 * unit : 4 * unit + 4])
        assert bits(one_stats[0]) == bits(stats[unit])
    table = read_only(Noise(DRIFT.key, NOISE).fill(size=NOISE))
    stored = rollout_of(DRIFT, drift, table=table)
    assert bits(eval_units(stored, DRIFT, theta, 0, 6, 4)[1]) == bits(pairs)
    with ThreadPoolExecutor(2) as pool:
        parts = list(
            pool.map(lambda unit: eval_units(rollout, DRIFT, theta, unit, 1, 4)[1], range(6))
        )
    assert bits(np.concatenate(parts)) == bits(pairs)


def test_inputs_are_only_read(drift):
    block, task = filter_of(DRIFT)
    theta, running = reference.init(task.widths, 1), block.copy()
    before = bits(theta), bits(running)
    _, _, stats = eval_units(rollout_of(task, drift), task, theta, 0, 2, 8, running)
    assert (bits(theta), bits(running)) == before
    assert not np.may_share_memory(stats, running)


def test_gathering_does_not_change_the_answers(drift):
    theta = reference.init(DRIFT.widths, 1)
    _, with_stats, _ = eval_units(rollout_of(DRIFT, drift), DRIFT, theta, 0, 2, 8)
    rollout = rollout_of(DRIFT, drift, gather_stats=False)
    _, without, none = eval_units(rollout, DRIFT, theta, 0, 2, 8)
    assert none is None
    assert bits(without) == bits(with_stats)


# Faults and ends


@pytest.mark.parametrize(
    ("factory", "bad", "status"), [("drift_nan", 5, ENONFINITE), ("drift_fail", 3, EENV)]
)
def test_a_bad_pair_is_marked_and_left_out(drift_library, drift, factory, bad, status):
    theta = reference.init(DRIFT.widths, 1)
    faulty = rollout_of(DRIFT, load(f"{drift_library}:{factory}"))
    done, pairs, stats = eval_units(faulty, DRIFT, theta, 0, 2, 4)
    _, sound, sound_stats = eval_units(rollout_of(DRIFT, drift), DRIFT, theta, 0, 2, 4)
    assert done == 2
    rest = np.arange(8) != bad
    assert pairs["status"].tolist() == [status if i == bad else 0 for i in range(8)]
    assert bits(pairs[rest]) == bits(sound[rest])
    hit, other = bad // 4, 1 - bad // 4
    assert bits(stats[other]) == bits(sound_stats[other])
    kept = rest & (np.arange(8) // 4 == hit)
    assert stats[hit][0] == pairs["length"][kept].sum()
    assert np.isfinite(stats).all()


def test_caps_hold_for_each_episode():
    theta = np.zeros(reference.num_params((25, 4)), np.float32)
    task = replace(MAZE, widths=(25, 4), noise_stdev=1e-3)
    for cap, limit in ((0, 100), (7, 7), (500, 100)):
        got = rollout_of(task).eval_episodes(theta, 0, cap, None, 0, 0, 2, GO)
        assert got["length"].tolist() == [limit] * 2
        assert (got["flags"] == TRUNCATED).all()
        _, pairs, _ = eval_units(
            rollout_of(task), replace(task, max_episode_steps=cap), theta, 0, 1, 8
        )
        assert pairs["length"].max() == limit


def test_the_stop_flag_ends_a_long_episode():
    theta = np.zeros(reference.num_params((25, 4)), np.float32)  # walks down for ever
    steps = 200_000_000  # some seconds, so that a flag that nobody reads fails and does not hang
    rollout = Rollout(maze(5, 5, 0, 24, steps), Network((25, 4)), key=1, noise_size=NOISE)
    stop = np.zeros(1, np.int32)
    timer = threading.Timer(0.1, stop.fill, [1])
    timer.start()
    begin = time.monotonic()
    done = rollout.eval_episodes(theta, 0, 0, None, 0, 0, 1, stop)
    assert len(done) == 0
    assert time.monotonic() - begin < 2
    timer.join()
    done, pairs, stats = rollout.eval_units(theta, 0, 1e-6, 0, None, 0, 2, 4, stop)
    assert (done, len(pairs), stats) == (0, 0, None)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_memory_stays_flat(drift):
    theta = reference.init(DRIFT.widths, 1)
    block, task = filter_of(DRIFT)
    rollout = rollout_of(task, drift)

    def work(calls):
        for _ in range(calls):
            eval_units(rollout, task, theta, 0, 2, 2, block)
            rollout.eval_episodes(theta, 0, 0, block, 1, 0, 2, GO)
            with pytest.raises(ValueError, match="theta"):
                eval_units(rollout, task, theta[:5], 0, 2, 2, block)

    work(300)
    before = resident()
    work(1500)
    assert resident() - before < 1 << 20
    tracemalloc.start()
    work(20)
    held = tracemalloc.get_traced_memory()[0]
    work(100)
    assert tracemalloc.get_traced_memory()[0] - held < 10_000
    tracemalloc.stop()


# Bad arguments


def test_a_rollout_that_does_not_fit_is_refused(drift):
    env, network = maze(5, 5, 0, 24, 100), Network((25, 4))

    def refused(text, *args, **kwargs):
        with pytest.raises(ValueError, match=text):
            Rollout(*args, **{"key": 1, "noise_size": NOISE, **kwargs})

    refused("^noise_size must be at least 104, .* got 103", env, network, noise_size=103)
    refused("^noise_size must be at least 104, .* got -1", env, network, noise_size=-1)
    refused(r"^size must be in \[1, 2\*\*32\]", env, network, noise_size=2**32 + 1)
    refused("inputs", env, Network((24, 4)))
    refused("outputs", env, Network((25, 5)))
    for gamma in (-0.1, 1.1, np.nan):
        refused("gamma", env, network, gamma=gamma)
    refused("^isa must be one of", env, network, isa="sse")
    check_refused(
        lambda a: Rollout(env, network, key=1, noise_size=200, table=a),
        "table",
        np.zeros(200, np.float32),
        optional=True,
    )
    assert Rollout(env, network, key=1, noise_size=104).noise.size == 104
    for none in ((None, network), (env, None)):
        with pytest.raises(TypeError):
            Rollout(*none, key=1, noise_size=NOISE)


def test_bad_arguments_of_calls_are_named(drift):
    theta, block = reference.init(DRIFT.widths, 1), np.zeros(9)
    rollout = rollout_of(DRIFT, drift)
    stop = np.zeros(1, np.int32)

    def units(theta=theta, stdev=0.1, stats=None, first=0, count=1, pairs=1, stop=stop):
        return rollout.eval_units(theta, 0, stdev, 0, stats, first, count, pairs, stop)

    def episodes(theta=theta, stats=None, first=0, count=1, stop=stop):
        return rollout.eval_episodes(theta, 0, 0, stats, 0, first, count, stop)

    for call in (units, episodes):
        check_refused(lambda a, call=call: call(theta=a), "theta", theta)
        check_refused(lambda a, call=call: call(stats=a), "stats", block, optional=True)
        for bad in (None, [0], np.zeros(2, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32)):
            with pytest.raises((TypeError, ValueError), match=r"^stop must be .* shape \(1,\)"):
                call(stop=bad)
        for bad in (np.nan, np.inf):
            wrong = theta.copy()
            wrong[3] = bad
            with pytest.raises(ValueError, match=rf"^theta must be finite, got {bad} at 3"):
                call(theta=wrong)
            wrong = block.copy()
            wrong[8] = bad
            with pytest.raises(ValueError, match=rf"^stats must be finite, got {bad} at 8"):
                call(stats=wrong)
    for bad in (0.0, -1.0, np.nan, np.inf, 1e-60, 1e60):
        with pytest.raises(ValueError, match=r"^noise_stdev must be positive and finite, got "):
            units(stdev=bad)
    for bad in ({"count": 0}, {"pairs": 0}, {"first": -1}, {"count": -1}):
        with pytest.raises(ValueError, match=r"^units and unit_pairs must be at least 1 and first"):
            units(**bad)
    for bad in ({"first": 2**32 - 1}, {"count": 2**32}, {"count": 2**63, "pairs": 2}):
        with pytest.raises(ValueError, match=r"^\(first_unit \+ units\) \* unit_pairs must be bel"):
            units(**bad)
    for bad in ({"first": -1}, {"count": -1}, {"first": 2**32 - 1}, {"count": 2**64}):
        with pytest.raises(ValueError, match=r"^first and episodes must be at least 0 and first "):
            episodes(**bad)
    assert len(episodes(count=0)) == 0
    with pytest.raises(ValueError, match=r"^stats must be None: .* Discrete"):
        rollout_of(MAZE).eval_episodes(
            reference.init(MAZE.widths, 1), 0, 0, np.zeros(51), 0, 0, 1, stop
        )


def test_integers_of_calls_are_whole(drift):
    theta, rollout = reference.init(DRIFT.widths, 1), rollout_of(DRIFT, drift)
    units = [theta, 1, 0.1, 5, None, 0, 2, 2, GO, 0]
    episodes = [theta, 1, 5, None, 0, 0, 2, GO]
    as_int64, as_uint8 = (
        [kind(v) if type(v) is int else v for v in good]
        for kind, good in ((np.int64, units), (np.uint8, episodes))
    )
    assert rollout.eval_units(*as_int64)[0] == 2
    assert len(rollout.eval_episodes(*as_uint8)) == 2
    for call, good, names in (
        (
            rollout.eval_units,
            units,
            "theta iteration noise_stdev max_episode_steps stats first_unit units unit_pairs stop "
            "pairs",
        ),
        (
            rollout.eval_episodes,
            episodes,
            "theta iteration max_episode_steps stats kind first episodes stop",
        ),
    ):
        for at, (value, name) in enumerate(zip(good, names.split(), strict=True)):
            if type(value) is int:
                for bad in (value + 0.99, float(value), np.float64(value)):
                    with pytest.raises(TypeError, match=rf"^{name} must be an integer"):
                        call(*good[:at], bad, *good[at + 1 :])
    with pytest.raises(TypeError, match=r"^unit_pairs must be an integer, got 1\.99"):
        rollout.eval_units(theta, 1, 0.1, 5, None, 0, 300, 1.99, GO)
    with pytest.raises(TypeError, match=r"^noise_size must be an integer, got 1000\.5"):
        rollout_of(DRIFT, drift, noise_size=1000.5)
