from typing import Self

import numpy as np
from numpy.typing import NDArray

from rollmill._isa import Isa

SIZE_MAX: int

class Noise:
    def __new__(cls, key: int, size: int, table: NDArray[np.float32] | None = None) -> Self: ...
    @property
    def key(self) -> int: ...
    @property
    def size(self) -> int: ...
    def fill(
        self,
        start: int = 0,
        size: int = 0,
        out: NDArray[np.float32] | None = None,
        isa: Isa | None = None,
    ) -> NDArray[np.float32]: ...
    def index(self, key: int, pair: int, iteration: int, d: int) -> int: ...
    def perturb(
        self,
        theta: NDArray[np.float32],
        index: int,
        stdev: float,
        plus: NDArray[np.float32] | None = None,
        minus: NDArray[np.float32] | None = None,
        isa: Isa | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
