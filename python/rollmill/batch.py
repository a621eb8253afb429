"""The batch rule: which units make an iteration, whoever computes them and whenever they arrive.

An iteration's batch is the shortest prefix of whole units, in index order, that reaches both
`min_episodes` and `min_steps`; or exactly a number of pairs that is known ahead, of which the last
unit holds what is left. `Ledger` hands out units to compute, takes answers in any order and
any number of times, and knows when the prefix is whole. It keeps no clock and starts no work.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .rollouts import Answer


@dataclass(frozen=True)
class Batch:
    """A finished batch, in index order.

    Attributes
    ----------
    units : int
    pairs : (P,) records of `rollmill._rollout.PAIR_DTYPE`
    stats : (units, 1 + 2*O) float64 or None
    """

    units: int
    pairs: NDArray[np.void]
    stats: NDArray[np.float64] | None


def _steps(pairs: NDArray[np.void], least: int = 0) -> NDArray[np.int64]:
    """Steps of each pair, with at least `least` for each of its episodes."""
    return np.maximum(pairs["length"], np.uint32(least)).sum(axis=1, dtype=np.int64)


class Ledger:
    """What has been asked for, what has arrived, and whether the batch is whole.

    Parameters
    ----------
    iteration : int
        Answers of any other iteration are refused and counted as stale.
    unit_pairs : int
    min_episodes, min_steps : int
        Both bounds hold for the batch. Dropped pairs count in both: they were run. An episode
        counts as at least one step, so that an environment that always fails ends a batch too.
    steps_per_unit : float, optional
        A guess that decides how much is issued ahead, never what the batch is.
    pairs : int
        If not 0 the batch is these pairs, and the bounds are not used.
    """

    def __init__(
        self,
        iteration: int,
        unit_pairs: int,
        min_episodes: int,
        min_steps: int,
        steps_per_unit: float | None = None,
        pairs: int = 0,
    ):
        if pairs:
            min_episodes, min_steps = 2 * pairs, 0
        self.iteration = iteration
        self.unit_pairs = unit_pairs
        self.pairs = pairs
        self.min_steps = min_steps
        self.min_units = max(1, -(-min_episodes // (2 * unit_pairs)))
        self.length: int | None = None
        self.duplicates = 0  #: units that arrived again
        self.stale = 0  #: units of another iteration that arrived
        self.reissued = 0  #: units handed out again
        self.units_by_source: dict[str, int] = {}  #: first answers by process
        self._guess = steps_per_unit
        self._answers: dict[int, tuple[Answer, int]] = {}
        self._steps: dict[int, tuple[int, int]] = {}  # by unit: steps, and steps for the bound
        self._steps_received = self._counted_received = 0
        self._prefix = 0
        self._prefix_steps = self._prefix_counted = 0
        self._next = 0
        self._again: list[int] = []

    @property
    def complete(self) -> bool:
        """Whether the batch is whole."""
        return self.length is not None

    @property
    def outstanding(self) -> list[int]:
        """Units handed out that have not arrived and are not waiting to be handed out again."""
        waiting = set(self._again)
        return [u for u in range(self._next) if u not in self._answers and u not in waiting]

    def pairs_of(self, unit: int) -> int:
        """How many pairs the unit holds."""
        if not self.pairs:
            return self.unit_pairs
        return min(self.unit_pairs, self.pairs - unit * self.unit_pairs)

    def has(self, unit: int) -> bool:
        """Whether the unit has arrived."""
        return unit in self._answers

    def wanted(self) -> int:
        """How many units should be handed out now; at least 1 while none is on its way."""
        if self.complete:
            return 0
        fresh = max(0, self._target() - self._next)
        if not fresh and not self._again and len(self._answers) == self._next:
            fresh = 1
        return len(self._again) + fresh

    def _target(self) -> int:
        """The guessed length of the batch."""
        if self._answers:
            per_unit = self._counted_received / len(self._answers)
        elif self._guess:
            per_unit = self._guess
        else:
            return self.min_units
        missing = max(0.0, self.min_steps - self._prefix_counted)
        return max(self.min_units, self._prefix + int(np.ceil(missing / max(per_unit, 1.0))))

    def claim(self, most: int) -> tuple[int, int] | None:
        """Take consecutive units to compute: (first, count) with count <= most, or None."""
        if self._again and not self.complete:
            first = heapq.heappop(self._again)
            count = 1
            while self._again and count < most and self._again[0] == first + count:
                heapq.heappop(self._again)
                count += 1
            self.reissued += count
            return first, count
        count = min(most, self.wanted())
        if count <= 0:
            return None
        first = self._next
        self._next += count
        return first, count

    def requeue(self, first: int, count: int) -> None:
        """Hand units out again that were lost, or that are late. The first answer wins."""
        waiting = set(self._again)
        for unit in range(first, first + count):
            if unit not in self._answers and unit not in waiting:
                heapq.heappush(self._again, unit)

    def add(self, answer: Answer) -> int:
        """Take an answer; returns how many of its units were new."""
        if answer.iteration != self.iteration:
            self.stale += answer.units
            return 0
        fresh = 0
        starts = np.arange(0, len(answer.pairs), self.unit_pairs)
        steps_by_unit = np.add.reduceat(_steps(answer.pairs), starts).tolist()
        counted_by_unit = np.add.reduceat(_steps(answer.pairs, least=1), starts).tolist()
        for row in range(answer.units):
            unit = answer.first_unit + row
            if unit in self._answers:
                self.duplicates += 1
                continue
            self._answers[unit] = (answer, row)
            self._steps[unit] = steps_by_unit[row], counted_by_unit[row]
            self._steps_received += steps_by_unit[row]
            self._counted_received += counted_by_unit[row]
            fresh += 1
        if fresh:
            self.units_by_source[answer.source] = self.units_by_source.get(answer.source, 0) + fresh
            self._again = [u for u in self._again if u not in self._answers]
            heapq.heapify(self._again)
        while self.length is None and self._prefix in self._answers:
            steps, counted = self._steps[self._prefix]
            self._prefix_steps += steps
            self._prefix_counted += counted
            self._prefix += 1
            if self._prefix >= self.min_units and self._prefix_counted >= self.min_steps:
                self.length = self._prefix
        return fresh

    @property
    def steps_discarded(self) -> int:
        """Steps of units that arrived and are not in the batch."""
        return self._steps_received - self._prefix_steps

    def batch(self) -> Batch:
        """The whole batch; only once `complete`."""
        assert self.length is not None
        pairs, stats, unit = [], [], 0
        while unit < self.length:
            answer, row = self._answers[unit]
            rows = min(answer.units - row, self.length - unit)
            same = next(
                (k for k in range(1, rows) if self._answers[unit + k][0] is not answer), rows
            )
            pairs.append(answer.pairs[row * self.unit_pairs : (row + same) * self.unit_pairs])
            if answer.stats is not None:
                stats.append(answer.stats[row : row + same])
            unit += same
        return Batch(self.length, np.concatenate(pairs), np.concatenate(stats) if stats else None)
