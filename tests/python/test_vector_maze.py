from types import MappingProxyType

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from rollmill import seeding
from rollmill.envs import Maze, VectorMaze
from rollmill.envs.compare import equal

DOWN, LEFT, UP, RIGHT = range(4)
MODES = list(AutoresetMode)


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert equal(mine, other), f"{mine} differs from {other}"


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_it_is_what_sync_vector_env_makes_of_mazes(mode, data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 4))
    limit = data.draw(st.sampled_from([None, 1, 2, 3, 7]))
    n = data.draw(st.integers(1, 5))
    kwargs = {"rows": rows, "columns": columns, "max_episode_steps": limit}
    ours = VectorMaze(n, **kwargs, autoreset_mode=mode, positions=True)
    theirs = SyncVectorEnv([lambda: Maze(**kwargs)] * n, autoreset_mode=mode)
    seed = data.draw(st.integers(0, 2**66))
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    done = np.zeros(n, np.bool_)
    for _ in range(data.draw(st.integers(1, 40))):
        if mode is AutoresetMode.DISABLED and done.any():
            mask = done | np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
            seeds = data.draw(
                st.none()
                | st.integers(0, 2**63)
                | st.lists(st.none() | st.integers(0, 2**63), min_size=n, max_size=n)
            )
            assert_same(
                ours.reset(seed=seeds, options={"reset_mask": mask}),
                theirs.reset(seed=seeds, options={"reset_mask": mask}),
            )
        elif data.draw(st.integers(0, 9)) == 0:
            assert_same(ours.reset(), theirs.reset())
        else:
            actions = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
            result = ours.step(np.array(actions))
            assert_same(result, theirs.step(np.array(actions)))
            assert ours.observation_space.contains(result[0])
        done = ours._vector.done
    assert ours.np_random_seed == theirs.np_random_seed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 7, 8, 9, 1025])
def test_without_positions_only_the_info_differs(mode, n):
    kwargs = {"rows": 3, "columns": 2, "max_episode_steps": 9, "autoreset_mode": mode}
    ours, told = VectorMaze(n, **kwargs), VectorMaze(n, **kwargs, positions=True)
    generator = np.random.Generator(np.random.PCG64(n))
    assert_same(ours.reset(seed=0), (told.reset(seed=0)[0], {}))
    for _ in range(40):
        if mode is AutoresetMode.DISABLED and told._vector.done.any():
            mask = told._vector.done
            obs, info = told.reset(options={"reset_mask": mask})
            assert np.array_equal(info["_seeker"], mask)
            assert_same(ours.reset(options={"reset_mask": mask}), (obs, {}))
        actions = generator.integers(0, 4, n)
        mine, other = ours.step(actions), told.step(actions)
        assert_same(mine[:4], other[:4])
        assert mine[4].keys() == {name for name in other[4] if "final" in name}
        assert all(equal(mine[4][name], other[4][name]) for name in mine[4])


def test_next_step_by_hand():
    env = VectorMaze(2, rows=1, columns=3, max_episode_steps=3)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.reset(seed=0)
    assert_same(env.step([RIGHT, LEFT])[:4], arrays([1, 0], [0, 0], [0, 0], [0, 0]))
    assert_same(env.step([RIGHT, LEFT])[:4], arrays([2, 0], [1, 0], [1, 0], [0, 0]))
    assert_same(env.step([99, LEFT])[:4], arrays([0, 0], [0, 0], [0, 0], [0, 1]))
    assert_same(env.step([RIGHT, -7])[:4], arrays([1, 0], [0, 0], [0, 0], [0, 0]))
    assert_same(env.step([RIGHT, RIGHT])[:4], arrays([2, 1], [1, 0], [1, 0], [0, 0]))


def test_same_step_by_hand():
    env = VectorMaze(2, rows=1, columns=3, max_episode_steps=3, autoreset_mode="SameStep")
    env.reset(seed=0)
    assert env.step([RIGHT, RIGHT])[4] == {}
    result = env.step([RIGHT, LEFT])
    assert_same(result[:4], arrays([0, 0], [1, 0], [1, 0], [0, 0]))
    info = result[4]
    assert info.keys() == {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert info["final_obs"].dtype == object
    assert info["final_obs"].tolist() == [2, None]
    assert info["_final_obs"].tolist() == info["_final_info"].tolist() == [True, False]
    assert info["final_info"]["seeker"].tolist() == [(0, 2), None]
    assert info["final_info"]["goal"].tolist() == [(0, 2), None]
    assert info["final_info"]["_goal"].tolist() == [True, False]
    result = env.step([RIGHT, LEFT])
    assert_same(result[:4], arrays([1, 0], [0, 0], [0, 0], [0, 1]))
    assert result[4]["final_obs"].tolist() == [None, 0]


def test_disabled_by_hand():
    env = VectorMaze(3, rows=1, columns=3, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.step([RIGHT, RIGHT, LEFT])
    assert_same(env.step([RIGHT, LEFT, LEFT])[:4], arrays([2, 0, 0], [1, 0, 0], [1, 0, 0], [0] * 3))
    with pytest.raises(ResetNeeded, match="environment 0 has finished"):
        env.step([LEFT, RIGHT, LEFT])
    options = {"reset_mask": np.array([True, False, False])}
    given_mask = options["reset_mask"]
    assert_same(env.reset(options=options), (np.zeros(3, np.int64), {}))
    assert options == {"reset_mask": given_mask}
    assert given_mask.tolist() == [True, False, False]
    assert_same(env.step([RIGHT] * 3)[:4], arrays([1, 1, 1], [0] * 3, [0] * 3, [0] * 3))


def arrays(obs, reward, terminated, truncated):
    return (
        np.array(obs, np.int64),
        np.array(reward, np.float64),
        np.array(terminated, np.bool_),
        np.array(truncated, np.bool_),
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_leaves_the_other_episodes_running(mode):
    env = VectorMaze(3, max_episode_steps=5, autoreset_mode=mode)
    env.reset(seed=0)
    for _ in range(3):
        env.step([RIGHT, DOWN, LEFT])
    mask = np.array([False, True, False])
    options = MappingProxyType({"reset_mask": mask})
    assert env.reset(options=options)[0].tolist() == [3, 0, 0]
    assert env.step([RIGHT] * 3)[3].tolist() == [False, False, False]
    assert env.step([UP] * 3)[3].tolist() == [True, False, True]


def test_episode_statistics_survive_a_partial_reset():
    env = VectorMaze(3, autoreset_mode=AutoresetMode.DISABLED)
    env = gym.wrappers.vector.RecordEpisodeStatistics(env)
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.array([UP] * 3))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    assert env.episode_lengths.tolist() == [3, 0, 3]


@pytest.mark.parametrize("mode", MODES)
def test_any_reset_clears_what_was_pending(mode):
    env = VectorMaze(2, rows=1, columns=2, max_episode_steps=3, autoreset_mode=mode)
    env.reset(seed=0)
    env.step([RIGHT, LEFT])
    assert env.reset()[0].tolist() == [0, 0]
    for t in range(3):
        obs, _, terminated, truncated, _ = env.step([LEFT, LEFT])
        assert obs.tolist() == [0, 0]
        assert not terminated.any()
        assert truncated.tolist() == [t == 2] * 2


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False], TypeError, "must be a NumPy array, got list"),
        (None, TypeError, "must be a NumPy array, got NoneType"),
        (np.array([1, 0]), TypeError, "must have dtype bool, got int64"),
        (np.array([True]), ValueError, r"must have the shape \(2,\), got \(1,\)"),
        (np.array([[True, False]]), ValueError, "must have the shape"),
        (np.array([False, False]), ValueError, "must have at least one True"),
    ],
)
def test_a_bad_mask_is_refused(mask, error, message):
    env = VectorMaze(2)
    env.reset(seed=0)
    env.step([RIGHT, RIGHT])
    with pytest.raises(error, match=rf"options\['reset_mask'\] {message}"):
        env.reset(options={"reset_mask": mask})
    assert env.step([RIGHT, RIGHT])[0].tolist() == [2, 2]


def test_the_first_reset_is_of_all():
    env = VectorMaze(2)
    with pytest.raises(ResetNeeded):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded):
        env.step([0, 0])
    with pytest.raises(ValueError, match=r'unknown reset option "reset_msk".*"reset_mask"'):
        env.reset(options={"reset_msk": np.array([True, False])})


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_integer_actions_are_taken(kind):
    env = VectorMaze(3)
    env.reset(seed=0)
    actions = np.array([DOWN, LEFT, RIGHT], kind)
    actions.flags.writeable = False
    assert env.step(actions)[0].tolist() == [5, 0, 1]
    assert actions.tolist() == [DOWN, LEFT, RIGHT]


def test_actions_in_any_order_of_memory_are_taken():
    env = VectorMaze(3)
    env.reset(seed=0)
    assert env.step(np.array([DOWN, 9, LEFT, 9, RIGHT, 9])[::2])[0].tolist() == [5, 0, 1]
    assert env.step(np.array([RIGHT, RIGHT, DOWN], ">i8"))[0].tolist() == [6, 1, 6]
    assert env.step((DOWN, RIGHT, RIGHT))[0].tolist() == [11, 2, 7]


BAD_ACTIONS = [
    (None, TypeError, "integer dtype"),
    (np.zeros(3, np.uint64), TypeError, "integer dtype that int64 holds, got uint64"),
    (np.zeros(3), TypeError, "got float64"),
    (np.zeros(3, np.float32), TypeError, "got float32"),
    (np.zeros(3, np.bool_), TypeError, "got bool"),
    (np.array(["0", "1", "2"]), TypeError, "integer dtype"),
    (np.array([0, None, 1]), TypeError, "got object"),
    ([0, 1, np.nan], TypeError, "integer dtype"),
    ([0, 1, 2**63], TypeError, "integer dtype"),
    ({"a": 1}, TypeError, "integer dtype"),
    (0, ValueError, r"must have the shape \(3,\), got \(\)"),
    (np.int64(1), ValueError, "must have the shape"),
    (np.zeros(0, np.int64), ValueError, "must have the shape"),
    (np.zeros(2, np.int64), ValueError, "must have the shape"),
    (np.zeros(4, np.int64), ValueError, "must have the shape"),
    (np.zeros((3, 1), np.int64), ValueError, r"got \(3, 1\); actions.squeeze\(-1\) has it"),
    (np.zeros((1, 3), np.int64), ValueError, r"got \(1, 3\)$"),
    ([[0], [1, 2], 3], ValueError, "must be an array of 3"),
    ([0, 0, 4], ValueError, r"actions\[2\] must be in \[0, 3\], got 4"),
    ([0, -1, 0], ValueError, r"actions\[1\] must be in \[0, 3\], got -1"),
    (np.array([0, 0, 200], np.uint8), ValueError, r"actions\[2\]"),
    ([2**32, 0, 0], ValueError, r"actions\[0\]"),
    ([-(2**63), 0, 0], ValueError, r"actions\[0\]"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("actions", "error", "message"), BAD_ACTIONS)
def test_refused_actions_change_nothing(mode, actions, error, message):
    env = VectorMaze(3, max_episode_steps=3, autoreset_mode=mode)
    env.reset(seed=0)
    env.step([DOWN, DOWN, RIGHT])
    with pytest.raises(error, match=message):
        env.step(actions)
    assert_same(env.step([RIGHT] * 3)[:4], arrays([6, 6, 2], [0] * 3, [0] * 3, [0] * 3))
    assert env.step([UP] * 3)[3].all()


def test_what_was_returned_is_never_rewritten():
    env = VectorMaze(4, rows=2, columns=2, positions=True, autoreset_mode="SameStep")
    generator = np.random.Generator(np.random.PCG64(1))
    results = [env.reset(seed=0)]
    for _ in range(50):
        results.append(env.step(generator.integers(0, 4, 4)))
    copies = [tuple(part.copy() for part in result[:-1]) for result in results]
    env.reset()
    for result, copy in zip(results, copies, strict=True):
        assert_same(result[:-1], copy)
    flat = [array for result in results for array in result[:-1]]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(flat) for b in flat[:i])


def test_seeds_are_consecutive_and_reported():
    env = VectorMaze(3)
    env.reset(seed=2**64 - 2)
    assert env.np_random_seed == (2**64 - 2, 2**64 - 1, 2**64)
    assert env._vector.keys.tolist() == [seeding.key(2**64 - 2 + i) for i in range(3)]
    env.reset(seed=[None, 8, None])
    assert env.np_random_seed == (2**64 - 2, 8, 2**64)
    assert env._vector.episodes.tolist() == [1, 0, 1]
    env.reset(seed=np.int32(40), options={"reset_mask": np.array([True, False, False])})
    assert env.np_random_seed == (40, 8, 2**64)
    assert env._vector.episodes.tolist() == [0, 0, 1]
    env.reset(seed=(1, 2, 3))
    assert env.np_random_seed == (1, 2, 3)
    env.reset()
    assert env._vector.episodes.tolist() == [1, 1, 1]


def test_autoresets_move_on_to_the_next_episode():
    env = VectorMaze(2, max_episode_steps=2, autoreset_mode="SameStep")
    env.reset(seed=0)
    for _ in range(7):
        env.step([UP, UP])
    assert env._vector.episodes.tolist() == [3, 3]
    assert env._vector.elapsed.tolist() == [1, 1]


def test_without_a_seed_fresh_entropy_is_reported():
    env, other = VectorMaze(2), VectorMaze(2)
    promised = env.np_random_seed
    env.reset()
    other.reset()
    assert env.np_random_seed == promised
    assert promised[1] == promised[0] + 1
    assert promised != other.np_random_seed
    env = VectorMaze(3)
    env.reset(seed=[None, 5, None])
    assert env.np_random_seed[1] == 5
    assert len(set(env.np_random_seed)) == 3


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        ([1], ValueError),
        ([1, 2, 3], ValueError),
        ([1, -2], ValueError),
        (-1, ValueError),
        (1.0, TypeError),
        (True, TypeError),
        ([1, 2.5], TypeError),
        ("12", TypeError),
    ],
)
def test_bad_seeds_change_nothing(seed, error):
    env = VectorMaze(2)
    env.reset(seed=3)
    env.step([RIGHT, RIGHT])
    with pytest.raises(error, match="seed must"):
        env.reset(seed=seed)
    assert env.np_random_seed == (3, 4)
    assert env.step([RIGHT, RIGHT])[0].tolist() == [2, 2]


def test_closing_twice_is_fine_and_a_closed_vector_does_nothing():
    env = VectorMaze(2, render_mode="ansi")
    env.reset(seed=0)
    env.close()
    env.close()
    for call in (env.reset, env.render, lambda: env.step([0, 0])):
        with pytest.raises(ClosedEnvironmentError):
            call()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_it_draws_what_each_maze_draws(mode):
    env = VectorMaze(2, rows=3, columns=4, render_mode=mode)
    with pytest.raises(ResetNeeded):
        env.render()
    env.reset(seed=0)
    env.step([RIGHT, DOWN])
    pictures = env.render()
    assert len(pictures) == 2
    for drawn, action in zip(pictures, [RIGHT, DOWN], strict=True):
        single = Maze(rows=3, columns=4, render_mode=mode)
        single.reset()
        single.step(action)
        assert equal(drawn, single.render())


def test_rendering_without_a_mode_warns_and_draws_nothing():
    env = VectorMaze(2)
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def steps_until_truncated(env, at_most=300):
    env.reset(seed=0)
    actions = np.full(env.num_envs, UP)
    for t in range(1, at_most + 1):
        truncated = env.step(actions)[3]
        assert truncated.all() == truncated.any()
        if truncated.any():
            return t
    return None


def test_the_limit_is_100_steps_unless_told_otherwise():
    assert steps_until_truncated(VectorMaze(2)) == 100
    assert steps_until_truncated(VectorMaze(2, max_episode_steps=None)) is None
    for vectorization in (None, "sync", "vector_entry_point"):
        how = {"num_envs": 2, "vectorization_mode": vectorization}
        name = "rollmill/Maze-v0"
        assert steps_until_truncated(gym.make_vec(name, **how)) == 100
        assert steps_until_truncated(gym.make_vec(name, **how, max_episode_steps=7)) == 7
        assert steps_until_truncated(gym.make_vec(name, **how, max_episode_steps=150)) == 150
        assert steps_until_truncated(gym.make_vec(name, **how, max_episode_steps=-1)) is None


@pytest.mark.parametrize("mode", MODES)
def test_the_goal_on_the_last_step_terminates_and_truncates(mode):
    env = VectorMaze(2, max_episode_steps=8, autoreset_mode=mode)
    env.reset(seed=0)
    for action in [DOWN] * 4 + [RIGHT] * 4:
        _, reward, terminated, truncated, _ = env.step([action, UP])
    assert reward.tolist() == [1.0, 0.0]
    assert terminated.tolist() == [True, False]
    assert truncated.tolist() == [True, True]


@pytest.mark.filterwarnings("error")
def test_make_vec_builds_it():
    env = gym.make_vec("rollmill/Maze-v0", num_envs=3, rows=4, columns=6)
    assert isinstance(env, VectorMaze)
    assert env.num_envs == 3
    assert env.single_observation_space == gym.spaces.Discrete(24)
    assert env.observation_space == gym.spaces.MultiDiscrete([24] * 3)
    assert env.action_space == gym.spaces.MultiDiscrete([4] * 3)
    again = gym.make_vec(env.spec)
    assert again.num_envs == 3
    assert again.single_observation_space == gym.spaces.Discrete(24)


def test_arguments_may_come_in_a_mapping():
    class EnvContext(dict):
        worker_index = 0

    env = VectorMaze(EnvContext(rows=3, autoreset_mode="Disabled") | {"num_envs": 4})
    assert env.num_envs == 4
    assert env.single_observation_space == gym.spaces.Discrete(15)
    assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert env.reset(seed=0)[0].tolist() == [0] * 4


@pytest.mark.parametrize(
    ("num_envs", "kwargs", "error", "message"),
    [
        (0, {}, ValueError, r"num_envs must be in \[1, 2\^31\), got 0"),
        (-1, {}, ValueError, "num_envs"),
        (2**31, {}, ValueError, "num_envs"),
        (1.0, {}, TypeError, "num_envs must be an integer, got 1.0"),
        (None, {}, TypeError, "num_envs must be an integer, got None"),
        (2, {"autoreset_mode": "NEXT"}, ValueError, "autoreset_mode must be one of"),
        ({"num_env": 2}, {}, ValueError, 'option "num_env". Did you mean "num_envs"'),
    ],
)
def test_bad_arguments_are_refused(num_envs, kwargs, error, message):
    with pytest.raises(error, match=message):
        VectorMaze(num_envs, **kwargs)
