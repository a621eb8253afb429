import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from rollmill._env import NativeEnv
from rollmill._vector import DISABLED, NEXT_STEP, SAME_STEP, TERMINATED, TRUNCATED, Vector
from rollmill.envs import EnvSpec, Maze, env_spec, load, native_env

MAZE = "rollmill/Maze-v0"


@pytest.fixture(scope="module")
def drift(drift_library):
    return load(f"{drift_library}:drift")


def keys(n, first=0):
    return np.arange(first, first + n, dtype=np.uint64)


def test_what_a_maze_declares():
    env = native_env(MAZE, rows=3, columns=4)
    assert env.name == MAZE
    assert env.max_episode_steps == 100
    assert env.state_size == 4
    spec = env.observation_space_spec
    assert (spec.kind, spec.dtype, spec.n, spec.shape) == ("discrete", np.int64, 12, ())
    assert spec.low is None
    assert spec.high is None
    assert env.action_space_spec.n == 4
    assert native_env(MAZE, max_episode_steps=None).max_episode_steps == 0


def test_what_drift_declares(drift, drift_library):
    assert (drift.name, drift.max_episode_steps, drift.state_size) == ("drift", 60, 16)
    spec = drift.observation_space_spec
    assert (spec.kind, spec.dtype, spec.n, spec.shape) == ("box", np.float32, 4, (4,))
    assert spec.low.tolist() == [-1000, -1000, 0, -1]
    assert spec.high.tolist() == [1000, 1000, 2000, 1]
    spec = env_spec(f"{drift_library}:drift")
    low, high = np.float32([-1000, -1000, 0, -1]), np.float32([1000, 1000, 2000, 1])
    assert spec.observation_space == gym.spaces.Box(low, high, dtype=np.float32)
    assert spec.action_space == gym.spaces.Discrete(3)
    assert env_spec(MAZE).observation_space == Maze().observation_space
    assert env_spec(MAZE).action_space == Maze().action_space


def test_a_capsule_keeps_the_environment_alive():
    env = native_env(MAZE, rows=3, columns=4, start=(2, 1))
    capsule = env.capsule()
    del env
    gc.collect()
    again = native_env(capsule)
    del capsule
    gc.collect()
    vector = Vector(again, 2)
    del again
    gc.collect()
    assert vector.reset(keys=keys(2)).tolist() == [9, 9]
    assert vector.env.observation_space_spec.n == 12


def test_capsules_release_what_they_hold():
    env = native_env(MAZE)
    before = sys.getrefcount(env)
    capsules = [env.capsule() for _ in range(10)]
    assert sys.getrefcount(env) == before + 10
    del capsules
    assert sys.getrefcount(env) == before


def test_what_is_no_capsule_is_refused():
    other = ctypes.pythonapi.PyCapsule_New
    other.restype, other.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    for wrong in (other(1, b"other.name", None), None, 3, "capsule"):
        with pytest.raises(TypeError, match=r"PyCapsule named 'rollmill\.rml_env'"):
            NativeEnv.from_capsule(wrong)


def test_a_native_env_is_not_made_or_pickled_directly():
    with pytest.raises(TypeError, match=r"from_capsule"):
        NativeEnv()
    with pytest.raises(TypeError, match="EnvSpec"):
        pickle.dumps(native_env(MAZE))
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(Vector(native_env(MAZE), 1))
    with pytest.raises(ValueError, match="got 0"):
        NativeEnv.from_address(0, None)


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        ("drift_null", "the environment is NULL"),
        ("drift_wrong_abi", r"abi_version differs .*got abi_version 2 .*wanted 1"),
        ("drift_wrong_size", r"struct_size differs .*compile it again"),
        ("drift_no_step", "step must not be NULL"),
        ("drift_no_actions", "action.n must be at least 1"),
        ("drift_nowhere", "has no function 'drift_nowhere'"),
    ],
)
def test_broken_libraries_are_refused(drift_library, symbol, message):
    with pytest.raises(ValueError, match=message) as caught:
        native_env(f"{drift_library}:{symbol}")
    assert "drift.so" in str(caught.value)


def test_files_that_are_no_libraries_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no environment library .*absent\.so"):
        native_env(f"{tmp_path}/absent.so:drift")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(OSError, match=r"text\.so' is no library that can be loaded here"):
        native_env(f"{tmp_path}/text.so:drift")
    with pytest.raises(FileNotFoundError):
        native_env(f"{tmp_path}:drift")
    with pytest.raises(ValueError, match=r"path/to/library\.so:symbol"):
        load(f"{tmp_path}/text.so")


@pytest.mark.parametrize(
    ("spec", "kwargs", "error", "message"),
    [
        ("rolmill/maze-v0", {}, ValueError, 'Did you mean "rollmill/Maze-v0"'),
        ("Maze-v0", {}, ValueError, 'Did you mean "rollmill/Maze-v0"'),
        ("CartPole-v1", {}, ValueError, 'unknown native environment "CartPole-v1"'),
        ("", {}, ValueError, "unknown native environment"),
        (MAZE, {"row": 3}, ValueError, 'option "row". Did you mean "rows"'),
        (MAZE, {"rows": 0}, ValueError, "rows must be in"),
        (MAZE, {"render_mode": "ansi"}, ValueError, 'option "render_mode"'),
        (None, {}, TypeError, "got NoneType"),
        (3, {}, TypeError, "got int"),
    ],
)
def test_unknown_environments_and_options_are_refused(spec, kwargs, error, message):
    with pytest.raises(error, match=message):
        native_env(spec, **kwargs)


def test_options_go_to_built_in_environments_alone(drift, drift_library):
    for spec in (f"{drift_library}:drift", drift, drift.capsule()):
        with pytest.raises(ValueError, match="takes no options, got rows"):
            native_env(spec, rows=3)
    assert native_env(drift) is drift
    with pytest.raises(TypeError, match="must be an environment id"):
        env_spec(drift)


def test_specs_compare_extend_and_stay_valid_elsewhere(drift_library, monkeypatch):
    spec = env_spec(MAZE, rows=3)
    assert spec == EnvSpec(MAZE, {"rows": 3})
    assert env_spec(spec, columns=7) == EnvSpec(MAZE, {"rows": 3, "columns": 7})
    assert native_env(spec).observation_space_spec.n == 15
    monkeypatch.chdir(drift_library.parent)
    assert env_spec("drift.so:drift") == EnvSpec(f"{drift_library}:drift")


@pytest.mark.parametrize("kind", ["maze", "library"])
def test_a_pickled_spec_builds_in_another_process(kind, drift_library, tmp_path):
    spec = env_spec(MAZE, rows=3) if kind == "maze" else env_spec(f"{drift_library}:drift")
    code = (
        "import pickle, sys; env = pickle.load(sys.stdin.buffer).build(); "
        "print(env.name, env.observation_space_spec.n)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(spec), stdout=-1, check=True, cwd=tmp_path
    ).stdout
    assert out.split() == ([MAZE.encode(), b"15"] if kind == "maze" else [b"drift", b"4"])


def philox(key, counter):
    """Philox4x32-10 from the paper's definition."""
    c, k = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class DriftInNumpy:
    """What drift.c says, in float32 arithmetic of NumPy."""

    def __init__(self, key, item=0, episode=0):
        self.name = key, item, episode
        self.x, self.speed, field, self.wind = self.draw(stream=4, block=0)
        f = np.float32
        self.speed, self.field = f(0.1) * self.speed, f(1000) + f(200) * field
        self.steps = 0

    def draw(self, stream, block):
        key, item, episode = self.name
        words = philox(key, (block, item, episode, stream << 24))
        return [np.float32(2) * np.float32((w >> 8) / 2**24) - np.float32(1) for w in words]

    def step(self, action):
        f = np.float32
        gust, change, _, _ = self.draw(stream=5, block=self.steps)
        push = f(action - 1) * (self.field * f(0.001))
        self.speed = f(0.9) * self.speed + f(0.1) * push + f(0.05) * self.wind + f(0.1) * gust
        self.x = f(1.02) * self.x + self.speed
        self.field = self.field + f(5) * change
        self.steps += 1
        x = float(self.x)
        return 1.0 - x * x / 9.0, (abs(x) > 3) * TERMINATED | (self.steps == 60) * TRUNCATED

    @property
    def obs(self):
        return [self.x, self.speed, self.field, self.wind]


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_drift_is_what_numpy_computes(drift, mode):
    n, generator = 5, np.random.Generator(np.random.PCG64(3))
    ids = np.array([0, 1, 5, 2**32 - 1, 7], np.uint32)
    key_n = np.array([0, 2**64 - 1, 5, 6, 7], np.uint64)
    vector = Vector(drift, n, mode, ids=ids)
    obs = vector.reset(keys=key_n)
    names = list(zip(key_n.tolist(), ids.tolist(), strict=True))
    wanted = [DriftInNumpy(*name) for name in names]
    assert obs.tolist() == [list(map(float, env.obs)) for env in wanted]
    episodes, over, ended = [0] * n, [False] * n, 0
    for _ in range(300):
        actions = generator.integers(0, 3, n)
        if mode == DISABLED and any(over):
            obs = vector.reset(mask=np.array(over))
            for i in np.flatnonzero(over):
                episodes[i] += 1
                wanted[i] = DriftInNumpy(*names[i], episodes[i])
                assert obs[i].tolist() == list(map(float, wanted[i].obs))
        obs, reward, flags, final = vector.step(actions)
        assert (final is not None) == (mode == SAME_STEP)
        for i in range(n):
            if mode == NEXT_STEP and over[i]:
                episodes[i] += 1
                wanted[i] = DriftInNumpy(*names[i], episodes[i])
                expected, over[i] = (0.0, 0), False
            else:
                expected = wanted[i].step(int(actions[i]))
                over[i] = expected[1] != 0
                ended += over[i]
                if mode == SAME_STEP and over[i]:
                    assert final[i].tolist() == list(map(float, wanted[i].obs))
                    episodes[i] += 1
                    wanted[i] = DriftInNumpy(*names[i], episodes[i])
            assert (reward[i], flags[i]) == expected
            assert obs[i].tolist() == list(map(float, wanted[i].obs))
        assert vector.episodes.tolist() == episodes
    assert ended > 40


def test_drift_can_be_learned(drift):
    """A hand-written policy earns far more than chance, so parameters matter."""

    def mean_return(policy):
        vector = Vector(drift, 500, SAME_STEP)
        obs = vector.reset(keys=keys(500))
        returns, first = np.zeros(500), np.ones(500, np.bool_)
        for _ in range(60):
            obs, reward, flags, _ = vector.step(policy(obs))
            returns[first] += reward[first]
            first &= flags == 0
        assert not first.any()
        return returns.mean()

    generator = np.random.Generator(np.random.PCG64(0))
    chance = mean_return(lambda obs: generator.integers(0, 3, len(obs)))
    steering = mean_return(lambda obs: 1 - np.sign(obs[:, 0] + 3 * obs[:, 1]).astype(np.int64))
    assert chance < 20
    assert steering > 55


def test_an_environment_does_not_depend_on_its_neighbours(drift):
    """Alone or in a vector, in any place: the same bits."""
    generator = np.random.Generator(np.random.PCG64(5))
    actions = generator.integers(0, 3, (80, 9))
    together = Vector(drift, 9)
    first = together.reset(keys=keys(9))
    results = [together.step(action) for action in actions]
    order = generator.permutation(9)
    shuffled = Vector(drift, 9)
    assert np.array_equal(shuffled.reset(keys=keys(9)[order]), first[order])
    alone = [Vector(drift, 1) for _ in range(9)]
    for i, vector in enumerate(alone):
        assert np.array_equal(vector.reset(keys=keys(1, i)), first[i : i + 1])
    for action, (obs, reward, flags, _) in zip(actions, results, strict=True):
        other = shuffled.step(action[order])
        assert np.array_equal(other[0], obs[order])
        for i, vector in enumerate(alone):
            single = vector.step(action[i : i + 1])
            assert np.array_equal(single[0][0], obs[i])
            assert (single[1][0], single[2][0]) == (reward[i], flags[i])


def test_the_slow_variant_computes_the_same(drift, drift_library):
    slow = Vector(load(f"{drift_library}:drift_slow"), 2)
    fast = Vector(drift, 2)
    assert np.array_equal(slow.reset(keys=keys(2)), fast.reset(keys=keys(2)))
    for _ in range(5):
        for mine, other in zip(slow.step(np.ones(2, int)), fast.step(np.ones(2, int)), strict=True):
            assert np.array_equal(mine, other)


def test_the_nan_variant_spoils_one_environment(drift_library):
    ids = np.arange(8, dtype=np.uint32)
    vector = Vector(load(f"{drift_library}:drift_nan"), 8, ids=ids)
    vector.reset(keys=keys(8))
    reward = vector.step(np.ones(8, np.int64))[1]
    assert np.isnan(reward).tolist() == (ids == 5).tolist()


def test_a_failing_environment_asks_for_a_reset(drift_library):
    ids = np.arange(5, dtype=np.uint32)
    vector = Vector(load(f"{drift_library}:drift_fail"), 5, ids=ids)
    vector.reset(keys=keys(5))
    with pytest.raises(RuntimeError, match="drift_fail: the environment's reset or step failed"):
        vector.step(np.ones(5, np.int64))
    assert not vector.begun
    with pytest.raises(RuntimeError, match="must be reset before they step"):
        vector.step(np.ones(5, np.int64))
    with pytest.raises(RuntimeError, match="must give a key to each"):
        vector.reset(mask=np.ones(5, np.bool_))
    vector.reset(keys=keys(5))
    assert vector.begun


def test_the_crashing_variant_dies_of_a_segmentation_fault(drift_library):
    code = f"""
import numpy as np
from rollmill._vector import Vector
from rollmill.envs import load
vector = Vector(load({f"{drift_library}:drift_crash"!r}), 4, ids=np.arange(4, dtype=np.uint32))
vector.reset(keys=np.zeros(4, np.uint64))
vector.step(np.ones(4, np.int64))
"""
    # Under AddressSanitizer the signal is to go its own way too.
    options = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ | options)
    assert ended.returncode == -signal.SIGSEGV


GOOD = {
    "actions": np.ones(4, np.int64),
    "obs": np.zeros((4, 4), np.float32),
    "reward": np.zeros(4),
    "flags": np.zeros(4, np.uint8),
    "final": np.zeros((4, 4), np.float32),
    "end_return": np.zeros(4),
    "end_length": np.zeros(4, np.uint32),
}


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


WRONG = {
    "wrong dtype": lambda a: a.astype(np.complex64),
    "a narrower dtype": lambda a: a.astype(np.int8),
    "another byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "too short": lambda a: a[:-1],
    "one more axis": lambda a: a[..., None],
    "no axis": lambda a: a.flat[0],
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "a list": lambda a: a.tolist(),
    "a memoryview": lambda a: memoryview(a.tobytes()),
    "read-only": read_only,
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("fault", WRONG)
def test_wrong_arrays_change_nothing(drift, name, fault):
    vector = Vector(drift, 4, SAME_STEP)
    vector.reset(keys=keys(4))
    wrong = WRONG[fault](GOOD[name])
    arguments = {key: value.copy() for key, value in GOOD.items()} | {name: wrong}
    if (name == "actions" and fault == "read-only") or (
        fault == "another byte order" and wrong.dtype.isnative
    ):
        vector.step_into(**arguments)
        return
    with pytest.raises(ValueError, match=f"{name} must be"):
        vector.step_into(**arguments)
    assert vector.elapsed.tolist() == [0] * 4
    other = Vector(drift, 4, SAME_STEP)
    other.reset(keys=keys(4))
    assert np.array_equal(vector.step(GOOD["actions"])[0], other.step(GOOD["actions"])[0])


@pytest.mark.parametrize("name", ["actions", "obs", "reward", "flags"])
def test_none_is_no_array(drift, name):
    vector = Vector(drift, 4)
    vector.reset(keys=keys(4))
    with pytest.raises(ValueError, match=f"{name} must be .* got NoneType"):
        vector.step_into(**(GOOD | {name: None}))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"keys": np.zeros(4, np.int64)}, "keys must be a uint64 array"),
        ({"keys": np.zeros(3, np.uint64)}, "keys must be"),
        ({"keys": [0, 1, 2, 3]}, "keys must be .* got list"),
        ({"fresh": np.ones(4, np.bool_)}, "fresh needs keys"),
        ({"keys": keys(4), "fresh": np.ones(4, np.uint8)}, "fresh must be a bool array"),
        ({"mask": np.ones(4, np.uint8)}, "mask must be a bool array"),
        ({"mask": np.ones((4, 1), np.bool_)}, "mask must be"),
    ],
)
def test_a_refused_reset_changes_nothing(drift, kwargs, message):
    vector = Vector(drift, 4)
    vector.reset(keys=keys(4, 10))
    vector.step(np.ones(4, np.int64))
    with pytest.raises(ValueError, match=message):
        vector.reset(**kwargs)
    assert vector.keys.tolist() == [10, 11, 12, 13]
    assert vector.elapsed.tolist() == [1] * 4
    assert vector.episodes.tolist() == [0] * 4


def test_a_reset_with_fresh_and_mask(drift):
    vector = Vector(drift, 4)
    first = vector.reset(keys=keys(4))
    fresh = np.array([True, True, False, False])
    mask = np.array([True, False, True, False])
    obs = vector.reset(keys=keys(4, 20), fresh=fresh, mask=mask)
    assert vector.keys.tolist() == [20, 1, 2, 3]
    assert vector.episodes.tolist() == [0, 0, 1, 0]
    assert obs[0].tolist() == list(map(float, DriftInNumpy(20).obs))
    assert obs[2].tolist() == list(map(float, DriftInNumpy(2, 0, 1).obs))
    assert not obs[1].any()
    assert np.array_equal(vector.reset(keys=keys(4)), first)


def test_a_first_reset_gives_every_key(drift):
    vector = Vector(drift, 2)
    for kwargs in ({}, {"mask": np.ones(2, np.bool_)}, {"keys": keys(2), "fresh": keys(2) == 0}):
        with pytest.raises(RuntimeError, match="must give a key to each environment"):
            vector.reset(**kwargs)
    with pytest.raises(RuntimeError, match="before they step"):
        vector.step(np.ones(2, np.int64))
    with pytest.raises(RuntimeError, match="before they are drawn"):
        vector.render(0)


def test_returns_and_lengths_of_the_episodes_that_ended(drift):
    vector = Vector(drift, 6, SAME_STEP)
    obs = vector.reset(keys=keys(6))
    running, steps = np.zeros(6), np.zeros(6, np.int64)
    reward, flags = np.zeros(6), np.zeros(6, np.uint8)
    end_return, end_length = np.full(6, -7.0), np.full(6, 99, np.uint32)
    ended = 0
    for _ in range(100):
        before = end_return.copy(), end_length.copy()
        vector.step_into(np.zeros(6, np.int64), obs, reward, flags, None, end_return, end_length)
        running += reward
        steps += 1
        over = flags != 0
        ended += over.sum()
        assert np.array_equal(end_return[over], running[over])
        assert np.array_equal(end_length[over], steps[over])
        assert np.array_equal(end_return[~over], before[0][~over])
        assert np.array_equal(end_length[~over], before[1][~over])
        running[over], steps[over] = 0, 0
        assert np.array_equal(vector.returns, running)
        assert np.array_equal(vector.elapsed, steps)
    assert ended > 20


@pytest.mark.parametrize("bad", [3, -1, 2**40])
def test_an_action_outside_the_space_is_named(drift, bad):
    vector = Vector(drift, 3)
    vector.reset(keys=keys(3))
    with pytest.raises(ValueError, match=rf"actions\[1\] must be in \[0, 2\], got {bad}"):
        vector.step(np.array([0, bad, 1]))
    assert vector.elapsed.tolist() == [0, 0, 0]


def test_arguments_of_a_vector(drift):
    with pytest.raises(ValueError, match=r"n must be in \[1, 2\^31\), got 0"):
        Vector(drift, 0)
    with pytest.raises(ValueError, match="n must be"):
        Vector(drift, -1)
    with pytest.raises(ValueError, match="autoreset must be"):
        Vector(drift, 1, 3)
    with pytest.raises(ValueError, match="ids must be a uint32 array"):
        Vector(drift, 2, ids=np.zeros(3, np.uint32))
    with pytest.raises(TypeError):
        Vector(None, 1)
    vector = Vector(drift, 3, DISABLED)
    assert (vector.n, vector.autoreset, vector.env) == (3, DISABLED, drift)


def test_pictures(drift):
    vector = Vector(drift, 2)
    vector.reset(keys=keys(2))
    with pytest.raises(NotImplementedError, match="drift has no text picture"):
        vector.render(0)
    maze = Vector(native_env(MAZE, rows=1, columns=3), 2)
    maze.reset(keys=keys(2))
    maze.step(np.array([3, 0]))
    assert [maze.render(i) for i in range(2)] == ["| |S|G|\n", "|S| |G|\n"]
    for i in (-1, 2):
        with pytest.raises(IndexError, match=r"i must be in \[0, 2\)"):
            maze.render(i)


def test_a_native_env_without_a_pointer_cannot_be_made():
    for args in ((), (object(),)):
        with pytest.raises(TypeError, match="from_capsule"):
            NativeEnv.__new__(NativeEnv, *args)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Env", (NativeEnv,), {"__init__": lambda self: None})


def test_an_address_of_data_is_not_called():
    with pytest.raises(ValueError, match="is data, no function"):
        NativeEnv.from_address(id(int), None)  # PyLong_Type, a symbol of the interpreter
    with pytest.raises(TypeError, match=r"^address must be an integer"):
        NativeEnv.from_address(1.5, None)


def test_a_vector_takes_whole_numbers():
    assert Vector(native_env(MAZE), np.int32(2)).n == 2
    with pytest.raises(TypeError, match=r"^n must be an integer, got 2\.5"):
        Vector(native_env(MAZE), 2.5)


def test_misaligned_and_overlapping_arrays_are_refused():
    vector = Vector(native_env(MAZE), 2)

    def off(dtype):
        raw = np.zeros(2 * np.dtype(dtype).itemsize + 1, np.uint8)
        return raw[1:].view(dtype)

    with pytest.raises(ValueError, match=r"^obs must be aligned"):
        vector.reset_into(off(np.int64), keys=keys(2))
    shared = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match=r"^mask must not overlap obs"):
        vector.reset_into(shared, keys=keys(2), mask=shared.view(np.bool_)[:2])
    vector.reset(keys=keys(2))
    good = {
        "actions": np.zeros(2, np.int64),
        "obs": np.zeros(2, np.int64),
        "reward": np.zeros(2),
        "flags": np.zeros(2, np.uint8),
        "final": np.zeros(2, np.int64),
        "end_return": np.zeros(2),
        "end_length": np.zeros(2, np.uint32),
    }
    for name, array in good.items():
        if name != "flags":
            with pytest.raises(ValueError, match=rf"^{name} must be aligned"):
                vector.step_into(**{**good, name: off(array.dtype)})
        if name != "actions":
            shared = good["actions"].view(array.dtype)[:2]
            with pytest.raises(ValueError, match=rf"^{name} must not overlap actions"):
                vector.step_into(**{**good, name: shared})
    assert vector.elapsed.tolist() == [0, 0]
    vector.step_into(**good)
    assert vector.elapsed.tolist() == [1, 1]
