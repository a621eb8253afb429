"""Environments that the interpreter steps, well behaved and not, for the tests of its rollouts."""

import time

import gymnasium as gym
import numpy as np
from rollmill.envs import gymnasium_spec
from rollmill.rollouts import RolloutSpec, Task, make_rollouts

LINE = gym.spaces.Box(-1e6, 1e6, (2,), np.float64)


def make_spec(env, **options):
    defaults = {
        "hiddens": (8,), "activation": "tanh", "key": 7, "noise_size": 1 << 16, "unit_pairs": 3,
        "observation_filter": "MeanStdFilter",
    }  # fmt: skip
    if isinstance(env, type):
        env = gymnasium_spec(env)
    return RolloutSpec(env=env, **{**defaults, **options})


def make_task(rollouts, iteration=0, **options):
    size = rollouts.policy.num_params
    theta = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    return Task(iteration, theta, **{"noise_stdev": 0.5, **options})


def units(spec, first=0, count=2, iteration=0, **options):
    """The answer to a call, of new rollouts."""
    rollouts = make_rollouts(spec)
    answer = rollouts.units(make_task(rollouts, iteration, **options), first, count, go())
    rollouts.close()
    return answer


def go():
    return np.zeros(1, np.int32)


class Line(gym.Env):
    """A point that drifts; the reward is how far the action agrees with where it is."""

    observation_space, action_space = LINE, gym.spaces.Discrete(2)
    log = None  # where instances note what happens to them

    def __init__(self, steps=12):
        self.steps = steps
        self.note("built")

    def note(self, what):
        if self.log is not None:
            self.log.append(what)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.note(("reset", seed))
        self.place, self.t = self.np_random.standard_normal(), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place, self.t])

    def step(self, action):
        self.t += 1
        reward = float(self.place if action else -self.place)
        self.place += self.np_random.standard_normal()
        return self.observe(), reward, self.place > 3, self.t >= self.steps, {}

    def close(self):
        self.note("closed")


class RaisesFar(Line):
    """Raises where the point is far out."""

    def step(self, action):
        if self.place < -2.5:
            raise FloatingPointError(f"too far:\n{self.place > 0}")
        return super().step(action)


class RaisesAtReset(Line):
    def reset(self, *, seed=None, options=None):
        if seed % 4 == 0:
            raise OSError("no such world")
        return super().reset(seed=seed)


class Raises(Line):
    def step(self, action):
        raise ZeroDivisionError("always")


class NanReward(Line):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, np.nan if self.place < -2.5 else reward, *rest


class NanObservation(Line):
    def observe(self):
        return np.array([np.inf if self.place < -2.5 else self.place, self.t])


class WrongShape(Line):
    def observe(self):
        return np.zeros(3)


class Slow(Line):
    def step(self, action):
        time.sleep(0.01)
        self.t = 0
        return self.observe(), 0.0, False, False, {}


class BothEnds(Line):
    """Terminates and truncates on the same step."""

    def step(self, action):
        self.t += 1
        return self.observe(), 1.0, self.t == 5, self.t == 5, {}


class Push(gym.Env):
    """Box actions: their sum is the reward, so that noise shows."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-0.25, 0.5, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.random(3).astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        observation = self.np_random.random(3).astype(np.float32)
        return observation, float(action.sum()), False, self.t == 40, {}


class Nested(gym.Env):
    """Dict observations and Tuple actions; takes its options in one mapping."""

    def __init__(self, config):
        self.steps = config["steps"]
        self.observation_space = gym.spaces.Dict(
            place=gym.spaces.Box(-1, 1, (2, 2)), kind=gym.spaces.Discrete(3, start=1)
        )
        self.action_space = gym.spaces.Tuple(
            [gym.spaces.Discrete(3, start=-1), gym.spaces.Box(-1, 1, (2,)),
             gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(2)]
        )  # fmt: skip

    def observe(self):
        return {"place": self.np_random.random((2, 2), np.float32), "kind": 1 + self.t % 3}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return self.observe(), float(action[0] + action[2].sum()), False, self.t == self.steps, {}


class OldSpace:
    def __init__(self, n):
        self.n = n


OldSpace.__name__ = "Discrete"


class OldMaze:
    """The tutorial's maze: no base class, reset without arguments, four values."""

    def __init__(self, *args, **kwargs):
        self.action_space, self.observation_space = OldSpace(4), OldSpace(25)

    def reset(self):
        self.place = (0, 0)
        return 0

    def step(self, action):
        row, column = self.place
        moves = {0: (row + 1, column), 1: (row, column - 1),
                 2: (row - 1, column), 3: (row, column + 1)}  # fmt: skip
        row, column = moves[action]
        self.place = min(max(row, 0), 4), min(max(column, 0), 4)
        done = self.place == (4, 4)
        return 5 * self.place[0] + self.place[1], int(done), done, {"seeker": self.place}


class OldMazeWithBase(OldMaze, gym.Env):
    def __init__(self, *args, **kwargs):
        self.action_space, self.observation_space = gym.spaces.Discrete(4), gym.spaces.Discrete(25)


class OldSeeded:
    """Seeded by a method; ends by a limit that it tells in info."""

    observation_space, action_space = LINE, gym.spaces.Discrete(2)

    def seed(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        return self.random.standard_normal(2)

    def step(self, action):
        self.t += 1
        info = {"TimeLimit.truncated": True} if self.t == 4 else None
        return self.random.standard_normal(2), 1.0, self.t == 4, info
