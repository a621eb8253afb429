"""The actors of a run: where they are, whether they live, and who takes the place of the dead."""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

import ray
from ray.exceptions import (
    GetTimeoutError,
    RayActorError,
    RayError,
    RaySystemError,
    RayTaskError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rollmill.rollouts import RolloutSpec

from . import noise
from .preflight import Description, describe, library_digest, mismatch
from .slots import plan
from .troubles import Troubles
from .worker import UnitWorker

logger = logging.getLogger(__name__)

#: Calls that an actor has at most; the second begins while the first one's last pieces run.
WINDOW = 2
#: Seconds in which an actor has to be placed, started and found fit.
START_SECONDS = 90.0
#: Actors that may fail to start in a row.
FAILED_STARTS = 3
#: Longest pause between two attempts to reach or replace an actor, in seconds.
LONGEST_PAUSE = 30.0
#: Seconds after which an actor that cannot be reached is replaced.
UNREACHABLE_SECONDS = 60.0

_CONTROL = "control"
_Remote = ray.remote(concurrency_groups={_CONTROL: 1})(UnitWorker)  # type: ignore[call-overload]


@dataclass(eq=False)
class Call:
    """A call in flight."""

    job: Any  # None once its run is over
    epoch: int
    first: int
    count: int
    sent: float
    alone: bool = False

    @property
    def items(self) -> range:
        """What it carries."""
        return range(self.first, self.first + self.count)


@dataclass(eq=False)
class Death:
    """An actor that ended while it computed; what it was is told by its marker."""

    name: str
    text: str
    troubles: Troubles
    job: Any
    calls: list[list[int]]
    held: list[int]


@dataclass(eq=False)
class Actor:
    """A place for an actor, and the process that fills it now."""

    slots: int
    node: str | None
    state: str = "empty"  # empty, starting, ready, unreachable
    handle: Any = None
    name: str = ""
    description: Description | None = None
    calls: dict[Any, Call] = field(default_factory=dict)
    since: float = 0.0  # when it last answered, or was first asked
    due: float = 0.0  # when to fill the empty place, to give up, or to try to reach it
    pause: float = 0.0
    lost_at: float = 0.0
    death: Death | None = None

    @property
    def free(self) -> int:
        """Calls that it can take."""
        if self.state != "ready" or any(call.alone for call in self.calls.values()):
            return 0
        return WINDOW - len(self.calls)


class Fleet:
    """Actors over the free slots of a cluster.

    Parameters
    ----------
    spec : RolloutSpec
    num_workers : int
        Slots to ask for.
    slots_per_actor : int or None
        None: as many as a node offers.
    table : bool
        Keep a noise table on each node.
    """

    def __init__(
        self, spec: RolloutSpec, num_workers: int, slots_per_actor: int | None, table: bool
    ):
        self.spec = spec
        self.here = describe()
        self.library = library_digest(spec.env)
        self.tables = noise.Tables(spec) if table else None
        self.control: dict[Any, tuple[Actor, str]] = {}
        self.seen: dict[str, Description] = {}
        self.counts = dict.fromkeys(("deaths", "crashes", "replaced", "quarantines"), 0)
        self._failed_starts = 0
        self._mixed = False
        self.actors = [
            Actor(slots, node) for node, slots in plan(num_workers, slots_per_actor or num_workers)
        ]
        self._tokens, self._refilled = float(2 + 2 * len(self.actors)), time.monotonic()
        for actor in self.actors:
            self._create(actor)

    @property
    def slots(self) -> int:
        """Slots in all."""
        return sum(actor.slots for actor in self.actors)

    @property
    def ready(self) -> list[Actor]:
        """Actors that take calls."""
        return [actor for actor in self.actors if actor.state == "ready"]

    def wait_for_all(self) -> None:
        """Wait until every actor is fit; go on with those that are once START_SECONDS are over."""
        while any(actor.state in ("starting", "empty") for actor in self.actors):
            if self.control:
                for ref in ray.wait(list(self.control), timeout=0.2)[0]:
                    self.advance(ref)
            else:
                time.sleep(0.02)
            late = [actor for actor in self.actors if actor.state == "empty"]
            if late and self.ready:
                logger.warning("%d of %d actors did not start", len(late), len(self.actors))
                return
            self.maintain()

    def maintain(self) -> None:
        """Fill empty places, give up what does not start, and try to reach who was not there."""
        now = time.monotonic()
        for actor in self.actors:
            if actor.state == "empty" and now >= actor.due and self._token():
                self.counts["replaced"] += actor.name != ""
                self._create(actor)
            elif actor.state == "starting" and now >= actor.due:
                self._failed(actor, f"it was not placed and ready within {START_SECONDS:g} s")
            elif actor.state == "unreachable" and now >= actor.due:
                if now - actor.lost_at > UNREACHABLE_SECONDS:
                    self.lose(actor, "it could not be reached", kill=True)
                elif not any(owner is actor for owner, _ in self.control.values()):
                    ref = actor.handle.ping.options(concurrency_group=_CONTROL).remote()
                    self.control[ref] = (actor, "ping")

    def advance(self, ref: Any) -> None:
        """Take the answer to a control call: the next step of its actor's start, or its return."""
        actor, step = self.control.pop(ref)
        try:
            found = ray.get(ref)
        except RayTaskError as error:
            reraise(error, actor)
        except RayActorError as error:
            if step == "ping" and not is_death(error):
                self._pause(actor)
            elif step == "ping":
                self.lose(actor, str(error))
            else:
                if error.actor_init_failed:
                    raise RuntimeError(
                        f"a worker cannot start on its node: {_last_line(error)}"
                    ) from error
                self._failed(actor, _last_line(error))
            return
        except RayError as error:
            self._failed(actor, _last_line(error))
            return
        if step == "preflight":
            self._met(actor, *found)
        elif step == "configure":
            self._fit(actor, found)
        elif step == "ping":
            actor.state, actor.pause = "ready", 0.0

    def unreachable(self, actor: Actor) -> None:
        """Stop giving an actor work until it answers again."""
        if actor.state == "ready":
            actor.state, actor.lost_at = "unreachable", time.monotonic()
            self.counts["quarantines"] += 1
        self._pause(actor)

    def lose(
        self, actor: Actor, why: str, *, kill: bool = False, death: Death | None = None
    ) -> None:
        """Give up the process of an actor; another takes its place."""
        if actor.state in ("ready", "unreachable"):
            self.counts["deaths"] += 1
            logger.warning("a worker on %s ended (%s); it is replaced", _where(actor), why)
        if kill and actor.handle is not None:
            ray.kill(actor.handle)
        self._forget(actor)
        actor.death = death
        actor.due = time.monotonic()

    def close(self) -> None:
        """End every actor; those that answer tidy up first."""
        ready = [actor for actor in self.actors if actor.state == "ready"]
        refs = [a.handle.leave.options(concurrency_group=_CONTROL).remote() for a in ready]
        try:
            if refs:
                ray.wait(refs, num_returns=len(refs), timeout=0.3)
        finally:
            for actor in self.actors:
                if actor.handle is not None:
                    ray.kill(actor.handle)
                self._forget(actor)
            self.control.clear()
            self.tables = None

    def facts(self) -> dict[str, Any]:
        """Counters of what happened, and whether all processors were alike."""
        return {
            "actors": len(self.actors),
            "nodes": len({actor.node for actor in self.actors}),
            **self.counts,
            "mixed_processors": self._mixed,
        }

    @property
    def reproducible(self) -> bool:
        """Whether differences between processors can have reached a result."""
        ours = all(seen.checksum == self.here.checksum for seen in self.seen.values())
        return ours and not (self._mixed and self.library is not None)

    def _create(self, actor: Actor) -> None:
        strategy: Any = "DEFAULT"
        if actor.node is not None:
            strategy = NodeAffinitySchedulingStrategy(actor.node, soft=True)
        predecessor, actor.name = actor.name or None, secrets.token_hex(8)
        actor.handle = _Remote.options(
            num_cpus=actor.slots,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=WINDOW,
            enable_task_events=False,
            scheduling_strategy=strategy,
        ).remote(actor.name, actor.slots)
        actor.state, actor.due = "starting", time.monotonic() + START_SECONDS
        self.control[actor.handle.preflight.remote(predecessor)] = (actor, "preflight")

    def _met(self, actor: Actor, description: Description, marker: str | None) -> None:
        """Judge a process that has described itself, and hear how its predecessor ended."""
        if actor.death is not None:
            self.verdict(actor.death, marker)
            actor.death = None
        if why := mismatch(self.here, description):
            raise RuntimeError(why)
        actor.description = self.seen[description.source] = description
        self._compare(description)
        table = None if self.tables is None else self.tables.on(actor.node)
        self.control[actor.handle.configure.remote(self.spec, table)] = (actor, "configure")

    def _fit(self, actor: Actor, library: str | None) -> None:
        if library != self.library:
            raise RuntimeError(
                f"{self.spec.env.id!r} on {_where(actor)} has the hash {library}, and on the "
                f"driver's {self.here.host} {self.library}: every node needs the same file"
            )
        actor.state, actor.pause = "ready", 0.0
        self._failed_starts = 0

    def _compare(self, other: Description) -> None:
        alike = (other.processor, other.checksum) == (self.here.processor, self.here.checksum)
        if alike or self._mixed:
            return
        self._mixed = True
        logger.warning(
            "processors differ: %s has %s, the driver %s; %s",
            other.host, other.processor, self.here.processor,
            "results are the same" if self.reproducible else "results may differ in the last bit",
        )  # fmt: skip

    def verdict(self, death: Death, marker: str | None) -> None:
        """Act on what the marker of a dead process says; None if nobody could read it."""
        # Ray ends an actor by SIGTERM through exit: that is no crash.
        crash = bool(marker) and "SIGTERM" not in death.text
        if crash:
            self.counts["crashes"] += 1
            logger.warning("a worker crashed: %s", marker)
        held = set(death.held)
        for items in death.calls:
            mine = [item for item in items if item in held]
            missing = [item for item in items if not death.job.has(item)]
            for item in death.troubles.verdict(missing, set(mine) & set(missing), crash=crash):
                logger.warning(
                    "%s %d ended three processes: it is dropped", death.troubles.item, item
                )
                death.job.drop(item)

    def _failed(self, actor: Actor, why: str) -> None:
        """An actor did not start."""
        self._failed_starts += 1
        if self._failed_starts >= FAILED_STARTS * len(self.actors) and not self.ready:
            raise RuntimeError(f"no worker starts: {why}")
        logger.warning("a worker did not start: %s", why)
        if actor.death is not None:
            self.verdict(actor.death, None)
        ray.kill(actor.handle)
        self._forget(actor)
        actor.node = None  # wherever there is room
        self._pause(actor)

    def _forget(self, actor: Actor) -> None:
        self.control = {ref: x for ref, x in self.control.items() if x[0] is not actor}
        actor.state, actor.handle, actor.death = "empty", None, None
        actor.calls.clear()

    def _pause(self, actor: Actor) -> None:
        actor.pause = min(LONGEST_PAUSE, max(0.5, 2 * actor.pause))
        actor.due = time.monotonic() + actor.pause

    def _token(self) -> bool:
        """Whether another actor may be created now: as many as there are within ten seconds."""
        now = time.monotonic()
        rate = len(self.actors) / 10
        most = 2.0 + 2 * len(self.actors)
        self._tokens = min(most, self._tokens + rate * (now - self._refilled))
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def is_death(error: RayError) -> bool:
    """Whether an error says that the process is gone, and not only out of reach."""
    from ray.exceptions import ActorUnavailableError

    return not isinstance(error, ActorUnavailableError | GetTimeoutError)


def reraise(error: RayTaskError, actor: Actor) -> NoReturn:
    """Raise what a worker's Python raised, as it was there."""
    cause = error.cause
    if isinstance(cause, RaySystemError):  # what was sent could not be unpickled
        raise RuntimeError(f"a worker cannot load what it was sent: {_last_line(error)}") from error
    if not isinstance(cause, Exception) or isinstance(cause, RayError):
        raise error
    cause.add_note(f"raised in the worker on {_where(actor)}")
    raise cause from None


def _where(actor: Actor) -> str:
    return actor.description.source if actor.description else "its node"


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
