"""The command line, as a user and as somebody hostile meets it."""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rollmill
from drifting import OPTIONS, drift_config, train
from rollmill import Algorithm, ESConfig
from rollmill._isa import available
from rollmill.checkpoint import newest_checkpoint
from rollmill.cli import main
from rollmill.results import read_results

CONSUMERS = Path(__file__).parents[1] / "consumers"
KEYS = {
    "algorithm", "env", "seed", "engine", "num_workers", "iterations", "timesteps_total",
    "episodes_total", "episode_reward_mean", "episode_len_mean", "time_total_s",
    "steps_per_second", "reproducible", "checkpoint", "parameters_sha256",
}  # fmt: skip
QUICK = ["--config", '{"episodes_per_batch": 16}', "--num-threads", "1", "--seed", "1"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Everything that a command leaves behind."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def as_in_a_shell():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(*arguments, **kwargs):
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    return subprocess.Popen(
        [sys.executable, "-m", "rollmill", *map(str, arguments)],
        text=True, preexec_fn=kwargs.pop("preexec_fn", as_in_a_shell), **kwargs,
    )  # fmt: skip


def finish(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    assert "Traceback" not in err
    return process.returncode, out, err


def command(*arguments, **kwargs):
    return finish(start(*arguments, **kwargs))


@pytest.fixture
def call(capsys):
    """The command in this process; returns (exit code, standard output, standard error)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "internal error" not in err
        return code, out, err

    return run


def last(out):
    return json.loads(out.splitlines()[-1])


# What it is for.


def test_train_solves_the_maze_and_draws_the_way(home):
    code, out, err = command("train", "--seed", "1")
    assert code == 0
    assert "arrives after 8 steps" in out
    assert "reward 1, length 8, over 100 episodes" in out
    picture = [line for line in out.splitlines() if line.startswith("|")]
    assert len(picture) == 5
    assert picture[-1].endswith("|G|")
    assert sum(picture_line.count(c) for picture_line in picture for c in "v<^>") == 8
    run = home / "rollmill_results/ES_Maze-v0"
    assert f"results:     {run}" in out
    rows = read_results(run)
    assert [row["training_iteration"] for row in rows] == list(range(1, len(rows) + 1))
    assert newest_checkpoint(run) == str(run / f"checkpoint_{len(rows):06d}")
    assert (run / "progress.csv").read_text().count("\n") == len(rows) + 1
    assert "training:" in err  # progress is on standard error and nothing else is
    assert "error" not in err
    assert "training" not in out.split("results:")[0]


def test_the_lines_that_the_summary_offers_work(home, call):
    _, out, _ = call("train", *QUICK, "--stop", '{"training_iteration": 2}', "--name", "a b")
    lines = dict(re.findall(r"^(evaluate|go on): +rollmill (.*)$", out, re.MULTILINE))
    code, out, _ = call(*shlex.split(lines["evaluate"]), "--episodes", "3")
    assert code == 0
    assert "best policy" in out
    code, _, _ = call(*shlex.split(lines["go on"]), "--quiet")
    assert code == 0
    rows = read_results(home / "rollmill_results/a b")
    assert [row["training_iteration"] for row in rows] == list(range(1, 13))


def test_json_is_one_object_with_every_key(home, call):
    code, out, _err = call("train", *QUICK, "--stop", '{"training_iteration": 2}', "--json")
    assert code == 0
    assert out.count("\n") == 1
    summary = last(out)
    assert summary.keys() >= KEYS
    assert "NaN" not in out
    assert (summary["algorithm"], summary["env"], summary["seed"]) == ("ES", "rollmill/Maze-v0", 1)
    assert (summary["engine"], summary["num_workers"], summary["iterations"]) == ("threads", 0, 2)
    assert summary["reproducible"] is True
    assert summary["stopped_by"].startswith("training_iteration is 2")
    config = ESConfig(seed=1, num_threads=1, episodes_per_batch=16)
    hashes, results, counters = train(config, 2)
    assert summary["parameters_sha256"] == hashes[-1]
    for name in ("timesteps_total", "episodes_total"):
        assert summary[name] == counters[name] == results[-1][name]
    with Algorithm.from_checkpoint(summary["checkpoint"]) as algo:
        assert algo.parameters_sha256 == hashes[-1]
        best = algo.evaluate_best()
        best_sha256 = algo.best_policy().sha256
    assert summary["episode_reward_mean"] == best["reward_mean"]
    assert summary["episode_len_mean"] == best["len_mean"]

    code, out, _ = call("evaluate", summary["checkpoint"], "--json")
    assert code == 0
    evaluated = last(out)
    assert evaluated.keys() >= KEYS
    assert evaluated["episode_reward_mean"] == best["reward_mean"]
    assert evaluated["parameters_sha256"] == best_sha256
    code, out, _ = call("evaluate", summary["checkpoint"], "--json", "--last")
    assert code == 0
    assert last(out)["parameters_sha256"] == hashes[-1]


def test_quiet_says_nothing_but_results(call):
    code, out, err = call("train", *QUICK, "--quiet", "--stop", '{"training_iteration": 1}')
    assert (code, err) == (0, "")
    assert out.startswith("ES on rollmill/Maze-v0, seed 1, 1 threads")


def test_the_seed_is_drawn_and_reported(call):
    stop = ["--stop", '{"training_iteration": 1}', "--json", "--quiet"]
    seeds = {last(call("train", *QUICK[:-2], *stop)[1])["seed"] for _ in range(2)}
    assert len(seeds) == 2
    seed = seeds.pop()
    twice = [last(call("train", *QUICK[:-1], seed, *stop)[1]) for _ in range(2)]
    assert twice[0]["seed"] == seed
    assert twice[0]["parameters_sha256"] == twice[1]["parameters_sha256"]


def test_an_environment_of_ones_own(drift_library, call):
    options = {k: v for k, v in OPTIONS.items() if k not in ("seed", "num_threads")}
    code, out, err = call(
        "train", "--env", f"{drift_library}:drift", "--config", json.dumps(options),
        "--seed", OPTIONS["seed"], "--num-threads", 2, "--stop", '{"training_iteration": 5}',
        "--json", "--run", "es",
    )  # fmt: skip
    assert code == 0
    assert last(out)["parameters_sha256"] == train(drift_config(drift_library))[0][-1]
    assert last(out)["results"].endswith("/ES_drift.so_drift")
    assert "warning" not in err


def test_flags_go_over_the_config(call):
    config = '{"seed": 5, "num_threads": 2, "env": "nothing", "preset": "none"}'
    stop = '{"training_iteration": 1}'
    code, out, _ = call("train", "--config", config, "--seed", "1", "--num-threads", "1",
                        "--env", "rollmill/Maze-v0", "--preset", "auto", "--stop", stop,
                        "--json")  # fmt: skip
    assert code == 0
    assert (last(out)["seed"], last(out)["num_threads"]) == (1, 1)
    with Algorithm.from_checkpoint(last(out)["checkpoint"]) as algo:
        assert algo.config.sample_actions  # by the preset


def test_old_spellings_of_flags(home, call):
    code, _out, _ = call("train", *QUICK, "--algo", "ES", "--local-dir", "here",
                        "--experiment-name", "x", "-s", '{"training_iteration": 1}')  # fmt: skip
    assert code == 0
    assert (home / "here/x/result.json").is_file()
    code, _, _ = call("train", "--restore", home / "here/x/checkpoint_000001",
                      "-s", '{"training_iteration": 2}')  # fmt: skip
    assert code == 0


def test_a_second_run_takes_a_directory_of_its_own(home, call):
    arguments = ["train", *QUICK, "--stop", '{"training_iteration": 1}', "--name", "x"]
    assert call(*arguments)[0] == 0
    before = {p: p.read_bytes() for p in (home / "rollmill_results/x").rglob("*") if p.is_file()}
    assert call(*arguments)[0] == 0
    assert sorted(os.listdir(home / "rollmill_results")) == ["x", "x_2"]
    assert before == {p: p.read_bytes() for p in before}


def test_checkpoint_freq(home, call):
    call("train", *QUICK, "--stop", '{"training_iteration": 5}', "--checkpoint-freq", "2")
    names = sorted(os.listdir(home / "rollmill_results/ES_Maze-v0"))
    assert names[:3] == ["checkpoint_000002", "checkpoint_000004", "checkpoint_000005"]


def test_evaluate(call):
    summary = last(call("train", *QUICK, "--stop", '{"training_iteration": 3}', "--json")[1])
    for flags in ([], ["--last"]):
        code, out, err = call("evaluate", summary["checkpoint"], "--episodes", "1", *flags)
        assert (code, err) == (0, "")
        assert "standard error" not in out  # of one episode there is none
    assert "last policy (iteration 3)" in out
    assert call("evaluate", summary["checkpoint"], "--num-threads", "3")[0] == 0


def test_evaluating_a_failing_environment(drift_library, tmp_path, call):
    with drift_config(drift_library, "drift_fail").build() as algo:
        algo.save(tmp_path / "c")
    code, out, _ = call("evaluate", tmp_path / "c", "--episodes", "10", "--json")
    assert code == 0
    assert last(out)["evaluation"]["failed"] == 1


def test_info(call):
    code, out, err = call("info", "--json")
    assert (code, err) == (0, "")
    facts = last(out)
    assert facts["instruction set"] in available()
    assert facts["threads"] == len(os.sched_getaffinity(0))
    assert {"rollmill", "python", "numpy", "scipy", "ray", "blas"} <= facts.keys()
    code, out, _ = call("info")
    assert code == 0
    assert len(out.splitlines()) == len(facts)


@pytest.mark.parametrize("name", ["", "train", "evaluate", "plot", "info", "bench"])
def test_help(call, name):
    code, out, err = call(*filter(None, [name]), "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: rollmill {name}".rstrip())


def test_no_command_shows_the_help(call):
    code, out, err = call()
    assert (code, out) == (2, "")
    assert err.startswith("usage: rollmill [-h]")


def test_version(call):
    code, out, _ = call("--version")
    assert code == 0
    assert re.fullmatch(r"rollmill \d\S*\n", out)


# What it refuses: one sentence, the nearest name, exit code 2, nothing left behind.

USAGE = [
    (["trian"], 'Did you mean "train"'),
    (["train", "--num-worker", "x"], "invalid int value"),
    (["train", "--sed", "1"], 'unknown argument --sed. Did you mean "--seed"'),
    (["train", "--sed=1"], 'Did you mean "--seed"'),
    (["train", "nothing"], "unknown argument nothing"),
    (["train", "--seed"], "expected one argument"),
    (["train", "--seed", "x"], "invalid int value"),
    (["train", "--seed", "1.5"], "invalid int value"),
    (["train", "--seed", "-1"], "seed must be an integer >= 0, got -1"),
    (["train", "--seed", "9" * 5000], "invalid int value"),
    (["train", "--num-threads", "0"], "num_threads must be an integer in [1, 4096], got 0"),
    (["train", "--num-threads", "-3"], "num_threads must be"),
    (["train", "--num-workers", "-1"], "num_workers must be"),
    (["train", "--checkpoint-freq", "-1"], "--checkpoint-freq must be at least 0"),
    (["train", "--env", "rollmill/Maze"], '"rollmill/Maze-v0"'),
    (["train", "--env", "CartPole-v9"], 'unknown environment "CartPole-v9": the newest'),
    (["train", "--env", ""], "env must be a string"),
    (["train", "--env", "x\ny"], "unknown environment"),
    (["train", "--run", "ESS"], 'unknown algorithm "ESS". Did you mean "ES"'),
    (["train", "--run", "PPO"], 'unknown algorithm "PPO"'),
    (["train", "--run", ""], "unknown algorithm"),
    (["train", "--preset", "best"], 'unknown preset "best"'),
    (["train", "--config", '{"noise_std": 1}'], 'Did you mean "noise_stdev"'),
    (["train", "--config", '{"env_config": {"row": 3}}'], 'Did you mean "rows"'),
    (["train", "--config", '{"env_config": {"rows": 0}}'], "rows"),
    (["train", "--config", "{"], "--config must be a JSON object"),
    (["train", "--config", ""], "--config must be a JSON object"),
    (["train", "--config", "[1]"], "--config must be a JSON object"),
    (["train", "--config", "null"], "--config must be a JSON object"),
    (["train", "--config", '{"gamma": NaN}'], "NaN is not JSON"),
    (["train", "--config", '{"gamma": Infinity}'], "Infinity is not JSON"),
    (["train", "--config", '{"gamma": 1e400}'], "gamma must be"),
    (["train", "--config", '{"gamma": "1"}'], "gamma must be"),
    (["train", "--config", '{"gamma": 1, "gamma": 0}'], "given twice"),
    (["train", "--config", "[" * 100000], "--config must be a JSON object"),
    (["train", "--config", '{"noise_size": 10}'], "noise_size must be at least 6084"),
    (["train", "--config", '{"engine": "threads"}', "--num-workers", "2"], "takes no num_workers"),
    (["train", "--address", ""], "address must be a string"),
    (["train", "--stop", "{"], "stop must be a JSON object"),
    (["train", "--stop", ""], "stop must be a JSON object"),
    (["train", "--stop", "5"], "stop must be a JSON object"),
    (["train", "--stop", '{"training_iteratoin": 1}'], 'Did you mean "training_iteration"'),
    (["train", "--stop", '{"xyzzy": 1}'], 'unknown stop criterion "xyzzy"'),
    (["train", "--stop", '{"training_iteration": NaN}'], "NaN is not JSON"),
    (["train", "--stop", '{"training_iteration": "1"}'], "training_iteration"),
    (["train", "--name", "a/b"], "--name must be the name of a directory"),
    (["train", "--name", ".."], "--name must be the name of a directory"),
    (["train", "--name", ""], "--name must be the name of a directory"),
    (["train", "--output", ""], "--output must be a directory"),
    (["train", "--resume", "x", "--seed", "1"], "got --seed too"),
    (["train", "--resume", "x", "--run", "ES"], "got --run too"),
    (["train", "--resume", "x", "--config", "{}"], "got --config too"),
    (["evaluate"], "required: checkpoint"),
    (["evaluate", "x", "--episodes", "0"], "--episodes must be in"),
    (["evaluate", "x", "--episodes", "99999999999999999999"], "--episodes must be in"),
    (["evaluate", "x", "--lats"], 'Did you mean "--last"'),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_usage(call, home, arguments, message):
    code, out, err = call(*arguments)
    assert code == 2, err
    assert out == ""
    assert message in err
    lines = err.splitlines()
    assert lines[0].startswith("rollmill")
    assert ": error: " in lines[0]
    assert len(lines) == 1 or lines[1].startswith("Try: rollmill")
    assert os.listdir(home) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["train", "--env", "./no.so:f"], "there is no environment library '"),
     (["train", "--env", "./text.so:f"], "is no library that can be loaded here"),
     (["train", "--output", "text.so/below"], "cannot create"),
     (["train", "--output", "text.so"], "cannot create"),
     (["train", "--output", "/proc/nothing"], "cannot create"),
     (["train", "--resume"], "there is no checkpoint to resume from"),
     (["train", "--resume", ""], "checkpoint must be a path"),
     (["train", "--resume", "--name", "x"], "there is no checkpoint to resume from"),
     (["train", "--resume", "--output", "text.so"], "there is no checkpoint to resume from"),
     (["train", "--resume", "nothing"], "does not exist"),
     (["train", "--resume", "text.so"], "is not a checkpoint"),
     (["evaluate", "nothing"], "does not exist"),
     (["evaluate", "/"], "is not a checkpoint")],
)  # fmt: skip
def test_failure(call, home, arguments, message):
    (home / "text.so").write_text("no library")
    code, out, err = call(*arguments, *(["--quiet"] if arguments[0] == "train" else []))
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("rollmill: error: ")
    assert os.listdir(home) == ["text.so"]


def test_a_name_that_is_too_long(call, home):
    code, out, err = call("train", "--name", "x" * 300)
    assert (code, out) == (1, "")
    assert "File name too long" in err
    assert os.listdir(home / "rollmill_results") == []


def test_an_environment_without_the_symbol(call, drift_library):
    code, _, err = call("train", "--env", f"{drift_library}:drfit")
    assert code == 2
    assert "has no function 'drfit'" in err


def test_an_environment_that_no_engine_runs(call, drift_library):
    for symbol in ("drift_null", "drift_wrong_abi", "drift_wrong_size", "drift_no_step",
                   "drift_no_actions"):  # fmt: skip
        code, _, err = call("train", "--env", f"{drift_library}:{symbol}")
        assert code == 2
        assert err.count("\n") == 1


def test_a_warning_is_one_line(call, drift_library):
    options = {**OPTIONS, "eval_prob": 0}
    code, _, err = call(
        "train", "--env", f"{drift_library}:drift_nan", "--config", json.dumps(options),
        "--stop", '{"training_iteration": 4}',
    )  # fmt: skip
    assert code == 0
    warned = [line for line in re.split("[\r\n]", err) if "warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("rollmill: warning: iteration 1: 1 of ")
    code, _, err = call("train", "--config", '{"num_gpus": 0, "framework": "torch"}', "-q",
                        "--stop", '{"training_iteration": 1}')  # fmt: skip
    assert code == 0
    assert err.splitlines() == [
        'rollmill: warning: option "num_gpus" means nothing here: kernels run on processors',
        'rollmill: warning: option "framework" means nothing here: policies are kernels of our own',
    ]


def test_parameters_that_overflow_end_the_run_with_a_sentence(call, home):
    config = '{"optimizer": "sgd", "stepsize": 1e30, "l2_coeff": 1e30}'
    code, out, err = call("train", "--config", config, "--seed", "1", "--quiet")
    assert (code, out) == (1, "")
    assert "parameters that are not finite" in err
    assert newest_checkpoint(home / "rollmill_results/ES_Maze-v0") is not None


# Going on.


def resumable(call, *arguments):
    return last(
        call("train", *QUICK, "--stop", '{"training_iteration": 3}', "--json", *arguments)[1]
    )


@pytest.mark.parametrize("how", ["bare", "path", "run", "elsewhere"])
def test_resume(home, call, how):
    """In another process, and with other threads: as if nothing had happened."""
    first = resumable(call, "--name", "mine")
    arguments = {
        "bare": ["--resume"],
        "path": ["--resume", first["checkpoint"]],
        "run": ["--resume", "--name", "mine"],
        "elsewhere": ["--resume", first["checkpoint"], "--name", "other"],
    }[how]
    code, out, _ = command(
        "train", *arguments, "--stop", '{"training_iteration": 6}', "--json", "--num-threads", "2"
    )
    assert code == 0
    summary = last(out)
    hashes, _, counters = train(ESConfig(seed=1, episodes_per_batch=16), 6)
    assert summary["parameters_sha256"] == hashes[-1]
    assert summary["timesteps_total"] == counters["timesteps_total"]
    assert summary["num_threads"] == 2
    name = "other" if how == "elsewhere" else "mine"
    assert summary["results"] == str(home / "rollmill_results" / name)
    rows = [row["training_iteration"] for row in read_results(summary["results"])]
    assert rows == ([4, 5, 6] if how == "elsewhere" else [1, 2, 3, 4, 5, 6])
    before = read_results(home / "rollmill_results/mine")
    assert [row["training_iteration"] for row in before][:3] == [1, 2, 3]


def test_resume_takes_the_run_that_was_written_last(call):
    resumable(call, "--name", "a")
    second = resumable(call, "--name", "b")
    out = call("train", "--resume", "--json", "--stop", '{"training_iteration": 4}')[1]
    assert last(out)["results"] == second["results"]


def test_a_checkpoint_apart_from_a_run_leaves_its_neighbours_alone(home, call):
    (home / "progress.csv").write_text("precious")
    with ESConfig(seed=1, num_threads=1).build() as algo:
        algo.save(home / "saved")
    code, out, _ = call(
        "train", "--resume", "saved", "--stop", '{"training_iteration": 1}', "--json"
    )
    assert code == 0
    assert last(out)["results"] == str(home / "rollmill_results/ES_Maze-v0")
    assert (home / "progress.csv").read_text() == "precious"


def test_resuming_a_run_that_has_ended_says_so(call):
    first = resumable(call)
    code, out, _ = call("train", "--resume", "--stop", '{"training_iteration": 2}', "--json")
    assert code == 0
    assert (last(out)["iterations"], last(out)["stopped_by"][:21]) == (3, "training_iteration is")
    assert last(out)["parameters_sha256"] == first["parameters_sha256"]


def test_a_damaged_newest_checkpoint_is_passed_over(home, call):
    call("train", *QUICK, "--stop", '{"training_iteration": 4}', "--checkpoint-freq", "1")
    run = home / "rollmill_results/ES_Maze-v0"
    os.truncate(run / "checkpoint_000004/arrays.safetensors", 9)
    code, out, err = call("train", "--resume", "--json", "--stop", '{"training_iteration": 6}')
    assert code == 0
    assert "warning: passed over" in err
    assert (
        last(out)["parameters_sha256"] == train(ESConfig(seed=1, episodes_per_batch=16), 6)[0][-1]
    )
    assert len(read_results(run)) == 6


# Ends.


def wait_for(condition, process, timeout=30):
    """Wait until a condition holds of a running process."""
    end = time.monotonic() + timeout
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)


def long_run(library, home, *flags, symbol="drift", **options):
    """Start a run that never ends, and wait for its second result."""
    config = {k: v for k, v in {**OPTIONS, **options}.items() if k != "num_threads"}
    process = start("train", "--env", f"{library}:{symbol}", "--config", json.dumps(config),
                    "--num-threads", "2", "--json", "--name", "x", *flags)  # fmt: skip
    results = home / "rollmill_results/x/result.json"
    wait_for(lambda: results.is_file() and results.read_bytes().count(b"\n") > 1, process)
    return process


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([signal.SIGINT], 130), ([signal.SIGINT] * 2, 130), ([signal.SIGTERM], 143),
     ([signal.SIGHUP], 143), ([signal.SIGINT, signal.SIGTERM], 130)],
)  # fmt: skip
def test_an_interrupted_run_ends_soon_and_goes_on_bit_for_bit(
    drift_library, home, call, numbers, expected
):
    process = long_run(drift_library, home)
    began = time.monotonic()
    for number in numbers:
        process.send_signal(number)
    code, out, _ = finish(process)
    assert time.monotonic() - began < 2
    assert code == expected
    summary = last(out)
    done = summary["iterations"]
    assert done >= 1
    assert summary["stopped_by"] == ("terminated" if code == 143 else "interrupted")
    rows = read_results(summary["results"])
    assert [row["training_iteration"] for row in rows] == list(range(1, done + 1))
    with Algorithm.from_checkpoint(summary["checkpoint"]) as algo:
        assert algo.iteration == done
        assert algo.parameters_sha256 == summary["parameters_sha256"]
    stop = json.dumps({"training_iteration": done + 3})
    code, out, _ = call("train", "--resume", "--stop", stop, "--json")
    assert code == 0
    assert last(out)["parameters_sha256"] == train(drift_config(drift_library), done + 3)[0][-1]
    rows = read_results(summary["results"])
    assert [row["training_iteration"] for row in rows] == list(range(1, done + 4))


def test_ctrl_c_in_the_middle_of_an_endless_iteration(drift_library, home):
    config = '{"episodes_per_batch": 1000000, "noise_size": 100000}'
    env = f"{drift_library}:drift_slow"
    process = start("train", "--env", env, "--json", "--name", "x", "--config", config)
    seen = ""
    while "training:" not in seen:  # the progress line, before the first iteration
        seen += process.stderr.read(1)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, out, _ = finish(process)
    assert time.monotonic() - began < 2
    assert code == 130
    assert last(out)["iterations"] == 0
    assert last(out)["checkpoint"] == str(home / "rollmill_results/x/checkpoint_000000")
    Algorithm.from_checkpoint(last(out)["checkpoint"]).stop()


@pytest.fixture(scope="module")
def own_library(tmp_path_factory):
    """Compile C code; returns a function of its text."""

    def build(text):
        folder = tmp_path_factory.mktemp("own")
        (folder / "own.c").write_text(text)
        compiler = os.environ.get("CC", "cc").split()
        include = ["-I", rollmill.get_include(), "-I", str(CONSUMERS)]
        subprocess.run(
            [*compiler, "-O1", "-fPIC", "-shared", "-std=c11", "-D_POSIX_C_SOURCE=200809L",
             *include, str(folder / "own.c"), "-o", str(folder / "own.so")], check=True,
        )  # fmt: skip
        return folder / "own.so"

    return build


@pytest.mark.parametrize(
    ("numbers", "expected"), [([signal.SIGINT] * 2, 130), ([signal.SIGTERM], 143)]
)
def test_an_environment_that_hangs(own_library, home, numbers, expected):
    hazard = (CONSUMERS.parent / "cluster/hazard.c").read_text()
    library = own_library(hazard.replace("while (forever)", 'write(2, "hangs", 5);while (forever)'))
    process = start("train", "--env", f"{library}:hazard_hang", "--num-threads", "2", "--quiet",
                    "--stop", '{"training_iteration": 5}', "--name", "x", "--config",
                    '{"noise_size": 100000}')  # fmt: skip
    seen = ""
    while "hangs" not in seen:
        seen += process.stderr.read(1)
    for number in numbers:
        process.send_signal(number)
    code, out, err = finish(process)
    assert (code, out) == (expected, "")
    checkpoint = home / "rollmill_results/x/checkpoint_000000"
    word = "terminated" if expected == 143 else "interrupted"
    assert f"rollmill: error: {word} while an environment hangs; checkpoint: {checkpoint}\n" in err
    Algorithm.from_checkpoint(checkpoint).stop()


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_algorithm_is_built(monkeypatch, capsys, number, expected):
    monkeypatch.setattr(ESConfig, "build", lambda _: signal.raise_signal(number))
    assert main(["train"]) == expected
    word = "terminated" if expected == 143 else "interrupted"
    assert capsys.readouterr().err == f"rollmill: error: {word}\n"


def test_json_is_all_of_standard_output_though_an_environment_prints(own_library):
    drift = (CONSUMERS / "drift.c").read_text()
    head = "{ return &normal; }"
    assert drift.count(head) == 1
    library = own_library(
        "#include <stdio.h>\n" + drift.replace(head, '{ printf("noise"); return &normal; }')
    )
    code, out, err = command("train", "--env", f"{library}:drift", *QUICK, "--stop",
                             '{"training_iteration": 1}', "--json")  # fmt: skip
    assert code == 0
    assert out.count("\n") == 1
    assert json.loads(out)["iterations"] == 1
    assert "noise" in err


@pytest.mark.parametrize("wait", [0, 0.02, 0.05])
def test_kill_9_leaves_readable_files(drift_library, home, call, wait):
    process = long_run(drift_library, home, "--checkpoint-freq", "1")
    run = home / "rollmill_results/x"
    wait_for(lambda: newest_checkpoint(run), process)
    time.sleep(wait)
    process.kill()
    assert finish(process)[0] == -9
    rows = [row["training_iteration"] for row in read_results(run)]
    assert rows == list(range(1, len(rows) + 1))
    with Algorithm.from_checkpoint(newest_checkpoint(run)) as algo:
        done = algo.iteration
    assert len(rows) >= done
    stop = json.dumps({"training_iteration": done + 2})
    code, out, _ = call("train", "--resume", "--stop", stop, "--json")
    assert code == 0
    assert last(out)["parameters_sha256"] == train(drift_config(drift_library), done + 2)[0][-1]
    rows = [row["training_iteration"] for row in read_results(run)]
    assert rows == list(range(1, done + 3))


def limit_files():
    as_in_a_shell()
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


def test_a_full_disk(drift_library, home):
    """The file of results grows until nothing more can be written."""
    config = {**OPTIONS, "fcnet_hiddens": []}
    process = start("train", "--env", f"{drift_library}:drift", "--config", json.dumps(config),
                    "--name", "x", "--quiet", preexec_fn=limit_files)  # fmt: skip
    code, out, err = finish(process)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "rollmill: error: cannot write results" in err
    run = home / "rollmill_results/x"
    rows = [row["training_iteration"] for row in read_results(run)]
    assert rows == list(range(1, len(rows) + 1))
    with Algorithm.from_checkpoint(newest_checkpoint(run)) as algo:
        assert algo.iteration == len(rows)


def test_a_disk_too_full_for_a_checkpoint(home):
    process = start("train", "--name", "x", "--quiet", preexec_fn=limit_files)
    code, out, err = finish(process)
    assert (code, out) == (1, "")
    assert "rollmill: error: cannot write checkpoint" in err
    assert err.count("\n") == 1
    assert newest_checkpoint(home / "rollmill_results/x") is None
    assert read_results(home / "rollmill_results/x")


# Streams.


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away(home, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for arguments in (["info"], ["train", *QUICK, "--stop", '{"training_iteration": 1}'],
                      ["train", "--help"]):  # fmt: skip
        process = start(*arguments)
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait() == 0, err
        assert "rror" not in err


def test_nobody_reads_the_progress(home):
    process = start("train", *QUICK, "--stop", '{"training_iteration": 30}', "--json")
    process.stderr.close()
    out = process.stdout.read()
    assert process.wait() == 0
    assert last(out)["iterations"] == 30


def test_standard_output_that_cannot_be_written(home):
    with open("/dev/full", "w") as full:
        code, _, err = command("info", stdout=full)
    assert code == 1
    assert err == "rollmill: error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("closed", ["1", "2"])
def test_streams_that_are_closed(home, closed):
    line = f"{shlex.quote(sys.executable)} -m rollmill train --quiet --seed 1 {closed}>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert newest_checkpoint(home / "rollmill_results/ES_Maze-v0")


def test_names_of_any_bytes(home):
    name = os.fsdecode(b"caf\xe9 \xff")
    code, out, _err = finish(
        start("train", *QUICK, "--stop", '{"training_iteration": 1}', "--name", name,
              errors="surrogateescape", encoding="utf-8"),
    )  # fmt: skip
    assert code == 0
    assert (home / "rollmill_results" / name / "result.json").is_file()
    assert f"results:     {home}/rollmill_results/{name}" in out


def test_a_path_that_standard_output_cannot_encode(home, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("PYTHONUTF8", "1")
    code, out, _ = command("train", *QUICK, "--stop", '{"training_iteration": 1}',
                           "--name", "caf\xe9")  # fmt: skip
    assert code == 0
    assert f"results:     {home}/rollmill_results/caf\\xe9\n" in out


def test_no_home(home, monkeypatch):
    monkeypatch.setenv("HOME", "")
    code, _, _err = command("train", *QUICK, "--stop", '{"training_iteration": 1}', "-o", "here")
    assert code == 0
    assert (home / "here/ES_Maze-v0").is_dir()


def test_an_internal_error_says_how_to_see_more(monkeypatch, capsys):
    from rollmill.cli import info

    monkeypatch.setattr(info, "collect", lambda: {}["x"])
    assert main(["info"]) == 1
    assert capsys.readouterr().err == (
        "rollmill: error: internal error: KeyError: 'x' (ROLLMILL_TRACEBACK=1 shows where)\n"
    )
    monkeypatch.setenv("ROLLMILL_TRACEBACK", "1")
    assert main(["info"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_anywhere_else_is_one_line(monkeypatch, capsys):
    from rollmill.cli import info

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "collect", interrupt)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "rollmill: error: interrupted\n"


def test_the_console_script_and_the_module_are_one():
    for program in ([sys.executable, "-m", "rollmill"], ["rollmill"]):
        try:
            done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
        except FileNotFoundError:
            assert program == ["rollmill"]  # not installed as a package
        else:
            assert done.stdout.startswith("usage: rollmill [-h]")
