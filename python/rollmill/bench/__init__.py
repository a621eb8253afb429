"""Benchmarks: figures of today beside a peer's and the machine's floor, measured in one run.

`run` measures; the cases of a subject are in a module of its name, the peers in `peers`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from rollmill.names import unknown
from rollmill.timing import one_core

from .cases import PLANS, Case, Lines, Plan, Result, Setup, run_case

__all__ = ["PLANS", "SUBJECTS", "Case", "Lines", "Plan", "Result", "Setup", "cases", "run",
           "select"]  # fmt: skip

#: Families of cases. "train" is no Case: whole runs are timed there.
SUBJECTS = ("noise", "policy", "rollout", "es", "optim", "maze", "train")
TRAIN = "train"


def cases(subject: str | None = None) -> list[Case]:
    """Return the cases of one subject, or of all."""
    subjects = [subject] if subject else [name for name in SUBJECTS if name != TRAIN]
    return [
        case for name in subjects for case in importlib.import_module(f".{name}", __name__).CASES
    ]


def select(only: Iterable[str] | None = None) -> list[str]:
    """Return the names of the cases that `only` names, by case or subject; all without it.

    Raises ValueError on an unknown name, with the nearest one.
    """
    by_subject = {subject: [case.name for case in cases(subject)] for subject in SUBJECTS[:-1]}
    by_subject[TRAIN] = [TRAIN]
    every = [name for names in by_subject.values() for name in names]
    if only is None:
        return every
    chosen: set[str] = set()
    for name in only:
        if name not in by_subject and name not in every:
            raise ValueError(unknown("benchmark", name, [*by_subject, *every]))
        chosen.update(by_subject.get(name, []) if name in by_subject else [name])
    return [name for name in every if name in chosen]


def run(
    setup: Setup, only: Iterable[str] | None = None, show: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """Measure.

    All but the training runs are held to one processor, and BLAS to one thread.

    Parameters
    ----------
    setup : Setup
        What to share; its plan says how long. `setup.machine` has the floors afterwards.
    only : iterable of str, optional
        Names of cases or subjects.
    show : callable
        Takes a line of progress before each case.
    """
    names = select(only)
    found = {case.name: case for case in cases()}
    results: list[Result] = []
    show("the machine's floors")
    assert setup.machine  # before this thread is held to one processor
    with one_core():
        for k, name in enumerate(names):
            if name != TRAIN:
                show(f"{name} ({k + 1} of {len(names)})")
                results += run_case(found[name], setup)
    if TRAIN in names:
        from .train import run_train

        show(f"{TRAIN} ({len(names)} of {len(names)})")
        results += run_train(setup)
    return results
