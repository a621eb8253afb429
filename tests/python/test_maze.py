import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from rollmill.envs import Maze, VectorMaze, register

DOWN, LEFT, UP, RIGHT = range(4)
PATH = [DOWN] * 4 + [RIGHT] * 4
START_TEXT = "|S| | | | |\n| | | | | |\n| | | | | |\n| | | | | |\n| | | | |G|\n"


def moved(place, action, rows=5, columns=5):
    """Where an action leads by the tutorial's rules."""
    row, column = place
    down, right = [(1, 0), (0, -1), (-1, 0), (0, 1)][action]
    if 0 <= row + down < rows and 0 <= column + right < columns:
        return row + down, column + right
    return place


@pytest.mark.filterwarnings("error")
def test_gymnasiums_checker_passes():
    env = gym.make("rollmill/Maze-v0")
    check_env(env.unwrapped)


def test_spaces_and_first_observation():
    env = Maze()
    assert env.observation_space == gym.spaces.Discrete(25)
    assert env.action_space == gym.spaces.Discrete(4)
    obs, info = env.reset(seed=1)
    assert (obs, info) == (0, {"seeker": (0, 0), "goal": (4, 4)})
    assert type(obs) is int


def test_the_shortest_path_takes_8_steps():
    env = Maze()
    env.reset(seed=0)
    place = (0, 0)
    for t, action in enumerate(PATH):
        place = moved(place, action)
        obs, reward, terminated, truncated, info = env.step(action)
        assert obs == 5 * place[0] + place[1]
        assert info == {"seeker": place, "goal": (4, 4)}
        last = t == 7
        assert (reward, terminated, truncated) == (float(last), last, False)
        assert type(reward) is float
        assert type(terminated) is bool


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (1, 2), (2, 1), (3, 7), (6, 4)])
def test_every_cell_and_action(rows, columns):
    for cell in range(rows * columns):
        start = divmod(cell, columns)
        goal = (0, 0) if start == (rows - 1, columns - 1) else (rows - 1, columns - 1)
        env = Maze(rows, columns, start, goal, max_episode_steps=None)
        for action in range(4):
            assert env.reset()[0] == cell
            place = moved(start, action, rows, columns)
            obs, reward, terminated, truncated, info = env.step(action)
            assert obs == columns * place[0] + place[1]
            assert info["seeker"] == place
            assert terminated == (place == goal) == (reward == 1.0)
            assert not truncated


def test_ansi():
    env = Maze(render_mode="ansi")
    env.reset()
    assert env.render() == START_TEXT
    for action in PATH:
        env.step(action)
    assert env.render() == "| | | | | |\n" * 4 + "| | | | |S|\n"
    env = Maze(2, 3, start=(1, 1), goal=(0, 2), render_mode="ansi")
    env.reset()
    assert env.render() == "| | |G|\n| |S| |\n"


def test_rgb_array():
    env = Maze(render_mode="rgb_array")
    env.reset()
    first = env.render()
    assert first.shape == (160, 160, 3)
    assert first.dtype == np.uint8
    seeker, goal, empty = first[16, 16], first[144, 144], first[16, 48]
    assert len({tuple(seeker), tuple(goal), tuple(empty)}) == 3
    assert (first[1:32, 1:32] == seeker).all()
    env.step(RIGHT)
    second = env.render()
    assert (second[1:32, 1:32] == empty).all()
    assert (second[1:32, 33:64] == seeker).all()
    assert (first[16, 16] == seeker).all(), "an earlier picture is not drawn over"
    large = Maze(1, 4096, render_mode="rgb_array")
    large.reset()
    assert large.render().shape == (1, 4096, 3)


def test_rendering_without_a_mode_warns_and_draws_nothing():
    env = Maze()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def steps_until_truncated(env, at_most=400):
    env.reset(seed=0)
    for t in range(1, at_most + 1):
        _, _, terminated, truncated, _ = env.step(UP)
        assert not terminated
        if truncated:
            return t
    return None


def test_the_limit_is_100_steps_unless_told_otherwise():
    assert steps_until_truncated(Maze()) == 100
    assert steps_until_truncated(Maze(max_episode_steps=7)) == 7
    assert steps_until_truncated(Maze(max_episode_steps=None)) is None
    assert steps_until_truncated(Maze(max_episode_steps=-1)) is None
    name = "rollmill/Maze-v0"
    assert steps_until_truncated(gym.make(name)) == 100
    assert steps_until_truncated(gym.make(name, max_episode_steps=7)) == 7
    assert steps_until_truncated(gym.make(name, max_episode_steps=150)) == 150
    assert steps_until_truncated(gym.make(name, max_episode_steps=-1)) is None


@pytest.mark.parametrize("make", [Maze, lambda **kw: gym.make("rollmill/Maze-v0", **kw)])
def test_the_goal_on_the_last_step_terminates_and_truncates(make):
    env = make(max_episode_steps=8)
    env.reset()
    results = [env.step(action) for action in PATH]
    assert results[-2][1:4] == (0.0, False, False)
    assert results[-1][1:4] == (1.0, True, True)


@pytest.mark.parametrize("action", [4, -1, 2**40, -(2**70), np.int64(4)])
def test_an_action_outside_the_space_changes_nothing(action):
    env = Maze()
    env.reset()
    env.step(RIGHT)
    with pytest.raises(ValueError, match=r"action must be in \[0, 3\], got"):
        env.step(action)
    assert env.step(DOWN)[0] == 6


@pytest.mark.parametrize("action", [1.0, None, "1", np.float32(1), np.array([1]), [1], (), np.nan])
def test_an_action_that_is_no_integer_changes_nothing(action):
    env = Maze()
    env.reset()
    with pytest.raises(TypeError, match="action must be an integer, got"):
        env.step(action)
    assert env.step(DOWN)[0] == 5


@pytest.mark.parametrize("kind", [int, np.int8, np.uint8, np.int32, np.int64, np.array])
def test_integers_of_any_kind_are_actions(kind):
    env = Maze()
    env.reset()
    assert env.step(kind(RIGHT))[0] == 1


def test_a_step_or_picture_needs_an_episode():
    env = Maze(render_mode="ansi")
    with pytest.raises(ResetNeeded):
        env.step(DOWN)
    with pytest.raises(ResetNeeded):
        env.render()
    env.reset()
    for action in PATH:
        env.step(action)
    with pytest.raises(ResetNeeded, match="over"):
        env.step(DOWN)
    assert env.reset()[0] == 0
    assert env.step(DOWN)[0] == 5


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1, 2**64, 2**200])
def test_the_seed_is_reported(seed):
    env = Maze()
    env.reset(seed=seed)
    assert env.np_random_seed == seed
    env.reset()
    assert env.np_random_seed == seed


def test_without_a_seed_fresh_entropy_is_reported():
    seeds = set()
    for _ in range(20):
        env = Maze()
        env.reset()
        seeds.add(env.np_random_seed)
    assert len(seeds) == 20


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_bad_seeds_are_refused(seed):
    env = Maze()
    env.reset()
    env.step(RIGHT)
    with pytest.raises((TypeError, ValueError), match="seed must be"):
        env.reset(seed=seed)
    assert env.step(RIGHT)[0] == 2


def test_numpy_integers_are_seeds():
    env = Maze()
    env.reset(seed=np.int64(5))
    assert env.np_random_seed == 5


def test_unknown_reset_options_are_refused():
    with pytest.raises(ValueError, match='unknown reset option "mask"'):
        Maze().reset(options={"mask": 1})


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"rows": 0}, ValueError, r"rows must be in \[1, 4096\], got 0"),
        ({"columns": 4097}, ValueError, r"columns must be in \[1, 4096\], got 4097"),
        ({"rows": -3}, ValueError, "rows"),
        ({"rows": 2**70}, ValueError, "rows"),
        ({"rows": 2.0}, TypeError, "rows must be an integer, got 2.0"),
        ({"rows": 1, "columns": 1}, ValueError, "at least 2 cells"),
        ({"start": (5, 0)}, ValueError, r"start must be a cell of the 5x5 maze, got \(5, 0\)"),
        ({"goal": (0, -1)}, ValueError, "goal must be a cell"),
        ({"goal": (0, 0)}, ValueError, "start and goal must differ"),
        ({"start": 3}, TypeError, r"start must be a pair \(row, column\), got 3"),
        ({"start": (0, 1, 2)}, TypeError, "pair"),
        ({"start": (0.5, 1)}, TypeError, "row of start"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps"),
        ({"max_episode_steps": 2**32}, ValueError, "max_episode_steps"),
        ({"max_episode_steps": 1.5}, TypeError, "max_episode_steps"),
        ({"render_mode": "human"}, ValueError, "render_mode must be None, 'ansi' or 'rgb_array'"),
    ],
)
def test_bad_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        Maze(**kwargs)
    with pytest.raises(error, match=message):
        VectorMaze(2, **kwargs)


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium, rollmill.envs; gymnasium.make('rollmill/Maze-v0')",
        "import rollmill.envs, gymnasium; gymnasium.make_vec('rollmill/Maze-v0')",
        "import gymnasium; gymnasium.make('rollmill.envs:rollmill/Maze-v0')",
        "import sys, rollmill.envs; assert not {'ray', 'rollmill.envs.maze'} & set(sys.modules)",
    ],
)
def test_importing_the_package_registers_the_ids_and_little_else(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_registering_again_does_nothing():
    spec = gym.spec("rollmill/Maze-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()
    assert gym.spec("rollmill/Maze-v0") is spec


def chain(policy_sa):
    """Mean and standard deviation of the steps from (0, 0) to (4, 4), by absorbing chains."""
    p = np.zeros((25, 25))
    for cell in range(24):
        for action in range(4):
            row, column = moved(divmod(cell, 5), action)
            p[cell, 5 * row + column] += policy_sa[cell, action]
    fundamental = np.linalg.inv(np.eye(24) - p[:24, :24])
    mean = fundamental.sum(axis=1)
    variance = (2 * fundamental - np.eye(24)) @ mean - mean**2
    return mean[0], np.sqrt(variance[0])


def epsilon_greedy(greedy_s):
    policy_sa = np.full((25, 4), 0.1 / 4)
    policy_sa[np.arange(25), greedy_s] += 0.9
    return policy_sa


POLICIES = {
    "uniform": (np.full((25, 4), 0.25), 1175 / 11, 91.544672),
    "path": (epsilon_greedy([DOWN] * 20 + [RIGHT] * 5), 8.833859, 1.273),
    "zeros": (epsilon_greedy([DOWN] * 25), 400.150290, None),
}


@pytest.mark.parametrize("name", POLICIES)
def test_episode_lengths_agree_with_the_closed_forms(name):
    policy_sa, stated_mean, stated_deviation = POLICIES[name]
    mean, deviation = chain(policy_sa)
    assert mean == pytest.approx(stated_mean, abs=1e-6)
    if stated_deviation is not None:
        assert deviation == pytest.approx(stated_deviation, abs=1e-3)

    n = 4_000 if name == "zeros" else 30_000
    env = VectorMaze(n, max_episode_steps=None, autoreset_mode="SameStep")
    generator = np.random.Generator(np.random.PCG64(20240229))
    cumulated_sa = np.cumsum(policy_sa, axis=1)
    length_n = np.zeros(n, np.int64)
    obs, _ = env.reset(seed=0)
    t = 0
    while not length_n.all():
        t += 1
        draw_n = generator.random(n)
        actions = (draw_n[:, None] >= cumulated_sa[obs][:, :3]).sum(axis=1)
        obs, reward, terminated, truncated, _ = env.step(actions)
        assert not truncated.any()
        assert np.array_equal(reward, terminated.astype(np.float64))
        length_n[terminated & (length_n == 0)] = t
    assert length_n.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(n))
    assert length_n.std() == pytest.approx(deviation, rel=0.05)
