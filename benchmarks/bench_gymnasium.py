"""CartPole-v1 through Gymnasium: mirrored episodes of perturbed policies, in steps a second.

Ours steps the 16 members of a unit side by side and evaluates all of them in one kernel call. The
peer is the loop of RLlib's ES workers restated in NumPy: one episode after another, the running
filter and the network evaluated for each observation. "env alone" steps the same environments with
a fixed action sequence, which is what remains where policy and books cost nothing. All run on one
core, with a policy that balances (episodes of up to 500 steps) and with one that does not.

Run: pytest benchmarks/bench_gymnasium.py --benchmark-only
"""

import functools

import gymnasium as gym
import numpy as np
import pytest
from conftest import OURS, describe
from rollmill import ESConfig
from rollmill.envs import env_spec
from rollmill.rollouts import RolloutSpec, Task, make_rollouts
from rollmill.timing import one_core

ENV, HIDDEN, STDEV, PAIRS = "CartPole-v1", 16, 0.1, 8
SPEC = RolloutSpec(
    env=env_spec(ENV), hiddens=(HIDDEN,), activation="tanh", key=1, noise_size=1 << 20,
    unit_pairs=PAIRS, observation_filter="MeanStdFilter",
)  # fmt: skip


@functools.cache
def trained():
    """Parameters and filter of a policy that balances."""
    config = ESConfig().environment(ENV).training(
        seed=3, preset="none", noise_size=1 << 20, fcnet_hiddens=(HIDDEN,), noise_stdev=STDEV,
        stepsize=0.05, l2_coeff=0, episodes_per_batch=64, train_batch_size=0, eval_prob=0.3,
    )  # fmt: skip
    with config.build() as algo:
        for _ in range(60):
            if algo.train()["evaluation_reward_mean"] >= 499:
                break
        return algo.policy.theta, algo.policy.stats


def start(balances):
    """Parameters and filter: of the trained policy, or of one that takes random directions."""
    if balances:
        return trained()
    return make_rollouts(SPEC).policy.kernel.init(1), None


class Filter:
    """RLlib's MeanStdFilter: running mean and variance of every observation."""

    def __init__(self, stats):
        self.n, self.mean, self.m2 = 0, np.zeros(4), np.zeros(4)
        if stats is not None:
            self.n, self.mean, self.m2 = stats[0], stats[1:5].copy(), stats[5:].copy()

    def __call__(self, x, update):
        if update:
            self.n += 1
            delta = x - self.mean
            self.mean += delta / self.n
            self.m2 += delta * (x - self.mean)
        std = np.sqrt(self.m2 / (self.n - 1)) if self.n > 1 else np.ones(4)
        return (x - self.mean) / (std + 1e-8)


class Peer:
    """RLlib's ES worker in NumPy."""

    def __init__(self, theta, stats):
        self.env = gym.make(ENV, disable_env_checker=True)
        self.noise = np.random.default_rng(1).standard_normal(1 << 20).astype(np.float32)
        self.random = np.random.default_rng(2)
        self.theta, self.filter = theta, Filter(stats)

    def set_weights(self, theta):
        cuts = np.cumsum([4 * HIDDEN, HIDDEN, 2 * HIDDEN])
        w, self.b, v, self.c = np.split(theta, cuts)
        self.w, self.v = w.reshape(4, HIDDEN), v.reshape(HIDDEN, 2)

    def act(self, observation):
        x = self.filter(np.asarray(observation, np.float64), True).astype(np.float32)
        return int((np.tanh(x @ self.w + self.b) @ self.v + self.c).argmax())

    def rollout(self):
        observation, _ = self.env.reset(seed=int(self.random.integers(2**31)))
        total, steps, over = 0.0, 0, False
        while not over:
            observation, reward, terminated, truncated, _ = self.env.step(self.act(observation))
            total += reward
            steps += 1
            over = terminated or truncated
        return total, steps

    def unit(self):
        steps = 0
        for _ in range(PAIRS):
            index = self.random.integers(len(self.noise) - len(self.theta) + 1)
            perturbation = STDEV * self.noise[index : index + len(self.theta)]
            for sign in (1, -1):
                self.set_weights(self.theta + sign * perturbation)
                steps += self.rollout()[1]
        return steps


class EnvAlone:
    """The environment, stepped by a sequence of actions that was made before."""

    def __init__(self, *_):
        self.env = gym.make(ENV, disable_env_checker=True)
        self.actions = [np.int64(i % 2) for i in range(600)]

    def unit(self):
        steps = 0
        for seed in range(2 * PAIRS * 10):
            self.env.reset(seed=seed)
            for action in self.actions:
                steps += 1
                _, _, terminated, truncated, _ = self.env.step(action)
                if terminated or truncated:
                    break
        return steps


class Ours:
    """A unit of `GymnasiumRollouts`."""

    def __init__(self, theta, stats):
        self.rollouts, self.task = make_rollouts(SPEC), Task(0, theta, STDEV, 0, stats)
        self.stop = np.zeros(1, np.int32)

    def unit(self):
        return int(self.rollouts.units(self.task, 0, 1, self.stop).pairs["length"].sum())


@pytest.mark.parametrize("key", [OURS, "NumPy, as RLlib's ES", "env alone"])
@pytest.mark.parametrize("balances", [True, False], ids=["balances", "falls"])
def bench_gymnasium(benchmark, balances, key):
    """A unit of eight mirrored pairs."""
    runner = {OURS: Ours, "env alone": EnvAlone}.get(key, Peer)(*start(balances))
    steps = np.mean([runner.unit() for _ in range(5)])
    kind = "balances" if balances else "falls"
    describe(benchmark, f"gymnasium: {ENV}, a policy that {kind}", key, steps, "steps")
    with one_core():
        benchmark(runner.unit)
        if benchmark.stats:  # None where benchmarks are only run, not timed
            benchmark.extra_info["steps/s"] = round(steps / benchmark.stats.stats.median)
