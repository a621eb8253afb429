import numpy as np
from numpy.typing import NDArray

from rollmill._isa import Isa

STREAMS: dict[str, int]

def philox(key: int, c0: int, c1: int, c2: int, c3: int) -> NDArray[np.uint32]: ...
def block(key: int, stream: str, item: int, iteration: int, number: int) -> NDArray[np.uint32]: ...
def derive(key: int, kind: int) -> int: ...
def normal_fill(
    key: int,
    stream: str,
    item: int,
    iteration: int,
    start: int,
    size: int = 0,
    out: NDArray[np.float32] | None = None,
    isa: Isa | None = None,
) -> NDArray[np.float32]: ...
