"""C environments by name: built-in ones and those of shared libraries."""

import ctypes
import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rollmill._env import NativeEnv, SpaceSpec
from rollmill.envs.description import EnvDescription, describe
from rollmill.envs.registration import MAZE_ID, MUJOCO_IDS
from rollmill.names import unknown

if TYPE_CHECKING:
    import gymnasium

    from rollmill.envs.gymnasium_env import GymnasiumSpec

# Ids and the functions that build them: module, name.
BUILDERS = {
    MAZE_ID: ("rollmill.envs.maze", "native_maze"),
    **{env_id: ("rollmill.envs.mujoco", env_id) for env_id in MUJOCO_IDS},
}


@dataclass(frozen=True)
class EnvSpec:
    """What it takes to build a C environment again, here or in another process.

    Made by `env_spec`, which checks it.
    """

    id: str  # an id in BUILDERS, or "path/to/library.so:symbol"
    kwargs: dict[str, Any] = field(default_factory=dict)  # of the id's builder

    def build(self) -> NativeEnv:
        """Return a new NativeEnv."""
        if _is_library(self.id):
            return load(self.id)
        return _builder(self.id)(**self.kwargs)

    def describe(self) -> EnvDescription:
        """Describe the environment."""
        return describe(self.build())

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """gymnasium.Space of one observation."""
        return space(self.build().observation_space_spec)

    @property
    def action_space(self) -> "gymnasium.Space[Any]":
        """gymnasium.Space of one action."""
        return space(self.build().action_space_spec)


def env_spec(
    spec: "str | EnvSpec | GymnasiumSpec | type", **kwargs: Any
) -> "EnvSpec | GymnasiumSpec":
    """Return what builds an environment, in C or stepped by the interpreter, checked by building
    it once.

    Parameters
    ----------
    spec : str, class, EnvSpec or GymnasiumSpec
        The id of a built-in environment ("rollmill/Maze-v0"), "path/to/library.so:symbol"
        (see `load`; the path becomes absolute), an id that Gymnasium knows ("CartPole-v1", or
        "module:id"), a class or "package.module.Class" (see `gymnasium_spec`), or a spec. A MuJoCo
        task is built in C where the installed MuJoCo fits, else it is Gymnasium's, with a warning.
    **kwargs
        Options of the environment, over those of a spec.

    Raises
    ------
    ValueError
        On an unknown id or option, with the nearest name, or an option out of its range.
    FileNotFoundError, OSError
        As `load`.
    """
    from rollmill.envs import gymnasium_env

    if isinstance(spec, gymnasium_env.GymnasiumSpec):
        entry = spec.id if spec.entry is None else spec.entry
        return gymnasium_env.gymnasium_spec(entry, **{**spec.kwargs, **kwargs})
    if isinstance(spec, type) or inspect.isfunction(spec):
        return gymnasium_env.gymnasium_spec(spec, **kwargs)
    if not isinstance(spec, str | EnvSpec):
        raise TypeError(
            "spec must be an environment id, 'path/to/library.so:symbol', a class or a spec, "
            f"got {type(spec).__name__}"
        )
    name = spec.id if isinstance(spec, EnvSpec) else spec
    module, _, after = name.partition(":")
    if after in BUILDERS and module.replace(".", "_").isidentifier():
        name, spec = after, after  # "rollmill:rollmill/Maze-v0", as Gymnasium takes it
    if not _is_library(name) and name not in BUILDERS:
        return gymnasium_env.gymnasium_spec(name, **kwargs)
    if name in MUJOCO_IDS:
        from rollmill.envs.mujoco import supported

        options = {**spec.kwargs, **kwargs} if isinstance(spec, EnvSpec) else kwargs
        runs, why = supported(name, **options)
        if not runs:
            result = gymnasium_env.gymnasium_spec(name, **options)
            gymnasium_env.warn_fallback(name, why)
            return result
    return _native_spec(spec, **kwargs)


def _native_spec(spec: str | EnvSpec, **kwargs: Any) -> EnvSpec:
    """Return the EnvSpec of a C environment, checked by building it once."""
    if isinstance(spec, EnvSpec):
        kwargs = {**spec.kwargs, **kwargs}
        spec = spec.id
    if _is_library(spec):
        _no_options(spec, kwargs)
        library, _, symbol = spec.rpartition(":")
        spec = f"{Path(library).absolute()}:{symbol}"
    else:
        check_options(spec, kwargs, inspect.signature(_builder(spec)).parameters)
    result = EnvSpec(spec, dict(kwargs))
    result.build()
    return result


def native_env(spec: Any, **kwargs: Any) -> NativeEnv:
    """Return a C environment.

    Parameters
    ----------
    spec : str, EnvSpec, NativeEnv or PyCapsule
        As `env_spec`; or a NativeEnv, which is returned; or a PyCapsule "rollmill.rml_env".
    **kwargs
        Options of a built-in environment.

    Raises
    ------
    As `env_spec`; TypeError on a spec of another type.
    """
    if isinstance(spec, NativeEnv):
        _no_options(spec.name, kwargs)
        return spec
    if isinstance(spec, str | EnvSpec):
        return _native_spec(spec, **kwargs).build()
    if type(spec).__name__ == "PyCapsule":
        _no_options("a capsule", kwargs)
        return NativeEnv.from_capsule(spec)
    raise TypeError(
        f"spec must be an environment id, 'path/to/library.so:symbol', an EnvSpec, a NativeEnv or "
        f"a PyCapsule, got {type(spec).__name__}"
    )


def load(spec: str) -> NativeEnv:
    """Return the environment of a shared library.

    Parameters
    ----------
    spec : str
        "path/to/library.so:symbol", where symbol is a C function of the type rml_env_factory.
        Loading a library runs its code.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If the file is no library that can be loaded here.
    ValueError
        If the library lacks the symbol, or its environment has another ABI or a wrong field.
    """
    if not _is_library(spec):
        raise ValueError(f"spec must look like 'path/to/library.so:symbol', got {spec!r}")
    name, _, symbol = spec.rpartition(":")
    path = Path(name).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"there is no environment library {name!r}")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise OSError(f"{name!r} is no library that can be loaded here: {error}") from None
    try:
        factory = getattr(library, symbol)
    except AttributeError:
        raise ValueError(f"the library {name!r} has no function {symbol!r}") from None
    address = ctypes.cast(factory, ctypes.c_void_p).value or 0
    try:
        return NativeEnv.from_address(address, library)
    except ValueError as error:
        raise ValueError(f"{spec!r} is {error}") from None


def space(spec: SpaceSpec) -> "gymnasium.Space[Any]":
    """Return the Gymnasium space of what a C environment declares."""
    from gymnasium.spaces import Box, Discrete

    if spec.kind == "discrete":
        return Discrete(spec.n, dtype=spec.dtype.type)
    low: Any = -np.inf
    high: Any = np.inf
    if spec.low is not None and spec.high is not None:
        low, high = spec.low.astype(spec.dtype), spec.high.astype(spec.dtype)
    elif spec.dtype == np.uint8:
        low, high = 0, 255
    return Box(low, high, shape=spec.shape, dtype=spec.dtype.type)


def check_options(owner: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError on an option that is not known, naming the nearest one."""
    choices = sorted(known)
    for option in options:
        if option not in choices:
            raise ValueError(unknown(f"{owner} option", option, choices))


def _no_options(owner: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ValueError(f"{owner} takes no options, got {', '.join(sorted(kwargs))}")


def _is_library(spec: str) -> bool:
    library, _, symbol = spec.rpartition(":")
    if not library or not symbol.isidentifier():
        return False
    # "package.module:Class" is no library.
    is_module = all(part.isidentifier() for part in library.split("."))
    return not is_module or library.endswith((".so", ".dylib")) or Path(library).exists()


def _builder(env_id: str) -> Callable[..., NativeEnv]:
    if env_id not in BUILDERS:
        raise ValueError(unknown("native environment", env_id, BUILDERS))
    module, name = BUILDERS[env_id]
    return getattr(importlib.import_module(module), name)
