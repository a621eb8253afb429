"""The update: centred ranks, and the weighted sum of noise.

Profiling showed: the sum of table rows is all weighted_rows, which waits for memory; rows in other
numbers at a time, other prefetch distances and other tiles were not faster. Ranks are a sort.

Run: pytest benchmarks/bench_es.py --benchmark-only
"""


def bench_es(benchmark, line):
    """One line of one case of rollmill.bench.es."""
    benchmark(line)
