"""The update: centred ranks and the weighted sum of noise."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from rollmill import _es, _noise
from rollmill.machine import read_probe
from rollmill.timing import Probe

from . import peers
from .cases import NORMAL_FLOPS, Case, Lines, Setup

PARAMETERS = 6084
PAIRS = 2048  # the default run's; their rows take 50 MB, more than most caches
RETURNS = 4096


def ranks(setup: Setup) -> Lines:
    """Centred ranks of the returns of one iteration, about one in ten of them tied."""
    values = np.random.default_rng(1).integers(0, 20000, RETURNS).astype(np.float64)
    work = RETURNS * 1e-6
    return Lines(
        ours=Probe("rollmill", lambda: _es.centered_ranks(values), work),
        peers={"scipy": Probe("scipy.stats.rankdata", lambda: peers.ranks(values), work)},
    )


def update_table(setup: Setup) -> Lines:
    """Sum of 2048 random rows of the table: 4 bytes read from memory for a row's parameter."""
    pairs = _pairs(setup)
    table = setup.table
    index, weight, out = _index(setup, pairs), _weights(pairs), np.zeros(PARAMETERS, np.float32)
    work = pairs * PARAMETERS * 1e-9

    def ours() -> None:
        _es.noise_sum(setup.noise, next(index), weight, out)

    def saxpy() -> None:
        _es.noise_sum(setup.noise, next(index), weight, out, blas="scipy")

    def numpy_line() -> None:
        rows = (table[i : i + PARAMETERS] for i in next(index).tolist())
        peers.weighted_sum(weight, rows, PARAMETERS)

    return Lines(
        ours=Probe("rollmill", ours, work),
        peers={
            "numpy": Probe("NumPy, RLlib's batched_weighted_sum", numpy_line, work),
            "saxpy": Probe("rollmill, saxpy of SciPy's BLAS row by row", saxpy, work),
        },
        floor=read_probe(setup.machine, table, table.size * 1e-9),
        bytes=pairs * PARAMETERS * 4,
    )


def update_generated(setup: Setup) -> Lines:
    """The same sum with generated noise."""
    pairs = _pairs(setup) // 8
    noise = _noise.Noise(setup.key, setup.table.size)
    generator = np.random.Generator(np.random.PCG64(1))
    index, weight, out = _index(setup, pairs), _weights(pairs), np.zeros(PARAMETERS, np.float32)
    work = pairs * PARAMETERS * 1e-9

    def numpy_line() -> None:
        rows = (generator.standard_normal(PARAMETERS, np.float32) for _ in range(pairs))
        peers.weighted_sum(weight, rows, PARAMETERS)

    return Lines(
        ours=Probe("rollmill", lambda: _es.noise_sum(noise, next(index), weight, out), work),
        peers={"numpy": Probe("NumPy, Generator(PCG64)", numpy_line, work)},
        flops=NORMAL_FLOPS + 2,
    )


def _pairs(setup: Setup) -> int:
    return 64 if setup.plan.name == "tiny" else PAIRS


def _index(setup: Setup, pairs: int) -> itertools.cycle[NDArray[np.uint64]]:
    """Eight sets of random beginnings of rows, so that no call finds the last one's in cache."""
    rng = np.random.default_rng(1)
    highest = setup.table.size - PARAMETERS
    return itertools.cycle(
        [rng.integers(0, highest, pairs, np.uint64, endpoint=True) for _ in range(8)]
    )


def _weights(pairs: int) -> NDArray[np.float32]:
    return np.random.default_rng(2).uniform(-1, 1, pairs).astype(np.float32)


CASES = [
    Case("ranks", "es", "M/s", ranks, ("scipy",)),
    Case("update_table", "es", "G params/s", update_table, ("numpy", "saxpy"), floor=True),
    Case("update_generated", "es", "G params/s", update_generated, ("numpy",)),
]
