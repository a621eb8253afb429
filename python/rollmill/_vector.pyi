from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill._env import NativeEnv

NEXT_STEP: int
SAME_STEP: int
DISABLED: int
TERMINATED: int
TRUNCATED: int

class Vector:
    def __init__(
        self,
        env: NativeEnv,
        n: int,
        autoreset: int = ...,
        ids: NDArray[np.uint32] | None = None,
    ) -> None: ...
    @property
    def env(self) -> NativeEnv: ...
    @property
    def n(self) -> int: ...
    @property
    def autoreset(self) -> int: ...
    @property
    def begun(self) -> bool: ...
    @property
    def keys(self) -> NDArray[np.uint64]: ...
    @property
    def episodes(self) -> NDArray[np.uint32]: ...
    @property
    def elapsed(self) -> NDArray[np.uint32]: ...
    @property
    def done(self) -> NDArray[np.bool_]: ...
    @property
    def returns(self) -> NDArray[np.float64]: ...
    def reset_into(
        self,
        obs: NDArray[Any],
        *,
        keys: NDArray[np.uint64] | None = None,
        fresh: NDArray[np.bool_] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> None: ...
    def reset(
        self,
        *,
        keys: NDArray[np.uint64] | None = None,
        fresh: NDArray[np.bool_] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]: ...
    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        reward: NDArray[np.float64],
        flags: NDArray[np.uint8],
        final: NDArray[Any] | None = None,
        end_return: NDArray[np.float64] | None = None,
        end_length: NDArray[np.uint32] | None = None,
    ) -> None: ...
    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.uint8], NDArray[Any] | None]: ...
    def render(self, i: int) -> str: ...
