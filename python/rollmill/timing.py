"""Timing: callables measured in turns, so that what disturbs one disturbs the others too."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Probe:
    """What is timed, and how much work one call of it is.

    Attributes
    ----------
    name : str
    run : callable without arguments
    work : float
        Work of a call, in units that the probes of one measurement share: steps, parameters, ...
    """

    name: str
    run: Callable[[], object]
    work: float


@dataclass(frozen=True)
class Timing:
    """What was measured of a probe.

    Attributes
    ----------
    probe : Probe
    wall_r, cpu_r : (R,) float64
        Seconds of a call in each repeat: of the clock on the wall, and of the process.
    calls : int
        Calls that a repeat averages over.
    """

    probe: Probe
    wall_r: NDArray[np.float64]
    cpu_r: NDArray[np.float64]
    calls: int

    @property
    def seconds(self) -> float:
        """Median wall time of a call."""
        return float(np.median(self.wall_r))

    @property
    def rate(self) -> float:
        """Work a second of wall time."""
        return self.probe.work / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Work a second of processor time; NaN if the clock of the process did not tick."""
        seconds = float(np.median(self.cpu_r))
        return self.probe.work / seconds if seconds > 0 else float("nan")

    @property
    def spread(self) -> float:
        """Interquartile range of the wall time over its median."""
        return spread(self.wall_r)


def spread(values: NDArray[np.float64] | Sequence[float]) -> float:
    """Interquartile range over the median."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float((high - low) / middle)


def measure(probes: Sequence[Probe], repeats: int, seconds: float) -> list[Timing]:
    """Time probes in turns.

    Each is called once unmeasured, then as often as fills `seconds`; that is one repeat. Repeats
    of all probes alternate, every other round in reverse order.

    Parameters
    ----------
    probes : sequence of Probe
        Their work is counted in one unit.
    repeats : int
        At least 1.
    seconds : float
        Least wall time of a repeat.

    Returns
    -------
    list of Timing
        One for each probe.
    """
    calls = [_calls(probe, seconds) for probe in probes]
    wall_kr, cpu_kr = np.empty((len(probes), repeats)), np.empty((len(probes), repeats))
    collects = gc.isenabled()
    gc.disable()
    try:
        for r in range(repeats):
            order = range(len(probes)) if r % 2 == 0 else reversed(range(len(probes)))
            for k in order:
                run, loops = probes[k].run, range(calls[k])
                cpu, wall = time.process_time_ns(), time.perf_counter_ns()
                for _ in loops:
                    run()
                wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
                wall_kr[k, r], cpu_kr[k, r] = wall * 1e-9 / calls[k], cpu * 1e-9 / calls[k]
    finally:
        if collects:
            gc.enable()
    return [Timing(p, wall_kr[k], cpu_kr[k], calls[k]) for k, p in enumerate(probes)]


def _calls(probe: Probe, seconds: float) -> int:
    """Calls that fill `seconds`."""
    probe.run()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            probe.run()
        taken = time.perf_counter() - start
        if taken >= 0.5 * seconds:
            return max(1, round(calls * seconds / taken))
        calls = max(2 * calls, min(10 * calls, int(calls * seconds / max(taken, 1e-9))))


@contextmanager
def one_core() -> Iterator[int]:
    """Hold this thread to one processor, the last it may use, and BLAS to one thread."""
    import threadpoolctl

    before = os.sched_getaffinity(0)
    processor = max(before)
    os.sched_setaffinity(0, {processor})
    try:
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            yield processor
    finally:
        os.sched_setaffinity(0, before)
