"""The command `rollmill`: its sub-commands, its errors, its exit codes.

Exit codes: 0 success, 1 failure, 2 usage, 130 interrupted, 143 terminated. Progress and warnings go
to standard error, results to standard output.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..names import nearest

FAILURE, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143


class UsageError(ValueError):
    """The command line asks for something that cannot be; the sentence says what."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors suggest the nearest name."""

    def error(self, message: str) -> NoReturn:
        """Print one sentence and the way to the help, and exit with 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            known = [text for action in self._actions for text in action.option_strings]
            message = f"unknown argument {unknown}." + nearest(unknown.split("=")[0].split()[0],
                                                               known)  # fmt: skip
        elif "invalid choice: " in message and "'" in message:
            given = message.split("'")[1]
            choices = [
                name
                for action in self._actions
                for name in (action.choices or ())
                if isinstance(name, str)
            ]
            message += nearest(given, choices)
        print(f"{self.prog}: error: {message}\nTry: {self.prog} --help", file=sys.stderr)
        sys.exit(USAGE)


def build_parser() -> Parser:
    """Return the parser with every sub-command."""
    from . import bench, evaluate, info, train

    parser = Parser(
        prog="rollmill",
        description="A rollout engine: trains policies by evolution strategies in C kernels, in "
        "threads or on Ray.",
    )
    parser.add_argument("--version", action="version", version=f"rollmill {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command",
                                     required=True)  # fmt: skip
    for module in (train, evaluate, bench, info):
        module.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    warnings.showwarning = _show_warning
    try:
        parsed = build_parser().parse_args(arguments)
        return parsed.handler(parsed)
    except UsageError as error:
        return _fail(str(error), USAGE)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away: no error of ours, and nothing left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else FAILURE
    except Exception as error:
        if os.environ.get("ROLLMILL_TRACEBACK"):
            traceback.print_exc()
        expected = isinstance(error, ValueError | OSError | RuntimeError | MemoryError)
        text = str(error) or type(error).__name__
        if not expected:
            text = f"internal error: {type(error).__name__}: {text} (ROLLMILL_TRACEBACK=1 shows " \
                   "where)"  # fmt: skip
        return _fail(text, FAILURE)


def _fail(text: str, code: int) -> int:
    print(f"rollmill: error: {' '.join(text.split())}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"rollmill: warning: {message}", file=sys.stderr)
