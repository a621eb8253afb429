"""Work units of environments that the interpreter steps."""

import os
import pickle
import subprocess
import sys
import threading
import time
import warnings

import gymnasium as gym
import interpreted as envs
import numpy as np
import pytest
import rollmill._rng as rng
from interpreted import go, make_spec, make_task, units
from rollmill._noise import Noise
from rollmill._policy import Members, Network
from rollmill._rollout import TERMINATED, TRUNCATED
from rollmill._stats import stats_merge, stats_push, stats_push_rows
from rollmill.engine import ThreadEngine
from rollmill.envs import env_spec, gymnasium_spec
from rollmill.gymnasium_rollouts import FAILED, NONFINITE, GymnasiumRollouts
from rollmill.rollouts import Rollouts, make_rollouts

MAZE = "rollmill/Maze-v0"


def everything(spec, **options):
    """All that rollouts answer, as bytes."""
    rollouts, found = make_rollouts(spec), []
    stats = None
    for iteration in range(3):
        task = make_task(rollouts, iteration, stats=stats, **options)
        answer = rollouts.units(task, 2, 2, go())
        found.append(answer.pairs.tobytes())
        if answer.stats is not None:
            found.append(answer.stats.tobytes())
            stats = answer.stats[0]
        for kind in ("iteration", "report"):
            found.append(rollouts.episodes(task, kind, 3, 8, go()).tobytes())
    rollouts.close()
    return found


def both_ways(env_id, options, **spec):
    native, wrapped = env_spec(env_id, **options), gymnasium_spec(env_id, **options)
    assert isinstance(make_rollouts(make_spec(native)), Rollouts)
    return [make_spec(env, **spec) for env in (native, wrapped)]


@pytest.mark.parametrize("spec", [
    {"sample_actions": True, "gamma": 0.99}, {"reward_offset": 0.25, "sample_actions": True},
    {"hiddens": (), "sample_actions": True},
    {"sample_actions": True, "activation": "relu", "unit_pairs": 1},
])  # fmt: skip
def test_the_maze_gives_the_bits_of_the_c_rollouts(spec):
    native, wrapped = both_ways(MAZE, {"rows": 3, "columns": 3}, **spec)
    found = everything(native)
    assert found == everything(wrapped)
    pairs = make_rollouts(native).units(make_task(make_rollouts(native)), 0, 4, go()).pairs
    assert len(np.unique(pairs["length"])) > 1  # and not the same all over


@pytest.mark.parametrize("env_id", ["Hopper-v5", "InvertedPendulum-v4"])
def test_mujoco_gives_the_bits_of_the_c_rollouts(env_id):
    """With a reset that draws nothing: the two draw other numbers."""
    pytest.importorskip("mujoco")
    options = {"reset_noise_scale": 0.0} if env_id.endswith("v5") else {}
    native, wrapped = both_ways(env_id, options, action_noise_stdev=0.05, reward_offset=1.0)
    if options:
        assert everything(native, max_episode_steps=40) == everything(wrapped, max_episode_steps=40)
    some = [units(spec, 0, 8, max_episode_steps=40) for spec in (native, wrapped)]
    lengths = [answer.pairs["length"] for answer in some]
    means, errors = np.mean(lengths, axis=(1, 2)), np.std(lengths, axis=(1, 2)) / 48**0.5
    assert abs(means[0] - means[1]) < 4 * np.hypot(*errors) + 1e-9


def test_one_call_evaluates_members_as_each_alone():
    network = Network((3, 9, 17, 2), "relu")
    for isa in ("base", "auto"):
        for one_hot in (False, True):
            members = Members(network, 5, one_hot, isa)
            random = np.random.default_rng(0)
            members.theta[:] = random.standard_normal(members.theta.shape)
            for rows in ([], [4], [0, 1], [3, 0, 4], [0, 1, 2, 3, 4]):
                if one_hot:
                    members.index[:] = random.integers(0, 3, 5)
                else:
                    members.x[:] = random.standard_normal((5, 3))
                out = members.eval(np.array(rows, np.int32))
                assert out.shape == (len(rows), 2)
                for got, row in zip(out, rows, strict=True):
                    inputs = {"index": members.index[[row]]} if one_hot else {"x": members.x[[row]]}
                    wanted = network.eval(members.theta[row], isa="base", **inputs)
                    assert np.array_equal(got, wanted[0])
    for rows, message in (([5], r"rows must be in \[0, 4\], got 5"), ([-1], "got -1"),
                          ([0] * 6, "at most 5")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            members.eval(np.array(rows, np.int32))
    members.index[2] = 3
    with pytest.raises(ValueError, match=r"index must be in \[0, 2\], got 3"):
        members.eval(np.array([2], np.int32))
    with pytest.raises(ValueError, match="int32"):
        members.eval(np.array([0]))
    with pytest.raises(ValueError, match="at least 1"):
        Members(network, 0)


def test_rows_are_pushed_to_their_own_blocks():
    x = np.random.default_rng(0).standard_normal((4, 3))
    blocks, wanted = np.zeros((4, 7)), np.zeros((4, 7))
    for rows in ([0, 2, 3], [2], [], [3, 0]):
        stats_push_rows(blocks, x, np.array(rows, np.int32))
        for row in rows:
            stats_push(wanted[row], x[[row]])
    assert np.array_equal(blocks, wanted)
    with pytest.raises(ValueError, match=r"rows must be in \[0, 3\], got 4"):
        stats_push_rows(blocks, x, np.array([4], np.int32))
    with pytest.raises(ValueError, match=r"blocks must be .* of shape \(4, 7\)"):
        stats_push_rows(blocks[:2], x, np.zeros(1, np.int32))


def by_hand(spec, task, number, sign):
    """A member's episode, one step after another: (return, length, observations)."""
    network, noise = make_rollouts(spec).policy.kernel, Noise(spec.key, spec.noise_size)
    index = noise.index(spec.key, number, task.iteration, network.num_params)
    theta = noise.perturb(task.theta, index, task.noise_stdev)[sign]
    env = spec.env.build()
    seed = int(rng.block(spec.key, "env_reset", number, task.iteration, 0)[0]) >> 1
    assert 0 <= seed < 2**31
    obs, total, seen, over = env.reset(seed=seed)[0], 0.0, [], False
    while not over:
        seen.append(np.array(obs, np.float64))
        out = network.eval(theta, x=seen[-1][None].astype(np.float32))[0]
        at = len(seen) - 1
        if isinstance(env.action_space, gym.spaces.Box):
            drawn = rng.normal_fill(spec.key, "action_noise", number, task.iteration, 2 * at, 2)
            out = out + np.float32(spec.action_noise_stdev) * drawn
            action = np.clip(out.astype(float), env.action_space.low, env.action_space.high)
        else:
            action = int(out.argmax())
        obs, reward, terminated, truncated, _ = env.step(action)
        total += reward
        over = terminated or truncated
    return total, len(seen), np.array(seen)


@pytest.mark.parametrize(("env", "noise"), [(envs.Line, 0.0), (envs.Push, 0.1)])
def test_a_unit_is_its_episodes_one_after_another(env, noise):
    spec = make_spec(env, action_noise_stdev=noise)
    task = make_task(make_rollouts(spec), 4)
    answer = units(spec, 1, 1, 4)
    stats = np.zeros(answer.stats.shape[1])
    for i, pair in enumerate(answer.pairs):
        assert pair["pair"] == 3 + i
        for sign in range(2):
            total, length, seen = by_hand(spec, task, 3 + i, sign)
            assert (pair["return"][sign], pair["length"][sign]) == (total, length)
            block = np.zeros_like(stats)
            stats_push(block, seen)  # what was seen before an action, and not the last one
            stats_merge(stats, block[None])
    assert np.array_equal(stats, answer.stats[0])


def test_calls_threads_tables_and_isas_change_no_bit():
    spec = make_spec(envs.Push, action_noise_stdev=0.1)
    whole = units(spec, 0, 4)
    rollouts = make_rollouts(spec, Noise(spec.key, spec.noise_size).fill(0, spec.noise_size))
    task = make_task(rollouts)
    for first, count in ((2, 2), (0, 1), (1, 1)):
        part = rollouts.units(task, first, count, go())
        assert np.array_equal(part.pairs, whole.pairs[3 * first : 3 * (first + count)])
        assert np.array_equal(part.stats, whole.stats[first : first + count])
    episodes = rollouts.episodes(task, "report", 0, 9, go())
    assert np.array_equal(rollouts.episodes(task, "report", 5, 2, go()), episodes[5:7])
    found = {}
    threads = [
        threading.Thread(target=lambda u=u: found.update({u: rollouts.units(task, u, 1, go())}))
        for u in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for unit, answer in found.items():
        assert np.array_equal(answer.pairs, whole.pairs[3 * unit : 3 * unit + 3])
    code = (
        "import interpreted as e; "
        "print(e.units(e.make_spec(e.Push, action_noise_stdev=0.1), 0, 4).pairs.tobytes().hex())"
    )
    env = {**os.environ, "ROLLMILL_ISA": "base", "PYTHONPATH": os.pathsep.join(sys.path)}
    base = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert base.stdout.decode().strip() == whole.pairs.tobytes().hex()


def test_the_last_unit_of_known_pairs_is_shorter():
    spec = make_spec(envs.Line)
    whole, short = units(spec, 0, 2), units(spec, 0, 2, pairs=4)
    assert np.array_equal(short.pairs, whole.pairs[:4])
    assert short.units == 2
    assert np.array_equal(short.stats[0], whole.stats[0])
    assert short.stats[1][0] == whole.pairs[3]["length"].sum()


def test_both_signs_meet_the_same_world_and_others_another(monkeypatch):
    monkeypatch.setattr(envs.Line, "log", log := [])
    spec = make_spec(envs.Line)
    units(spec, 0, 2)
    seeds = [note[1] for note in log if note[0] == "reset"]
    assert seeds[0::2] == seeds[1::2]
    assert len(set(seeds)) == 6
    rollouts = make_rollouts(spec)
    del log[:]
    rollouts.units(make_task(rollouts, 1), 0, 1, go())
    rollouts.episodes(make_task(rollouts, 1), "iteration", 0, 3, go())
    rollouts.episodes(make_task(rollouts, 1), "report", 0, 3, go())
    fresh = {note[1] for note in log if note[0] == "reset"}
    assert len(fresh) == 9
    assert not fresh & set(seeds)


def test_environments_are_built_once_and_closed(monkeypatch):
    monkeypatch.setattr(envs.Line, "log", log := [])
    rollouts = make_rollouts(make_spec(gymnasium_spec(envs.Line)))
    del log[:]
    for _ in range(3):
        rollouts.units(make_task(rollouts), 0, 3, go())
        rollouts.episodes(make_task(rollouts), "report", 0, 9, go())
    assert log.count("built") == 6
    rollouts.close()
    rollouts.close()
    assert log.count("closed") == 6


def test_termination_truncation_and_caps_are_told_apart():
    rollouts = make_rollouts(make_spec(envs.BothEnds))
    task = make_task(rollouts)
    record = rollouts.episodes(task, "report", 0, 1, go())[0]
    assert (record["length"], record["flags"]) == (5, TERMINATED | TRUNCATED)
    capped = make_task(rollouts, max_episode_steps=3)
    record = rollouts.episodes(capped, "report", 0, 1, go())[0]
    assert (record["length"], record["flags"], record["return"]) == (3, TRUNCATED, 3.0)
    pairs = rollouts.units(capped, 0, 1, go()).pairs
    assert (pairs["length"] == 3).all()


@pytest.mark.parametrize(("env", "status"), [
    (envs.RaisesFar, FAILED), (envs.RaisesAtReset, FAILED),
    (envs.NanReward, NONFINITE), (envs.NanObservation, NONFINITE),
])  # fmt: skip
def test_what_fails_drops_its_pair_alone(env, status):
    """The other pairs are as they would be without it, and so is the filter."""
    spec = make_spec(env)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = units(spec, 0, 6)
    well = units(make_spec(envs.Line), 0, 6)
    bad = answer.pairs["status"] != 0
    assert 0 < bad.sum() < len(bad)
    assert set(answer.pairs["status"][bad]) == {status}
    assert np.array_equal(answer.pairs[~bad], well.pairs[~bad])
    for unit in range(6):
        mine = slice(3 * unit, 3 * unit + 3)
        steps = answer.pairs[mine]["length"][~bad[mine]].sum()
        assert answer.stats[unit][0] == steps
        if not bad[mine].any():
            assert np.array_equal(answer.stats[unit], well.stats[unit])
    said = [str(w.message) for w in caught if "an environment raised" in str(w.message)]
    assert len(said) == (status == FAILED)
    if env is envs.RaisesFar:
        assert "RaisesFar, step" in said[0]
        assert "FloatingPointError: too far: False" in said[0]
        assert "interpreted.py:" in said[0]


def test_an_environment_that_raised_is_built_again(monkeypatch):
    monkeypatch.setattr(envs.RaisesFar, "log", log := [])
    spec = make_spec(envs.RaisesFar)
    del log[:]
    with pytest.warns(UserWarning, match="an environment raised"):
        units(spec, 0, 6)
    assert log.count("built") > 6
    assert log.count("closed") == log.count("built")


@pytest.mark.parametrize("env", [envs.Raises, envs.WrongShape])
def test_an_environment_that_always_raises_ends_the_run(env):
    rollouts = make_rollouts(make_spec(env))
    with (
        pytest.warns(UserWarning, match="an environment raised"),
        pytest.raises(RuntimeError) as caught,
    ):
        rollouts.units(make_task(rollouts), 0, 9, go())
    text = str(caught.value)
    assert "the environment raised in each of 8 episodes" in text
    assert ("ZeroDivisionError: always" in text) == (env is envs.Raises)
    assert "\n" not in text


def test_a_raised_stop_ends_a_call_within_a_step():
    rollouts = make_rollouts(make_spec(envs.Slow))
    for call in (
        lambda stop: rollouts.units(make_task(rollouts), 0, 3, stop).units,
        lambda stop: len(rollouts.episodes(make_task(rollouts), "report", 0, 9, stop)),
    ):
        stop = go()
        threading.Timer(0.2, lambda stop=stop: stop.__setitem__(0, 1)).start()
        start = time.monotonic()
        assert call(stop) == 0
        assert 0.15 < time.monotonic() - start < 1.5


def test_threads_are_one_and_said_once(caplog, monkeypatch):
    monkeypatch.setattr("rollmill.engine._said", set())
    for _ in range(2):
        engine = ThreadEngine(make_spec(envs.Line), 3)
        assert (engine.unit_threads, engine.num_threads) == (1, 3)
        engine.close()
    assert [record.message for record in caplog.records if "one thread" in record.message] == [
        "the interpreter steps interpreted.Line, so one thread runs it; num_workers uses processes"
    ]


def test_rollouts_refuse_a_worker_whose_environment_is_another(monkeypatch):
    spec = make_spec(envs.Line)
    rollouts = GymnasiumRollouts(spec)
    monkeypatch.setattr(envs.Line, "observation_space", gym.spaces.Box(0, 1, (2,)))
    with pytest.raises(RuntimeError, match=r"has the observation_space Box\(0\.0.* where the run"):
        rollouts.units(make_task(rollouts), 0, 1, go())


def test_spaces_of_every_kind_run():
    spec = make_spec(gymnasium_spec("interpreted:Nested", steps=5), sample_actions=True)
    answer = units(spec)
    assert (answer.pairs["status"] == 0).all()
    assert (answer.pairs["length"] == 5).all()
    assert answer.stats.shape == (2, 1 + 2 * 7)
    assert np.array_equal(units(pickle.loads(pickle.dumps(spec))).pairs, answer.pairs)


@pytest.mark.parametrize("env", [envs.OldMaze, envs.OldMazeWithBase])
def test_old_style_environments_give_the_bits_of_the_maze(env):
    """The tutorial's class, as it stands, and our maze in C."""
    native = make_spec(env_spec(MAZE), sample_actions=True)
    assert everything(make_spec(env, sample_actions=True), max_episode_steps=100) == everything(
        native, max_episode_steps=100
    )


def test_old_style_environments_are_seeded_and_truncated():
    spec = make_spec(envs.OldSeeded)
    assert np.array_equal(units(spec).stats, units(spec).stats)
    rollouts = make_rollouts(spec)
    record = rollouts.episodes(make_task(rollouts), "report", 0, 1, go())[0]
    assert (record["length"], record["flags"]) == (4, TRUNCATED)
