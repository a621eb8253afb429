"""Environments of the older interface, or of no interface at all, as Gymnasium's.

Gymnasium resets by `reset(seed=..., options=...)`, which returns (observation, info), and steps by
`step(action)`, which returns five values. Environments written for gym before 0.26, such as those
of many tutorials, reset without arguments, return the observation alone, and step to four values;
some inherit from nothing. `adapt` looks at the signatures once and wraps what needs it.
"""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


def adapt(env: Any) -> Any:
    """Return an environment as Gymnasium's; one that already is one is returned as it is.

    Raises
    ------
    TypeError
        If it lacks `reset`, `step`, `observation_space` or `action_space`, or is a vector of them.
    """
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(f"{type(env).__name__} is a vector of environments: name a single one")
    for name in ("reset", "step", "observation_space", "action_space"):
        if getattr(env, name, None) is None:
            raise TypeError(f"{type(env).__name__} is no environment: it has no {name}")
    inner = getattr(env, "unwrapped", env)
    if isinstance(env, gymnasium.Env) and _takes_seed(env.reset) and _takes_seed(inner.reset):
        return env
    return OldStyle(env)


class OldStyle(gymnasium.Env[Any, Any]):
    """An environment of the older interface.

    `reset` seeds by the argument or else the method `seed` if the environment has one; else it is
    not seeded. The four values of `step` become five: an end counts as truncation, and not as
    termination, where info["TimeLimit.truncated"] is true.

    Parameters
    ----------
    env : object with reset, step, observation_space and action_space
    """

    def __init__(self, env: Any):
        self.env = env
        self.observation_space = as_space(env.observation_space)
        self.action_space = as_space(env.action_space)
        self.spec = getattr(env, "spec", None)
        self.metadata = getattr(env, "metadata", None) or {}
        self.render_mode = getattr(env, "render_mode", None)
        self._takes_seed = _takes_seed(env.reset)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode: (observation, info)."""
        super().reset(seed=seed)
        if self._takes_seed:
            result = self.env.reset(seed=seed)
        else:
            if seed is not None and callable(getattr(self.env, "seed", None)):
                self.env.seed(seed)
            result = self.env.reset()
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        return result, {}

    def step(self, action: Any) -> Any:
        """Step: five values, whatever the environment returns."""
        result = self.env.step(action)
        if len(result) == 5:
            return result
        observation, reward, done, info = result
        info = {} if info is None else info
        truncated = bool(done) and bool(info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Draw, if the environment can."""
        return self.env.render()

    def close(self) -> None:
        """Close, if the environment can."""
        close = getattr(self.env, "close", None)
        if callable(close):
            close()


def as_space(space: Any) -> spaces.Space[Any]:
    """Return Gymnasium's space for one of the same name and attributes, such as gym's."""
    if isinstance(space, spaces.Space):
        return space
    name = type(space).__name__
    if name == "Discrete":
        n = getattr(space, "n", None)
        n = getattr(space, "num_actions", n) if n is None else n
        if n is not None:
            return spaces.Discrete(int(n), start=int(getattr(space, "start", 0)))
    if name == "Box" and hasattr(space, "low") and hasattr(space, "high"):
        dtype = getattr(space, "dtype", np.float32)
        return spaces.Box(np.asarray(space.low), np.asarray(space.high), dtype=dtype)
    if name == "MultiDiscrete" and hasattr(space, "nvec"):
        return spaces.MultiDiscrete(np.asarray(space.nvec))
    if name == "MultiBinary" and hasattr(space, "n"):
        return spaces.MultiBinary(space.n)
    if name in ("Dict", "Tuple") and hasattr(space, "spaces"):
        parts = space.spaces
        if name == "Dict":
            return spaces.Dict([(key, as_space(part)) for key, part in parts.items()])
        return spaces.Tuple([as_space(part) for part in parts])
    raise TypeError(f"{space!r} of type {type(space).__name__} is no space that is known")


def _takes_seed(reset: Any) -> bool:
    try:
        parameters = inspect.signature(reset).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)
