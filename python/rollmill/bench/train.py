"""The default training run: its time, its rate, and where its time goes.

An interval begins before a nogil kernel is called and ends when it has returned, on whichever
thread; the share of a kind is the length of the union of its intervals over the wall time of
`train()`. Threads that wait for each other count only while one of them is inside a kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollmill.algorithms import ES, ESConfig
from rollmill.presets import find_preset
from rollmill.stopping import StopCriteria
from rollmill.timing import spread

from . import peers
from .cases import Result, Setup

#: Kinds of kernel time.
KINDS = ("units", "update", "evaluation")
#: Pairs of a small iteration.
FEW_PAIRS = 64

Interval = tuple[float, float]


@dataclass(frozen=True)
class Run:
    """One training run from its first iteration to the preset's stop.

    Attributes
    ----------
    seconds : float
        Wall time of its iterations.
    shares : dict
        By kind, and for all together: share of `seconds` inside nogil kernels.
    parts : dict
        By kind: share of `seconds` by the trainer's own clock, the interpreter included.
    solved : bool
        The arg-max policy walks the 8 steps.
    """

    seed: int
    threads: int
    iterations: int
    steps: int
    seconds: float
    build_seconds: float
    shares: dict[str, float]
    parts: dict[str, float]
    solved: bool

    @property
    def rate(self) -> float:
        """Environment steps a second."""
        return self.steps / self.seconds


class Timed:
    """Stands before an object and keeps the intervals of calls of some of its methods."""

    def __init__(self, target: Any, intervals: dict[str, list[Interval]]):
        self._target = target
        for method, found in intervals.items():
            setattr(self, method, timed(getattr(target, method), found))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def timed(call: Callable[..., Any], intervals: list[Interval]) -> Callable[..., Any]:
    """Return `call` with its intervals kept."""

    def wrapper(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = call(*args, **options)
        intervals.append((start, time.perf_counter()))
        return result

    return wrapper


def covered(intervals: list[Interval]) -> float:
    """Length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def watch(algorithm: ES) -> dict[str, list[Interval]]:
    """Keep the intervals that a trainer on threads spends inside kernels."""
    found: dict[str, list[Interval]] = {kind: [] for kind in KINDS}
    engine: Any = algorithm.engine
    engine.rollouts.kernel = Timed(
        engine.rollouts.kernel, {"eval_units": found["units"], "eval_episodes": found["evaluation"]}
    )
    map_columns = engine.map_columns

    def map_timed(work: Callable[[int, int], None], columns: int, tile: int) -> None:
        map_columns(timed(work, found["update"]), columns, tile)

    engine.map_columns = map_timed
    algorithm.optimizer = Timed(algorithm.optimizer, {"update": found["update"]})
    return found


def default_pairs() -> int:
    """Pairs in an iteration of the default run."""
    return find_preset("ES", "rollmill/Maze-v0").config["episodes_per_batch"] // 2


def train(seed: int, num_threads: int | None = None, pairs: int | None = None) -> Run:
    """Train the default policy on the default maze until the preset's stop.

    `pairs` in an iteration, where it is given, instead of the preset's.
    """
    stop = StopCriteria(find_preset("ES", "rollmill/Maze-v0").stop)
    started = time.perf_counter()
    parts = dict.fromkeys(KINDS, 0.0)
    config = ESConfig().debugging(seed=seed).resources(num_threads=num_threads)
    if pairs is not None:
        config.training(episodes_per_batch=2 * pairs)
    with config.build() as algorithm:
        found = watch(algorithm)
        start = time.perf_counter()
        while True:
            result = algorithm.train()
            for kind in KINDS:
                parts[kind] += result[f"time/{kind}_s"]
            if stop.reached(result):
                break
        seconds = time.perf_counter() - start
        threads = algorithm.engine.num_threads
    shares = {kind: covered(found[kind]) / seconds for kind in KINDS}
    shares["together"] = covered([i for kind in KINDS for i in found[kind]]) / seconds
    return Run(
        seed=seed,
        threads=threads,
        iterations=result["training_iteration"],
        steps=result["timesteps_total"],
        seconds=seconds,
        build_seconds=start - started,
        shares=shares,
        parts={kind: value / seconds for kind, value in parts.items()},
        solved=result["evaluation_len_max"] == 8,
    )


def numpy_run(seed: int, pairs: int) -> tuple[float, int, bool]:
    """Train by the NumPy loop; returns (seconds, steps, solved)."""
    start = time.perf_counter()
    _, steps, solved = peers.train_es(seed, pairs)
    return time.perf_counter() - start, steps, solved


def run_train(setup: Setup) -> list[Result]:
    """Train with several seeds, the NumPy loop in turns with ours.

    With the preset's pairs, on all threads and on one; then with few pairs, which is how little
    work an iteration can be: there the interpreter takes its largest share.
    """
    many = FEW_PAIRS if setup.plan.name == "tiny" else default_pairs()
    kinds: dict[str, dict[str, Any]] = {
        "": {},
        "_1_thread": {"num_threads": 1},
        "_few_pairs": {"num_threads": 1, "pairs": FEW_PAIRS},
    }
    train(0)  # warm
    runs: dict[str, list[Run]] = {suffix: [] for suffix in kinds}
    numpy_runs: dict[int, list[tuple[float, int, bool]]] = {many: [], FEW_PAIRS: []}
    for seed in range(setup.plan.seeds):
        for suffix, options in kinds.items():
            runs[suffix].append(train(seed, **options))
        numpy_runs[FEW_PAIRS].append(numpy_run(seed, FEW_PAIRS))
        if seed < setup.plan.peer_seeds and many != FEW_PAIRS:
            numpy_runs[many].append(numpy_run(seed, many))
    setup.details["train"] = {
        "runs": {suffix.strip("_") or "default": [vars(run) for run in some]
                 for suffix, some in runs.items()},
        "numpy_runs": {
            pairs: [{"seconds": a, "steps": b, "solved": c} for a, b, c in some]
            for pairs, some in numpy_runs.items()
        },
    }  # fmt: skip
    results = []
    for suffix, some in runs.items():
        pairs = FEW_PAIRS if "pairs" in kinds[suffix] else many
        peer = f"NumPy loop, {pairs} pairs, {peers.LOCKSTEP} members in lockstep"
        seconds = [taken for taken, _, _ in numpy_runs[pairs]]
        rates = [steps / taken * 1e-6 for taken, steps, _ in numpy_runs[pairs]]
        results.append(_result(f"train_time{suffix}", "s to 8 steps", [run.seconds for run in some],
                               peer, seconds, lower=True))  # fmt: skip
        results.append(_result(f"train_rate{suffix}", "M steps/s",
                               [run.rate * 1e-6 for run in some], peer, rates))  # fmt: skip
        for kind in (*KINDS, "together"):
            shares = [100 * run.shares[kind] for run in some]
            results.append(_result(f"train_share_{kind}{suffix}", "% of wall time", shares))
    return results


def _result(
    name: str,
    unit: str,
    ours: list[float],
    peer: str | None = None,
    theirs: list[float] | None = None,
    lower: bool = False,
) -> Result:
    value = float(np.median(ours))
    peer_value = float(np.median(theirs)) if theirs else None
    ratio = None
    if peer_value is not None:
        ratio = peer_value / value if lower else value / peer_value
    return Result(
        name=name,
        value=value,
        unit=unit,
        peer=peer,
        peer_value=peer_value,
        ratio=ratio,
        floor=None,
        floor_ratio=None,
        spread=spread(ours),
        peer_spread=spread(theirs) if theirs else None,
    )


def text(setup: Setup) -> list[str]:
    """Return what the figures say, in sentences; nothing where no run was made."""
    details = setup.details.get("train")
    if not details:
        return []
    lines = []
    for kind, runs in details["runs"].items():
        part = {k: 100 * np.median([run["shares"][k] for run in runs]) for k in runs[0]["shares"]}
        own = {k: 100 * np.median([run["parts"][k] for run in runs]) for k in runs[0]["parts"]}
        lines.append(
            f"training run, {kind.replace('_', ' ')}: {runs[0]['threads']} threads, {len(runs)} "
            f"seeds, {sum(run['solved'] for run in runs)} walk the 8 steps; "
            f"{part['together']:.1f} % of the wall time inside nogil kernels "
            f"(units {part['units']:.1f} %, update {part['update']:.1f} %, evaluation "
            f"{part['evaluation']:.1f} %); by the trainer's clock units {own['units']:.1f} %, "
            f"update {own['update']:.1f} %, evaluation {own['evaluation']:.1f} %"
        )
    return lines
