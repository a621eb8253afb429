"""Ray: engines and actors. Importing this package does not import ray; its names do."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .es import Worker, create_shared_noise

__all__ = ["Worker", "create_shared_noise"]

_HOME = {"Worker": ".es", "create_shared_noise": ".es"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
