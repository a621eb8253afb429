"""Noise: normals, and perturbations from the table and generated."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from rollmill import _noise
from rollmill.envs.native import env_spec
from rollmill.machine import read_probe
from rollmill.rollouts import Rollouts, RolloutSpec, Task
from rollmill.timing import Probe

from . import peers
from .cases import NORMAL_FLOPS, Case, Lines, Setup

#: Numbers made at a time, 64 KB: they stay in a core's second-level cache.
IN_CACHE = 16384
#: A linear policy over this maze has 38*40*4 + 4 = 6084 parameters, as many as 25-64-64-4.
ROWS, COLUMNS, PARAMETERS = 38, 40, 6084
PAIRS = 512


def normals(setup: Setup) -> Lines:
    """Standard normals in cache, float32."""
    noise, out = _noise.Noise(setup.key, 1 << 32), np.empty(IN_CACHE, np.float32)
    work = IN_CACHE * 1e-6

    def numpy_line(bits: np.random.BitGenerator) -> Probe:
        generator, own = np.random.Generator(bits), np.empty(IN_CACHE, np.float32)
        name = f"NumPy Generator({type(bits).__name__})"
        return Probe(name, lambda: generator.standard_normal(dtype=np.float32, out=own), work)

    return Lines(
        ours=Probe("rollmill", lambda: noise.fill(0, out=out), work),
        peers={
            "pcg64": numpy_line(np.random.PCG64(1)),
            "philox": numpy_line(np.random.Philox(1)),
        },
        flops=NORMAL_FLOPS * 1e-3,
    )


def perturb_table(setup: Setup) -> Lines:
    """Both signs of random rows of the table: 4 bytes read from memory for a parameter."""
    theta = np.zeros(PARAMETERS, np.float32)
    table, work = setup.table, PARAMETERS * 1e-9
    starts = _starts(setup)

    def numpy_line() -> None:
        start = next(starts)
        peers.perturb(table[start : start + PARAMETERS], theta, 0.02)

    return Lines(
        ours=Probe("rollmill", _perturbations(setup, table), PAIRS * work),
        peers={"numpy": Probe("NumPy, row by row", numpy_line, work)},
        floor=read_probe(setup.machine, table, table.size * 1e-9),
        bytes=PAIRS * PARAMETERS * 4,
    )


def perturb_generated(setup: Setup) -> Lines:
    """Both signs of generated rows."""
    theta = np.zeros(PARAMETERS, np.float32)
    generator = np.random.Generator(np.random.PCG64(1))
    work = PARAMETERS * 1e-9

    def numpy_line() -> None:
        peers.perturb(generator.standard_normal(PARAMETERS, np.float32), theta, 0.02)

    return Lines(
        ours=Probe("rollmill", _perturbations(setup, None), PAIRS * work),
        peers={"numpy": Probe("NumPy, Generator(PCG64)", numpy_line, work)},
        flops=NORMAL_FLOPS + 3,
    )


def _perturbations(setup: Setup, table: np.ndarray | None) -> Callable[[], object]:
    """Units of one-step episodes of a linear policy: perturbations, and little else.

    A call from Python for each row would cost about as much as the row. Here the interpreter is
    met once in PAIRS rows, as in training.
    """
    spec = RolloutSpec(
        env=env_spec("rollmill/Maze-v0", rows=ROWS, columns=COLUMNS, max_episode_steps=1),
        hiddens=(),
        activation="tanh",
        key=setup.key,
        noise_size=setup.table.size,
        unit_pairs=PAIRS,
    )
    rollouts, stop = Rollouts(spec, table), np.zeros(1, np.int32)
    theta = np.zeros(PARAMETERS, np.float32)
    iterations = itertools.count()  # other rows each time
    return lambda: rollouts.units(Task(next(iterations), theta, 0.02), 0, 1, stop)


def _starts(setup: Setup) -> itertools.cycle[int]:
    """Random beginnings of rows."""
    rng = np.random.default_rng(1)
    return itertools.cycle(
        rng.integers(0, setup.table.size - PARAMETERS, 1 << 14, endpoint=True).tolist()
    )


CASES = [
    Case("normals", "noise", "M/s", normals, ("pcg64", "philox")),
    Case("perturb_table", "noise", "G params/s", perturb_table, ("numpy",), floor=True),
    Case("perturb_generated", "noise", "G params/s", perturb_generated, ("numpy",)),
]
