import numpy as np
from numpy.typing import NDArray

def adam_step(
    theta: NDArray[np.float32],
    m: NDArray[np.float32],
    v: NDArray[np.float32],
    gradient: NDArray[np.float32],
    t: int,
    stepsize: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> None: ...
def clipup_step(
    theta: NDArray[np.float32],
    v: NDArray[np.float32],
    gradient: NDArray[np.float32],
    stepsize: float,
    max_speed: float,
    momentum: float = 0.9,
) -> None: ...
def sgd_step(
    theta: NDArray[np.float32],
    v: NDArray[np.float32],
    gradient: NDArray[np.float32],
    stepsize: float,
    momentum: float = 0.0,
) -> None: ...
