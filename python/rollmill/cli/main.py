"""The command `rollmill`: its sub-commands, its errors, its exit codes.

Exit codes: 0 success, 1 failure, 2 usage, 130 interrupted, 143 terminated. Progress and warnings go
to standard error, results to standard output.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rollmill.names import nearest

if TYPE_CHECKING:
    from rollmill.algorithms import Algorithm

FAILURE, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143

#: Errors whose text is meant for people; any other is a fault of ours.
EXPECTED = (ImportError, ValueError, OSError, RuntimeError, MemoryError, FloatingPointError)


class UsageError(ValueError):
    """The command line asks for something that cannot be; the sentence says what."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors suggest the nearest name."""

    def error(self, message: str) -> NoReturn:
        """Print one sentence and the way to the help, and exit with 2."""
        if "invalid choice: " in message and "'" in message:
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


class Version(argparse.Action):
    """Prints the version, which takes a while to find and is looked for only here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and exit."""
        from rollmill import __version__

        print(f"rollmill {__version__}")
        parser.exit()


def build_parser() -> Parser:
    """Return the parser with every sub-command."""
    from . import bench, evaluate, info, plot, train

    parser = Parser(
        prog="rollmill",
        description="A rollout engine: trains policies by evolution strategies in C kernels, in "
        "threads or on Ray.",
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command",
                                     required=True)  # fmt: skip
    for module in (train, evaluate, plot, bench, info):
        module.add_parser(commands)
    return parser


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed arguments; those that are unknown are said by the command's own parser."""
    parser = build_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        raise SystemExit(USAGE)
    parsed, extra = parser.parse_known_args(arguments)
    if extra:
        commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        command = commands.choices[parsed.command]
        known = [text for action in command._actions for text in action.option_strings]
        command.error(f"unknown argument {extra[0]}." + nearest(extra[0].split("=")[0], known))
    return parsed


def checkpoint_of(path: str) -> str:
    """Return the path of a checkpoint; of a run's directory that of its newest one."""
    from rollmill.checkpoint import newest_checkpoint

    if os.path.isdir(path) and not os.path.lexists(os.path.join(path, "checkpoint.json")):
        return newest_checkpoint(path) or path
    return path


def restored(checkpoint: Any, **place: Any) -> Algorithm:
    """Return the algorithm of a checkpoint; an option that does not fit is a usage error."""
    from rollmill.algorithms import Algorithm
    from rollmill.checkpoint import CheckpointError

    try:
        return Algorithm.from_checkpoint(checkpoint, **place)
    except CheckpointError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Give the bytes of a file's name as they are, and what the encoding lacks by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    one = UnicodeEncodeError(
        error.encoding, error.object, error.start, error.start + 1, error.reason
    )
    try:
        return codecs.lookup_error("surrogateescape")(one)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(one)


codecs.register_error("rollmill.escape", _escape)


class Stream:
    """A standard stream that goes on where nobody reads it or nothing can be written.

    Attributes
    ----------
    error : OSError or None
        The last thing that went wrong.
    """

    def __init__(self, stream: Any, errors: str):
        self.stream = open(os.devnull, "w") if stream is None else stream  # noqa: SIM115
        self.error: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)  # names of files may hold any bytes

    def write(self, text: str) -> int:
        """Write what can be written."""
        try:
            return self.stream.write(text)
        except OSError as error:
            self.error = error
            return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        try:
            self.stream.flush()
        except OSError as error:
            self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    out, err = Stream(sys.stdout, "rollmill.escape"), Stream(sys.stderr, "backslashreplace")
    redirected: Any = (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err))
    with redirected[0], redirected[1], warnings.catch_warnings():
        warnings.showwarning = _show_warning
        code = _run(arguments)
        out.flush()
        if out.error:
            # What could not be written must not be tried again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            if not isinstance(out.error, BrokenPipeError):  # a reader may have seen enough
                return _fail(f"cannot write to standard output: {out.error.strerror}", FAILURE)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        parsed = parse(arguments)
        return parsed.handler(parsed)
    except UsageError as error:
        return _fail(str(error), USAGE)
    except KeyboardInterrupt as interruption:
        from rollmill.run import Terminated

        if isinstance(interruption, Terminated):
            return _fail("terminated", TERMINATED)
        return _fail("interrupted", INTERRUPTED)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else FAILURE if exit_.code else 0
    except Exception as error:
        if os.environ.get("ROLLMILL_TRACEBACK"):
            traceback.print_exc()
        text = str(error) or type(error).__name__
        if not isinstance(error, EXPECTED):
            text = f"internal error: {type(error).__name__}: {text} (ROLLMILL_TRACEBACK=1 shows " \
                   "where)"  # fmt: skip
        return _fail(text, FAILURE)


def _fail(text: str, code: int) -> int:
    say(f"error: {' '.join(text.split())}")
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"warning: {' '.join(str(message).split())}")


def say(text: str) -> None:
    """Print a line on standard error, above the progress line if there is one."""
    progress = sys.modules.get("tqdm")
    write = progress.tqdm.write if progress else print
    write(f"rollmill: {text}", file=sys.stderr)
