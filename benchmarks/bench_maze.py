"""Vectors of mazes: a step of 1024.

Profiling showed: the maze's own step and the books of the vector (limits, resets, returns) take
equal parts; through Gymnasium's interface a third of the time goes to the five arrays that it
returns.

Run: pytest benchmarks/bench_maze.py --benchmark-only
"""


def bench_maze(benchmark, line):
    """One line of one case of rollmill.bench.maze."""
    benchmark(line)
