from typing import Any, NamedTuple, final
from typing import Any as CapsuleType  # types.CapsuleType is newer than Python 3.11

import numpy as np
from numpy.typing import NDArray

class SpaceSpec(NamedTuple):
    kind: str
    dtype: np.dtype[Any]
    n: int
    shape: tuple[int, ...]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None

@final
class NativeEnv:
    @staticmethod
    def from_capsule(capsule: CapsuleType) -> NativeEnv: ...
    @staticmethod
    def from_address(address: int, owner: object) -> NativeEnv: ...
    def capsule(self) -> CapsuleType: ...
    @property
    def name(self) -> str: ...
    @property
    def observation_space_spec(self) -> SpaceSpec: ...
    @property
    def action_space_spec(self) -> SpaceSpec: ...
    @property
    def max_episode_steps(self) -> int: ...
    @property
    def state_size(self) -> int: ...
