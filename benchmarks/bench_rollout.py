"""Rollouts: work units of the default run.

Profiling showed: of a step more than half is dense, most of that its 64x64 layer, where five loads
for four vectors of weights are the bound; a fifth is tanh, which waits for its division; sampling
adds a tenth. The maze and the books of the episode take under a tenth.

Run: pytest benchmarks/bench_rollout.py --benchmark-only
"""


def bench_rollout(benchmark, line):
    """One line of one case of rollmill.bench.rollout."""
    benchmark(line)
