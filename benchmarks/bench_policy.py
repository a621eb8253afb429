"""Networks: a batch of observations through one set of parameters.

Profiling showed: three quarters of the time in dense, one fifth in tanh. Rows go through in twos,
as rollouts need it, whose members have parameters of their own; NumPy's product takes all rows at
once and reads the weights once, so its lead over plain loops is larger here than in rollouts.

Run: pytest benchmarks/bench_policy.py --benchmark-only
"""


def bench_policy(benchmark, line):
    """One line of one case of rollmill.bench.policy."""
    benchmark(line)
