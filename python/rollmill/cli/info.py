"""`rollmill info`: versions, instruction set, BLAS, threads, Ray."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    p = commands.add_parser(
        "info",
        help="versions, instruction set, BLAS, threads, Ray",
        description="Print what a report of a fault or of a speed should name.",
    )
    p.set_defaults(handler=command)
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def command(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from rollmill.results import json_dumps

    facts = collect()
    if args.json:
        print(json_dumps(facts))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def collect() -> dict[str, Any]:
    """Return the facts by name."""
    from rollmill import __version__, _blas, _isa
    from rollmill.engine import default_threads

    assert _blas  # loads SciPy's BLAS, which threadpoolctl then finds
    return {
        "rollmill": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processor": _processor(),
        "instruction set": _isa_name(),
        "instruction sets": ", ".join(_isa.available()),
        "ROLLMILL_ISA": os.environ.get("ROLLMILL_ISA", ""),
        "threads": default_threads(),
        "blas": _blas_name(),
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "gymnasium": _version("gymnasium"),
        "ray": _version("ray"),
        "RAY_ADDRESS": os.environ.get("RAY_ADDRESS", ""),
        "package": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }


def _isa_name() -> str:
    from rollmill import _isa

    try:
        return _isa.isa_name()
    except ValueError as error:  # just when the facts are wanted
        return f"none: {error}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _blas_name() -> str:
    """Name what SciPy's function pointers lead to."""
    import threadpoolctl

    libraries = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    # A wheel brings its own into its own directory; else SciPy and NumPy share the system's.
    own = [lib for lib in libraries if "scipy.libs" in lib["filepath"]]
    found = [
        f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', 'unknown')})"
        for lib in own or libraries
    ]
    return ", ".join(found) or "of a kind that threadpoolctl does not know"
