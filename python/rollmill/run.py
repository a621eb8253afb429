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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .algorithms.algorithm import Algorithm
from .checkpoint import checkpoint_name, save_checkpoint
from .results import OutputError, ResultWriter, make_directory, reason
from .stopping import StopCriteria


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end."""


@dataclass
class Outcome:
    """How a run ended.

    Attributes
    ----------
    directory, checkpoint : str
    result : dict
        Of the last iteration; empty if none was made.
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
    """Create and return output/name, or output/name_2, name_3, ... where a run lies there.

    Raises ValueError on a name that is a path, OutputError where it cannot be created.
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"name must be the name of a directory, got {name!r}")
    make_directory(str(output))
    number = 1
    while True:
        path = Path(output) / (name if number == 1 else f"{name}_{number}")
        try:
            path.mkdir()
            return str(path.absolute())
        except FileExistsError:
            if path.is_dir() and not any(path.iterdir()):
                return str(path.absolute())
            number += 1
        except OSError as error:
            raise OutputError(f"cannot create {path}: {reason(error)}") from None


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Turn SIGTERM into `Terminated` in the main thread while the block runs."""

    def handler(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    on_result: Callable[[dict[str, Any]], None] | None = None,
) -> Outcome:
    """Train until a criterion is reached, and leave results and a checkpoint in a directory.

    Parameters
    ----------
    algorithm : Algorithm
        Left open: the caller stops it.
    directory : str
    stop : StopCriteria, optional
        Without one only an interruption ends the run.
    checkpoint_freq : int
        Iterations between checkpoints; 0 writes one at the end alone.
    on_result : callable, optional
        Called with each iteration's result.

    Returns
    -------
    Outcome
        Also after Ctrl-C and SIGTERM, whose interruption ends here.
    """
    outcome = Outcome(directory, "")
    state = algorithm.state()
    saved = -1

    def save() -> None:
        nonlocal saved
        iteration = state[0]["training_iteration"]
        if saved != iteration:
            path = os.path.join(directory, checkpoint_name(iteration))
            counters, arrays = state
            config = algorithm.config.to_dict()
            outcome.checkpoint = str(
                save_checkpoint(
                    path, kind=algorithm.name, config=config, counters=counters, arrays=arrays
                )
            )
            saved = iteration

    start = time.perf_counter()
    try:
        with ResultWriter(directory, resume_from=algorithm.iteration or None) as writer:
            while True:
                result = algorithm.train()
                writer.write(result)
                state = algorithm.state()
                outcome.result = result
                outcome.iterations += 1
                if on_result:
                    on_result(result)
                reached = stop.reached(result) if stop else None
                if reached:
                    outcome.stopped_by = reached
                    break
                if checkpoint_freq and algorithm.iteration % checkpoint_freq == 0:
                    save()
    except KeyboardInterrupt as interruption:
        outcome.stopped_by = (
            "terminated" if isinstance(interruption, Terminated) else "interrupted"
        )
    finally:
        with signals_ignored():
            outcome.seconds = time.perf_counter() - start
            save()
    return outcome
