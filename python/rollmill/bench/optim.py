"""Optimisers over a vector that stays in cache, and over one that does not."""

from __future__ import annotations

import numpy as np

from rollmill import _optim
from rollmill.machine import cache_bytes, rewrite_probe
from rollmill.timing import Probe

from . import peers
from .cases import Case, Lines, Setup

PARAMETERS = 6084
#: Bytes read and written for a parameter: theta, m and v both ways, the gradient once.
BYTES = 28


def adam(setup: Setup) -> Lines:
    """A step of the default policy's 6084 parameters."""
    return _adam(setup, PARAMETERS, "cache")


def adam_memory(setup: Setup) -> Lines:
    """A step over vectors that together take four times the last-level cache."""
    size = 1 << 16 if setup.plan.name == "tiny" else cache_bytes() // 4
    return _adam(setup, size, "memory")


def _adam(setup: Setup, size: int, place: str) -> Lines:
    """The floor rewrites as many bytes as a step moves."""
    rng = np.random.default_rng(1)
    gradient = rng.standard_normal(size, np.float32)
    theta, m, v = (np.zeros(size, np.float32) for _ in range(3))
    numpy_adam, numpy_theta = peers.Adam(size, 0.01), np.zeros(size, np.float32)
    work = size * 1e-9
    step = iter(range(1, 1 << 62))

    def ours() -> None:
        _optim.adam_step(theta, m, v, gradient, next(step), 0.01)

    return Lines(
        ours=Probe("rollmill", ours, work),
        peers={
            "numpy": Probe(
                "NumPy, RLlib's Adam", lambda: numpy_adam.update(numpy_theta, gradient), work
            )
        },
        floor=rewrite_probe(setup.machine, size * BYTES, work, place),
        bytes=size * BYTES,
    )


def clipup(setup: Setup) -> Lines:
    """A step of the default policy's 6084 parameters: two norms and two passes."""
    gradient = np.random.default_rng(1).standard_normal(PARAMETERS, np.float32)
    theta, v = (np.zeros(PARAMETERS, np.float32) for _ in range(2))
    peer = peers.ClipUp(PARAMETERS, 0.01)
    peer_theta = np.zeros(PARAMETERS, np.float32)
    work = PARAMETERS * 1e-9

    def ours() -> None:
        _optim.clipup_step(theta, v, gradient, 0.01, 0.02)

    return Lines(
        ours=Probe("rollmill", ours, work),
        peers={"numpy": Probe("NumPy", lambda: peer.update(peer_theta, gradient), work)},
        bytes=PARAMETERS * 20,
    )


CASES = [
    Case("adam", "optim", "G params/s", adam, ("numpy",), floor=True),
    Case("adam_memory", "optim", "G params/s", adam_memory, ("numpy",), floor=True),
    Case("clipup", "optim", "G params/s", clipup, ("numpy",)),
]
