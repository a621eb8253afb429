from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollmill._isa import Isa
from rollmill._noise import Noise

BLOCK: int
TILE: int

def centered_ranks(values: NDArray[np.float64]) -> NDArray[np.float32]: ...
def noise_sum(
    noise: Noise,
    index: NDArray[np.uint64],
    weight: NDArray[np.float32],
    out: NDArray[np.float32],
    begin: int = 0,
    end: int | None = None,
    blas: Literal["none", "scipy", "reference"] = "none",
    isa: Isa | None = None,
) -> NDArray[np.float32]: ...
