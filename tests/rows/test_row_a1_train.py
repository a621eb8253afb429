"""Row A1: `rollmill train --env=Humanoid-v5 --run=ES` (and `--run=ARS`)."""

import json

import pytest
from rollmill.cli.main import main

ONE = ["--stop", '{"training_iteration": 1}']


@pytest.mark.parametrize("run", ["ES", "ARS"])
def test_row_a1_training_starts_on_humanoid(run, home, capsys):
    pytest.importorskip("mujoco")
    assert main(["train", "--env=Humanoid-v5", f"--run={run}", *ONE, "--seed", "1"]) == 0
    out, err = capsys.readouterr()
    assert f"{run} on Humanoid-v5, seed 1" in out
    assert "training" in err  # the live line
    folder = home / "rollmill_results" / f"{run}_Humanoid-v5"
    assert (folder / "checkpoint_000001" / "checkpoint.json").is_file()
    assert len((folder / "result.json").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "directions"), [(["--run=ARS"], 230), (["--preset", "ars"], 230)]
)
def test_row_a1_the_papers_settings_are_the_default(arguments, directions, capsys):
    pytest.importorskip("mujoco")
    assert main(["train", "--env=Humanoid-v5", *arguments, *ONE, "--json", "--quiet"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["algorithm"] == "ARS"
    assert summary["episodes_total"] == 2 * directions


def test_row_a1_an_old_version_is_answered_with_the_newest(capsys):
    assert main(["train", "--env=Humanoid-v1", "--run=ES"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line]
    assert len(lines) == 1
    assert "Humanoid-v5" in lines[0]


def test_row_a1_a_preset_of_another_algorithm_is_refused(capsys):
    assert main(["train", "--env=Humanoid-v5", "--run=ES", "--preset=ars"]) == 2
    assert "one of ARS, got --run ES" in capsys.readouterr().err


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("run", ["ES", "ARS"])
def test_row_a1_any_gymnasium_id(env, run, capsys):
    """Discrete and Box actions, stepped by the interpreter."""
    small = {"num_rollouts": 2} if run == "ARS" else {"episodes_per_batch": 4,
                                                      "train_batch_size": 0}  # fmt: skip
    small |= {"noise_size": 1 << 16, "unit_pairs": 2}
    assert main(["train", f"--env={env}", f"--run={run}", *ONE, "--json", "--quiet", "--config",
                 json.dumps(small)]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["env"] == env
