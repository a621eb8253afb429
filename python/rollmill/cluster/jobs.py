"""What a run of the engine has to get done: the units of a batch, or evaluation episodes."""

from __future__ import annotations

import heapq
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rollmill._rollout import EPISODE_DTYPE, PAIR_DTYPE
from rollmill.batch import Ledger
from rollmill.rollouts import Answer

#: rml_status of an environment that failed; see rollmill/status.h.
ENVIRONMENT_FAILED = -5


class Job(Protocol):
    """Items [0, ...) that are handed out, may be lost, and arrive in any order."""

    kind: str  #: as `UnitWorker.run` takes it
    reissued: int  #: items handed out again

    @property
    def complete(self) -> bool:
        """Whether everything needed has arrived."""
        ...

    def wanted(self) -> int:
        """How many items should be handed out now."""
        ...

    def claim(self, most: int) -> tuple[int, int] | None:
        """Take consecutive items: (first, count) with count <= most, or None."""
        ...

    def requeue(self, first: int, count: int) -> None:
        """Hand items out again."""
        ...

    def has(self, item: int) -> bool:
        """Whether the item has arrived."""
        ...

    def add(self, piece: Any, source: str) -> int:
        """Take a piece of a reply; returns how many items it held."""
        ...

    def drop(self, item: int) -> None:
        """Give up an item whose evaluation crashes: it arrives as failed."""
        ...


class UnitJob:
    """The units of a ledger.

    Parameters
    ----------
    ledger : Ledger
    stats_size : int
        Length of a unit's observation statistics; 0 without a filter.
    """

    kind = "units"

    def __init__(self, ledger: Ledger, stats_size: int):
        self.ledger = ledger
        self.stats_size = stats_size
        self.wanted = ledger.wanted
        self.claim = ledger.claim
        self.requeue = ledger.requeue
        self.has = ledger.has

    @property
    def complete(self) -> bool:
        """Whether the batch is whole."""
        return self.ledger.complete

    @property
    def reissued(self) -> int:
        """Units handed out again."""
        return self.ledger.reissued

    @reissued.setter
    def reissued(self, value: int) -> None:
        self.ledger.reissued = value

    def add(self, piece: Answer, source: str) -> int:
        """Take an answer."""
        self.ledger.add(piece)
        return piece.units

    def drop(self, item: int) -> None:
        """Give every pair of the unit as failed: no steps, no return, no observations."""
        pairs = np.zeros(self.ledger.pairs_of(item), PAIR_DTYPE)
        pairs["pair"] = item * self.ledger.unit_pairs + np.arange(len(pairs))
        pairs["status"] = ENVIRONMENT_FAILED
        stats = np.zeros((1, self.stats_size)) if self.stats_size else None
        self.ledger.add(Answer(self.ledger.iteration, item, 1, pairs, stats, "dropped", 0.0))


class EpisodeJob:
    """Evaluation episodes [0, episodes) of a kind."""

    def __init__(self, kind: str, episodes: int):
        self.kind = kind
        self.reissued = 0
        self.records: NDArray[np.void] = np.zeros(episodes, EPISODE_DTYPE)
        self._arrived = np.zeros(episodes, bool)
        self._missing = episodes
        self._next = 0
        self._again: list[int] = []

    @property
    def complete(self) -> bool:
        """Whether every episode has arrived."""
        return not self._missing

    def wanted(self) -> int:
        """Episodes not handed out, or to hand out again."""
        return len(self._again) + len(self.records) - self._next

    def claim(self, most: int) -> tuple[int, int] | None:
        """Take consecutive episodes: (first, count) with count <= most, or None."""
        if self._again:
            first, count = heapq.heappop(self._again), 1
            while self._again and count < most and self._again[0] == first + count:
                heapq.heappop(self._again)
                count += 1
            self.reissued += count
            return first, count
        first, count = self._next, min(most, len(self.records) - self._next)
        self._next += count
        return (first, count) if count > 0 else None

    def requeue(self, first: int, count: int) -> None:
        """Hand episodes out again that were lost."""
        for item in range(first, first + count):
            if not self._arrived[item] and item not in self._again:
                heapq.heappush(self._again, item)

    def has(self, item: int) -> bool:
        """Whether the episode has arrived."""
        return bool(self._arrived[item])

    def add(self, piece: tuple[int, NDArray[np.void]], source: str) -> int:
        """Take records that begin at an episode."""
        first, records = piece
        where = slice(first, first + len(records))
        self.records[where] = records
        self._missing -= int(np.count_nonzero(~self._arrived[where]))
        self._arrived[where] = True
        self._again = [item for item in self._again if not self._arrived[item]]
        heapq.heapify(self._again)
        return len(records)

    def drop(self, item: int) -> None:
        """Give the episode as failed."""
        record = np.zeros(1, EPISODE_DTYPE)
        record["episode"], record["status"] = item, ENVIRONMENT_FAILED
        self.add((item, record), "dropped")
