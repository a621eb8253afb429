"""What follows when a process ends in the middle of its work.

A process that ends may have been ended (SIGKILL, out of memory, a lost node) or may have crashed
on one of the items it held. The first kind never costs an item. Items of a crash are tried one at
a time, alone in a process, until the guilty one is known; one that was in three crashes, the last
one alone, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

#: Crashes of processes after which an item is dropped.
CRASHES = 3
#: Deadlines after which a run ends.
DEADLINES = 3
#: Deaths without a known cause after which a run ends.
DEATHS = 10
#: Items that one run may drop.
DROPS = 16


class EnvironmentCrash(RuntimeError):
    """The environment ends the processes that run it, or never returns."""


@dataclass
class Record:
    """What happened to processes that held one item."""

    deaths: int = 0
    crashes: int = 0
    deadlines: int = 0


@dataclass
class Troubles:
    """Records of the items of one run.

    Attributes
    ----------
    alone : list of int
        Items that wait to be tried alone.
    suspects : set of int
        Items that may be computed only alone.
    dropped : list of int
    """

    item: str = "unit"
    alone: list[int] = field(default_factory=list)
    suspects: set[int] = field(default_factory=set)
    dropped: list[int] = field(default_factory=list)
    _records: dict[int, Record] = field(default_factory=dict)

    def death(self, items: Iterable[int]) -> tuple[list[int], list[int]]:
        """A process that held these items ended.

        Returns
        -------
        again, held : list of int
            Items to hand out at once, and items to hold back until `verdict`.
        """
        again: list[int] = []
        held: list[int] = []
        for item in items:
            record = self._record(item)
            record.deaths += 1
            if record.deaths >= DEATHS:
                raise EnvironmentCrash(
                    f"{record.deaths} processes ended while they computed {self.item} {item}, "
                    f"{record.crashes} of them by a crash and the others for no reason that they "
                    f"left behind (_exit, or a limit of memory?)"
                )
            alone = item in self.suspects or record.deaths >= 2
            (held if alone else again).append(item)
        return again, held

    def verdict(self, items: Iterable[int], held: Iterable[int], *, crash: bool) -> list[int]:
        """Whether that end was a crash is known; returns the items to drop.

        Parameters
        ----------
        items, held : iterable of int
            What the process held, and what of it `death` held back.
        crash : bool
            Whether the process crashed by itself.
        """
        items, drop = list(items), []
        if crash:
            self.suspects.update(items)
            for item in items:
                record = self._record(item)
                record.crashes += 1
                if record.crashes >= CRASHES and len(items) == 1 and item not in self.dropped:
                    drop.append(item)
        self.dropped += drop
        if len(self.dropped) > DROPS:
            raise EnvironmentCrash(
                f"the environment crashes: {len(self.dropped)} {self.item}s of one iteration "
                f"ended {CRASHES} processes each"
            )
        for item in held:
            self.suspects.add(item)
            if item not in drop and item not in self.alone:
                self.alone.append(item)
        return drop

    def deadline(self, items: Iterable[int], seconds: float) -> None:
        """A call with these items did not answer in time: they are tried alone."""
        for item in items:
            record = self._record(item)
            record.deadlines += 1
            if record.deadlines >= DEADLINES:
                raise EnvironmentCrash(
                    f"{self.item} {item} did not answer within its deadline of {seconds:g} s in "
                    f"{record.deadlines} processes"
                )
            self.suspects.add(item)
            if item not in self.alone:
                self.alone.append(item)

    def _record(self, item: int) -> Record:
        return self._records.setdefault(item, Record())
