"""Noise: normals in cache, perturbations from the table and generated.

Profiling (perf record -e cpu-clock, perf annotate) showed: a generated normal spends about half of
its time on integers, mostly the multiplications of Philox's ten rounds, and half on Box-Muller.
The floor counts the arithmetic of Box-Muller alone, so it is out of reach. Of a generated
perturbation nine tenths are normals. One from the table waits for memory: its row begins where no
hardware prefetcher expects it.

Run: pytest benchmarks/bench_noise.py --benchmark-only
"""


def bench_noise(benchmark, line):
    """One line of one case of rollmill.bench.noise."""
    benchmark(line)
