"""Random numbers of actions, where the interpreter steps: those that the C rollouts draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _rng

if TYPE_CHECKING:
    from .envs.flatten import Actions
    from .rollouts import RolloutSpec

#: Steps for which action noise is made at once.
NOISE_STEPS = 16


class Draws:
    """Makes the actions of an episode's steps.

    Parameters
    ----------
    spec : RolloutSpec
    actions : Actions
    key, iteration : int
        Of the streams.
    training : bool
        Whether there is noise, and choices are sampled, as the spec says.
    """

    def __init__(
        self, spec: RolloutSpec, actions: Actions, key: int, iteration: int, training: bool
    ):
        self.actions, self.key, self.iteration = actions, key, iteration
        self.boxes, self.draws = actions.boxes, actions.draws
        self.stdev = np.float32(spec.action_noise_stdev if training and len(self.boxes) else 0)
        self.samples = training and spec.sample_actions and self.draws > 0
        self.noise: dict[int, tuple[int, NDArray[np.float32]]] = {}
        self.units: dict[int, tuple[int, NDArray[np.uint32]]] = {}

    def make(self, outputs: NDArray[np.float32], items: list[int], step: int) -> Any:
        """Make the actions of a step.

        Parameters
        ----------
        outputs : (K, size) float32
            Of members that still run; noise is added in place.
        items : list of K int
            Their pairs or episodes.
        step : int
            Steps before this one.

        Returns
        -------
        sequence of K actions, or None if an output is NaN
        """
        total = float(np.add.reduce(outputs, axis=None))
        if total != total and np.isnan(outputs).any():
            return None
        units = None
        if self.samples:
            units = np.array([self._units(item, step) for item in items], np.float32)
        if self.stdev:
            noise = np.array([self._noise(item, step) for item in items])
            outputs[:, self.boxes] += self.stdev * noise
        return self.actions.make(outputs, units)

    def _noise(self, item: int, step: int) -> NDArray[np.float32]:
        """Noise of each Box element at a step: elements step*B, step*B + 1, ... of the stream."""
        count, at = len(self.boxes), step % NOISE_STEPS
        first, made = self.noise.get(item, (-1, None))
        if made is None or first != step - at:
            made = _rng.normal_fill(
                self.key, "action_noise", item, self.iteration, (step - at) * count,
                NOISE_STEPS * count,
            ).reshape(NOISE_STEPS, count)  # fmt: skip
            self.noise[item] = step - at, made
        return made[at]

    def _units(self, item: int, step: int) -> list[float]:
        """Uniform draws step*G, step*G + 1, ... of the stream, four in a block."""
        found = []
        for draw in range(step * self.draws, (step + 1) * self.draws):
            block = self.units.get(item)
            if block is None or block[0] != draw // 4:
                words = _rng.block(self.key, "action", item, self.iteration, draw // 4)
                block = self.units[item] = draw // 4, words
            found.append((int(block[1][draw % 4]) >> 8) * 2.0**-24)
        return found
