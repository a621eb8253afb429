"""Comparing what environments return: nested tuples, lists, dicts and arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def shape_of(value: Any) -> str:
    """Say what a value is: the dtype and shape of an array, or the type of something else."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__


def equal(a: Any, b: Any) -> bool:
    """Compare types, dtypes, shapes and values; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(map(equal, a.flat, b.flat))
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return bool(a == b) or bool(a != a and b != b)


def arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays in a result, those in object arrays too."""
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype == object:
            yield from arrays(value.tolist())
    elif isinstance(value, dict):
        for entry in value.values():
            yield from arrays(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from arrays(entry)


def overlap(a: Any, b: Any) -> bool:
    """Tell whether an array of one result shares memory with one of the other."""
    return any(np.shares_memory(x, y) for x in arrays(a) for y in arrays(b))


def spoil(result: Any) -> None:
    """Write over every array that can be written."""
    for array in arrays(result):
        if array.flags.writeable:
            array.fill(None if array.dtype == object else 1)
