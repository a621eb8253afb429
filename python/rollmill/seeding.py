"""From the seeds that people write to the 64-bit keys of the random streams."""

import hashlib
import operator
import secrets
from typing import Any

import numpy as np

# A piece of a decimal text that Python converts whatever its limit on long integers is.
_DIGITS = 600


def checked(seed: Any) -> int:
    """Return a seed as a Python int.

    Parameters
    ----------
    seed : int or NumPy integer
        At least 0, of any size.

    Raises
    ------
    TypeError
        If the seed is no integer; a bool and a float with an integral value are none.
    ValueError
        If the seed is negative.
    """
    if isinstance(seed, bool | np.bool_):
        raise TypeError(f"seed must be an integer, got the bool {seed}")
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(
            f"seed must be an integer, got {seed!r} of type {type(seed).__name__}"
        ) from None
    if number < 0:
        raise ValueError(f"seed must be at least 0, got {number}")
    return number


def entropy() -> int:
    """Return a new seed below 2^62 from the operating system."""
    return secrets.randbits(62)


def resolve(seed: Any = None) -> int:
    """Return the seed to use and to report: the checked seed, or fresh entropy for None."""
    return entropy() if seed is None else checked(seed)


def key(seed: Any) -> int:
    """Return the key, in [0, 2^64), that a seed stands for.

    A seed below 2^64 is its own key. A larger one is hashed: the little-endian BLAKE2b digest of
    8 bytes over its decimal digits.

    Parameters
    ----------
    seed : int or NumPy integer
        At least 0, of any size.

    Raises
    ------
    TypeError, ValueError
        As `checked`.
    """
    number = checked(seed)
    if number < 2**64:
        return number
    digest = hashlib.blake2b(_decimal(number).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def keys(seed: Any, n: int) -> np.ndarray:
    """Return the keys of seed, seed + 1, ..., seed + n - 1.

    Returns
    -------
    numpy.ndarray
        (n,) uint64
    """
    first = checked(seed)
    if first + n <= 2**64:
        return np.arange(n, dtype=np.uint64) + np.uint64(first)
    return np.array([key(first + i) for i in range(n)], np.uint64)


def _decimal(number: int) -> str:
    """Return str(number), which Python itself refuses for more than some thousand digits."""
    pieces = []
    while number >= 10**_DIGITS:
        number, low = divmod(number, 10**_DIGITS)
        pieces.append(f"{low:0{_DIGITS}d}")
    return str(number) + "".join(reversed(pieces))
