"""`rollmill bench`: today's figures beside a peer's and the machine's floor."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from .main import UsageError

if TYPE_CHECKING:
    from rollmill.bench import Result, Setup
    from rollmill.machine import Machine

DESCRIPTION = """\
Measure the kernels and the default training run on this machine, each beside a peer (NumPy, SciPy,
Gymnasium or plain Python) and beside the machine's own floor: its memory bandwidth or its rate of
float32 operations, all measured in turns in this run, on one core. Only training runs use more.

A figure is a median; spread is the interquartile range over the median. Ratio is how many times as
fast as the peer; "of floor" is the share that is reached of what the machine could do at most."""


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    p = commands.add_parser(
        "bench",
        help="speeds, beside NumPy's and the machine's floor",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.set_defaults(handler=command)
    p.add_argument("--quick", action="store_true", help="in less than 30 seconds, less exact")
    p.add_argument("--only", nargs="+", metavar="NAME",
                   help="some cases or subjects, such as update_table or rollout")  # fmt: skip
    p.add_argument("--repeats", type=int, metavar="N", help="default: 15; with --quick 7")
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    p.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for tests: no figures


def command(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from rollmill.bench import PLANS, Setup, run, select
    from rollmill.results import json_dumps

    if args.repeats is not None and args.repeats < 1:
        raise UsageError(f"--repeats must be at least 1, got {args.repeats}")
    try:
        select(args.only)
    except ValueError as error:
        raise UsageError(str(error)) from None
    plan = PLANS["tiny" if args.tiny else "quick" if args.quick else "full"]
    if args.repeats is not None:
        plan = dataclasses.replace(plan, repeats=args.repeats)
    setup = Setup(plan)
    results = run(setup, args.only, _show)
    if args.json:
        print(json_dumps({
            "results": [dataclasses.asdict(result) for result in results],
            "machine": setup.machine.to_dict(),
            "plan": dataclasses.asdict(plan),
            **setup.details,
        }))  # fmt: skip
    else:
        print("\n".join(_text(setup, results)))
    return 0


def _show(line: str) -> None:
    print(f"rollmill: measuring {line}", file=sys.stderr)


def _text(setup: Setup, results: list[Result]) -> list[str]:
    from rollmill.bench import train

    return [*_machine(setup.machine), "", *_table(results), "", *train.text(setup)]


def _machine(machine: Machine) -> list[str]:
    facts = machine.facts
    return [
        f"{facts['processor']}, {facts['processors']} available, kernels for {facts['isa']}, "
        f"load {facts['load']:.2f} before",
        f"one core reads {machine.read.value:.1f} GB/s ({machine.read.method}), rewrites "
        f"{machine.rewrite.value:.1f} GB/s (read and written; {machine.rewrite.method}), copies "
        f"{machine.copy.value:.1f} GB/s,",
        f"multiplies and adds {machine.flops.value:.0f} GFLOP/s ({machine.flops.method})",
    ]


def _table(results: list[Result]) -> list[str]:
    head = ("name", "value", "unit", "spread", "ratio", "peer", "", "floor", "of floor", "")
    rows = [head]
    for r in results:
        rows.append((
            r.name,
            _number(r.value),
            r.unit,
            f"{100 * r.spread:.1f} %",
            "" if r.ratio is None else f"{_number(r.ratio)} x",
            _number(r.peer_value),
            r.peer or "",
            _number(r.floor),
            "" if r.floor_ratio is None else f"{100 * r.floor_ratio:.0f} %",
            r.floor_name or "",
        ))  # fmt: skip
    width = [max(len(row[i]) for row in rows) for i in range(len(head))]
    left = (0, 2, 6, 9)  # the other columns are numbers
    return [
        "  ".join(
            f"{cell:<{width[i]}}" if i in left else f"{cell:>{width[i]}}"
            for i, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def _number(value: float | None) -> str:
    """Three digits or more, no exponent."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.6f}"
