"""Lines of the benchmarks, and the summary: each group's ratios and spreads.

The cases are those of `rollmill bench` (`rollmill.bench`). ROLLMILL_BENCH=full, quick (default) or
tiny says how large the tables are; pytest-benchmark's options say how long is measured.
"""

import os
from collections import defaultdict

import pytest
from rollmill import _isa
from rollmill.bench import PLANS, Setup, cases
from rollmill.timing import one_core

OURS, FLOOR = "rollmill", "floor"


def pytest_generate_tests(metafunc):
    """`line` is our own line, each peer's, and the floor's, of all cases of the file's subject."""
    if "line" in metafunc.fixturenames:
        subject = metafunc.module.__name__.removeprefix("bench_")
        found = [
            pytest.param((case, key), id=f"{case.name}-{key}")
            for case in cases(subject)
            for key in (OURS, *case.peers, *([FLOOR] if case.floor else []))
        ]
        metafunc.parametrize("line", found, indirect=True)


@pytest.fixture(scope="session")
def setup():
    """The noise table and the machine's floors."""
    name = os.environ.get("ROLLMILL_BENCH", "quick")
    if name not in PLANS:
        pytest.exit(f"ROLLMILL_BENCH must be one of {', '.join(PLANS)}, got {name!r}", 2)
    return Setup(PLANS[name])


@pytest.fixture(scope="session")
def prepared(setup):
    """Prepare a case; only the last one is kept."""
    last = {}

    def prepare(case):
        if case.name not in last:
            last.clear()
            last[case.name] = case.lines(setup)
        return last[case.name]

    return prepare


@pytest.fixture
def line(request, benchmark, prepared):
    """What is timed, on one core, in the group of its case."""
    case, key = request.param
    lines = prepared(case)
    probe = {OURS: lines.ours, FLOOR: lines.floor, **lines.peers}[key]
    describe(benchmark, f"{case.name}: {case.summary}", key, probe.work, case.unit)
    benchmark.extra_info["bytes"] = lines.bytes
    with one_core():
        yield probe.run


def describe(benchmark, group, key, work, unit, threads=1):
    """Say what a line is."""
    benchmark.group = group
    benchmark.extra_info.update(
        line=key, work=work, unit=unit, isa=_isa.isa_name(), bytes=0, threads=threads
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    """Print each group's ratios: how many times as fast as the line, by medians, and spreads."""
    session = getattr(config, "_benchmarksession", None)
    groups = defaultdict(dict)
    for bench in session.benchmarks if session else ():
        if bench.stats.rounds and "line" in bench.extra_info:
            groups[bench.group][bench.extra_info["line"]] = bench
    if not groups:
        return
    terminalreporter.section("ratios (spread: interquartile range over median)")
    for group, found in groups.items():
        if OURS not in found:
            continue
        ours = found.pop(OURS)
        terminalreporter.write_line(f"{group}: {spread(ours)}")
        for key, peer in found.items():
            ratio = rate(ours) / rate(peer)
            text = f"{100 * ratio:.0f} % of" if key == FLOOR else f"{ratio:.2f} times"
            terminalreporter.write_line(f"    {text} {key} ({spread(peer)})")


def rate(bench):
    """Work a second."""
    return bench.extra_info["work"] / bench.stats.median


def spread(bench):
    """Relative interquartile range, in words."""
    return f"spread {100 * bench.stats.iqr / bench.stats.median:.1f} %"
