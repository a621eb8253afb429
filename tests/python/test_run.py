"""Runs: their directories, their results, their checkpoints, and going on from one."""

import csv
import json
import os
import re
import shutil
import signal
import threading
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from drifting import drift_config, train
from rollmill import Algorithm, ESConfig, load_checkpoint
from rollmill.checkpoint import CheckpointError, save_checkpoint
from rollmill.results import OutputError, read_results
from rollmill.run import (
    NUMBERS,
    Terminated,
    interruptions,
    new_run_directory,
    run,
    run_name,
    signals_ignored,
)
from rollmill.stopping import StopCriteria


def until(iteration):
    return StopCriteria({"training_iteration": iteration})


@pytest.fixture(scope="module")
def ten(drift_library):
    return train(drift_config(drift_library), 10)


# Going on.


@pytest.mark.parametrize(
    ("options", "place"),
    [({}, {}), ({"num_threads": 1}, {"num_threads": 3}),
     ({"noise_storage": "table"}, {"noise_storage": "generated", "num_threads": 2}),
     ({"noise_storage": "generated"}, {"noise_storage": "table"})],
)  # fmt: skip
def test_ten_iterations_are_five_and_five(drift_library, tmp_path, ten, options, place):
    with drift_config(drift_library, **options).build() as algo:
        for _ in range(5):
            algo.train()
        checkpoint = algo.save(tmp_path / "c")
    with Algorithm.from_checkpoint(checkpoint, **place) as algo:
        assert algo.parameters_sha256 == ten[0][4]
        results = [algo.train() for _ in range(5)]
        assert algo.parameters_sha256 == ten[0][9]
        counters = algo.state()[0]
    for name in counters.keys() - {"time_total_s"}:
        assert counters[name] == ten[2][name], name
    for result, expected in zip(results, ten[1][5:], strict=True):
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            if not re.search("time_|time/|steps_per_second|discarded", name):
                assert result[name] == value, name


@pytest.mark.parametrize(
    "options",
    [{"optimizer": "sgd", "momentum": 0.8}, {"observation_filter": "NoFilter"},
     {"sample_actions": True, "gamma": 0.9}, {"eval_prob": 0}, {"max_episode_steps": 20},
     {"seed": 2**70}, {"update_blas": "reference"}],
)  # fmt: skip
def test_every_kind_of_config_goes_on(drift_library, tmp_path, options):
    config = drift_config(drift_library, **options)
    hashes = train(config, 4)[0]
    with config.build() as algo:
        algo.train()
        algo.train()
        algo.save(tmp_path / "c")
    with Algorithm.from_checkpoint(tmp_path / "c", num_threads=2) as algo:
        algo.train()
        algo.train()
        assert algo.parameters_sha256 == hashes[3]
    assert len(set(hashes)) == 4


def test_the_maze_goes_on(tmp_path):
    config = ESConfig(seed=2, num_threads=1, episodes_per_batch=256)
    hashes = train(config, 3)[0]
    with config.build() as algo:
        algo.train()
        algo.save(tmp_path / "c")
    with Algorithm.from_checkpoint(tmp_path / "c") as algo:
        algo.train()
        algo.train()
        assert algo.parameters_sha256 == hashes[2]


def test_a_checkpoint_holds_all_that_a_run_goes_on_with(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:
        for _ in range(3):
            algo.train()
        checkpoint = load_checkpoint(algo.save(tmp_path / "c"))
        assert checkpoint.kind == "ES"
        assert checkpoint.config == json.loads(json.dumps(algo.config.to_dict()))
        assert checkpoint.counters == {
            "training_iteration": 3,
            "optimizer_steps": 3,
            "timesteps_total": algo.timesteps_total,
            "episodes_total": algo.episodes_total,
            "pairs_dropped": 0,
            "tied_iterations": 0,
            "time_total_s": algo.time_total_s,
            "best_iteration": algo.best_iteration,
            "best_fitness": algo.best_fitness,
            "reproducible": True,
            "rewards": algo.rewards,
        }
        arrays = {
            "theta": algo.policy.theta,
            "best_theta": algo.best_theta,
            "stats": algo.stats,
            "best_stats": algo.best_stats,
            "optimizer/m": algo.optimizer.m,
            "optimizer/v": algo.optimizer.v,
        }
        assert checkpoint.arrays.keys() == arrays.keys()
        for name, array in arrays.items():
            assert np.array_equal(checkpoint.arrays[name], array), name
            assert np.any(array), name


def test_saving_changes_nothing(drift_library, tmp_path, ten):
    with drift_config(drift_library).build() as algo:
        for i in range(3):
            algo.train()
            algo.save(tmp_path / f"c{i}")
        assert algo.parameters_sha256 == ten[0][2]


def test_a_checkpoint_keeps_its_numbers_while_training_goes_on(drift_library):
    with drift_config(drift_library).build() as algo:
        algo.train()
        counters, arrays = algo.state()
        kept = {name: array.copy() for name, array in arrays.items()}
        told = json.dumps(counters)
        algo.train()
        assert json.dumps(counters) == told
        assert all(np.array_equal(arrays[name], kept[name]) for name in kept)


def test_save_makes_a_place_of_its_own(drift_library, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with ESConfig(num_threads=1).build() as algo:
        path = str(algo.save())
        assert path == str(tmp_path / "rollmill_results/ES_Maze-v0/checkpoint_000000")
    with drift_config(drift_library).build() as algo:
        assert str(algo.save()).endswith("/rollmill_results/ES_drift.so_drift/checkpoint_000000")


def test_only_the_place_may_change(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:
        algo.save(tmp_path / "c")
    with pytest.raises(ValueError, match='unknown option "stepsize"'):
        Algorithm.from_checkpoint(tmp_path / "c", stepsize=1)
    with pytest.raises(ValueError, match='Did you mean "num_threads"'):
        Algorithm.from_checkpoint(tmp_path / "c", num_thread=1)
    with pytest.raises(ValueError, match="num_threads must be"):
        Algorithm.from_checkpoint(tmp_path / "c", num_threads=0)


# Checkpoints that cannot be used.


def damaged(path, how):
    document = path / "checkpoint.json"
    if how == "no arrays":
        os.unlink(path / "arrays.safetensors")
    elif how == "truncated":
        os.truncate(path / "arrays.safetensors", 100)
    elif how == "flipped":
        data = bytearray((path / "arrays.safetensors").read_bytes())
        data[-5] ^= 1
        (path / "arrays.safetensors").write_bytes(data)
    elif how == "no document":
        document.unlink()
    elif how == "edited":
        document.write_text(document.read_text().replace('"seed": 11', '"seed": 12'))
    elif how == "empty":
        document.write_text("")


@pytest.mark.parametrize(
    "how", ["no arrays", "truncated", "flipped", "no document", "edited", "empty"]
)
def test_a_damaged_checkpoint_is_refused(drift_library, tmp_path, how):
    path = tmp_path / "c"
    with drift_config(drift_library).build() as algo:
        algo.save(path)
    damaged(path, how)
    with pytest.raises(CheckpointError) as caught:
        Algorithm.from_checkpoint(path)
    assert "\n" not in str(caught.value)


def altered(path, target, **changes):
    checkpoint = load_checkpoint(path)
    parts = {
        "kind": checkpoint.kind,
        "config": checkpoint.config,
        "counters": checkpoint.counters,
        "arrays": checkpoint.arrays,
    }
    return save_checkpoint(target, **{**parts, **changes})


def test_a_checkpoint_of_something_else_is_refused(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:
        path = algo.save(tmp_path / "c")
    whole = load_checkpoint(path)
    other = altered(path, tmp_path / "kind", kind="DQN")
    with pytest.raises(CheckpointError, match='unknown algorithm "DQN"'):
        Algorithm.from_checkpoint(other)
    short = {**whole.arrays, "theta": whole.arrays["theta"][:-1]}
    with pytest.raises(CheckpointError, match=r"theta.*must have shape"):
        Algorithm.from_checkpoint(altered(path, tmp_path / "short", arrays=short))
    wide = {**whole.arrays, "stats": whole.arrays["stats"].astype(np.float32)}
    with pytest.raises(CheckpointError, match=r"stats.*must be float64"):
        Algorithm.from_checkpoint(altered(path, tmp_path / "wide", arrays=wide))
    arrays = {name: a for name, a in whole.arrays.items() if name != "optimizer/m"}
    with pytest.raises(CheckpointError, match="optimizer/m"):
        Algorithm.from_checkpoint(altered(path, tmp_path / "few", arrays=arrays))
    counters = {"training_iteration": 3}
    with pytest.raises(CheckpointError, match="lacks best_fitness, best_iteration"):
        Algorithm.from_checkpoint(altered(path, tmp_path / "counters", counters=counters))
    config = {**whole.config, "learning": 1}
    with pytest.raises(ValueError, match='unknown option "learning"'):
        Algorithm.from_checkpoint(altered(path, tmp_path / "config", config=config))


def test_an_environment_library_that_is_gone(drift_library, tmp_path):
    library = tmp_path / "gone.so"
    shutil.copy(drift_library, library)
    with drift_config(library).build() as algo:
        path = algo.save(tmp_path / "c")
    library.unlink()
    with pytest.raises(FileNotFoundError, match=r"no environment library '.*gone.so'"):
        Algorithm.from_checkpoint(path)


def test_a_relative_library_is_found_from_elsewhere(drift_library, tmp_path, monkeypatch):
    shutil.copy(drift_library, tmp_path / "here.so")
    monkeypatch.chdir(tmp_path)
    with drift_config("./here.so").build() as algo:
        path = algo.save("c").path
    monkeypatch.chdir("/")
    Algorithm.from_checkpoint(path).stop()


# Runs.


def test_a_run_leaves_results_and_a_checkpoint(drift_library, tmp_path, ten):
    told = []
    with drift_config(drift_library).build() as algo:
        outcome = run(
            algo, str(tmp_path), until(3), checkpoint_freq=2, progress=nullcontext(told.append)
        )
        assert outcome.iterations == 3
        assert outcome.result == told[-1]
        assert len(told) == 3
        assert outcome.checkpoint == str(tmp_path / "checkpoint_000003")
        assert outcome.stopped_by.startswith("training_iteration is 3")
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint_000002", "checkpoint_000003", "progress.csv", "result.json",
    ]  # fmt: skip
    assert [r["training_iteration"] for r in read_results(tmp_path)] == [1, 2, 3]
    with Algorithm.from_checkpoint(outcome.checkpoint) as algo:
        assert algo.parameters_sha256 == ten[0][2]


def test_a_resumed_run_holds_each_iteration_once(drift_library, tmp_path, ten):
    with drift_config(drift_library).build() as algo:
        run(algo, str(tmp_path), until(6), checkpoint_freq=4)
    with Algorithm.from_checkpoint(tmp_path / "checkpoint_000004") as algo:
        outcome = run(algo, str(tmp_path), until(10))
        assert algo.parameters_sha256 == ten[0][9]
    assert outcome.iterations == 6
    rows = read_results(tmp_path)
    assert [row["training_iteration"] for row in rows] == list(range(1, 11))
    with open(tmp_path / "progress.csv") as file:
        table = list(csv.DictReader(file))
    assert [int(row["training_iteration"]) for row in table] == list(range(1, 11))
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert len(lines) == 10
    for name in ("timesteps_total", "episodes_total", "episode_reward_mean"):
        assert [row[name] for row in rows] == [r[name] for r in ten[1]]


def test_a_run_that_has_reached_its_end_trains_no_further(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:
        run(algo, str(tmp_path), until(3))
    with Algorithm.from_checkpoint(tmp_path / "checkpoint_000003") as algo:
        outcome = run(algo, str(tmp_path), until(2))
        assert algo.iteration == 3
    assert outcome.iterations == 0
    assert outcome.stopped_by.startswith("training_iteration is 3")
    assert outcome.result["training_iteration"] == 3
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000003")
    assert len(read_results(tmp_path)) == 3


class Nuisance:
    """Raises at the n-th result."""

    def __init__(self, error, at):
        self.error, self.at = error, at

    def __call__(self, result):
        if result["training_iteration"] == self.at:
            raise self.error


@pytest.mark.parametrize(
    ("error", "word"), [(KeyboardInterrupt, "interrupted"), (Terminated, "terminated")]
)
def test_an_interrupted_run_leaves_a_checkpoint(drift_library, tmp_path, ten, error, word):
    with drift_config(drift_library).build() as algo:
        outcome = run(algo, str(tmp_path), until(9), progress=nullcontext(Nuisance(error, 4)))
        assert outcome.stopped_by == word
        assert algo.parameters_sha256 == ten[0][3]
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000004")
    with Algorithm.from_checkpoint(outcome.checkpoint) as algo:
        run(algo, str(tmp_path), until(10))
        assert algo.parameters_sha256 == ten[0][9]


def test_an_error_leaves_a_checkpoint_and_comes_out(drift_library, tmp_path, ten):
    with drift_config(drift_library).build() as algo, pytest.raises(ZeroDivisionError):
        run(algo, str(tmp_path), progress=nullcontext(Nuisance(ZeroDivisionError, 2)))
    with Algorithm.from_checkpoint(tmp_path / "checkpoint_000002") as algo:
        assert algo.parameters_sha256 == ten[0][1]


def test_an_iteration_whose_result_was_not_written_is_done_again(
    drift_library, tmp_path, ten, monkeypatch
):
    """Interrupted between training and writing: the checkpoint and the results agree."""
    from rollmill import run as module

    write = module.ResultWriter.write

    def interrupted(self, result):
        if result["training_iteration"] == 3:
            raise KeyboardInterrupt
        write(self, result)

    monkeypatch.setattr(module.ResultWriter, "write", interrupted)
    with drift_config(drift_library).build() as algo:
        outcome = run(algo, str(tmp_path), until(9))
        assert algo.iteration == 2
        assert algo.parameters_sha256 == ten[0][1]
    monkeypatch.undo()
    with Algorithm.from_checkpoint(outcome.checkpoint) as algo:
        run(algo, str(tmp_path), until(5))
        assert algo.parameters_sha256 == ten[0][4]
    assert [r["training_iteration"] for r in read_results(tmp_path)] == [1, 2, 3, 4, 5]


def test_interrupted_between_a_result_and_what_follows(drift_library, tmp_path, ten, monkeypatch):
    """The result was written: the iteration counts."""
    with drift_config(drift_library).build() as algo:
        state = algo.state

        def interrupted():
            if algo.iteration == 2 and len(read_results(tmp_path)) == 2:
                algo.state = state
                raise KeyboardInterrupt
            return state()

        algo.state = interrupted
        outcome = run(algo, str(tmp_path), until(9))
        assert outcome.iterations == algo.iteration == outcome.result["training_iteration"] == 2
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000002")
    with Algorithm.from_checkpoint(outcome.checkpoint) as algo:
        assert algo.parameters_sha256 == ten[0][1]


@contextmanager
def interrupting():
    raise KeyboardInterrupt
    yield


def test_interrupted_before_the_first_iteration(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:
        outcome = run(algo, str(tmp_path), progress=interrupting())
    assert outcome.stopped_by == "interrupted"
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000000")


def test_a_run_without_results_leaves_the_first_checkpoint(drift_library, tmp_path):
    with drift_config(drift_library).build() as algo:

        def interrupt(*_):
            raise KeyboardInterrupt

        algo.engine.run_batch = interrupt
        outcome = run(algo, str(tmp_path))
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000000")
    assert outcome.result == {}


def test_a_run_in_another_thread(drift_library, tmp_path):
    outcomes = []
    with drift_config(drift_library).build() as algo:
        thread = threading.Thread(
            target=lambda: outcomes.append(run(algo, str(tmp_path), until(2)))
        )
        thread.start()
        thread.join()
    assert outcomes[0].iterations == 2


# Signals.


def test_the_first_signal_interrupts_and_later_ones_do_not():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated),
                          (signal.SIGHUP, Terminated)):  # fmt: skip
        with interruptions():
            with pytest.raises(KeyboardInterrupt) as caught:
                signal.raise_signal(number)
            assert caught.type is error
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_ignored_signals_stay_ignored():
    """As those of a command under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptions():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_held_off_while_something_is_written():
    with interruptions():
        before = [signal.getsignal(n) for n in NUMBERS]
        with signals_ignored():
            for number in NUMBERS:
                signal.raise_signal(number)
        assert [signal.getsignal(n) for n in NUMBERS] == before


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_during_the_last_save_does_no_harm(drift_library, tmp_path, number):
    with drift_config(drift_library).build() as algo, interruptions():
        save = algo.save

        def interrupted(path):
            signal.raise_signal(number)
            return save(path)

        algo.save = interrupted
        outcome = run(algo, str(tmp_path), until(1))
    Algorithm.from_checkpoint(outcome.checkpoint).stop()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_between_the_last_iteration_and_the_save(
    drift_library, tmp_path, number, monkeypatch
):
    from rollmill import run as module

    def interrupted():
        signal.raise_signal(number)
        return signals_ignored()

    with drift_config(drift_library).build() as algo, interruptions():
        monkeypatch.setattr(module, "signals_ignored", interrupted)
        outcome = run(algo, str(tmp_path), until(1))
    assert outcome.stopped_by == ("interrupted" if number == signal.SIGINT else "terminated")
    Algorithm.from_checkpoint(outcome.checkpoint).stop()


def test_what_a_library_makes_of_a_signal_is_undone(drift_library, tmp_path):
    """Ray lets a plain KeyboardInterrupt out, and installs a handler that exits."""

    def by_ray(_):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    with drift_config(drift_library).build() as algo, interruptions():
        outcome = run(algo, str(tmp_path), until(9), progress=nullcontext(by_ray))
    assert outcome.stopped_by == "terminated"
    with pytest.raises(Terminated), interruptions():
        by_ray(None)
    with pytest.raises(Terminated), interruptions():
        raise SystemExit(int(signal.SIGTERM))
    with interruptions() as seen:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        seen.arm()
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)


# Directories.


def test_runs_never_share_a_directory(tmp_path):
    names = [os.path.basename(new_run_directory(tmp_path / "a/b", "x")) for _ in range(3)]
    assert names == ["x", "x_2", "x_3"]
    (tmp_path / "a/b/x_4").write_text("a file")
    assert new_run_directory(tmp_path / "a/b", "x").endswith("/x_5")


def test_a_tilde_is_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert new_run_directory("~/runs", "x") == str(tmp_path / "runs/x")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b"])
def test_a_name_is_no_path(tmp_path, name):
    with pytest.raises(ValueError, match="name must be the name of a directory"):
        new_run_directory(tmp_path, name)
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file/below", "/proc/nothing"):
        with pytest.raises(OutputError, match="cannot create"):
            new_run_directory(output, "x")
    with pytest.raises(OutputError, match="too long"):
        new_run_directory(tmp_path, "x" * 300)


@pytest.mark.parametrize(
    ("env", "name"),
    [("rollmill/Maze-v0", "ES_Maze-v0"), ("/a/b/lib.so:drift", "ES_lib.so_drift"),
     ("x y?z", "ES_x_y_z"), ("a\\b", "ES_b")],
)  # fmt: skip
def test_the_name_of_a_run(env, name):
    assert run_name("ES", env) == name


def test_a_checkpoint_now_and_then_replaces_the_last(drift_library, tmp_path, monkeypatch):
    monkeypatch.setattr("rollmill.run.SAVE_SECONDS", -1.0)
    seen = []

    def show(_):
        seen.append(sorted(p.name for p in tmp_path.iterdir() if p.is_dir()))

    with drift_config(drift_library).build() as algo:
        outcome = run(algo, str(tmp_path), until(4), progress=nullcontext(show))
        hashes = algo.parameters_sha256
    assert seen == [[], *([f"checkpoint_{i:06d}"] for i in (1, 2, 3))]
    assert outcome.checkpoint == str(tmp_path / "checkpoint_000004")
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == ["checkpoint_000004"]
    with Algorithm.from_checkpoint(outcome.checkpoint) as algo:
        assert algo.parameters_sha256 == hashes
