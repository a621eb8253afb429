"""Stop criteria: training stops when any named number of a result reaches its bound."""

import math
from collections.abc import Mapping
from typing import Any

from .names import listed, nearest, quoted, unknown
from .results import flatten, json_loads, to_plain

_EXAMPLE = '{"training_iteration": 10}'


class StopCriteria:
    """Bounds on the numbers of a result; the first one that is reached ends training.

    criteria : mapping of result names to finite numbers, or to True for a flag of the result;
        nested dicts and "/" name the same thing:
        {"env_runners": {"episode_return_mean": 1}} is {"env_runners/episode_return_mean": 1}.
        An empty mapping never stops.
    Raises ValueError on anything else.
    """

    def __init__(self, criteria: Mapping[str, Any]) -> None:
        if not isinstance(criteria, Mapping):
            raise ValueError(f"stop must be a mapping such as {_EXAMPLE}, got {criteria!r}")
        self.criteria: dict[str, int | float] = {}
        self._known = False
        self._add("", criteria)

    def reached(self, result: Mapping[str, Any]) -> str | None:
        """Which criterion `result` reaches, as a sentence; None if training goes on.

        result : flat or nested; NaN and None reach nothing
        Raises ValueError if the first result lacks a name, or a value is not a number.
        """
        flat = flatten(to_plain(result, "result"))
        if not self._known:
            self._require(flat)
            self._known = True
        for key, bound in self.criteria.items():
            value = flat.get(key)
            if value is None:
                continue
            if not isinstance(value, int | float):
                raise ValueError(
                    f"stop criterion {quoted(key)} needs a number in the result, got {value!r}"
                )
            if value >= bound:
                return f"{key} is {_text(value)}, which reaches the stop criterion {_text(bound)}"
        return None

    def __len__(self) -> int:
        return len(self.criteria)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StopCriteria) and self.criteria == other.criteria

    def __repr__(self) -> str:
        return f"StopCriteria({self.criteria!r})"

    def _add(self, prefix: str, criteria: Mapping[str, Any]) -> None:
        for key, bound in criteria.items():
            if not isinstance(key, str) or not key:
                raise ValueError(f"stop criterion must be named by a result's name, got {key!r}")
            name = prefix + key
            if isinstance(bound, Mapping):
                self._add(name + "/", bound)
            elif name in self.criteria:
                raise ValueError(f"stop criterion {quoted(name)} is given twice")
            else:
                self.criteria[name] = _bound(name, bound)

    def _require(self, flat: Mapping[str, Any]) -> None:
        for key in self.criteria:
            if key not in flat:
                sentence = unknown("stop criterion", key, flat)
                if nearest(key, flat):
                    sentence += f" Known: {listed(flat)}."
                raise ValueError(sentence)


def parse_stop(text: str) -> StopCriteria:
    """The criteria in the JSON object `text`, as given to `--stop`.

    Raises ValueError on malformed JSON, anything but an object, and what StopCriteria refuses.
    """
    wanted = f"stop must be a JSON object such as {_EXAMPLE}, got {quoted(text, limit=80)}"
    try:
        value = json_loads(text)
    except ValueError as error:
        raise ValueError(f"{wanted} ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(wanted)
    return StopCriteria(value)


def _bound(name: str, bound: Any) -> int | float:
    try:
        number = to_plain(bound)
    except TypeError:
        number = None
    if (
        isinstance(number, int | float)
        and number is not False
        and (isinstance(number, int) or math.isfinite(number))
    ):
        return number
    raise ValueError(
        f"stop criterion {quoted(name)} must be a finite number or True, got {bound!r}"
    )


def _text(number: int | float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)
