"""A training run: its directory, its result files, its checkpoints, its end.

The directory of a run holds `progress.csv`, `result.json` and numbered checkpoints. Whatever ends
the run - a stop criterion, Ctrl-C, an error - a checkpoint of the last whole iteration is left.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .algorithms.algorithm import Algorithm
from .checkpoint import checkpoint_name, save_checkpoint
from .results import OutputError, ResultWriter, make_directory, read_results, reason
from .stopping import StopCriteria

#: What shows a result while a run goes on.
Show = Callable[[dict[str, Any]], None]

#: What asks a process to end.
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Seconds from the first signal, and from a second one, to the end of a process that hangs.
PATIENCE, HURRY = 3.0, 1.0

#: Where no number of iterations between checkpoints is asked for, one is written this often.
SAVE_SECONDS = 60.0


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP asked the process to end."""


@dataclass
class Outcome:
    """How a run ended.

    Attributes
    ----------
    directory, checkpoint : str
    result : dict
        Of the last iteration; empty if none was made.
    iterations : int
        Made by this call.
    stopped_by : str
        The criterion that was reached, or "interrupted" or "terminated".
    seconds : float
        Wall time of the loop.
    """

    directory: str
    checkpoint: str
    result: dict[str, Any] = field(default_factory=dict)
    stopped_by: str = ""
    seconds: float = 0.0
    iterations: int = 0


def default_output() -> Path:
    """Where runs go unless told otherwise."""
    return Path.home() / "rollmill_results"


def run_name(algorithm: str, env: str) -> str:
    """Return the default name of a run: the algorithm and the end of the environment's name."""
    end = re.split(r"[/\\]", env)[-1]
    return f"{algorithm}_" + re.sub(r"[^A-Za-z0-9._-]+", "_", end)


def new_run_directory(output: str | os.PathLike[str], name: str) -> str:
    """Create and return output/name, or output/name_2, name_3, ... where that exists.

    Raises ValueError on a name that is a path, OutputError where it cannot be created.
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"name must be the name of a directory, got {name!r}")
    output = Path(output).expanduser().absolute()
    path, number = output, 1
    while True:
        try:
            make_directory(str(output))
            path = output / (name if number == 1 else f"{name}_{number}")
            path.mkdir()
            return str(path)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise OutputError(f"cannot create {path}: {reason(error)}") from None


class Interruptions:
    """The signals that ask the process to end, while `interruptions` is entered.

    Attributes
    ----------
    number : int
        The first signal that came, or 0: some libraries let another exception than ours out.
    rescue : callable or None
        Leaves a checkpoint and returns its path. Called in a thread of its own, holding `lock`,
        where the main thread does not end in time; None where it must not be called.
    """

    def __init__(self) -> None:
        self.number = 0
        self.rescue: Callable[[], str] | None = None
        self.lock = threading.RLock()
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()  # a handler may put
        self._before = {number: signal.getsignal(number) for number in NUMBERS}
        self._watch = threading.Thread(target=self._end_in_time, daemon=True)

    @property
    def terminated(self) -> bool:
        """Whether the first signal was another than SIGINT."""
        return self.number not in (0, signal.SIGINT)

    def arm(self) -> None:
        """Install the handlers, again where a library has put its own there."""
        for number, old in self._before.items():
            if old not in (None, signal.SIG_IGN):
                signal.signal(number, self._handler)
        if self._watch.ident is None:
            self._watch.start()

    def disarm(self) -> None:
        """Put the former handlers back."""
        self._came.put(0)
        _restore(self._before)

    def _handler(self, number: int, _: Any) -> None:
        signal.alarm(0)  # Ray's own handler, in C, aborts the process in 3 s
        first = not self.number
        self.number = self.number or number
        self._came.put(number)
        if first:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    def _end_in_time(self) -> None:
        """End the process where an environment that hangs keeps the main thread from it."""
        if not self._came.get():
            return
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                if not self._came.get(timeout=left):
                    return
                end = min(end, time.monotonic() + HURRY)
        with self.lock:  # not while the main thread saves
            if self.rescue is None:
                return
            word = "terminated" if self.terminated else "interrupted"
            text = f"rollmill: error: {word} while an environment hangs; "
            try:
                text += f"checkpoint: {self.rescue()}"
            except Exception as error:
                text += f"no checkpoint: {reason(error)}"
            with contextlib.suppress(OSError):
                os.write(2, os.fsencode(text + "\n"))
            os._exit(143 if self.terminated else 130)


#: The one that is entered.
_current: Interruptions | None = None


@contextmanager
def interruptions() -> Iterator[Interruptions]:
    """Let the first SIGINT, SIGTERM or SIGHUP raise KeyboardInterrupt or `Terminated`.

    Later ones raise nothing while the block runs, so that nothing interrupts the writing of what
    the first one leaves. Ignored signals stay ignored. For the main thread.
    """
    global _current
    outer, seen = _current, Interruptions()
    try:
        _current = seen
        seen.arm()
        yield seen
    except KeyboardInterrupt:
        if seen.terminated:
            raise Terminated from None
        raise
    except SystemExit as exit_:
        if exit_.code == signal.SIGTERM:  # by Ray's handler
            signal.alarm(0)
            raise Terminated from None
        raise
    finally:
        seen.disarm()
        _current = outer


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Hold those signals off while something is written; the main thread alone can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in NUMBERS}
    try:
        for number, old in before.items():
            if old is not None:
                signal.signal(number, signal.SIG_IGN)
        yield
    finally:
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None:  # one of C cannot be put back
            signal.signal(number, handler)


def run(
    algorithm: Algorithm,
    directory: str,
    stop: StopCriteria | None = None,
    *,
    checkpoint_freq: int = 0,
    progress: AbstractContextManager[Show | None] | None = None,
) -> Outcome:
    """Train until a criterion is reached, and leave results and a checkpoint in a directory.

    Parameters
    ----------
    algorithm : Algorithm
        Stays open; the caller stops it.
    directory : str
        Where they go; made if missing.
    stop : StopCriteria, optional
        Without one only an interruption ends the run. A resumed run that has reached it already
        trains no further.
    checkpoint_freq : int
        Iterations between checkpoints, which are all kept; 0 writes one at the end, and one a
        minute that replaces the last, so that a kill costs no more than that.
    progress : context manager, optional
        Entered before the first iteration; gives a function that is called with each result.

    Returns
    -------
    Outcome
        Also after Ctrl-C and SIGTERM, whose interruption ends here. Results, checkpoint and
        algorithm then stand at the same iteration.
    """
    outcome = Outcome(directory, "")
    first = algorithm.iteration
    state = algorithm.state()
    saved = -1

    seen = _current or Interruptions()

    def path(iteration: int) -> str:
        return os.path.join(directory, checkpoint_name(iteration))

    def save() -> None:
        nonlocal saved
        with seen.lock:
            if saved != algorithm.iteration:
                outcome.checkpoint = str(algorithm.save(path(algorithm.iteration)))
                saved = algorithm.iteration

    def rescue() -> str:
        counters, arrays = state
        iteration = counters["training_iteration"]
        if saved == iteration:
            return outcome.checkpoint
        return str(
            save_checkpoint(
                path(iteration),
                kind=algorithm.name,
                config=algorithm.config.to_dict(),
                counters=counters,
                arrays=arrays,
            )
        )

    start = last = time.perf_counter()
    with ExitStack() as held:
        try:
            try:
                seen.rescue = rescue
                outcome.stopped_by = _reached(stop, _last_result(algorithm, directory))
                with (
                    ResultWriter(directory, resume_from=first or None) as writer,
                    progress or nullcontext() as show,
                ):
                    while not outcome.stopped_by:
                        result = algorithm.train()
                        writer.write(result)
                        state = algorithm.state()
                        if show:
                            show(result)
                        outcome.stopped_by = _reached(stop, result)
                        if checkpoint_freq and algorithm.iteration % checkpoint_freq == 0:
                            save()
                        elif not checkpoint_freq and time.perf_counter() - last > SAVE_SECONDS:
                            before = outcome.checkpoint
                            save()
                            if before:
                                shutil.rmtree(before, ignore_errors=True)
                            last = time.perf_counter()
            finally:  # within the try, so that no signal slips in between
                held.enter_context(signals_ignored())
        except KeyboardInterrupt as interruption:
            held.enter_context(signals_ignored())
            terminated = isinstance(interruption, Terminated) or seen.terminated
            outcome.stopped_by = "terminated" if terminated else "interrupted"
        finally:
            with seen.lock:
                seen.rescue = None
                outcome.seconds = time.perf_counter() - start
                outcome.result = _last_result(algorithm, directory)
                if not outcome.result:  # the last iteration's result was not written
                    algorithm.restore(*state)
                    outcome.result = _last_result(algorithm, directory)
                outcome.iterations = algorithm.iteration - first
                save()
                if not seen.number:  # what follows may hang as well
                    seen.rescue = lambda: outcome.checkpoint
    return outcome


def _last_result(algorithm: Algorithm, directory: str) -> dict[str, Any]:
    """Return the result, as it was written, of the algorithm's last iteration, or {}."""
    rows = read_results(directory) if algorithm.iteration else []
    return next((row for row in rows if row["training_iteration"] == algorithm.iteration), {})


def _reached(stop: StopCriteria | None, result: dict[str, Any]) -> str:
    return (stop.reached(result) if stop and result else None) or ""
