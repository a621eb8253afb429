"""Environments: the maze, vectors of it, and C environments from anywhere.

Importing this package registers the ids with Gymnasium and loads nothing else of its own.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rollmill.envs.registration import register

if TYPE_CHECKING:
    from rollmill._env import NativeEnv
    from rollmill.envs.check import check_vector_env
    from rollmill.envs.description import EnvDescription
    from rollmill.envs.gymnasium_env import GymnasiumSpec, gymnasium_spec
    from rollmill.envs.maze import Maze
    from rollmill.envs.native import EnvSpec, env_spec, load, native_env
    from rollmill.envs.vector import VectorMaze

__all__ = [
    "EnvDescription",
    "EnvSpec",
    "GymnasiumSpec",
    "Maze",
    "NativeEnv",
    "VectorMaze",
    "check_vector_env",
    "env_spec",
    "gymnasium_spec",
    "load",
    "native_env",
    "register",
]

# Read when first asked for.
_HOME = {
    "EnvDescription": "rollmill.envs.description",
    "GymnasiumSpec": "rollmill.envs.gymnasium_env",
    "gymnasium_spec": "rollmill.envs.gymnasium_env",
    "EnvSpec": "rollmill.envs.native",
    "Maze": "rollmill.envs.maze",
    "NativeEnv": "rollmill._env",
    "VectorMaze": "rollmill.envs.vector",
    "check_vector_env": "rollmill.envs.check",
    "env_spec": "rollmill.envs.native",
    "load": "rollmill.envs.native",
    "native_env": "rollmill.envs.native",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


register()
