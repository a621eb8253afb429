"""Options: named, checked where they are set, and built up by RLlib's methods."""

from __future__ import annotations

import copy
import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ..names import unknown

Check = Callable[[str, Any], Any]


def option(default: Any, check: Check, doc: str) -> Any:
    """Declare a field of a config: its default, its check, and one line for people."""
    metadata = {"check": check, "doc": doc}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def integer(low: int, high: int | None = None) -> Check:
    """Accept an integer in [low, high]."""
    wanted = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"

    def check(name: str, value: Any) -> int:
        whole = isinstance(value, numbers.Real) and float(value).is_integer()
        if isinstance(value, bool) or not whole or value < low or (high and value > high):
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
        return int(value)

    return check


def number(low: float, high: float = math.inf, *, above: bool = False) -> Check:
    """Accept a finite number in [low, high], or in (low, high] with `above`."""
    wanted = f"a number {'>' if above else '>='} {low:g}"
    if high < math.inf:
        wanted += f" and <= {high:g}"

    def check(name: str, value: Any) -> float:
        good = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not low <= value <= high:
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
        if above and value == low:
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
        return float(value)

    return check


def boolean(name: str, value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def choice(*names: str) -> Check:
    """Accept one of some names."""

    def check(name: str, value: Any) -> str:
        if value not in names:
            raise ValueError(unknown(name, value, names))
        return value

    return check


def maybe(inner: Check) -> Check:
    """Accept None too."""
    return lambda name, value: None if value is None else inner(name, value)


def text(name: str, value: Any) -> str:
    """Accept a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a string, got {value!r}")
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Accept a dict whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be a dict with string keys, got {value!r}")
    return dict(value)


@dataclass
class AlgorithmConfig:
    """Options of an algorithm. Each method sets some and returns the config.

    What is not set takes the preset of the environment, if there is one and `preset` is "auto",
    and else the default.
    """

    #: Old and other spellings of options.
    ALIASES: ClassVar[dict[str, str]] = {}
    #: Options that mean nothing here, accepted for old configs, and why.
    IGNORED: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        self.set_by_user: dict[str, Any] = {}

    @classmethod
    def options(cls) -> dict[str, dataclasses.Field[Any]]:
        """The options by name."""
        return {f.name: f for f in dataclasses.fields(cls)}

    def set(self, name: str, value: Any) -> Self:
        """Set one option by its name, an old spelling of it included.

        Raises ValueError on an unknown name, with the nearest one, or a value that does not fit.
        """
        if name in self.IGNORED:
            return self
        known = self.options()
        real = self.ALIASES.get(name, name)
        if real not in known:
            raise ValueError(unknown("option", name, [*known, *self.ALIASES]))
        checked = known[real].metadata["check"](name, value)
        setattr(self, real, checked)
        self.set_by_user[real] = checked
        return self

    def update_from_dict(self, options: Mapping[str, Any]) -> Self:
        """Set options from a dict. Nothing is changed if one of them does not fit."""
        trial = copy.deepcopy(self)
        for name, value in options.items():
            trial.set(name, value)
        self.__dict__.update(trial.__dict__)
        return self

    def copy(self) -> Self:
        """Return a config of its own."""
        return copy.deepcopy(self)

    def to_dict(self) -> dict[str, Any]:
        """Return every option and its present value."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self.options()}

    def environment(
        self, env: Any = None, *, env_config: Mapping[str, Any] | None = None
    ) -> Self:
        """Set the environment, and the arguments that it is built with."""
        return self._given(env=env, env_config=env_config)

    def training(self, **options: Any) -> Self:
        """Set any options by name."""
        return self.update_from_dict(options)

    def env_runners(self, num_env_runners: int | None = None, **options: Any) -> Self:
        """Set how many slots of a Ray cluster compute units; 0 is threads in this process."""
        return self._given(num_workers=num_env_runners, **options)

    def rollouts(self, num_rollout_workers: int | None = None, **options: Any) -> Self:
        """Set how many slots of a Ray cluster compute units, in RLlib's older spelling."""
        return self._given(num_workers=num_rollout_workers, **options)

    def resources(self, **options: Any) -> Self:
        """Set any options by name, such as ``num_threads``."""
        return self.update_from_dict(options)

    def evaluation(self, **options: Any) -> Self:
        """Set any options by name, such as ``eval_prob``."""
        return self.update_from_dict(options)

    def debugging(self, *, seed: int | None = None) -> Self:
        """Set the seed; None draws one and reports it."""
        return self.set("seed", seed)

    def _given(self, **options: Any) -> Self:
        return self.update_from_dict(
            {name: value for name, value in options.items() if value is not None}
        )
