"""The Ray engine: units in actors, and a driver that owns recovery.

Ray retries nothing here. Whatever dies, hangs or cannot be reached, the driver hands its units out
again; an answer is a function of its unit, so it does not matter who gives it, or how often.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

from rollmill.batch import Ledger
from rollmill.engine import CALL_SECONDS, default_threads, map_columns
from rollmill.rollouts import RolloutSpec, Task, make_rollouts

from .fleet import Actor, Call, Death, Fleet, is_death, reraise
from .jobs import EpisodeJob, Job, UnitJob
from .session import connect
from .troubles import Troubles

logger = logging.getLogger(__name__)

#: What a call costs the driver, in seconds.
CALL_COST = 0.001
#: A batch should hold so many calls' cost of work for each actor, or threads do better.
WORTH_CALLS = 20
#: A call is late, and is issued twice, after so many times the seconds that it should take.
LATE = 2.0
#: A call is given up after so many times the seconds that it should take, if that is more than
#: the deadline.
HOPELESS = 20.0


class RayEngine:
    """Actors on a Ray cluster, each with threads over kernels that hold no interpreter lock.

    Parameters
    ----------
    spec : RolloutSpec
    num_workers : int
        Slots: processors of the cluster that run units.
    address : str, optional
        "local", "auto", "host:port" or "ray://host:port"; see `session.connect`.
    slots_per_actor : int, optional
        Slots in one process. Default: as many as a node offers, or one where the interpreter steps
        the environment.
    num_threads : int, optional
        Threads of this process, for updates. Default: the processors that it may use.
    table : bool
        Keep a noise table in each node's object store, instead of generating noise.
    deadline_s : float
        Seconds after which a call without an answer costs its process; more where the work is
        known to take long.

    Attributes
    ----------
    num_workers : int
        Slots that were granted.

    Raises
    ------
    ConnectionError, ValueError
        As `session.connect`.
    RuntimeError
        If the cluster has no free processor, no worker starts, or a worker has another build.
    """

    name = "ray"
    table = None

    def __init__(
        self,
        spec: RolloutSpec,
        *,
        num_workers: int,
        address: str | None = None,
        slots_per_actor: int | None = None,
        num_threads: int | None = None,
        table: bool = False,
        deadline_s: float = 600.0,
    ):
        for name, value in (("num_workers", num_workers), ("slots_per_actor", slots_per_actor)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not deadline_s > 0:
            raise ValueError(f"deadline_s must be positive, got {deadline_s}")
        rollouts = make_rollouts(spec)  # refuses a bad spec before anything is started
        self._stats_size = rollouts.stats_size
        if rollouts.interpreted and slots_per_actor is None:
            slots_per_actor = 1  # threads of one process would wait for its interpreter
        self.deadline_s = deadline_s
        self.num_threads = default_threads() if num_threads is None else num_threads
        self._pool = ThreadPoolExecutor(self.num_threads, thread_name_prefix="rollmill")
        self._epoch = 0
        self._item_seconds: dict[str, float] = {}
        self._counts = Counter[str]()
        self._dropped: list[tuple[str, int, int]] = []
        self._warned = self._troubled = self._closed = False
        self._fleet: Fleet | None = None
        self._started = connect(address, num_workers)
        try:
            self._fleet = Fleet(spec, num_workers, slots_per_actor, table)
            self._fleet.wait_for_all()
        except BaseException:
            self.close()
            raise
        self.num_workers = self._fleet.slots

    def run_batch(self, task: Task, ledger: Ledger) -> None:
        """Compute units until the ledger is complete."""
        duplicates, stale = ledger.duplicates, ledger.stale
        seconds, work = self._run(task, UnitJob(ledger, self._stats_size))
        self._counts["duplicates"] += ledger.duplicates - duplicates
        self._counts["stale"] += ledger.stale - stale
        self._advise(seconds, work)

    def run_episodes(self, task: Task, kind: str, episodes: int) -> NDArray[np.void]:
        """Evaluate episodes [0, episodes) of a kind; records in episode order."""
        job = EpisodeJob(kind, episodes)
        self._run(task, job)
        return job.records

    def map_columns(self, work: Any, columns: int, tile: int) -> None:
        """Call work(begin, end) over [0, columns) in pieces that begin at multiples of tile."""
        map_columns(self._pool, self.num_threads, work, columns, tile)

    def facts(self) -> dict[str, Any]:
        """What happened so far, and whether results can depend on where they were computed."""
        fleet = self.fleet
        return {
            "num_workers": self.num_workers,
            "num_threads": self.num_threads,
            **fleet.facts(),
            **{name: self._counts[name] for name in ("reissued", "duplicates", "discarded")},
            "dropped": list(self._dropped),
            "reproducible": fleet.reproducible and not self._dropped,
        }

    def close(self) -> None:
        """End the actors, and Ray if it was started here. May be called twice."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        closed, self._closed = self._closed, True
        try:
            if not closed and self._fleet is not None and ray.is_initialized():
                self._fleet.close()
        finally:
            started, self._started = self._started, False
            if started:
                ray.shutdown()

    @property
    def fleet(self) -> Fleet:
        """The actors."""
        assert self._fleet is not None
        return self._fleet

    # One run: hand out, wait, take in, until the job is complete.

    def _run(self, task: Task, job: Job) -> tuple[float, float]:
        """Returns the seconds it took, and the seconds of work in the replies."""
        if self._closed:
            raise RuntimeError("the engine is closed")
        fleet = self.fleet
        self._epoch += 1
        self._work = 0.0
        troubles = Troubles("unit" if job.kind == "units" else "episode")
        reissued, start = job.reissued, time.perf_counter()
        self._task = ray.put(task)  # the last one's goes with its last call
        try:
            while not job.complete:
                fleet.maintain()
                self._issue(job, troubles)
                for ref in self._wait():
                    if ref in fleet.control:
                        fleet.advance(ref)
                    else:
                        self._take(ref, troubles)
                self._give_up_hung(troubles)
        finally:
            self._end_epoch()
            seconds = time.perf_counter() - start
            self._counts["reissued"] += job.reissued - reissued
            self._dropped += [(job.kind, task.iteration, item) for item in troubles.dropped]
        return seconds, self._work

    def _issue(self, job: Job, troubles: Troubles) -> None:
        ready = self.fleet.ready
        troubles.alone[:] = [item for item in troubles.alone if not job.has(item)]
        if troubles.alone and ready:
            actor = min(ready, key=lambda actor: len(actor.calls))
            ready.remove(actor)  # it takes nothing else, so that it runs empty
            if not actor.calls:
                item = troubles.alone.pop(0)
                job.reissued += 1
                self._send(actor, job, item, 1, alone=True)
        for depth in (0, 1):
            for actor in ready:
                if not actor.free or len(actor.calls) > depth:
                    continue
                claim = job.claim(self._call_items(job, actor))
                if claim is None:
                    break
                self._send_fit(actor, job, troubles, *claim)
        if not job.wanted():
            self._issue_twice(job, [actor for actor in ready if actor.free and not actor.calls])

    def _call_items(self, job: Job, actor: Actor) -> int:
        """Items in the next call: half a fair share of what is left, or CALL_SECONDS' worth."""
        fleet, wanted = self.fleet, job.wanted()
        share = -(-wanted * actor.slots // (2 * fleet.slots))
        seconds = self._item_seconds.get(job.kind)
        if seconds is None:
            return max(1, min(share, actor.slots))
        worth = CALL_SECONDS * actor.slots / seconds
        least = min(-(-wanted // len(fleet.actors)), int(worth / 20))
        return max(1, least, min(share, int(worth)))

    def _send_fit(self, actor: Actor, job: Job, troubles: Troubles, first: int, count: int) -> None:
        """Send items, but for those that may be tried only alone."""
        items = range(first, first + count)
        troubles.alone += [i for i in items if i in troubles.suspects and i not in troubles.alone]
        runs: list[list[int]] = []
        for item in items:
            if item in troubles.suspects:
                continue
            if runs and runs[-1][-1] == item - 1:
                runs[-1].append(item)
            else:
                runs.append([item])
        for run in runs[1:]:
            job.requeue(run[0], len(run))
        if runs:
            self._send(actor, job, runs[0][0], len(runs[0]))

    def _send(self, actor: Actor, job: Job, first: int, count: int, *, alone: bool = False) -> None:
        now = time.monotonic()
        if not actor.calls:
            actor.since = now
        ref = actor.handle.run.remote(self._epoch, self._task, job.kind, first, count)
        actor.calls[ref] = Call(job, self._epoch, first, count, now, alone)

    def _issue_twice(self, job: Job, idle: list[Actor]) -> None:
        """Give idle actors what others hold for too long, the oldest first."""
        calls = [call for actor in self.fleet.actors for call in actor.calls.values()]
        copies = Counter(call.first for call in calls if call.job is job)
        now = time.monotonic()
        late = [
            call for call in calls
            if call.job is job and not call.alone and copies[call.first] == 1
            and not all(job.has(item) for item in call.items)
            and now - call.sent > LATE * max(CALL_SECONDS / 2, self._expected(call))
        ]  # fmt: skip
        late.sort(key=lambda call: call.sent)
        for actor, call in zip(idle, late, strict=False):
            job.reissued += call.count
            self._send(actor, job, call.first, call.count)

    def _expected(self, call: Call) -> float:
        """Seconds that a call should take, with another one before it; 0 if not known."""
        kind = call.job.kind if call.job is not None else "units"
        seconds = self._item_seconds.get(kind)
        slots = min(actor.slots for actor in self.fleet.actors)
        return 0.0 if seconds is None else 2 * call.count * seconds / slots

    def _wait(self) -> list[Any]:
        """References that are ready, after a while that is short where someone is idle."""
        fleet = self.fleet
        calls = [ref for actor in fleet.actors for ref in actor.calls]
        refs = calls + list(fleet.control)
        idle = any(actor.free and not actor.calls for actor in fleet.ready)
        timeout = 0.02 if idle or not calls else 0.2
        if not refs:
            time.sleep(timeout)
            return []
        done, _ = ray.wait(refs, num_returns=1, timeout=timeout)
        if done and len(refs) > 1:
            done, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        return done

    def _take(self, ref: Any, troubles: Troubles) -> None:
        """Take a reply, or what came in its place."""
        actor = next((actor for actor in self.fleet.actors if ref in actor.calls), None)
        if actor is None:
            return  # its process was given up a moment ago
        try:
            reply = ray.get(ref)
        except RayTaskError as error:
            if actor.calls.pop(ref).job is not None:  # else it belongs to a run that is over
                reraise(error, actor)
        except OutOfMemoryError:
            self._lost(actor, troubles, "out of memory")
        except RayActorError as error:
            if is_death(error):
                self._lost(actor, troubles, str(error))
            else:
                self._requeue(actor.calls.pop(ref))
                self.fleet.unreachable(actor)
        except RayError as error:
            self._lost(actor, troubles, f"{type(error).__name__}: {error}", kill=True)
        else:
            call = actor.calls.pop(ref)
            actor.since = time.monotonic()
            assert actor.description is not None
            items = 0
            for piece in reply.pieces:
                if call.job is None:  # its run is over
                    self._counts["discarded"] += 1
                else:
                    items += call.job.add(piece, actor.description.source)
            if call.job is None:
                return
            self._work += reply.seconds
            if reply.trouble and not self._troubled:
                self._troubled = True
                warnings.warn(
                    f"an environment raised, and its pair is dropped: {reply.trouble}", stacklevel=2
                )
            if items:
                known = self._item_seconds.get(call.job.kind)
                new = reply.seconds / items
                self._item_seconds[call.job.kind] = new if known is None else (known + new) / 2
            if items < call.count:
                self._requeue(call)

    # Losses.

    def _items(self, call: Call) -> list[int]:
        """Items of a call that have not arrived and that nobody else computes."""
        if call.job is None:
            return []
        others = {
            item
            for actor in self.fleet.actors
            for other in actor.calls.values()
            if other is not call and other.job is call.job
            for item in other.items
        }
        return [item for item in call.items if item not in others and not call.job.has(item)]

    def _requeue(self, call: Call) -> None:
        for item in self._items(call):
            call.job.requeue(item, 1)

    def _lost(self, actor: Actor, troubles: Troubles, why: str, *, kill: bool = False) -> None:
        """The actor's process ended: hand its items out again, and find out who is to blame."""
        calls = [call for call in actor.calls.values() if call.job is not None]
        actor.calls.clear()
        death = None
        if calls:
            held: list[int] = []
            items = [self._items(call) for call in calls]
            for call, missing in zip(calls, items, strict=True):
                again, back = troubles.death(missing)
                held += back
                for item in again:
                    call.job.requeue(item, 1)
            death = Death(actor.name, why, troubles, calls[0].job, items, held)
        summary = "out of memory" if why == "out of memory" else "it died"
        self.fleet.lose(actor, summary, kill=kill, death=death)

    def _give_up_hung(self, troubles: Troubles) -> None:
        """Replace processes that have not answered for too long."""
        now = time.monotonic()
        for actor in self.fleet.actors:
            if not actor.calls or actor.state != "ready":
                continue
            expected = sum(self._expected(call) for call in actor.calls.values())
            limit = max(self.deadline_s, HOPELESS * expected)
            if now - actor.since <= limit:
                continue
            calls = [call for call in actor.calls.values() if call.job is not None]
            actor.calls.clear()
            self.fleet.lose(actor, f"no answer for {limit:g} s", kill=True)
            for call in calls:
                troubles.deadline(self._items(call), limit)

    def _end_epoch(self) -> None:
        """Tell who still computes for this run that it is over; do not wait for them."""
        for actor in self.fleet.actors:
            calls = [call for call in actor.calls.values() if call.epoch == self._epoch]
            for call in calls:
                call.job, call.alone = None, False
            if calls and actor.handle is not None:
                with suppress(RayError):
                    control = actor.handle.cancel.options(concurrency_group="control")
                    control.remote(self._epoch)

    def _advise(self, seconds: float, work: float) -> None:
        """Say once that threads would be faster, where a batch is smaller than what it costs."""
        bound = WORTH_CALLS * CALL_COST * len(self.fleet.actors)
        if self._warned or self._epoch < 2 or work >= bound:
            return
        self._warned = True
        logger.warning(
            "a batch holds %.1f ms of work and took %.1f ms on Ray: threads would be faster "
            "(num_workers=0)", 1e3 * work, 1e3 * seconds,
        )  # fmt: skip
