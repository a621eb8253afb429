"""Row A5: the loop of docs/es_on_ray.md, and the gradient that it descends."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rollmill._noise import Noise
from rollmill.algorithms import EsBatch, gradient

DOCUMENT = Path(__file__).parents[2] / "docs" / "es_on_ray.md"


@pytest.mark.timeout(300)
def test_row_a5_the_documented_loop_learns():
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    program = "\n".join(blocks)
    for name in ("policy.get_weights()", "ray.put", "do_rollouts.remote(theta_id", "ray.get",
                 "optimizer.update("):  # fmt: skip
        assert name in program
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    iteration, reward = done.stdout.split()
    assert int(iteration) == 9
    assert float(reward) > 0.8  # it begins at about 0.4


def batch(index, fitness):
    fitness = np.asarray(fitness, float).reshape(-1, 2)
    return EsBatch(np.asarray(index, "u8"), fitness, fitness, np.ones(fitness.shape, np.uint32))


def test_row_a5_the_gradient_is_the_ranked_sum():
    noise = Noise(1, 1000)
    batches = [batch([5], [1, 0]), batch([700, 90], [5, 7, 2, 2])]
    ranks = np.array([[1, 0], [4, 5], [2.5, 2.5]]) / 5 - 0.5
    rows = np.array([noise.fill(i, 40) for i in (5, 700, 90)])
    expected = -(ranks[:, 0] - ranks[:, 1]) @ rows / 6
    np.testing.assert_allclose(gradient(batches, noise, 40), expected, rtol=1e-4, atol=1e-6)
    table = noise.fill(0, 1000)
    table.flags.writeable = False
    assert np.array_equal(gradient(batches, table, 40), gradient(batches, noise, 40))


@pytest.mark.parametrize("batches", [[], [batch([], [])], [batch([1, 2], [3, 3, 3, 3])]])
def test_row_a5_without_a_difference_it_is_zero(batches):
    assert not gradient(batches, Noise(1, 100), 7).any()
