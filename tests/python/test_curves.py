import json

import pytest
from rollmill import ARSConfig
from rollmill.cli.main import main
from rollmill.curves import COLUMNS, ROWS, Curve, read_curves, write_csv


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a_run"
    rows = [
        {"training_iteration": i, "timesteps_total": 10 * i, "episodes_total": i,
         "time_total_s": 0.5 * i, "evaluation_reward_mean": None if i == 2 else i / 3,
         "episode_reward_mean": i / 4, "other": 1}
        for i in range(1, 1001)
    ]  # fmt: skip
    with ARSConfig(num_threads=1, num_rollouts=1).build() as algo:
        algo.save(folder / "checkpoint_001000")
    (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_long_run_is_thinned_but_for_its_ends(run):
    (curve,) = read_curves(run)
    assert (curve.env, curve.run) == ("rollmill/Maze-v0", "a_run")
    assert len(curve.rows) == ROWS
    assert curve.rows[0]["training_iteration"] == 1
    assert curve.rows[-1]["training_iteration"] == 1000
    assert all(tuple(row) == COLUMNS for row in curve.rows)


def test_csv_keeps_what_is_drawn(run, tmp_path):
    curves = [
        *read_curves(run),
        Curve("e", "r", [dict.fromkeys(COLUMNS), dict.fromkeys(COLUMNS, 2.5)]),
    ]
    write_csv(tmp_path / "c.csv", curves)
    again = read_curves(tmp_path / "c.csv")
    assert [(c.env, c.run, len(c.rows)) for c in again] == [
        ("rollmill/Maze-v0", "a_run", ROWS), ("e", "r", 2)
    ]  # fmt: skip
    assert again[1].rows == curves[1].rows
    for row, want in zip(again[0].rows, curves[0].rows, strict=True):
        assert row == pytest.approx(want)
    write_csv(tmp_path / "d.csv", again)
    assert (tmp_path / "d.csv").read_bytes() == (tmp_path / "c.csv").read_bytes()


@pytest.mark.parametrize("name", ["p.svg", "p.png"])
def test_the_picture_is_written(run, tmp_path, name):
    pytest.importorskip("matplotlib")
    arguments = ["plot", str(run), "--csv", str(tmp_path / "c.csv"), "--threshold",
                 "rollmill/Maze-v0=100", "-y", "evaluation_reward_mean"]  # fmt: skip
    assert main([*arguments, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).stat().st_size > 3000
    if name == "p.svg":
        assert "million steps" in (tmp_path / name).read_text().replace("<!-- ", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["RUN"], "nothing to do"), (["nowhere", "--csv", "x"], "no results in 'nowhere'"),
     (["RUN", "--csv", "x", "-y", "episode_reward"], 'Did you mean "episode_reward_mean"'),
     (["RUN", "-o", "x.svg", "--threshold", "Swimmer"], "must look like Swimmer-v4=325"),
     (["RUN", "-o", "x.svg", "--threshold", "=3"], "must look like Swimmer-v4=325")],
)  # fmt: skip
def test_usage(run, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *(str(run) if text == "RUN" else text for text in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_a_column(tmp_path, capsys):
    (tmp_path / "c.csv").write_text("env,run\na,b\n")
    assert main(["plot", str(tmp_path / "c.csv"), "--csv", str(tmp_path / "d.csv")]) == 2
    assert "lacks the column 'episode_reward_mean'" in capsys.readouterr().err


def test_where_nothing_can_be_written(run, tmp_path, capsys):
    assert main(["plot", str(run), "--csv", str(tmp_path / "no" / "c.csv")]) == 1
    assert "cannot write" in capsys.readouterr().err
