"""Evolution strategies (Salimans et al., "Evolution strategies as a scalable alternative to
reinforcement learning", 2017): mirrored sampling, centred ranks, shared noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill._es import centered_ranks
from rollmill.batch import Ledger
from rollmill.optimizers import Optimizer, make_optimizer

from .es_config import ESConfig
from .evolution import Evolution
from .figures import spread


class ES(Evolution):
    """Evolution strategies.

    Parameters
    ----------
    config : ESConfig

    Raises
    ------
    ValueError
        On an environment or option that does not fit.
    """

    name = "ES"
    config: ESConfig

    def _optimizer(self) -> Optimizer:
        config = self.config
        options: dict[str, Any] = {}
        if config.optimizer in ("sgd", "clipup"):
            options["momentum"] = config.momentum
        if config.optimizer == "clipup":
            options["max_speed"] = config.max_speed
        if config.optimizer == "adamw":
            options["weight_decay"] = config.l2_coeff
        return make_optimizer(
            config.optimizer,
            self.policy.num_params,
            stepsize=self.scheduled("stepsize"),
            **options,
        )

    def _ledger(self) -> Ledger:
        config = self.config
        return Ledger(
            self.iteration,
            config.unit_pairs,
            config.episodes_per_batch,
            config.train_batch_size,
            self._steps_per_unit,
        )

    def _gradient(self, kept: NDArray[np.void]) -> NDArray[np.float32] | None:
        """Return the gradient to descend; None where all returns tie and so say nothing."""
        fitness = np.ascontiguousarray(kept["fitness"])
        weight = self._weights(fitness)
        if weight is None:
            return None
        gradient = self._noise_sum(kept, weight)
        gradient *= np.float32(-1.0 / fitness.size)
        if self.config.optimizer != "adamw":  # it decays the weights itself
            gradient += np.float32(self.config.l2_coeff) * self.policy.theta
        return gradient

    def _weights(self, fitness: NDArray[np.float64]) -> NDArray[np.floating[Any]] | None:
        """Return the weight of each pair's noise; None where all returns tie."""
        mode = self.config.return_proc_mode
        if mode == "centered_rank":
            ranks = centered_ranks(fitness.ravel()).reshape(fitness.shape)
            return ranks[:, 0] - ranks[:, 1] if ranks.any() else None
        scale = spread(fitness)
        if scale == 0.0:
            return None
        difference = fitness[:, 0] - fitness[:, 1]
        return difference / scale if mode == "normalized" else difference
