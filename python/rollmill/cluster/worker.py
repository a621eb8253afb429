"""What runs in a Ray actor: threads over units. A plain class; `fleet` lifts it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from rollmill.gymnasium_rollouts import GymnasiumRollouts
from rollmill.rollouts import Answer, Rollouts, RolloutSpec, Task, make_rollouts

from . import marker
from .preflight import Description, describe, library_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A call is cut into this many pieces for each thread.
PIECES = 2


@dataclass(frozen=True)
class Reply:
    """What a call gives.

    Attributes
    ----------
    pieces : tuple
        `Answer` for units; (first, records) for episodes. Fewer than asked for if cancelled.
    seconds : float
        Thread time, the sum over the pieces.
    trouble : str or None
        The first exception that an environment raised in this process.
    """

    pieces: tuple[Any, ...]
    seconds: float
    trouble: str | None = None


class UnitWorker:
    """Evaluates calls in threads of one process.

    Parameters
    ----------
    name : str
        Hexadecimal digits that name this process among all.
    slots : int
        Threads.
    """

    def __init__(self, name: str, slots: int):
        self.slots = slots
        self.rollouts: Rollouts | GymnasiumRollouts | None = None
        self._marker = marker.Marker(name)
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="rollmill")
        self._lock = threading.Lock()
        self._epoch = -1
        self._stop = np.ones(1, np.int32)

    def preflight(self, predecessor: str | None = None) -> tuple[Description, str | None]:
        """Describe this process, and say how the one it replaces ended (see `marker.read`)."""
        return describe(), None if predecessor is None else marker.read(predecessor)

    def configure(self, spec: RolloutSpec, table: NDArray[np.float32] | None = None) -> str | None:
        """Build the environment and the policy; returns the hash of the environment's library."""
        self.rollouts = make_rollouts(spec, table)
        if isinstance(self.rollouts, GymnasiumRollouts):
            self.rollouts.warns = False  # replies carry the trouble to the driver
        threadpool_limits(1)
        return library_digest(spec.env)

    def run(self, epoch: int, task: Task, kind: str, first: int, count: int) -> Reply:
        """Evaluate units (kind "units") or episodes of a kind, [first, first + count).

        A call of a later epoch, or `cancel`, ends those of earlier ones.
        """
        stop = self._stop_of(epoch)
        share = -(-count // (PIECES * self.slots))
        last = first + count
        futures = [
            self._pool.submit(self._piece, task, kind, begin, min(share, last - begin), stop)
            for begin in range(first, last, share)
        ]
        found = [future.result() for future in futures]
        return Reply(
            tuple(piece for piece, size, _ in found if size),
            sum(seconds for *_, seconds in found),
            self.rollouts.trouble if self.rollouts is not None else None,
        )

    def _piece(
        self, task: Task, kind: str, first: int, count: int, stop: NDArray[np.int32]
    ) -> tuple[Answer | tuple[int, NDArray[np.void]], int, float]:
        assert self.rollouts is not None, "configure comes first"
        start = time.perf_counter()
        if kind == "units":
            answer = self.rollouts.units(task, first, count, stop)
            return answer, answer.units, time.perf_counter() - start
        records = self.rollouts.episodes(task, kind, first, count, stop)
        return (first, records), len(records), time.perf_counter() - start

    def _stop_of(self, epoch: int) -> NDArray[np.int32]:
        with self._lock:
            if epoch > self._epoch:
                self._stop[0] = 1
                self._epoch, self._stop = epoch, np.zeros(1, np.int32)
            return self._stop if epoch == self._epoch else np.ones(1, np.int32)

    def cancel(self, epoch: int) -> None:
        """End the calls of that epoch and of those before it, also of those yet to begin."""
        with self._lock:
            if epoch >= self._epoch:
                self._epoch = epoch
                self._stop[0] = 1

    def ping(self) -> int:
        """Answer, so that the driver knows that it can be reached."""
        return self.slots

    def leave(self) -> None:
        """Tidy up before the end."""
        self.cancel(self._epoch)
        if self.rollouts is not None:
            self.rollouts.close()
        self._marker.remove()
