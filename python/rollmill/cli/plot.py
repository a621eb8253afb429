"""`rollmill plot`: learning curves of runs, as a picture and as small CSV."""

from __future__ import annotations

import argparse
from typing import Any

from .main import UsageError


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    p = commands.add_parser(
        "plot",
        help="draw learning curves",
        description="Draw the learning curves of runs over environment steps, a panel an "
        "environment. Needs Matplotlib: pip install 'rollmill[plot]'.",
    )
    p.set_defaults(handler=command)
    p.add_argument("source", nargs="+", metavar="RUN",
                   help="a run's directory, or a CSV that --csv wrote")  # fmt: skip
    p.add_argument("-o", "--output", metavar="FILE", help="the picture: .svg, .png or .pdf")
    p.add_argument("--csv", metavar="FILE", help="write the curves, at most 100 rows a run")
    p.add_argument("-y", default="episode_reward_mean", metavar="NAME",
                   help="number to draw (default: episode_reward_mean)")  # fmt: skip
    p.add_argument("--threshold", action="append", default=[], metavar="ENV=NUMBER",
                   help="mark a height in an environment's panel; may be repeated")  # fmt: skip


def command(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from rollmill.curves import COLUMNS, draw, read_curves, write_csv
    from rollmill.names import unknown

    if not args.output and not args.csv:
        raise UsageError("nothing to do: name a picture by --output, or a table by --csv")
    if args.y not in COLUMNS:
        raise UsageError(unknown("number", args.y, COLUMNS))
    thresholds = dict(_threshold(text) for text in args.threshold)
    try:
        curves = [curve for source in args.source for curve in read_curves(source)]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if args.csv:
        write_csv(args.csv, curves)
    if args.output:
        draw(args.output, curves, y=args.y, thresholds=thresholds)
    return 0


def _threshold(text: str) -> tuple[str, float]:
    env, _, number = text.rpartition("=")
    try:
        if env:
            return env, float(number)
    except ValueError:
        pass
    raise UsageError(f"--threshold must look like Swimmer-v4=325, got {text!r}")
