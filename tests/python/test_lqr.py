"""Both algorithms find the best policy of a linear-quadratic regulator, known in closed form."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import rollmill
from rollmill import ARSConfig, ESConfig

SOURCE = Path(__file__).parents[1] / "consumers" / "lqr.c"
A, B = np.array([[1, 0.2], [0, 1]]), np.array([[0], [0.2]])
Q, R, SCALE = np.eye(2), 0.1 * np.eye(1), 40


@pytest.fixture(scope="module")
def lqr(tmp_path_factory):
    library = tmp_path_factory.mktemp("lqr") / "lqr.so"
    flags = ["-O2", "-fPIC", "-shared", "-std=c11", "-ffp-contract=off"]
    command = [*os.environ.get("CC", "cc").split(), *flags, f"-I{rollmill.get_include()}"]
    subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)
    return f"{library}:lqr"


def riccati():
    """The cost matrix P and the gain K of u = -K x."""
    p = Q
    for _ in range(1000):
        k = np.linalg.solve(R + B.T @ p @ B, B.T @ p @ A)
        p = Q + A.T @ p @ (A - B @ k)
    return p, k


CONFIGS = {
    "ARS": ARSConfig(num_rollouts=8, rollouts_used=8, noise_stdev=0.05,
                     sgd_stepsize=[[0, 0.5], [1_000_000, 0.1], [2_000_000, 0.01]]),
    "ES": ESConfig(episodes_per_batch=64, train_batch_size=0, fcnet_hiddens=(), l2_coeff=0,
                   noise_stdev=0.05, stepsize=[[0, 0.1], [2_000_000, 0.001]]),
    "ES clipup": ESConfig(episodes_per_batch=64, train_batch_size=0, fcnet_hiddens=(), l2_coeff=0,
                          noise_stdev=0.05, optimizer="clipup", momentum=0.5,
                          stepsize=[[0, 0.1], [2_000_000, 0.001]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_the_best_gain_is_found(lqr, name):
    config = CONFIGS[name].copy().environment(lqr)
    config.training(observation_filter="NoFilter", action_noise_std=0, noise_size=1 << 16)
    p, gain = riccati()
    with config.debugging(seed=1).resources(num_threads=1).build() as algo:
        while algo.timesteps_total < 2_000_000:
            algo.train()
        weights = algo.policy.get_weights()
        figures = algo.evaluate(2000)
    np.testing.assert_allclose(weights["logits/kernel"][:, 0], -gain[0], rtol=0.05)
    assert abs(weights["logits/bias"][0]) < 0.05
    # The mean over starts in [-1, 1]^2 of x' P x is tr(P) / 3.
    best = -np.trace(p) / 3 / SCALE
    assert abs(figures["reward_mean"] - best) < 4 * figures["reward_sem"] + 0.002 * abs(best)
