"""Networks: forward passes of a batch of observations through one set of parameters."""

from __future__ import annotations

import numpy as np

from rollmill._policy import Network
from rollmill.timing import Probe

from . import peers
from .cases import Case, Lines, Setup, policy_flops

ROWS = 256


def policy_one_hot(setup: Setup) -> Lines:
    """25-64-64-4, tanh, the observation an index: the first layer is a row look-up."""
    widths = (25, 64, 64, 4)
    network = Network(widths)
    theta = network.init(setup.key)
    index = np.random.default_rng(1).integers(0, 25, ROWS)
    out = np.empty((ROWS, 4), np.float32)
    one_hot = np.eye(25, dtype=np.float32)
    work = ROWS * 1e-6
    return Lines(
        ours=Probe("rollmill", lambda: network.eval(theta, index=index, out=out), work),
        peers={
            "numpy": Probe(
                f"NumPy, {ROWS} rows in a product",
                lambda: peers.forward(theta, widths, one_hot[index]),
                work,
            )
        },
        flops=policy_flops(widths, one_hot=True) * 1e-3,
    )


def policy_dense(setup: Setup) -> Lines:
    """17-64-64-6, tanh: the shape of a small robot's policy."""
    widths = (17, 64, 64, 6)
    network = Network(widths)
    theta = network.init(setup.key)
    x = np.random.default_rng(1).standard_normal((ROWS, 17), np.float32)
    out = np.empty((ROWS, 6), np.float32)
    work = ROWS * 1e-6
    return Lines(
        ours=Probe("rollmill", lambda: network.eval(theta, x=x, out=out), work),
        peers={
            "numpy": Probe(
                f"NumPy, {ROWS} rows in a product", lambda: peers.forward(theta, widths, x), work
            )
        },
        flops=policy_flops(widths) * 1e-3,
    )


CASES = [
    Case("policy_one_hot", "policy", "M rows/s", policy_one_hot, ("numpy",)),
    Case("policy_dense", "policy", "M rows/s", policy_dense, ("numpy",)),
]
