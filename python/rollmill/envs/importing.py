"""Modules that hold environments: found from the working directory, and again in a worker."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def load(module: str) -> Any:
    """Import a module, also one that lies in the working directory.

    A command has its own folder in place of the working directory in `sys.path`. One that is not
    found else is looked for there, and the directory joins the end of `sys.path`.
    """
    top = module.partition(".")[0]
    here = os.getcwd()
    if not _known(top) and not {"", here} & set(sys.path):
        sys.path.append(here)
        importlib.invalidate_caches()
    return importlib.import_module(module)


@dataclass(frozen=True)
class Origin:
    """The module of a class and the folder from which it is imported; unpickled, it can be."""

    module: str
    folder: str

    @classmethod
    def of(cls, entry: Any) -> Origin | None:
        """Return the origin of a class or of "module:attribute"; None if it needs none."""
        module = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
        top = sys.modules.get(module.partition(".")[0])
        file = getattr(top, "__file__", None)
        if file is None or module == "__main__":
            return None
        path = Path(file).absolute().parent
        return cls(module, str(path.parent if hasattr(top, "__path__") else path))

    def __reduce__(self) -> Any:
        return _find, (self.module, self.folder)


def _find(module: str, folder: str) -> Origin:
    if not _known(module.partition(".")[0]) and Path(folder).is_dir():
        sys.path.append(folder)
        importlib.invalidate_caches()
    return Origin(module, folder)


def _known(top: str) -> bool:
    if top in sys.modules:
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except ValueError:
        return False
