"""Training on environments that the interpreter steps."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings

import gymnasium as gym
import interpreted as envs
import numpy as np
import pytest
from rollmill import Algorithm, ESConfig
from rollmill.envs import EnvSpec, GymnasiumSpec, env_spec, gymnasium_spec
from rollmill.envs import mujoco as tasks

#: Solves CartPole-v1 within seconds.
CARTPOLE = {
    "preset": "none", "noise_size": 1 << 22, "fcnet_hiddens": (16,), "noise_stdev": 0.1,
    "stepsize": 0.05, "l2_coeff": 0.0, "episodes_per_batch": 64, "train_batch_size": 0,
    "eval_prob": 0.3,
}  # fmt: skip
SMALL = {**CARTPOLE, "episodes_per_batch": 12, "unit_pairs": 2, "noise_size": 1 << 16}


def config(env, **options):
    return ESConfig().environment(env).training(seed=1, **{**SMALL, **options})


def trained(config, iterations=3):
    with config.build() as algo:
        results = [algo.train() for _ in range(iterations)]
        return algo.policy.sha256, results


@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_solved(seed):
    """475 over 100 episodes is what Gymnasium calls solved."""
    with ESConfig().environment("CartPole-v1").training(seed=seed, **CARTPOLE).build() as algo:
        for _ in range(60):
            if (
                algo.train()["evaluation_reward_mean"] >= 499
                and algo.evaluate(50)["reward_mean"] >= 475
            ):
                break
        assert algo.evaluate(100)["reward_mean"] >= 475


def test_pendulum_runs_with_noise_and_a_filter():
    sha, results = trained(config("Pendulum-v1", action_noise_std=0.05, max_episode_steps=50), 2)
    assert results[-1]["timesteps_total"] == 2 * 12 * 50
    assert results[-1]["pairs_dropped"] == 0
    assert -2000 < results[-1]["episode_reward_mean"] < 0
    assert trained(config("Pendulum-v1", action_noise_std=0.05, max_episode_steps=50), 2)[0] == sha


def test_threads_tables_and_resume_change_no_bit(tmp_path):
    sha, results = trained(config("CartPole-v1", num_threads=1), 4)
    other = config("CartPole-v1", num_threads=3, noise_storage="generated")
    assert trained(other, 4)[0] == sha
    with config("CartPole-v1").build() as algo:
        algo.train()
        algo.train()
        path = algo.save(tmp_path / "half")
    with Algorithm.from_checkpoint(path, num_threads=2) as algo:
        assert isinstance(algo.spec.env, GymnasiumSpec)
        algo.train()
        last = algo.train()
        assert algo.policy.sha256 == sha
    assert last["timesteps_total"] == results[-1]["timesteps_total"]


def test_classes_are_trained_on_by_path_or_as_they_are():
    options = {"max_episode_steps": 100, "sample_actions": True, "gamma": 0.99}
    by_path = config("interpreted.OldMaze", **options)
    shas = {trained(by_path)[0], trained(config(envs.OldMaze, **options))[0],
            trained(config(gymnasium_spec("interpreted:OldMaze"), **options))[0],
            trained(config("rollmill/Maze-v0", **options))[0]}  # fmt: skip
    assert len(shas) == 1  # a class, in every way it can be named, and the maze in C

    class Local(envs.Line):
        pass

    assert trained(config(Local))[0] == trained(config("interpreted.Line"))[0]


def test_options_reach_the_environment():
    _, results = trained(config("interpreted.Line", env_config={"steps": 3}), 1)
    assert results[0]["episode_len_mean"] <= 3
    nested = config(gymnasium_spec(envs.Nested, steps=4))
    assert nested.env_config == {"steps": 4}
    with nested.build() as algo:
        assert algo.train()["episode_len_mean"] == 4
        observation = algo.spec.env.build().reset(seed=0)[0]
        assert algo.spec.env.action_space.contains(algo.compute_single_action(observation))


def test_drops_are_counted_and_set_reproducible_to_false():
    with pytest.warns(UserWarning, match="FloatingPointError"):
        _, results = trained(config("interpreted.RaisesFar", episodes_per_batch=60), 2)
    assert 0 < results[-1]["pairs_dropped"] < 60
    assert not results[-1]["reproducible"]
    assert np.isfinite(results[-1]["episode_reward_mean"])


def test_an_environment_that_always_raises_ends_the_run_with_one_sentence():
    sentence = r"^the environment raised in each of 8 episodes.*always .*py:\d+\)$"
    with (
        config("interpreted.Raises").build() as algo,
        pytest.warns(UserWarning, match="an environment raised"),
        pytest.raises(RuntimeError, match=sentence),
    ):
        algo.train()


def test_an_environment_without_a_limit_is_warned_about():
    with pytest.warns(UserWarning, match=r"interpreted.Line tells no step limit.*set max_episode"):
        config(envs.Line).build().stop()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config(envs.Line, max_episode_steps=5).build().stop()
        config("CartPole-v1").build().stop()


@pytest.mark.parametrize(("env", "message"), [
    ("Humanoid-v1", 'unknown environment "Humanoid-v1": the newest version is "Humanoid-v5"'),
    ("Hopper-v3", 'no longer part of Gymnasium: the newest version is "Hopper-v5"'),
    ("CartPole-v7", 'the newest version is "CartPole-v1"'),
    ("Cartpole-v1", 'Did you mean "CartPole-v1"'),
    ("rolmill/Maze-v0", 'Did you mean "rollmill/Maze-v0"'),
    ("ALE/Pong-v5", "Ids of another package need its name first: module:id"),
    ("absent.Env", 'importing absent raises ModuleNotFoundError: No module named .absent'),
    ("absent:Env-v0", "importing absent raises"),
    ("interpreted.Lime", 'module interpreted has no class Lime. Did you mean "Line"'),
    ("interpreted:Lime", 'module interpreted has no Lime, and registers no environment'),
    ("interpreted.Nested", "interpreted.Nested cannot be built: KeyError: 'steps'"),
    ("interpreted.make_spec", "interpreted.make_spec cannot be built: TypeError"),
])  # fmt: skip
def test_unknown_environments_are_refused_with_one_sentence(env, message):
    with pytest.raises(ValueError, match=message) as caught:
        env_spec(env)
    assert "\n" not in str(caught.value)


def test_every_way_to_name_an_environment():
    assert env_spec("rollmill:rollmill/Maze-v0", rows=3) == EnvSpec("rollmill/Maze-v0", {"rows": 3})
    assert env_spec("gymnasium:CartPole-v1").id == "gymnasium:CartPole-v1"
    spec = env_spec("CartPole-v1", max_episode_steps=7)
    assert spec.describe().max_episode_steps == 7
    assert env_spec(spec, sutton_barto_reward=True).kwargs == {
        "max_episode_steps": 7, "sutton_barto_reward": True,
    }  # fmt: skip
    assert spec.observation_space == gym.make("CartPole-v1").observation_space
    assert spec.action_space == gym.spaces.Discrete(2)
    assert env_spec(envs.Line) == env_spec("interpreted.Line") == env_spec("interpreted:Line")
    with pytest.raises(ValueError, match="unexpected keyword argument 'colour'"):
        env_spec("CartPole-v1", colour=1)
    for wrong in (3, None, envs.Line()):
        with pytest.raises(TypeError, match="must be an environment id"):
            env_spec(wrong)
    with pytest.raises(ValueError, match="TypeError: int is no environment: it has no reset"):
        env_spec(int)
    with pytest.raises(ValueError, match="VectorMaze is a vector of environments"):
        env_spec("rollmill.envs.vector:VectorMaze")


def test_mujoco_that_does_not_fit_is_gymnasiums_with_a_warning(monkeypatch):
    pytest.importorskip("mujoco")
    assert isinstance(env_spec("InvertedPendulum-v5"), EnvSpec)
    monkeypatch.setattr(tasks, "supported", lambda *_, **__: (False, "it is too new."))
    with pytest.warns(UserWarning, match="InvertedPendulum-v5 runs through Gymnasium.*too new"):
        spec = env_spec("InvertedPendulum-v5")
    assert isinstance(spec, GymnasiumSpec)
    assert spec.describe().max_episode_steps == 1000


def test_ctrl_c_ends_within_a_step_and_leaves_a_checkpoint(tmp_path):
    arguments = ["--env", "interpreted.Slow", "--config", json.dumps({"max_episode_steps": 10**6}),
                 "--output", str(tmp_path), "--name", "slow", "--quiet"]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "rollmill", "train", *arguments], env=env, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 20
    while not list(tmp_path.glob("slow*")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert time.monotonic() - start < 5
    assert list(tmp_path.glob("slow*/checkpoint_*"))


def test_gymnasium_costs_nothing_where_it_is_not_used():
    code = (
        "import sys; from rollmill import ESConfig; "
        "ESConfig().training(num_threads=1).build().train(); "
        "assert 'rollmill.gymnasium_rollouts' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, check=True)


def test_modules_are_found_in_the_working_directory(tmp_path, monkeypatch):
    """The command's own path has its folder in place of the directory that it is called in."""
    (tmp_path / "walks_here.py").write_text(
        "import gymnasium\nfrom interpreted import Line\n"
        "class Here(Line):\n    pass\n"
        "gymnasium.register('here/Line-v3', Here, max_episode_steps=6)\n"
    )
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", os.getcwd())])
    monkeypatch.chdir(tmp_path)
    assert env_spec("walks_here.Here").id == "walks_here.Here"
    spec = env_spec("walks_here:here/Line-v3")
    assert spec.describe().max_episode_steps == 6
    with config("walks_here:here/Line-v3").build() as algo:
        assert algo.train()["episode_len_mean"] <= 6
    del gym.registry["here/Line-v3"]
    assert pickle.loads(pickle.dumps(spec)).build().spec.max_episode_steps == 6
