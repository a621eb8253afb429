"""Evolution strategies by hand: a worker that evaluates pairs, and the gradient from its answers.

For loops of one's own; `ES` is the same with a filter, recovery and bit-identical results.
`rollmill.cluster.Worker` is `EsWorker` as a Ray actor.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill import seeding
from rollmill._es import centered_ranks, noise_sum
from rollmill._noise import Noise
from rollmill.envs.native import env_spec
from rollmill.policies import MLP
from rollmill.rollouts import Task, make_rollouts

from .es_config import ESConfig
from .schedules import value_at


@dataclass(frozen=True)
class EsBatch:
    """Mirrored episodes. Column 0 of an array is theta + noise, column 1 theta - noise.

    Pairs that failed, or whose return is not finite, are left out.

    Attributes
    ----------
    index_p : (P,) uint64
        Where each pair's noise begins in the shared noise.
    return_p2 : (P, 2) float64
        Sums of rewards.
    fitness_p2 : (P, 2) float64
        The same, discounted by `gamma` and less `reward_offset`.
    steps_p2 : (P, 2) uint32
        Lengths of the episodes.
    """

    index_p: NDArray[np.uint64]
    return_p2: NDArray[np.float64]
    fitness_p2: NDArray[np.float64]
    steps_p2: NDArray[np.uint32]


class EsWorker:
    """Evaluates mirrored perturbations of a policy.

    Parameters
    ----------
    config : ESConfig or dict
        Options of evolution strategies. Observations are not filtered: that takes a filter that
        all workers share, as `ES` has it. A schedule counts as its first value.
    policy_params : dict or None
        More options, over those of `config`, such as ``{"fcnet_hiddens": [32]}``.
    env_name : str
        The environment.
    noise : (N,) float32, optional
        The shared noise, such as `rollmill.cluster.create_shared_noise` makes; may be read-only,
        and is not copied. Without it noise is generated, `noise_size` numbers of the seed.
    identity : str, optional
        Names this worker among all, for pairs that nobody numbers. Drawn if not given.

    Attributes
    ----------
    policy : MLP
        Initialised from the seed; 0 if the config has none.
    """

    def __init__(
        self,
        config: ESConfig | Mapping[str, Any],
        policy_params: Mapping[str, Any] | None,
        env_name: str,
        noise: NDArray[np.float32] | None = None,
        identity: str | None = None,
    ):
        config = config.copy() if isinstance(config, ESConfig) else ESConfig(**config)
        config.update_from_dict({**(policy_params or {}), "env": env_name})
        config = config.resolved()
        if noise is not None:
            config.noise_size = len(noise)
        config.unit_pairs, config.observation_filter = 1, "NoFilter"
        key = seeding.key(config.seed or 0)
        self.config = config
        self.rollouts = make_rollouts(
            config.rollout_spec(env_spec(config.env, **config.env_config), key), noise
        )
        self.policy: MLP = self.rollouts.policy
        self.policy.theta = self.policy.kernel.init(key)
        identity = secrets.token_hex(16) if identity is None else identity
        self._own = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4], "little")
        self._next = 0
        self._stop = np.zeros(1, np.int32)

    def do_rollouts(
        self,
        theta: Mapping[str, Any] | NDArray[np.float32],
        iteration: int | None = None,
        first_pair: int | None = None,
        pairs: int = 1,
    ) -> EsBatch:
        """Evaluate pairs [first_pair, first_pair + pairs) of an iteration.

        With both numbers the answer is a function of the seed, the numbers and theta, whoever
        gives it. Without, the worker numbers the pairs by its identity and by how many it has
        evaluated: then results depend on which worker is asked, and how often.

        Parameters
        ----------
        theta : dict or (D,) float32
            Weights, as `policy.get_weights` gives them, or the flat vector.
        iteration : int, optional
            In [0, 2**32).
        first_pair : int, optional
            The first pair's number.
        pairs : int
            How many.

        Raises
        ------
        ValueError
            On weights or numbers that do not fit, or one number without the other.
        """
        if (iteration is None) != (first_pair is None):
            raise ValueError("iteration and first_pair go together, got one of them")
        if pairs < 1:
            raise ValueError(f"pairs must be at least 1, got {pairs}")
        self.policy.set_weights(theta)
        if iteration is None or first_pair is None:
            iteration, first_pair = self._own, self._next
            self._next += pairs
        config = self.config
        cap = config.max_episode_steps
        task = Task(
            iteration=iteration,
            theta=self.policy.theta,
            noise_stdev=value_at(config.noise_stdev, 0),
            max_episode_steps=0 if cap is None else int(value_at(cap, 0)),
        )
        records = self.rollouts.units(task, first_pair, pairs, self._stop).pairs
        kept = records[records["status"] == 0]
        columns = ("noise_index", "return", "fitness", "length")
        return EsBatch(*(np.ascontiguousarray(kept[name]) for name in columns))


def gradient(
    batches: Sequence[EsBatch], noise: NDArray[np.float32] | Noise, num_params: int
) -> NDArray[np.float32]:
    """Return the gradient to descend: minus the sum of noise, weighted by centred ranks.

    Parameters
    ----------
    batches : sequence of EsBatch
        Their order is that of the sum.
    noise : (N,) float32 or Noise
        What the workers perturbed by.
    num_params : int
        Length of the gradient.

    Returns
    -------
    (D,) float32
        Zeros where all returns are equal, and without any pair.
    """
    if not isinstance(noise, Noise):
        noise = Noise(0, len(noise), noise)
    total = np.zeros(num_params, np.float32)
    if not batches:
        return total
    fitness = np.concatenate([batch.fitness_p2 for batch in batches])
    index = np.concatenate([batch.index_p for batch in batches])
    ranks = centered_ranks(fitness.ravel()).reshape(fitness.shape)
    noise_sum(noise, index, np.ascontiguousarray(ranks[:, 0] - ranks[:, 1]), total)
    total *= np.float32(-1.0 / max(1, ranks.size))
    return total
