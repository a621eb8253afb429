"""rollmill: a rollout engine. Evolution strategies in C kernels, in threads or on Ray.

`import rollmill` registers the environments with Gymnasium, as importing a package of environments
does, and loads neither Ray nor SciPy; the names below load what they need when they are first read.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import envs

if TYPE_CHECKING:
    __version__: str

    from .algorithms import ARS, ES, Algorithm, ARSConfig, ESConfig
    from .checkpoint import load_checkpoint
    from .policies import MLP
    from .results import pretty_print

__all__ = [
    "ARS",
    "ES",
    "MLP",
    "ARSConfig",
    "Algorithm",
    "ESConfig",
    "__version__",
    "envs",
    "get_include",
    "load_checkpoint",
    "pretty_print",
]

_HOME = {
    "ARS": ".algorithms",
    "ARSConfig": ".algorithms",
    "Algorithm": ".algorithms",
    "ES": ".algorithms",
    "ESConfig": ".algorithms",
    "MLP": ".policies",
    "load_checkpoint": ".checkpoint",
    "pretty_print": ".results",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rollmill")
    except PackageNotFoundError:  # run from a build directory that was not installed
        return "0+unknown"


def get_include() -> str:
    """Directory of the C headers: compile with ``-I`` and ``#include <rollmill/rollmill.h>``."""
    from importlib.resources import files

    # An editable install can name its files, not its folders.
    header = files("rollmill").joinpath("include", "rollmill", "rollmill.h")
    return str(Path(str(header)).parent.parent)
