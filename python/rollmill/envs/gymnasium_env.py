"""Environments that the interpreter steps: Gymnasium's by id, and classes of one's own."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollmill.envs import importing
from rollmill.envs.description import EnvDescription, describe_spaces
from rollmill.envs.registration import MUJOCO_IDS
from rollmill.names import quoted, unknown

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_VERSION = re.compile(r"(?P<name>.+)-v(?P<version>\d+)")
#: Names of a first parameter that takes all options in one mapping, as RLlib passes them.
_MAPPINGS = {"config", "env_config", "env_context", "cfg"}
# Classes that no path leads to, by the name that a config keeps of them.
_remembered: dict[str, Any] = {}


@dataclass(frozen=True)
class GymnasiumSpec:
    """What it takes to build an environment again, here or in another process.

    Made by `gymnasium_spec` or `rollmill.envs.env_spec`, which check it.

    Attributes
    ----------
    id : str
        Gymnasium's id, "module:id", or "package.module.Class".
    kwargs : dict
        Arguments that it is built with.
    entry : class or None
        The class, where the id is a path.
    description : EnvDescription
    registration : gymnasium's EnvSpec, optional
        What the id is registered with, where that is not in Gymnasium's own package: another
        process need not import what registers it.
    """

    id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    entry: Any = field(default=None, compare=False)
    description: EnvDescription | None = field(default=None, compare=False, repr=False)
    registration: Any = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        registered = self.registration
        point = self.entry if registered is None else registered.entry_point
        # The first argument is there before those that need its module are made.
        origin = importing.Origin.of(point) if point else None
        return _again, (origin, self.id, self.kwargs, self.entry, self.description, registered)

    def build(self) -> Any:
        """Return a new gymnasium.Env.

        Raises
        ------
        ValueError
            If it cannot be built, with the reason.
        """
        from rollmill.envs.old_style import adapt

        try:
            if self.entry is not None:
                return adapt(_construct(self.entry, self.kwargs))
            import gymnasium

            env_id = self._registered() if self.registration else self.id
            return adapt(gymnasium.make(env_id, disable_env_checker=True, **self.kwargs))
        except Exception as error:
            text = " ".join(str(error).split())
            raise ValueError(
                f"{self.id} cannot be built: {type(error).__name__}: {text}"
            ) from error

    def _registered(self) -> str:
        """Return the id without a module, registered here too."""
        import gymnasium

        registration = self.registration
        if registration is None:
            return self.id.rpartition(":")[2]
        gymnasium.registry.setdefault(registration.id, registration)
        return registration.id

    def describe(self) -> EnvDescription:
        """Describe the environment."""
        if self.description is not None:
            return self.description
        env = self.build()
        try:
            spec = getattr(env, "spec", None)
            limit = getattr(spec, "max_episode_steps", None)
            if not isinstance(limit, int) or limit < 1:
                limit = 0
            return describe_spaces(self.id, env.observation_space, env.action_space, limit)
        finally:
            with suppress(Exception):
                env.close()

    def digest(self) -> str:
        """Return a hash of what defines the environment, to compare nodes by."""
        import gymnasium

        found = hashlib.sha256(gymnasium.__version__.encode())
        entry = self.entry
        if entry is None:
            entry = gymnasium.spec(self._registered()).entry_point
            if isinstance(entry, str):
                entry = gymnasium.envs.registration.load_env_creator(entry)
        travels_by_value = entry.__module__ == "__main__" or "<locals>" in entry.__qualname__
        if not travels_by_value:
            with suppress(TypeError, OSError):  # it has no source file
                found.update(Path(inspect.getfile(entry)).read_bytes())
        return found.hexdigest()[:12]

    @property
    def observation_space(self) -> Any:
        """gymnasium.Space of one observation."""
        observations = self.describe().observations
        assert observations is not None
        return observations.space

    @property
    def action_space(self) -> Any:
        """gymnasium.Space of one action."""
        actions = self.describe().actions
        assert actions is not None
        return actions.space


def gymnasium_spec(env: Any, **kwargs: Any) -> GymnasiumSpec:
    """Return the spec of an environment that the interpreter steps, checked by building it once.

    Parameters
    ----------
    env : str or class
        An id that Gymnasium knows, "module:id" (the module is imported first, which registers its
        ids), "package.module.Class" or "package.module:Class", or a class. Classes may lack
        Gymnasium's base class and have its older interface; see `rollmill.envs.old_style`.
    **kwargs
        Arguments that it is built with. A class whose first parameter is named config, env_config
        or env_context gets them all as one dict, as RLlib passes them.

    Raises
    ------
    ValueError
        On an unknown id, with the nearest name or the newest version, on an environment that
        cannot be built, and on spaces that no policy fits.
    """
    if isinstance(env, str):
        name, entry = _resolve(env)
    elif callable(env):
        name, entry = name_of(env), env
    else:
        raise TypeError(f"env must be an id or a class, got {type(env).__name__}")
    registration = None if entry is not None else _registration(name)
    spec = GymnasiumSpec(name, dict(kwargs), entry)
    return GymnasiumSpec(name, dict(kwargs), entry, spec.describe(), registration)


def _again(_: Any, *values: Any) -> GymnasiumSpec:
    return GymnasiumSpec(*values)


def _registration(env_id: str) -> Any:
    """Return what registers an id elsewhere; None for those of Gymnasium itself."""
    import gymnasium

    found = gymnasium.spec(env_id.rpartition(":")[2])
    point = found.entry_point
    module = point if isinstance(point, str) else getattr(point, "__module__", "")
    return None if module.startswith("gymnasium.envs.") else found


def name_of(entry: Any) -> str:
    """Return the path of a class or function, by which this process finds it again."""
    name = f"{entry.__module__}.{entry.__qualname__}"
    if _follow(entry.__module__, entry.__qualname__) is not entry:
        _remembered[name] = entry
    return name


def environment_name(option: str, value: Any) -> str:
    """Return the name that a config keeps of a class or GymnasiumSpec."""
    if isinstance(value, GymnasiumSpec):
        return value.id if value.entry is None else name_of(value.entry)
    if isinstance(value, type) or inspect.isfunction(value):
        return name_of(value)
    raise ValueError(
        f"{option} must be a string, the class of an environment or a spec, got {value!r}"
    )


def warn_fallback(env_id: str, why: str) -> None:
    """Say that the interpreter steps a MuJoCo task, and why."""
    warnings.warn(f"{env_id} runs through Gymnasium, and slower: {why}", stacklevel=3)


def _resolve(env: str) -> tuple[str, Any]:
    """Return the id and, where the name leads to a class, the class."""
    import gymnasium

    if env in _remembered:
        return env, _remembered[env]
    if env in gymnasium.registry:
        return _usable(env), None
    module, colon, name = env.partition(":")
    if colon and _is_module(module):
        _import(module, env)
        if name in gymnasium.registry:
            return f"{module}:{_usable(name)}", None
        found = _follow(module, name)
        if found is None:
            raise ValueError(
                f"the module {module} has no {name}, and registers no environment of that name."
                + unknown("environment", name, gymnasium.registry).partition(".")[2]
            )
        return f"{module}.{name}", found
    if _PATH.fullmatch(env):
        return env, _class(env)
    raise ValueError(unknown_environment(env))


def unknown_environment(env: str) -> str:
    """Return the sentence for an id that nothing has: the newest version, or the nearest name."""
    import gymnasium

    from rollmill.envs.native import BUILDERS

    known = sorted({*gymnasium.registry, *BUILDERS})
    found = _VERSION.fullmatch(env)
    newest = _newest(found["name"] if found else env, known)
    if newest is not None:
        return f"unknown environment {quoted(env)}: the newest version is {quoted(newest)}"
    hint = " Ids of another package need its name first: module:id." if "/" in env else ""
    return unknown("environment", env, known) + hint


def _newest(name: str, ids: Iterable[str]) -> str | None:
    """Return the id of the newest version of a name."""
    versions = [
        int(found["version"])
        for known in ids
        if (found := _VERSION.fullmatch(known)) and found["name"] == name
    ]
    return f"{name}-v{max(versions)}" if versions else None


def _usable(env: str) -> str:
    """Return an id, unless it is registered only to say that it has moved elsewhere."""
    import gymnasium

    found = _VERSION.fullmatch(env)
    newest = _newest(found["name"], gymnasium.registry) if found else None
    if found and newest in MUJOCO_IDS and int(found["version"]) < 4:
        raise ValueError(
            f"the environment {quoted(env)} is no longer part of Gymnasium: the newest version is "
            f"{quoted(newest)}"
        )
    return env


def _is_module(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _import(module: str, env: str) -> Any:
    try:
        return importing.load(module)
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(
            f"the environment {quoted(env)} cannot be found: importing {module} raises "
            f"{type(error).__name__}: {text}"
        ) from error


def _class(path: str) -> Any:
    """Return what a dotted path names; the longest module that there is holds the class."""
    module, _, name = path.rpartition(".")
    found = sys.modules.get(module) or _import(module, path)
    entry = getattr(found, name, None)
    if not callable(entry):
        choices = [key for key, value in vars(found).items() if inspect.isclass(value)]
        raise ValueError(
            f"the module {module} has no class {name}."
            + unknown("class", name, choices).partition(".")[2]
        )
    return entry


def _follow(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _construct(entry: Any, kwargs: dict[str, Any]) -> Any:
    """Call a class with its arguments, or with one mapping of them where it wants that."""
    try:
        parameters = list(inspect.signature(entry).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if parameters and parameters[0].name in _MAPPINGS - set(kwargs):
        return entry(dict(kwargs))
    return entry(**kwargs)
