"""Evolution strategies by hand on Ray: actors and the noise that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from rollmill import seeding
from rollmill.algorithms.es_config import ESConfig
from rollmill.algorithms.es_worker import EsWorker

from .noise import fill_table


class ActorWorker(EsWorker):
    """An `EsWorker` that its actor id names. Its parameters are those of `EsWorker`."""

    def __init__(
        self,
        config: ESConfig | Mapping[str, Any],
        policy_params: Mapping[str, Any] | None,
        env_name: str,
        noise: NDArray[np.float32] | None = None,
    ):
        identity = ray.get_runtime_context().get_actor_id()
        super().__init__(config, policy_params, env_name, noise, identity)


def make_noise(size: int = 250_000_000, seed: int = 0) -> NDArray[np.float32]:
    """Return standard normal numbers, a function of the seed; (size,) float32.

    They are those that a worker of the same seed generates when it is given no noise.
    """
    return fill_table(seeding.key(seed), size)


#: ``Worker.remote(config, policy_params, env_name, noise_id)``, then
#: ``do_rollouts.remote(theta_id)``; see `rollmill.algorithms.EsWorker`.
Worker = ray.remote(ActorWorker)

#: ``create_shared_noise.remote(size=250_000_000, seed=0)``: a reference that each node's processes
#: map from the object store, read-only and without a copy. A node that loses it makes it again.
create_shared_noise = ray.remote(num_cpus=0, max_retries=3)(make_noise)
