"""A training run: its directory, its result files, its checkpoints, its end.

The directory of a run holds `progress.csv`, `result.json` and numbered checkpoints. Whatever ends
the run - a stop criterion, Ctrl-C, an error - a checkpoint of the last whole iteration is left.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .algorithms.algorithm import Algorithm
from .checkpoint import checkpoint_name
from .results import OutputError, ResultWriter, make_directory, read_results, reason
from .stopping import StopCriteria

#: What shows a result while a run goes on.
Show = Callable[[dict[str, Any]], None]


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


@contextmanager
def interruptions() -> Iterator[None]:
    """Let the first SIGINT, SIGTERM or SIGHUP raise KeyboardInterrupt or `Terminated`.

    Later ones are ignored while the block runs, so that nothing interrupts the writing of what
    the first one leaves. Ignored signals stay ignored. For the main thread.
    """
    armed = True

    def handler(number: int, _: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            if before[number] != signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Hold SIGINT and SIGTERM off while something is written; the main thread alone can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN)
              for number in (signal.SIGINT, signal.SIGTERM)}  # fmt: skip
    try:
        yield
    finally:
        for number, handler in before.items():
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
        Iterations between checkpoints; 0 writes one at the end alone.
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

    def save() -> None:
        nonlocal saved
        if saved != algorithm.iteration:
            path = os.path.join(directory, checkpoint_name(algorithm.iteration))
            outcome.checkpoint = str(algorithm.save(path))
            saved = algorithm.iteration

    start = time.perf_counter()
    try:
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
    except KeyboardInterrupt as interruption:
        outcome.stopped_by = "terminated" if isinstance(interruption, Terminated) else "interrupted"
    finally:
        with signals_ignored():
            outcome.seconds = time.perf_counter() - start
            outcome.result = _last_result(algorithm, directory)
            if not outcome.result:  # the last iteration's result was not written
                algorithm.restore(*state)
                outcome.result = _last_result(algorithm, directory)
            outcome.iterations = algorithm.iteration - first
            save()
    return outcome


def _last_result(algorithm: Algorithm, directory: str) -> dict[str, Any]:
    """Return the result, as it was written, of the algorithm's last iteration, or {}."""
    rows = read_results(directory) if algorithm.iteration else []
    return next((row for row in rows if row["training_iteration"] == algorithm.iteration), {})


def _reached(stop: StopCriteria | None, result: dict[str, Any]) -> str:
    return (stop.reached(result) if stop and result else None) or ""
