"""Options: named, checked where they are set, and built up by RLlib's methods."""

from __future__ import annotations

import copy
import dataclasses
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rollmill.names import unknown

Check = Callable[[str, Any], Any]

#: The largest float64 and float32, and the smallest float32 of full precision.
MAX = sys.float_info.max
MAX_FLOAT32 = 3.4e38
TINY = 1.2e-38


def shown(value: Any) -> str:
    """Return a value's text, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python writes
        return "a very long integer"
    return text if len(text) <= 80 else text[:77] + "..."


def option(default: Any, check: Check, doc: str) -> Any:
    """Declare a field of a config: default (or the type of an empty one), check, text."""
    metadata = {"check": check, "doc": doc}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def integer(low: int, high: int | None = None) -> Check:
    """Accept an integer in [low, high]."""
    wanted = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"

    def check(name: str, value: Any) -> int:
        whole = isinstance(value, numbers.Integral) or (
            isinstance(value, numbers.Real) and float(value).is_integer()
        )
        if isinstance(value, bool) or not whole or value < low or (high and value > high):
            raise ValueError(f"{name} must be {wanted}, got {shown(value)}")
        return int(value)

    return check


def number(low: float, high: float = math.inf, *, above: bool = False) -> Check:
    """Accept a finite number in [low, high], or in (low, high] with `above`."""
    wanted = f"a number {'>' if above else '>='} {low:g}"
    if high < math.inf:
        wanted += f" and <= {high:g}"

    def check(name: str, value: Any) -> float:
        good = isinstance(value, numbers.Real) and not isinstance(value, bool)
        # In this order: an int may be too large for a float.
        if not good or not low <= value <= min(high, MAX) or (above and value == low):
            raise ValueError(f"{name} must be {wanted}, got {shown(value)}")
        return float(value)

    return check


def factor(name: str, value: Any) -> float:
    """Accept a number above 0 that float32 kernels can multiply by."""
    checked = number(0, above=True)(name, value)
    if not TINY <= checked <= MAX_FLOAT32:
        raise ValueError(
            f"{name} must be in [{TINY:g}, {MAX_FLOAT32:g}], the range of float32, got {value!r}"
        )
    return checked


def boolean(name: str, value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {shown(value)}")
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
        raise ValueError(f"{name} must be a string, got {shown(value)}")
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Accept a dict whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be a dict with string keys, got {shown(value)}")
    return dict(value)


@dataclass(init=False)
class AlgorithmConfig:
    """Options of an algorithm. Each method sets some and returns the config.

    What is not set takes the preset of the environment, if there is one and `preset` is "auto",
    and else the default.
    """

    #: Old and other spellings of options.
    ALIASES: ClassVar[dict[str, str]] = {}
    #: Options that mean nothing here, accepted for old configs, and why.
    IGNORED: ClassVar[dict[str, str]] = {}

    def __init__(self, **options: Any) -> None:
        for name, spec in self.options().items():
            made = spec.default_factory
            setattr(self, name, spec.default if made is dataclasses.MISSING else made())
        self.set_by_user: dict[str, Any] = {}
        self.update_from_dict(options)

    @classmethod
    def options(cls) -> dict[str, dataclasses.Field[Any]]:
        """The options by name."""
        return {f.name: f for f in dataclasses.fields(cls)}

    def set(self, name: str, value: Any) -> Self:
        """Set one option by its name, an old spelling of it included.

        Raises ValueError on an unknown name, with the nearest one, or a value that does not fit.
        """
        if name in self.IGNORED:
            warnings.warn(f'option "{name}" means nothing here: {self.IGNORED[name]}', stacklevel=2)
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

    def environment(self, env: Any = None, *, env_config: Mapping[str, Any] | None = None) -> Self:
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

    def debugging(self, *, seed: int | None = None, **options: Any) -> Self:
        """Set the seed; None draws one and reports it."""
        return self.update_from_dict({"seed": seed, **options})

    def framework(self, framework: str | None = None, **options: Any) -> Self:
        """Accept RLlib's choice of a framework, which means nothing here."""
        return self._given(framework=framework, **options)

    def _given(self, **options: Any) -> Self:
        return self.update_from_dict(
            {name: value for name, value in options.items() if value is not None}
        )
