"""Runs to compare: what the tests of engines share."""

import os
import subprocess

import numpy as np
import rollmill
from rollmill.batch import Ledger
from rollmill.envs.native import env_spec
from rollmill.rollouts import Rollouts, RolloutSpec, Task


def compile_library(source, folder):
    """A shared library of environments, compiled as any user of the headers would."""
    library = folder / f"{source.stem}.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-O2", "-fPIC", "-shared", "-std=gnu11", "-ffp-contract=off"]
    command = [*compiler, *flags, f"-I{rollmill.get_include()}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def make_spec(library, symbol, **options):
    defaults = {
        "hiddens": (16,), "activation": "tanh", "key": 7, "noise_size": 1 << 16, "unit_pairs": 2,
        "observation_filter": "MeanStdFilter",
    }  # fmt: skip
    return RolloutSpec(env=env_spec(f"{library}:{symbol}"), **{**defaults, **options})


def make_task(spec, iteration=0):
    size = Rollouts(spec).policy.num_params
    theta = np.random.default_rng(iteration).standard_normal(size) * 0.3
    return Task(iteration, theta.astype(np.float32), 0.2)


def run(engine, task, spec, episodes, steps=0, ledger_class=Ledger):
    ledger = ledger_class(task.iteration, spec.unit_pairs, episodes, steps)
    engine.run_batch(task, ledger)
    return ledger


def bits(ledger):
    batch = ledger.batch()
    stats = b"" if batch.stats is None else batch.stats.tobytes()
    return batch.units, batch.pairs.tobytes(), stats
