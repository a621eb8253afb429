"""Adam, in cache and from memory, and ClipUp.

Profiling showed: a step of 6084 parameters spends half of its time on the call from Python. From
memory it is bound by bandwidth.

Run: pytest benchmarks/bench_optim.py --benchmark-only
"""


def bench_optim(benchmark, line):
    """One line of one case of rollmill.bench.optim."""
    benchmark(line)
