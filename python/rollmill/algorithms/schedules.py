"""Options that may change while training goes on."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .config import Check, shown

#: A constant, or points (timestep, value) between which the value is linear.
Schedule = float | tuple[tuple[int, float], ...]


def scheduled(check: Check) -> Check:
    """Accept a value, or [[timestep, value], ...] with timesteps that begin at 0 and rise."""

    def points(name: str, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return check(name, value)
        good = bool(value) and all(
            isinstance(point, list | tuple) and len(point) == 2 and _whole(point[0])
            for point in value
        )
        times = [int(point[0]) for point in value] if good else []
        if not good or times[0] or any(a >= b for a, b in pairwise(times)):
            raise ValueError(
                f"{name} must be a value or [[timestep, value], ...] with whole timesteps that "
                f"begin at 0 and rise, got {shown(value)}"
            )
        return tuple((int(time), check(name, inner)) for time, inner in value)

    return points


def _whole(time: Any) -> bool:
    real = isinstance(time, numbers.Real) and not isinstance(time, bool)
    return real and 0 <= time < 2**63 and float(time).is_integer()


def value_at(schedule: float | Sequence[tuple[int, float]], timestep: int) -> float:
    """Return the value at a timestep: linear between two points, constant after the last one."""
    if not isinstance(schedule, Sequence):
        return schedule
    for (begin, first), (end, last) in pairwise(schedule):
        if timestep < end:
            return first + (last - first) * ((timestep - begin) / (end - begin))
    return schedule[-1][1]
