"""The default training run, from its first iteration until the arg-max policy walks the 8 steps.

Each round has another seed. The NumPy loop has the same method, numbers and pairs. Work is one
run; `rollmill bench --only train` also tells steps a second and the share of the time inside
kernels.

Run: pytest benchmarks/bench_train.py --benchmark-only
"""

import itertools

import pytest
from conftest import OURS, describe
from rollmill.bench import train
from rollmill.engine import default_threads


@pytest.mark.parametrize("key", [OURS, "numpy"])
@pytest.mark.parametrize("pairs", [train.FEW_PAIRS, train.default_pairs()])
def bench_train(benchmark, setup, pairs, key):
    """A whole run."""
    if setup.plan.name == "tiny" and pairs != train.FEW_PAIRS:
        pytest.skip("takes seconds")
    seeds = itertools.count()
    run = train.train if key == OURS else train.numpy_run
    threads = default_threads() if key == OURS else 1
    describe(benchmark, f"train: until 8 steps, {pairs} pairs", key, 1, "runs", threads)
    rounds = setup.plan.seeds if key == OURS else setup.plan.peer_seeds
    benchmark.pedantic(
        run, setup=lambda: ((next(seeds),), {"pairs": pairs}), rounds=rounds, warmup_rounds=0
    )
