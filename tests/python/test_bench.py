"""`rollmill bench`: its shape, its errors, and that its peers do the same work as we do."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rollmill import _es, _optim, _policy, bench, timing
from rollmill.bench import peers, rollout, train
from rollmill.cli import main
from rollmill.machine import buffer_bytes, cache_bytes, measure_machine
from rollmill.rollouts import Task

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KEYS = {"name", "value", "unit", "peer", "peer_value", "ratio", "floor", "floor_ratio", "spread"}


@pytest.fixture(scope="module")
def tiny():
    """All results at sizes that say nothing about speed."""
    setup = bench.Setup(bench.PLANS["tiny"])
    return bench.run(setup), setup


def test_results_are_complete_and_finite(tiny):
    results, _ = tiny
    names = [result.name for result in results]
    assert len(set(names)) == len(names)
    for result in map(dataclasses.asdict, results):
        assert result.keys() >= KEYS
        assert result["unit"]
        for key in ("value", "peer_value", "ratio", "floor", "floor_ratio", "cpu_value"):
            if result[key] is not None:
                assert math.isfinite(result[key])
                assert result[key] > 0
        assert math.isfinite(result["spread"])
        assert result["spread"] >= 0
        assert (result["peer"] is None) == (result["ratio"] is None)
        assert (result["floor"] is None) == (result["floor_ratio"] is None)


def test_ratio_is_how_many_times_as_fast(tiny):
    for result in tiny[0]:
        if result.ratio is not None:
            lower = result.unit.startswith(("ns", "s "))
            above, below = result.value, result.peer_value
            expected = below / above if lower else above / below
            assert result.ratio == pytest.approx(expected)


def test_every_case_gives_a_result(tiny):
    names = {result.name for result in tiny[0]}
    assert names >= {case.name for case in bench.cases()}
    assert {"train_time", "train_rate", "train_share_units", "train_share_together"} <= names


def test_shares_of_kernel_time_fit_in_the_wall_time(tiny):
    for run in tiny[1].details["train"]["runs"]["default"]:
        parts = [run["shares"][kind] for kind in train.KINDS]
        assert 0 < max(parts) <= run["shares"]["together"] <= 1
        assert run["shares"]["together"] <= sum(parts) * (1 + 1e-9)


def test_command_line_prints_one_json_object(capsys):
    arguments = ["bench", "--tiny", "--json", "--repeats", "2", "--only", "ranks", "optim"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    names = [result["name"] for result in found["results"]]
    assert names == ["ranks", "adam", "adam_memory", "clipup"]
    assert found["machine"]["read_gb_per_s"] > 0
    assert found["machine"]["flops_gflop_per_s"] > 0
    assert found["plan"]["repeats"] == 2


def test_command_line_prints_a_table(capsys):
    assert main(["bench", "--tiny", "--only", "normals"]) == 0
    out = capsys.readouterr().out
    assert "normals_vs_philox" in out
    assert "GB/s" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "update_tabel"], 'Did you mean "update_table"?'),
        (["--only", "rollouts"], 'unknown benchmark "rollouts"'),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--repeats", "x"], "--repeats"),
        (["--quik"], 'Did you mean "--quick"?'),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, words, capsys):
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert not captured.out


def test_select_takes_cases_and_subjects_in_the_order_of_the_run():
    assert bench.select(["ranks", "noise"]) == [
        "normals", "perturb_table", "perturb_generated", "ranks"
    ]  # fmt: skip
    assert bench.select(["train"]) == ["train"]
    assert len(bench.select()) == len(bench.cases()) + 1


def test_timing_counts_calls_and_work():
    calls = []
    probe = timing.Probe("append", lambda: calls.append(1), 3.0)
    (found,) = timing.measure([probe], repeats=4, seconds=0.0001)
    assert found.wall_r.shape == found.cpu_r.shape == (4,)
    assert len(calls) > 4 * found.calls
    assert found.rate == pytest.approx(3.0 / np.median(found.wall_r))


def test_spread_is_interquartile_range_over_median():
    assert timing.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert timing.spread([7.0]) == 0


def test_one_core_restores_the_affinity():
    before = os.sched_getaffinity(0)
    with timing.one_core() as processor:
        assert os.sched_getaffinity(0) == {processor}
    assert os.sched_getaffinity(0) == before


def test_union_of_intervals():
    assert train.covered([]) == 0
    assert train.covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.0)]) == 4


def test_machine_leaves_the_buffer_as_it_is():
    buffer = np.linspace(-1, 1, 4096, dtype=np.float32)
    buffer.flags.writeable = False
    machine = measure_machine(buffer, repeats=1, seconds=0.0001).to_dict()
    assert machine["buffer_bytes"] == buffer.nbytes
    json.dumps(machine)


def test_too_little_memory_is_said(monkeypatch):
    monkeypatch.setattr("rollmill.machine._free_bytes", lambda: 1 << 20)
    with pytest.raises(MemoryError, match="free memory"):
        buffer_bytes(64 * cache_bytes())


def test_peer_networks_walk_as_ours_do():
    rollouts = rollout.unit_rollouts(3, sample=False)
    theta = rollouts.policy.kernel.init(3)
    answer = rollouts.units(Task(0, theta, rollout.STDEV), 0, 96, np.zeros(1, np.int32))
    members = np.concatenate(
        [
            np.stack(peers.perturb(rollouts.table[i : i + theta.size], theta, rollout.STDEV))
            for i in answer.pairs["noise_index"].tolist()
        ]
    )
    rng = np.random.default_rng(0)
    lengths = answer.pairs["length"].ravel()
    assert len(set(lengths)) > 1
    together = peers.episodes(members, rollout.WIDTHS, False, rng)
    np.testing.assert_array_equal(np.abs(together), lengths)
    np.testing.assert_array_equal(together > 0, answer.pairs["return"].ravel() > 0)
    some = [*np.flatnonzero(lengths < 100)[:5], *np.flatnonzero(lengths == 100)[:5]]
    alone = [peers.episode(members[i], rollout.WIDTHS, False, rng)[1] for i in some]
    np.testing.assert_array_equal(alone, lengths[some])


def test_peer_kernels_compute_what_ours_do():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 50, 101).astype(np.float64)
    np.testing.assert_allclose(peers.ranks(values), _es.centered_ranks(values), atol=1e-6)

    theta, gradient = rng.standard_normal((2, 77), np.float32)
    ours, m, v = theta.copy(), np.zeros(77, np.float32), np.zeros(77, np.float32)
    adam = peers.Adam(77, 0.01)
    for t in (1, 2, 3):
        _optim.adam_step(ours, m, v, gradient, t, 0.01)
        theta = adam.update(theta, gradient)
    np.testing.assert_allclose(theta, ours, rtol=1e-5)

    clipup, v = peers.ClipUp(77, 0.01), np.zeros(77, np.float32)
    for _ in range(5):
        _optim.clipup_step(ours, v, gradient, 0.01, 0.02)
        theta = clipup.update(theta, gradient)
    np.testing.assert_allclose(theta, ours, rtol=1e-5)

    widths = (5, 7, 3)
    network = _policy.Network(widths)
    theta, x = network.init(1), rng.standard_normal((4, 5), np.float32)
    np.testing.assert_allclose(peers.forward(theta, widths, x), network.eval(theta, x=x), atol=1e-5)


def test_numpy_loop_learns_the_maze():
    assert train.numpy_run(0, train.FEW_PAIRS)[2]


def test_benchmarks_run():
    pytest.importorskip("pytest_benchmark")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(BENCHMARKS),
               "--benchmark-disable"]  # fmt: skip
    environment = {**os.environ, "ROLLMILL_BENCH": "tiny", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
