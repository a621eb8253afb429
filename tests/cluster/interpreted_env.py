"""An environment in Python, which workers import by name."""

import time

import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    """A random walk that pays for the action's sign; slow on request, and failing on request."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, seconds=0.0, raises_above=np.inf):
        self.seconds, self.raises_above = seconds, raises_above

    def observe(self):
        return np.array([self.place, self.t])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = self.np_random.standard_normal(), 0
        return self.observe(), {}

    def step(self, action):
        time.sleep(self.seconds)
        if self.place > self.raises_above:
            raise OverflowError(f"left the world at {self.place:.3f}")
        self.t += 1
        reward = self.place * float(action[0])
        self.place += self.np_random.standard_normal()
        return self.observe(), reward, self.place < -3, self.t == 20, {}
