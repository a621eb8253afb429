"""`rollmill-config`: where the C headers are. Also `python -m rollmill.config`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from . import __version__, get_include


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="rollmill-config", description="What it takes to compile against rollmill's headers."
    )
    parser.add_argument("--cflags", action="store_true", help="flags for the C compiler")
    parser.add_argument("--includedir", action="store_true", help="directory of the headers")
    parser.add_argument("--version", action="version", version=__version__)
    asked = parser.parse_args(arguments)
    if not (asked.cflags or asked.includedir):
        parser.error("one of --cflags, --includedir and --version is required")
    if asked.cflags:
        print(f"-I{shlex.quote(get_include())}")
    if asked.includedir:
        print(get_include())
    return 0


if __name__ == "__main__":
    sys.exit(main())
