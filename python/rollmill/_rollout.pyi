from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rollmill._env import NativeEnv
from rollmill._isa import Isa
from rollmill._noise import Noise
from rollmill._policy import Network

PAIR_DTYPE: np.dtype[Any]
EPISODE_DTYPE: np.dtype[Any]
TERMINATED: int
TRUNCATED: int

class Rollout:
    def __new__(
        cls,
        env: NativeEnv,
        policy: Network,
        *,
        key: int,
        noise_size: int,
        table: NDArray[np.float32] | None = None,
        gamma: float = 1.0,
        reward_offset: float = 0.0,
        action_noise_stdev: float = 0.0,
        sample_actions: bool = False,
        gather_stats: bool = False,
        isa: Isa | None = None,
    ) -> Self: ...
    @property
    def noise(self) -> Noise: ...
    def eval_units(
        self,
        theta: NDArray[np.float32],
        iteration: int,
        noise_stdev: float,
        max_episode_steps: int,
        stats: NDArray[np.float64] | None,
        first_unit: int,
        units: int,
        unit_pairs: int,
        stop: NDArray[np.int32],
        pairs: int = 0,
    ) -> tuple[int, NDArray[np.void], NDArray[np.float64] | None]: ...
    def eval_episodes(
        self,
        theta: NDArray[np.float32],
        iteration: int,
        max_episode_steps: int,
        stats: NDArray[np.float64] | None,
        kind: int,
        first: int,
        episodes: int,
        stop: NDArray[np.int32],
    ) -> NDArray[np.void]: ...
