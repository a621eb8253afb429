"""Augmented random search (Mania, Guy, Recht, "Simple random search of static linear policies is
competitive for reinforcement learning", NeurIPS 2018).

With the defaults this is the paper's V2-t: a linear policy, a filter of the observations, the best
directions alone. `observation_filter="NoFilter"` makes it V1-t, and `rollouts_used=num_rollouts`
takes the "t" off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rollmill.batch import Ledger
from rollmill.optimizers import SGD, Optimizer
from rollmill.rollouts import Task

from .ars_config import ARSConfig
from .evolution import Evolution
from .figures import spread


class ARS(Evolution):
    """Augmented random search.

    Parameters
    ----------
    config : ARSConfig

    Raises
    ------
    ValueError
        On an environment or option that does not fit.
    """

    name = "ARS"
    config: ARSConfig

    def _optimizer(self) -> Optimizer:
        return SGD(self.policy.num_params, self.scheduled("stepsize"), momentum=0.0)

    def _initial(self, key: int) -> NDArray[np.float32]:
        """Return zeros for a linear policy; hidden layers need something to perturb."""
        if self.config.fcnet_hiddens:
            return super()._initial(key)
        return np.zeros(self.policy.num_params, np.float32)

    def task(self) -> Task:
        """What the units of the next iteration are a function of."""
        return replace(super().task(), pairs=self.config.num_rollouts)

    def _ledger(self) -> Ledger:
        config = self.config
        return Ledger(self.iteration, config.unit_pairs, 0, 0, pairs=config.num_rollouts)

    def _gradient(self, kept: NDArray[np.void]) -> NDArray[np.float32] | None:
        """Return the gradient to descend; None where the returns used have no spread.

        It is -sum of (r+ - r-) * noise / (b * deviation of the 2b returns), over the b directions
        with the best episodes; of equal ones the first.
        """
        best = np.argsort(-kept["fitness"].max(axis=1), kind="stable")
        used = kept[np.sort(best[: self.config.rollouts_used])]
        scale = spread(used["fitness"])
        if scale == 0.0:
            return None
        gradient = self._noise_sum(used, (used["fitness"][:, 0] - used["fitness"][:, 1]) / scale)
        gradient *= np.float32(-1.0 / len(used))
        return gradient
