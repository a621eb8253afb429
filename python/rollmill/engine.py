"""Engines: who computes the units. `threads` is here; others register by name.

An engine decides where and in which pieces units are computed, and nothing that can be seen in a
result.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._noise import Noise
from .batch import Ledger
from .names import unknown
from .rollouts import Answer, RolloutSpec, Task, make_rollouts

logger = logging.getLogger(__name__)

#: A call carries about this many seconds of work.
CALL_SECONDS = 0.1


class Engine(Protocol):
    """What an algorithm asks of an engine."""

    name: str
    num_workers: int  #: slots on a cluster; 0 for threads in this process
    num_threads: int  #: threads of this process that run kernels

    def run_batch(self, task: Task, ledger: Ledger) -> None:
        """Compute units until the ledger is complete."""
        ...

    def run_episodes(self, task: Task, kind: str, episodes: int) -> NDArray[np.void]:
        """Evaluate episodes [0, episodes) of a kind; records in episode order."""
        ...

    def map_columns(self, work: Callable[[int, int], None], columns: int, tile: int) -> None:
        """Call work(begin, end) over [0, columns) in pieces that begin at multiples of tile."""
        ...

    def facts(self) -> dict[str, Any]:
        """Counters for the result: deaths, units issued again, nodes, whether all were alike."""
        ...

    def close(self) -> None:
        """Release threads and actors. May be called twice."""
        ...


#: Where each engine is found: "module:class", imported when asked for.
ENGINES: dict[str, str] = {
    "threads": "rollmill.engine:ThreadEngine",
    "ray": "rollmill.cluster.engine:RayEngine",
}


def make_engine(name: str, spec: RolloutSpec, **options: Any) -> Engine:
    """Build an engine by its registered name."""
    if name not in ENGINES:
        raise ValueError(unknown("engine", name, ENGINES))
    module, _, attribute = ENGINES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)(spec, **options)


def default_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def map_columns(
    pool: ThreadPoolExecutor,
    threads: int,
    work: Callable[[int, int], None],
    columns: int,
    tile: int,
) -> None:
    """Call work(begin, end) over [0, columns) in pieces that begin at multiples of tile."""
    tiles = -(-columns // tile)
    share = -(-tiles // threads) * tile
    futures = [
        pool.submit(work, begin, min(begin + share, columns)) for begin in range(0, columns, share)
    ]
    for future in futures:
        future.result()


class ThreadEngine:
    """Threads of this process over kernels that hold no interpreter lock.

    Environments that the interpreter steps take one of them, since more would wait for the lock.

    Parameters
    ----------
    spec : RolloutSpec
    num_threads : int, optional
        Default: the processors that this process may use.
    table : bool
        Keep the noise in a table, 4*noise_size bytes; otherwise it is generated. Equal bits.
    """

    name = "threads"
    num_workers = 0

    def __init__(self, spec: RolloutSpec, num_threads: int | None = None, table: bool = False):
        self.num_threads = default_threads() if num_threads is None else num_threads
        self._closed = False
        self._unit_seconds: float | None = None
        self._stop = np.zeros(1, np.int32)
        self._pool = ThreadPoolExecutor(self.num_threads, thread_name_prefix="rollmill")
        self.table = self._fill_table(spec) if table else None
        self.rollouts = make_rollouts(spec, self.table)
        self.unit_threads = self.num_threads
        if self.rollouts.interpreted and self.num_threads > 1:
            self.unit_threads = 1
            _say_one_thread(spec.env.id)

    def _fill_table(self, spec: RolloutSpec) -> NDArray[np.float32]:
        table = np.empty(spec.noise_size, np.float32)
        noise = Noise(spec.key, spec.noise_size)

        def fill(begin: int, end: int) -> None:
            piece = 1 << 22
            for first in range(begin, end, piece):
                if self._closed:  # interrupted
                    return
                noise.fill(first, out=table[first : min(first + piece, end)])

        try:
            self.map_columns(fill, spec.noise_size, 1 << 20)
        except BaseException:
            self._closed = True
            self._pool.shutdown(cancel_futures=True)
            raise
        table.flags.writeable = False
        return table

    def run_batch(self, task: Task, ledger: Ledger) -> None:
        """Compute units until the ledger is complete."""
        self._stop[0] = 0
        pending: set[Future[Answer]] = set()
        try:
            while not ledger.complete:
                while len(pending) < self.unit_threads and (wanted := ledger.wanted()):
                    idle = self.unit_threads - len(pending)
                    claim = ledger.claim(self._call_units(wanted, idle))
                    if claim is None:
                        break
                    pending.add(self._submit(self._units, task, *claim))
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    answer = future.result()
                    ledger.add(answer)
        finally:
            self._stop[0] = 1  # what is still running is not needed
            wait(pending)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._closed:
            raise RuntimeError(
                "the algorithm was stopped: build it again, or go on from a checkpoint"
            )
        return self._pool.submit(work, *arguments)

    def _units(self, task: Task, first: int, count: int) -> Answer:
        start = time.perf_counter()
        answer = self.rollouts.units(task, first, count, self._stop)
        if answer.units:
            self._unit_seconds = (time.perf_counter() - start) / answer.units
        return answer

    def _call_units(self, wanted: int, idle: int) -> int:
        """Units in the next call: an even share, or what takes CALL_SECONDS if that is less."""
        share = -(-wanted // idle)
        if self._unit_seconds is None:
            return min(share, 1 + share // 4)
        return max(1, min(share, int(CALL_SECONDS / self._unit_seconds)))

    def run_episodes(self, task: Task, kind: str, episodes: int) -> NDArray[np.void]:
        """Evaluate episodes [0, episodes) of a kind; records in episode order."""
        self._stop[0] = 0
        share = -(-episodes // self.unit_threads)
        futures = [
            self._submit(
                self.rollouts.episodes, task, kind, first, min(share, episodes - first), self._stop
            )
            for first in range(0, episodes, share)
        ]
        try:
            return np.concatenate([future.result() for future in futures])
        finally:
            self._stop[0] = 1
            wait(futures)

    def map_columns(self, work: Callable[[int, int], None], columns: int, tile: int) -> None:
        """Call work(begin, end) over [0, columns) in pieces that begin at multiples of tile."""
        map_columns(self._pool, self.num_threads, work, columns, tile)

    def facts(self) -> dict[str, Any]:
        """Nothing can go wrong between threads."""
        return {"num_threads": self.num_threads}

    def close(self) -> None:
        """End the threads, and the environments."""
        self._closed = True
        self._stop[0] = 1
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.rollouts.close()


_said: set[str] = set()


def _say_one_thread(env_id: str) -> None:
    """Say once a process that threads do not help."""
    if "one thread" not in _said:
        _said.add("one thread")
        logger.warning(
            "the interpreter steps %s, so one thread runs it; num_workers uses processes", env_id
        )
