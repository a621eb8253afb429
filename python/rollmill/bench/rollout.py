"""Rollouts: work units of the default run, perturbed policies that walk the maze."""

from __future__ import annotations

import numpy as np

from rollmill import _noise
from rollmill.envs.native import env_spec
from rollmill.rollouts import Rollouts, RolloutSpec, Task
from rollmill.timing import Probe

from . import peers
from .cases import Case, Lines, Setup, policy_flops

WIDTHS = (25, 64, 64, 4)
NOISE = 1 << 22
STDEV = 0.3


def rollouts_argmax(setup: Setup) -> Lines:
    """Actions by arg-max."""
    return _rollouts(setup, sample=False)


def rollouts_sampled(setup: Setup) -> Lines:
    """Actions drawn from the softmax, as the default run trains."""
    return _rollouts(setup, sample=True)


def unit_rollouts(key: int, sample: bool) -> Rollouts:
    """What evaluates the units."""
    spec = RolloutSpec(
        env=env_spec("rollmill/Maze-v0"),
        hiddens=WIDTHS[1:-1],
        activation="tanh",
        key=key,
        noise_size=NOISE,
        gamma=0.99,
        sample_actions=sample,
    )
    return Rollouts(spec, _noise.Noise(key, NOISE).fill(0, NOISE))


def _rollouts(setup: Setup, sample: bool) -> Lines:
    units = 2 if setup.plan.name == "tiny" else 32
    rollouts, stop = unit_rollouts(setup.key, sample), np.zeros(1, np.int32)
    assert rollouts.table is not None
    theta = rollouts.policy.kernel.init(setup.key)
    task = Task(0, theta, STDEV)
    answer = rollouts.units(task, 0, units, stop)
    steps = int(answer.pairs["length"].sum())
    starts = answer.pairs["noise_index"].tolist()
    signs = np.concatenate(
        [peers.perturb(rollouts.table[i : i + theta.size], theta, STDEV) for i in starts]
    ).reshape(-1, theta.size)

    one_by_one = signs[:8]
    _, lengths = zip(
        *(peers.episode(m, WIDTHS, sample, np.random.default_rng(1)) for m in one_by_one),
        strict=True,
    )
    members = signs[: peers.LOCKSTEP]
    together = peers.episodes(members, WIDTHS, sample, np.random.default_rng(1))

    def step_by_step() -> None:
        for member in one_by_one:  # the same episodes in each call
            peers.episode(member, WIDTHS, sample, np.random.default_rng(1))

    def lockstep() -> None:
        peers.episodes(members, WIDTHS, sample, np.random.default_rng(1))

    return Lines(
        ours=Probe("rollmill", lambda: rollouts.units(task, 0, units, stop), steps * 1e-6),
        peers={
            "python": Probe("plain Python, NumPy's network", step_by_step, sum(lengths) * 1e-6),
            "lockstep": Probe(
                f"NumPy, {len(members)} members in lockstep",
                lockstep,
                float(np.abs(together).sum()) * 1e-6,
            ),
        },
        flops=policy_flops(WIDTHS, one_hot=True) * 1e-3,
    )


CASES = [
    Case("rollouts_argmax", "rollout", "M steps/s", rollouts_argmax, ("python", "lockstep")),
    Case("rollouts_sampled", "rollout", "M steps/s", rollouts_sampled, ("python", "lockstep")),
]
