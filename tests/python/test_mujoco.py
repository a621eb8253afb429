import gc
import inspect
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("imageio")  # Gymnasium's MuJoCo environments need it

from rollmill import _mujoco  # noqa: E402
from rollmill._vector import NEXT_STEP, SAME_STEP, TERMINATED, TRUNCATED, Vector  # noqa: E402
from rollmill.envs import env_spec, native_env  # noqa: E402
from rollmill.envs import mujoco as tasks  # noqa: E402
from rollmill.envs.native import space  # noqa: E402
from rollmill.envs.registration import MUJOCO_IDS  # noqa: E402

RUNNING = [env_id for env_id in MUJOCO_IDS if env_id != "Pusher-v4"]
# What Gymnasium has that changes pictures alone.
PICTURES = {"default_camera_config", "kwargs", "self"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """MuJoCo writes MUJOCO_LOG.TXT where it runs; Gymnasium calls v4 out of date."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gym.logger, "min_level", gym.logger.ERROR)


def keys(n, first=0):
    return np.arange(first, first + n, dtype=np.uint64)


class Twin:
    """Gymnasium's environment, whose resets go where those of a vector of one went."""

    def __init__(self, env_id, vector, **options):
        self.env = gym.make(env_id, disable_env_checker=True, **options)
        self.inner, self.vector = self.env.unwrapped, vector

    def reset(self):
        qpos, qvel = _mujoco.read(self.vector, 0)
        self.inner.reset_model = lambda: self._start(qpos, qvel)
        return self.env.reset()[0]

    def _start(self, qpos, qvel):
        self.inner.set_state(qpos, qvel)
        return self.inner._get_obs()


def compare(env_id, steps, seed=0, scale=1.25, **options):
    """Step both with the same random actions; the largest differences of observation and reward."""
    env = native_env(env_id, **options)
    vector = Vector(env, 1, NEXT_STEP)
    twin = Twin(env_id, vector, **options)
    generator = np.random.Generator(np.random.PCG64(seed))
    low, high = twin.env.action_space.low, twin.env.action_space.high
    obs_gap = np.abs(vector.reset(keys=keys(1, seed))[0] - twin.reset()).max()
    reward_gap, over, ended, taken = 0.0, False, 0, 0
    while taken < steps:
        action = (scale * generator.uniform(low, high)).astype(np.float32)
        obs, reward, flags, _ = vector.step(action[None])
        if over:
            wanted, over = twin.reset(), False
        else:
            wanted, wanted_reward, terminated, truncated, _ = twin.env.step(action)
            assert flags[0] == TERMINATED * terminated | TRUNCATED * truncated
            reward_gap = max(reward_gap, abs(reward[0] - wanted_reward) / max(1, abs(reward[0])))
            over = flags[0] != 0
            taken, ended = taken + 1, ended + over
        assert obs[0].shape == wanted.shape
        obs_gap = max(obs_gap, np.abs(obs[0] - wanted).max())
    return obs_gap, reward_gap, ended


@pytest.mark.parametrize("env_id", RUNNING)
def test_a_thousand_steps_are_gymnasium_s(env_id):
    obs_gap, reward_gap, ended = compare(env_id, 1000)
    assert ended >= 1
    # The physics is one library's; sines and distances may be another's.
    assert obs_gap <= (1e-12 if "Reacher" in env_id or "Double" in env_id else 0)
    assert reward_gap <= 1e-12


@pytest.mark.parametrize("env_id", RUNNING)
def test_what_a_task_declares(env_id):
    env = native_env(env_id)
    twin = gym.make(env_id, disable_env_checker=True)
    assert env.name == env_id
    assert env.max_episode_steps == gym.spec(env_id).max_episode_steps
    assert space(env.observation_space_spec) == twin.observation_space
    assert space(env.action_space_spec) == twin.action_space
    assert env.action_space_spec.dtype == np.float32
    wanted = {
        name: parameter.default
        for name, parameter in inspect.signature(type(twin.unwrapped)).parameters.items()
        if name not in PICTURES
    }
    assert tasks.TASKS[env_id].options == wanted
    known = inspect.signature(tasks.builder(env_id)).parameters
    assert {name: known[name].default for name in wanted} == wanted


HUMANOID_PARTS = ["cinert", "cvel", "qfrc_actuator", "cfrc_ext"]
OPTIONS = [
    *[
        (env_id, {"exclude_current_positions_from_observation": False})
        for env_id in RUNNING
        if "exclude_current_positions_from_observation" in tasks.TASKS[env_id].options
    ],
    *[("Humanoid-v5", {f"include_{name}_in_observation": False}) for name in HUMANOID_PARTS],
    *[("HumanoidStandup-v5", {f"include_{name}_in_observation": False}) for name in HUMANOID_PARTS],
    ("Humanoid-v5", {"forward_reward_weight": 3, "contact_cost_range": (1e-9, 2e-9)}),
    ("Humanoid-v5", {"frame_skip": 2, "healthy_z_range": (1.3, 1.45), "healthy_reward": 2}),
    ("Humanoid-v5", {"terminate_when_unhealthy": False, "xml_file": "humanoidstandup.xml"}),
    ("Humanoid-v4", {"terminate_when_unhealthy": False, "ctrl_cost_weight": 0.3}),
    ("HumanoidStandup-v5", {"uph_cost_weight": 7, "impact_cost_range": (-1.0, 1e-6)}),
    ("HumanoidStandup-v5", {"impact_cost_weight": 1e-3, "ctrl_cost_weight": 0.7}),
    ("Ant-v4", {"use_contact_forces": True, "contact_force_range": (-0.5, 0.25)}),
    ("Ant-v4", {"terminate_when_unhealthy": False, "healthy_z_range": (0.6, 0.7)}),
    ("Ant-v5", {"include_cfrc_ext_in_observation": False, "main_body": 3}),
    ("Ant-v5", {"main_body": "torso", "contact_cost_weight": 0.1, "contact_force_range": (-9, 9)}),
    ("Hopper-v5", {"healthy_state_range": (-1, 1.0), "healthy_reward": 3}),
    ("Hopper-v4", {"terminate_when_unhealthy": False, "healthy_angle_range": (-0.01, 0.01)}),
    ("Walker2d-v5", {"terminate_when_unhealthy": False, "xml_file": "walker2d.xml"}),
    ("HalfCheetah-v5", {"ctrl_cost_weight": 0.7, "frame_skip": 1, "reset_noise_scale": 0.3}),
    ("Swimmer-v5", {"ctrl_cost_weight": 0.3, "forward_reward_weight": -1}),
    ("Reacher-v5", {"reward_dist_weight": 0.3, "reward_control_weight": 0.7}),
    ("Pusher-v5", {"reward_near_weight": 0.3, "reward_control_weight": 0.7}),
    ("InvertedPendulum-v5", {"reset_noise_scale": 0.19, "frame_skip": 1}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 3, "reset_noise_scale": 0.3}),
]


@pytest.mark.parametrize(("env_id", "options"), OPTIONS, ids=str)
def test_options_do_what_gymnasium_s_do(env_id, options):
    obs_gap, reward_gap, _ = compare(env_id, 60, seed=1, **options)
    assert obs_gap <= 1e-12
    assert reward_gap <= 1e-12


@pytest.mark.parametrize("speed", [1e3, 1e11, np.nan])
def test_a_simulation_that_blows_up_is_gymnasium_s(speed):
    """MuJoCo resets it, without a word to the environment."""
    vector = Vector(native_env("Hopper-v5", terminate_when_unhealthy=False), 1)
    twin = Twin("Hopper-v5", vector, terminate_when_unhealthy=False)
    vector.reset(keys=keys(1))
    qpos, qvel = _mujoco.read(vector, 0)
    qvel[2:] = speed
    _mujoco.place(vector, 0, qpos, qvel)
    twin.reset()
    for step in range(30):
        action = np.full((1, 3), 0.1 * (step % 7 - 3), np.float32)
        obs, reward, _, _ = vector.step(action)
        wanted, wanted_reward, _, _, _ = twin.env.step(action[0])
        assert np.array_equal(obs[0], wanted, equal_nan=True)
        assert np.array_equal(reward[0], wanted_reward, equal_nan=True)


@pytest.mark.parametrize("env_id", RUNNING)
def test_resets_have_gymnasium_s_distribution(env_id):
    n = 400
    twin = gym.make(env_id, disable_env_checker=True).unwrapped
    vector = Vector(native_env(env_id), n, ids=np.arange(n, dtype=np.uint32))
    vector.reset(keys=keys(n, 9))
    ours = np.array([np.concatenate(_mujoco.read(vector, i)) for i in range(n)])
    twin.reset(seed=3)
    theirs = []
    for _ in range(n):
        twin.reset()
        theirs.append(twin.state_vector())
    theirs = np.array(theirs)
    spread, wanted = ours.std(axis=0), theirs.std(axis=0)
    assert np.array_equal(spread < 1e-12, wanted < 1e-12)
    assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 0.3 * wanted + 1e-12)
    moving = wanted > 1e-12
    assert np.all(np.abs(spread[moving] / wanted[moving] - 1) < 0.2)
    assert np.all(np.abs(ours - theirs.mean(axis=0)).max(axis=0) <= 5 * wanted + 1e-12)


def rollout(vector, n, steps=40, seed=0):
    """Every observation, reward and flag of n environments under random actions."""
    shape = (n, *vector.env.action_space_spec.shape)
    actions = np.random.Generator(np.random.PCG64(seed)).uniform(-1, 1, (steps, *shape))
    results = [(vector.reset(keys=keys(n, 3)),)]
    for action in actions.astype(np.float32):
        obs, reward, flags, _ = vector.step(action)
        results.append((obs, reward, flags))
    return results


def same(first, second):
    return all(
        np.array_equal(mine, other)
        for left, right in zip(first, second, strict=True)
        for mine, other in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("datas", [2, None])
def test_threads_give_the_same_bits_as_one(datas, monkeypatch):
    """Also if there are fewer mjData than threads, which then wait for each other."""
    if datas:
        monkeypatch.setattr(tasks.os, "sched_getaffinity", lambda _: set())
        tasks._simulator.cache_clear()
    env = native_env("Hopper-v5")
    alone = rollout(Vector(env, 6), 6)
    results = [None] * 5

    def work(k):
        results[k] = rollout(Vector(env, 6), 6)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(alone, result) for result in results)
    tasks._simulator.cache_clear()


def test_an_environment_depends_on_key_id_and_episode_alone():
    """Not on its neighbours, its place, or what its mjData was used for before."""
    env = native_env("Walker2d-v5")
    ids = np.array([4, 0, 9, 4], np.uint32)
    together = Vector(env, 4, SAME_STEP, ids=ids)
    first = together.reset(keys=np.array([1, 1, 2, 2], np.uint64))
    assert len(np.unique(first[:, 0])) == 4
    alone = [Vector(env, 1, SAME_STEP, ids=ids[i : i + 1]) for i in range(4)]
    for i, vector in enumerate(alone):
        key = np.array([1 + i // 2], np.uint64)
        assert np.array_equal(vector.reset(keys=key)[0], first[i])
    generator = np.random.Generator(np.random.PCG64(0))
    for _ in range(60):
        action = generator.uniform(-1, 1, (4, 6)).astype(np.float32)
        obs, reward, flags, _ = together.step(action)
        for i in (2, 0, 3, 1):
            mine = alone[i].step(action[i : i + 1])
            assert np.array_equal(mine[0][0], obs[i])
            assert (mine[1][0], mine[2][0]) == (reward[i], flags[i])
    assert together.episodes.min() >= 1
    assert together.episodes.tolist() == [vector.episodes[0] for vector in alone]


def test_what_a_vector_needs_stays_alive():
    vector = Vector(native_env("Swimmer-v5"), 2)
    wanted = rollout(vector, 2, 5)
    tasks._simulator.cache_clear()
    gc.collect()
    assert same(rollout(vector, 2, 5), wanted)
    assert same(rollout(Vector(native_env(native_env("Swimmer-v5").capsule()), 2), 2, 5), wanted)


def test_thousands_of_environments_share_few_data():
    n = 3000
    vector = Vector(native_env("InvertedPendulum-v5"), n, ids=np.arange(n, dtype=np.uint32))
    assert len(np.unique(vector.reset(keys=np.zeros(n, np.uint64))[:, 0])) == n
    obs = vector.step(np.zeros((n, 1), np.float32))[0]
    one = Vector(native_env("InvertedPendulum-v5"), 1, ids=np.full(1, 2999, np.uint32))
    one.reset(keys=np.zeros(1, np.uint64))
    assert np.array_equal(one.step(np.zeros((1, 1), np.float32))[0][0], obs[-1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_actions_must_be_finite(bad):
    vector = Vector(native_env("Reacher-v5"), 3)
    vector.reset(keys=keys(3))
    before = _mujoco.read(vector, 0)
    action = np.zeros((3, 2), np.float32)
    action[1, 1] = bad
    with pytest.raises(ValueError, match=r"actions\[1\] must be finite, got \[0\.0, "):
        vector.step(action)
    assert vector.elapsed.tolist() == [0, 0, 0]
    assert np.array_equal(_mujoco.read(vector, 0), before)
    with pytest.raises(ValueError, match=r"actions must be a float32 array of shape \(3, 2\)"):
        vector.step(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("env_id", "options", "error", "message"),
    [
        ("Humanoid-v6", {}, ValueError, 'Did you mean "Humanoid-v5"'),
        ("Humanoid-v5", {"forward_weight": 1}, ValueError, 'Did you mean "forward_reward_weight"'),
        ("Humanoid-v5", {"render_mode": "human"}, ValueError, 'option "render_mode"'),
        ("HalfCheetah-v4", {"frame_skip": 5}, ValueError, 'option "frame_skip"'),
        ("HalfCheetah-v5", {"frame_skip": 0}, ValueError, "frame_skip must be in"),
        ("HalfCheetah-v5", {"frame_skip": 2.5}, TypeError, "frame_skip must be an integer"),
        ("HalfCheetah-v5", {"ctrl_cost_weight": "a"}, TypeError, "weight must be a number"),
        ("HalfCheetah-v5", {"ctrl_cost_weight": np.nan}, ValueError, "weight must be finite"),
        ("Hopper-v5", {"healthy_z_range": 1}, TypeError, "healthy_z_range must be two numbers"),
        ("Hopper-v5", {"healthy_z_range": (2, 1)}, ValueError, "must not decrease"),
        ("Hopper-v5", {"terminate_when_unhealthy": 1}, TypeError, "must be a bool"),
        ("Hopper-v5", {"max_episode_steps": -2}, ValueError, "max_episode_steps must be in"),
        ("Hopper-v5", {"xml_file": "none.xml"}, FileNotFoundError, r"no MuJoCo model .*none\.xml"),
        ("Reacher-v5", {"xml_file": "ant.xml"}, ValueError, "has no body 'fingertip'"),
        ("Ant-v5", {"main_body": "tail"}, ValueError, "has no body 'tail'"),
        ("Ant-v5", {"main_body": 99}, ValueError, "has no body 99"),
    ],
)
def test_refused_options(env_id, options, error, message):
    with pytest.raises(error, match=message):
        native_env(env_id, **options)
    if error is ValueError and "reward" not in message:
        with pytest.raises(error, match=message.replace("native environment", "MuJoCo task")):
            tasks.supported(env_id, **options)


def test_episode_limits():
    assert native_env("Reacher-v5", max_episode_steps=None).max_episode_steps == 0
    vector = Vector(native_env("Reacher-v5", max_episode_steps=2), 1)
    vector.reset(keys=keys(1))
    action = np.zeros((1, 2), np.float32)
    assert [vector.step(action)[2][0] for _ in range(4)] == [0, TRUNCATED, 0, 0]


def test_a_model_of_the_user_s(tmp_path):
    assets = Path(gym.__file__).parent / "envs" / "mujoco" / "assets"
    text = (assets / "swimmer.xml").read_text()
    path = tmp_path / "own.xml"
    path.write_text(text.replace('density="4000"', 'density="1000"'))
    assert path.read_text() != text
    assert compare("Swimmer-v5", 50, xml_file=str(path))[:2] == (0, 0)
    path.write_text("<mujoco><worldbody/></mujoco>")
    with pytest.raises(ValueError, match="Swimmer-v5: the model has too few joints"):
        native_env("Swimmer-v5", xml_file=str(path))


def test_pusher_v4_is_refused_by_name():
    runs, why = tasks.supported("Pusher-v4")
    assert not runs
    assert "Pusher-v4 refuses mujoco 3 and later" in why
    with pytest.raises(RuntimeError, match="use Pusher-v5"):
        native_env("Pusher-v4")
    assert tasks.supported("Pusher-v5") == (True, "")


def test_without_mujoco(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"pip install 'rollmill\[mujoco\]'"):
        native_env("Hopper-v5")
    runs, why = tasks.supported("Hopper-v5")
    assert not runs
    assert "need mujoco" in why


def test_a_mujoco_that_does_not_fit(monkeypatch):
    def refused(match):
        tasks._simulator.cache_clear()
        with pytest.raises(tasks.MujocoMisfit, match=match):
            native_env("Hopper-v5")
        assert tasks.supported("Hopper-v5")[0] is False

    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "mj_version", lambda: 1)
        refused(r"the loaded libmujoco has version \d+, the package mujoco .* wants 1")
    with monkeypatch.context() as patch:
        patch.setattr(_mujoco, "FUNCTIONS", ("mj_step", "mj_leap"))
        refused("the loaded libmujoco has no function mj_leap")
    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "__version__", "9.9.9")
        patch.setattr(mujoco, "__file__", "/nowhere/__init__.py")
        refused(r"has loaded no library libmujoco\.so\.9\.9\.9")
    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "MJTNUM_DTYPE", np.float32, raising=False)
        refused("computes in another type than float64")
    tasks._simulator.cache_clear()
    assert tasks.supported("Hopper-v5") == (True, "")


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("control_cost", lambda self, action: 1.0, "the reward of step 1"),
        ("is_healthy", property(lambda self: False), "reward|terminates"),
        ("_get_obs", lambda self: np.zeros(11), "the first observation differs"),
        ("_get_obs", lambda self: np.zeros(3), "the first observation differs"),
    ],
)
def test_a_gymnasium_that_computes_otherwise_is_refused(method, change, message, monkeypatch):
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    monkeypatch.setattr(HopperEnv, method, change)
    monkeypatch.setattr(tasks, "_checked_already", set())
    runs, why = tasks.supported("Hopper-v5")
    assert not runs
    assert "Hopper-v5 of the installed mujoco and gymnasium" in why
    with pytest.raises(tasks.MujocoMisfit, match=message):
        native_env("Hopper-v5")


def test_a_pickled_spec_builds_in_another_process():
    spec = env_spec("HalfCheetah-v5", reset_noise_scale=0.05)
    code = (
        "import pickle, sys, numpy as np; from rollmill._vector import Vector; "
        "vector = Vector(pickle.load(sys.stdin.buffer).build(), 2); "
        "vector.reset(keys=np.arange(2, dtype=np.uint64)); "
        "obs = vector.step(np.full((2, 6), .5, np.float32))[0]; "
        "sys.stdout.buffer.write(obs.tobytes())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(spec), stdout=-1, check=True
    ).stdout
    vector = Vector(spec.build(), 2)
    vector.reset(keys=keys(2))
    assert out == vector.step(np.full((2, 6), 0.5, np.float32))[0].tobytes()


def test_mujoco_is_imported_when_it_is_needed():
    code = "import sys, rollmill.envs.native, rollmill.envs; print('mujoco' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], stdout=-1, check=True).stdout
    assert out == b"False\n"


def test_places_are_checked():
    vector = Vector(native_env("Swimmer-v5"), 2)
    qpos, qvel = np.zeros(5), np.zeros(5)
    with pytest.raises(RuntimeError, match="must be reset first"):
        _mujoco.place(vector, 0, qpos, qvel)
    vector.reset(keys=keys(2))
    qpos[3] = 0.25
    obs = _mujoco.place(vector, 1, qpos, qvel)
    assert obs.tolist() == [0, 0.25, 0, 0, 0, 0, 0, 0]
    assert np.array_equal(_mujoco.read(vector, 1)[0], qpos)
    with pytest.raises(IndexError, match=r"i must be in \[0, 2\)"):
        _mujoco.read(vector, 2)
    with pytest.raises(ValueError, match="qvel must be"):
        _mujoco.place(vector, 0, qpos, np.zeros(4))
    maze = Vector(native_env("rollmill/Maze-v0"), 1)
    maze.reset(keys=keys(1))
    with pytest.raises(ValueError, match="is not a MuJoCo environment"):
        _mujoco.read(maze, 0)
