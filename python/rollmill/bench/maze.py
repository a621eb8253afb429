"""The maze alone: 1024 of them stepped together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from rollmill import _vector
from rollmill.envs.maze import native_maze
from rollmill.envs.vector import VectorMaze
from rollmill.machine import rewrite_probe
from rollmill.timing import Probe

from . import peers
from .cases import Case, Lines, Setup

MAZES = 1024
#: Bytes read and written for a step: action 8, state 4 + 4, observation 8, reward 8, flags 1,
#: elapsed 4 + 4, done 1 + 1, running return 8 + 8.
BYTES = 59
#: Beside these, for Gymnasium: observations copied 8 + 8, flags split 2 + 2.
GYMNASIUM_BYTES = BYTES + 20


def maze_vector(setup: Setup) -> Lines:
    """A step through Gymnasium's VectorEnv: five new arrays."""
    ours = VectorMaze(MAZES)
    ours.reset(seed=1)
    line = Probe("rollmill", _stepper(ours.step), MAZES * 1e-9)
    return _lines(setup, line, GYMNASIUM_BYTES)


def maze_step_into(setup: Setup) -> Lines:
    """A step into arrays of the caller's."""
    vector = _vector.Vector(native_maze(), MAZES, _vector.NEXT_STEP)
    obs = vector.reset(keys=np.arange(MAZES, dtype=np.uint64))
    reward, flags = np.empty(MAZES), np.empty(MAZES, np.uint8)
    step = _stepper(lambda action: vector.step_into(action, obs, reward, flags))
    return _lines(setup, Probe("rollmill", step, MAZES * 1e-9), BYTES)


def _lines(setup: Setup, ours: Probe, bytes_: int) -> Lines:
    """The floor rewrites as many bytes, in cache."""
    return Lines(
        ours=ours,
        peers={"gymnasium": _sync_line(setup)},
        floor=rewrite_probe(setup.machine, MAZES * bytes_, MAZES * 1e-9, "cache"),
        bytes=MAZES * bytes_,
    )


def _sync_line(setup: Setup) -> Probe:
    mazes = 16 if setup.plan.name == "tiny" else MAZES
    envs = gymnasium.vector.SyncVectorEnv([peers.PlainMaze] * mazes)
    envs.reset(seed=1)
    step = _stepper(envs.step, mazes)
    return Probe("gymnasium SyncVectorEnv, plain Python", step, mazes * 1e-9)


def _stepper(step: Callable[[Any], object], mazes: int = MAZES) -> Callable[[], object]:
    """Step with random actions, others each time."""
    rng = np.random.default_rng(1)
    actions = itertools.cycle([rng.integers(0, 4, mazes) for _ in range(16)])
    return lambda: step(next(actions))


CASES = [
    Case("maze_vector", "maze", "ns/step", maze_vector, ("gymnasium",), floor=True, lower=True),
    Case(
        "maze_step_into", "maze", "ns/step", maze_step_into, ("gymnasium",), floor=True, lower=True
    ),
]
