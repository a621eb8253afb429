"""Learning curves: collected from the directories of runs, kept as small CSV, drawn."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .checkpoint import CheckpointError, load_checkpoint, newest_checkpoint
from .results import OutputError, read_results, reason

#: Columns of the CSV beside the environment and the run.
COLUMNS = ("training_iteration", "timesteps_total", "episodes_total", "time_total_s",
           "evaluation_reward_mean", "episode_reward_mean")  # fmt: skip
#: Rows that are kept of a run; the first and the last are among them.
ROWS = 100
#: Colours that are told apart by most eyes (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Curve:
    """A run's results.

    Attributes
    ----------
    env, run : str
        The environment, and the run's name.
    rows : list of dict
        A number, or None, for each of `COLUMNS`; oldest first.
    """

    env: str
    run: str
    rows: list[dict[str, float | None]]


def read_curves(path: str | os.PathLike[str]) -> list[Curve]:
    """Return the curve in a run's directory, or those in a CSV that `write_csv` made.

    Raises ValueError if there is none, OSError if the file cannot be read.
    """
    path = Path(path)
    return _from_csv(path) if path.is_file() else [_from_run(path)]


def _from_run(directory: Path) -> Curve:
    results = read_results(directory)
    if not results:
        raise ValueError(f"there are no results in {str(directory)!r}")
    env = directory.absolute().name
    checkpoint = newest_checkpoint(directory)
    if checkpoint is not None:
        with suppress(CheckpointError):
            env = str(load_checkpoint(checkpoint).config.get("env", env))
    last = len(results) - 1
    kept = sorted({round(i * last / (ROWS - 1)) for i in range(ROWS)})
    rows = [{name: results[i].get(name) for name in COLUMNS} for i in kept]
    return Curve(env, directory.absolute().name, rows)


def _from_csv(path: Path) -> list[Curve]:
    curves: dict[tuple[str, str], Curve] = {}
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = {"env", "run", *COLUMNS} - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"{str(path)!r} lacks the column {sorted(missing)[0]!r}")
        for line in reader:
            name = line["env"], line["run"]
            curve = curves.setdefault(name, Curve(*name, []))
            curve.rows.append({c: float(line[c]) if line[c] else None for c in COLUMNS})
    if not curves:
        raise ValueError(f"there are no results in {str(path)!r}")
    return list(curves.values())


def write_csv(path: str | os.PathLike[str], curves: Sequence[Curve]) -> None:
    """Write curves as CSV, a line a result. Raises OutputError where it cannot be written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("env", "run", *COLUMNS))
    for curve in curves:
        for row in curve.rows:
            numbers = ("" if row[name] is None else f"{row[name]:.9g}" for name in COLUMNS)
            writer.writerow((curve.env, curve.run, *numbers))
    try:
        Path(path).write_text(text.getvalue())
    except OSError as error:
        raise OutputError(f"cannot write {os.fspath(path)!r}: {reason(error)}") from None


def draw(
    path: str | os.PathLike[str],
    curves: Sequence[Curve],
    *,
    y: str = "episode_reward_mean",
    thresholds: Mapping[str, float] | None = None,
) -> None:
    """Draw curves over environment steps, a panel an environment, and write the picture.

    Parameters
    ----------
    path : str
        Its ending says the format: .svg, .png, .pdf.
    curves : sequence of Curve
        Those of an environment share a panel.
    y : str
        One of `COLUMNS`.
    thresholds : dict, optional
        By environment: a height to mark.

    Raises
    ------
    RuntimeError
        If Matplotlib is not installed.
    ValueError
        On an ending that is no format.
    rollmill.results.OutputError
        Where it cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RuntimeError("drawing needs Matplotlib: pip install 'rollmill[plot]'") from None
    thresholds = thresholds or {}
    envs = list(dict.fromkeys(curve.env for curve in curves))
    across = min(3, len(envs))
    down = -(-len(envs) // across)
    figure = Figure(figsize=(4.2 * across + 0.4, 3.0 * down + 0.3), layout="constrained")
    for number, env in enumerate(envs):
        axes = figure.add_subplot(down, across, number + 1)
        _panel(axes, env, [curve for curve in curves if curve.env == env], y, thresholds.get(env))
    try:
        figure.savefig(path, dpi=130, metadata=_undated(path))
    except OSError as error:
        raise OutputError(f"cannot write {os.fspath(path)!r}: {reason(error)}") from None


def _panel(axes: Any, env: str, curves: Sequence[Curve], y: str, threshold: float | None) -> None:
    for number, curve in enumerate(curves):
        points = [(row["timesteps_total"], row[y]) for row in curve.rows]
        good = [(x / 1e6, value) for x, value in points if x is not None and value is not None]
        label = curve.run.removeprefix(env).strip("_- ") or curve.run
        axes.plot([x for x, _ in good], [value for _, value in good], label=label, linewidth=1.2,
                  color=COLOURS[number % len(COLOURS)])  # fmt: skip
    if threshold is not None:
        axes.axhline(threshold, color="0.35", linestyle="--", linewidth=1,
                     label=f"threshold {threshold:g}")  # fmt: skip
    axes.set_title(env)
    axes.set_xlabel("million steps")
    axes.set_ylabel(y.replace("_", " "))
    axes.margins(x=0.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)


def _undated(path: str | os.PathLike[str]) -> dict[str, None]:
    """Leave out the date, so that the same curves give the same file."""
    return {"Date": None} if os.fspath(path).endswith(".svg") else {}
