from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollmill._env import NativeEnv
from rollmill._vector import Vector

ARRAYS: dict[str, int]
FUNCTIONS: tuple[str, ...]
TASKS: dict[str, int]
MAPS: dict[str, int]

class Segment(NamedTuple):
    array: str
    first: int
    length: int
    map: str = ...
    minus: int = ...
    low: float = ...
    high: float = ...

class Simulator:
    def __init__(
        self,
        library: object,
        functions: Mapping[str, int],
        model: Any,
        datas: Sequence[Any],
        signature: int,
        state_length: int,
    ) -> None: ...
    @property
    def sizes(self) -> dict[str, int]: ...
    @property
    def datas(self) -> int: ...

class MujocoStorage: ...

def environment(
    simulator: Simulator,
    name: str,
    *,
    task: str,
    version: int,
    max_episode_steps: int,
    frame_skip: int,
    observation: Sequence[Segment],
    init_qpos: NDArray[np.float64],
    init_qvel: NDArray[np.float64],
    action_low: NDArray[Any],
    action_high: NDArray[Any],
    body_mass: NDArray[np.float64],
    timestep: float,
    bodies: Sequence[int] = ...,
    parameters: Mapping[str, Any] | None = ...,
) -> NativeEnv: ...
def place(
    vector: Vector, i: int, qpos: NDArray[np.float64], qvel: NDArray[np.float64]
) -> NDArray[np.float64]: ...
def read(vector: Vector, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
