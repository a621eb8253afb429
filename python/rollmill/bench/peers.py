"""What the kernels are held against: the same work as NumPy and plain Python do it.

The forms are those of RLlib's evolution strategies where it has one, and else what a careful user
of NumPy writes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Vector = NDArray[np.float32]

#: The maze's moves: down, left, up, right.
MOVES = ((1, 0), (0, -1), (-1, 0), (0, 1))


#: Members that step together.
LOCKSTEP = 128


class PlainMaze(gymnasium.Env[int, int]):
    """The maze in plain Python: `rollmill.envs.Maze` without C."""

    def __init__(self, side: int = 5, max_episode_steps: int = 100):
        self.side, self.max_episode_steps = side, max_episode_steps
        self.observation_space: Any = gymnasium.spaces.Discrete(side * side)
        self.action_space: Any = gymnasium.spaces.Discrete(4)
        self.row = self.column = self.elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Start at the upper left cell."""
        super().reset(seed=seed)
        self.row = self.column = self.elapsed = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Move; a move off the grid leaves the seeker where it is."""
        down, right = MOVES[action]
        self.row = min(max(self.row + down, 0), self.side - 1)
        self.column = min(max(self.column + right, 0), self.side - 1)
        self.elapsed += 1
        done = self.row == self.column == self.side - 1
        observation = self.side * self.row + self.column
        return observation, float(done), done, self.elapsed >= self.max_episode_steps, {}


def layers(theta: Vector, widths: tuple[int, ...]) -> list[tuple[Vector, Vector]]:
    """Views (weights, biases) of each layer of (..., D) parameters."""
    found, start = [], 0
    for inputs, outputs in itertools.pairwise(widths):
        end = start + inputs * outputs
        weights = theta[..., start:end].reshape(*theta.shape[:-1], inputs, outputs)
        found.append((weights, theta[..., end : end + outputs]))
        start = end + outputs
    return found


def forward(theta: Vector, widths: tuple[int, ...], x: Vector) -> Vector:
    """Logits of a batch: (N, inputs) float32 gives (N, actions)."""
    *hidden, (weights, bias) = layers(theta, widths)
    for w, b in hidden:
        x = np.tanh(x @ w + b)
    return x @ weights + bias


def episode(
    theta: Vector, widths: tuple[int, ...], sample: bool, rng: np.random.Generator
) -> tuple[float, int]:
    """One episode of the 5x5 maze, a step at a time; returns (return, steps)."""
    env = PlainMaze()
    (rows, bias), *hidden, (weights, last) = layers(theta, widths)
    observation, _ = env.reset()
    total, ended = 0.0, False
    while not ended:
        x = np.tanh(rows[observation] + bias)
        for w, b in hidden:
            x = np.tanh(x @ w + b)
        logits = x @ weights + last
        if sample:
            weight = np.exp(logits - logits.max())
            action = int(np.searchsorted(weight.cumsum(), rng.random() * weight.sum()))
        else:
            action = int(logits.argmax())
        observation, reward, terminated, truncated, _ = env.step(min(action, 3))
        total += reward
        ended = terminated or truncated
    return total, env.elapsed


def episodes(
    theta_nd: Vector,
    widths: tuple[int, ...],
    sample: bool,
    rng: np.random.Generator,
    side: int = 5,
    max_episode_steps: int = 100,
) -> NDArray[np.int64]:
    """Episodes of N parameter vectors, 128 in lockstep, each matrix product one call.

    Returns (N,) int64: steps to the goal, negative for an episode that the limit ended.
    """
    if len(theta_nd) > LOCKSTEP:  # more do not stay in cache
        return np.concatenate(
            [
                episodes(theta_nd[i : i + LOCKSTEP], widths, sample, rng, side, max_episode_steps)
                for i in range(0, len(theta_nd), LOCKSTEP)
            ]
        )
    (rows, bias), *hidden, (weights, last) = layers(theta_nd, widths)
    moves = np.array(MOVES)
    place_n2 = np.zeros((len(theta_nd), 2), np.int64)
    steps_n = np.full(len(theta_nd), -max_episode_steps, np.int64)
    alive = np.arange(len(theta_nd))
    for t in range(1, max_episode_steps + 1):
        cell_n = place_n2[alive] @ (side, 1)
        x = np.tanh(rows[alive, cell_n] + bias[alive])
        if len(alive) < len(theta_nd):  # picking copies the weights: only where some have ended
            picked = [(w[alive], b[alive]) for w, b in (*hidden, (weights, last))]
        else:
            picked = [*hidden, (weights, last)]
        for w, b in picked[:-1]:
            x = np.tanh(np.matmul(x[:, None], w)[:, 0] + b)
        logits = np.matmul(x[:, None], picked[-1][0])[:, 0] + picked[-1][1]
        if sample:
            weight = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
            draw = rng.random((len(alive), 1), np.float32) * weight[:, -1:]
            action = np.minimum((weight <= draw).sum(axis=1), 3)
        else:
            action = logits.argmax(axis=1)
        place_n2[alive] = np.clip(place_n2[alive] + moves[action], 0, side - 1)
        done = (place_n2[alive] == side - 1).all(axis=1)
        steps_n[alive[done]] = t
        alive = alive[~done]
        if not len(alive):
            break
    return steps_n


def perturb(noise: Vector, theta: Vector, stdev: float) -> tuple[Vector, Vector]:
    """Both signs of one perturbation."""
    step = np.float32(stdev) * noise
    return theta + step, theta - step


def weighted_sum(
    weights: Vector, rows: Iterable[Vector], size: int, batch_size: int = 500
) -> Vector:
    """RLlib's `batched_weighted_sum`: a matrix product over copies of up to 500 rows."""
    total = np.zeros(size, np.float32)
    todo: Iterator[Vector] = iter(rows)
    for start in range(0, len(weights), batch_size):
        batch = np.asarray(list(itertools.islice(todo, batch_size)), np.float32)
        total += np.dot(weights[start : start + batch_size], batch)
    return total


def ranks(values: NDArray[np.float64]) -> Vector:
    """Centred ranks by `scipy.stats.rankdata`, ties sharing their mean."""
    return ((rankdata(values) - 1) / (len(values) - 1) - 0.5).astype(np.float32)


class Adam:
    """RLlib's Adam."""

    def __init__(self, size: int, stepsize: float, beta1: float = 0.9, beta2: float = 0.999):
        self.stepsize, self.beta1, self.beta2, self.t = stepsize, beta1, beta2, 0
        self.m, self.v = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters."""
        self.t += 1
        a = self.stepsize * math.sqrt(1 - self.beta2**self.t) / (1 - self.beta1**self.t)
        self.m = self.beta1 * self.m + (1 - self.beta1) * gradient
        self.v = self.beta2 * self.v + (1 - self.beta2) * (gradient * gradient)
        step = np.float32(-a) * self.m / (np.sqrt(self.v) + np.float32(1e-8))
        return (theta + step).astype(np.float32, copy=False)


class ClipUp:
    """ClipUp, as its authors wrote it for PyTorch, in NumPy."""

    def __init__(self, size: int, stepsize: float, momentum: float = 0.9):
        self.stepsize, self.momentum, self.max_speed = stepsize, momentum, 2 * stepsize
        self.v = np.zeros(size, np.float32)

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters."""
        step = np.float32(self.stepsize / np.linalg.norm(gradient))
        self.v = np.float32(self.momentum) * self.v + step * gradient
        speed = np.linalg.norm(self.v)
        if speed > self.max_speed:
            self.v *= np.float32(self.max_speed / speed)
        return theta - self.v


def train_es(
    seed: int,
    pairs: int,
    widths: tuple[int, ...] = (25, 64, 64, 4),
    stdev: float = 0.3,
    stepsize: float = 0.05,
    gamma: float = 0.99,
    iterations: int = 100,
) -> tuple[int, int, bool]:
    """Evolution strategies on the 5x5 maze, mirrored pairs in lockstep.

    The method and the numbers of the default run; the arg-max policy is evaluated after each
    update. Returns (iterations, steps, solved): solved is whether it walks the 8 steps.
    """
    rng = np.random.default_rng(seed)
    theta = np.concatenate(
        [
            part
            for inputs, outputs in itertools.pairwise(widths)
            for part in (
                rng.standard_normal(inputs * outputs, np.float32) / math.sqrt(inputs),
                np.zeros(outputs, np.float32),
            )
        ]
    ).astype(np.float32)
    adam = Adam(len(theta), stepsize)
    total = 0
    for iteration in range(1, iterations + 1):
        noise = rng.standard_normal((pairs, len(theta)), np.float32)
        members = np.concatenate(perturb(noise, theta, stdev))
        steps = episodes(members, widths, True, rng)
        total += int(np.abs(steps).sum())
        fitness = np.where(steps > 0, gamma ** (np.abs(steps) - 1.0), 0.0)
        rank = ranks(fitness)
        weight = rank[:pairs] - rank[pairs:]
        gradient = np.dot(weight, noise) * np.float32(-1.0 / len(rank))
        if rank.any():
            theta = adam.update(theta, gradient)
        if episodes(theta[None], widths, False, rng)[0] == 8:
            return iteration, total, True
    return iterations, total, False
