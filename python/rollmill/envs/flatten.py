"""Gymnasium's spaces and a network's flat vectors, in the layout of `gymnasium.spaces.flatten`.

Box and MultiBinary take an element each, in C order; Discrete a one-hot row of n elements;
MultiDiscrete such a row for each of its numbers; Dict and Tuple their parts in the space's order.
Observations fill that vector. A network has an output for each of its elements, and an action is
made of them: the arg-max of each one-hot row or a draw of its softmax, the value of each element of
a Box clipped to its bounds (rounded first where its dtype is an integer), and 1 for each element of
a MultiBinary whose output is positive, or a draw of the softmax over 0 and the output.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rollmill import _policy

#: Most values of one discrete choice that actions are made of; see rollmill/policy.h.
CHOICES = 1024

Writer = Callable[[Any, NDArray[np.float64]], None]


class Observations:
    """Writes the observations of a space into flat vectors.

    Parameters
    ----------
    space : gymnasium.Space

    Attributes
    ----------
    size : int
        Elements of the vector; 0 if the space holds nothing.
    one_hot : bool
        The space is Discrete: its observations are row numbers, which `index` tells.
    write : callable
        write(observation, out) fills out, (size,) float64. It raises on an observation that is not
        of the space's shape, or is a number out of its range.

    Raises
    ------
    ValueError
        On a space that has no vector of a fixed size: Text, Graph, Sequence, OneOf.
    """

    def __init__(self, space: spaces.Space[Any]):
        self.space = space
        self.one_hot = isinstance(space, spaces.Discrete)
        self.write, self.size = _writer(space, 0, "observation")

    def __reduce__(self) -> Any:
        return Observations, (self.space,)

    def index(self, observation: Any) -> int:
        """Return the row of an observation of a Discrete space."""
        return _place(self.space, observation)

    def rows(self, observations: Sequence[Any]) -> NDArray[np.float64]:
        """Return the vectors of observations, (N, size)."""
        out = np.empty((len(observations), self.size))
        for observation, row in zip(observations, out, strict=True):
            self.write(observation, row)
        return out


class Actions:
    """Makes actions of a space out of a network's outputs.

    Parameters
    ----------
    space : gymnasium.Space

    Attributes
    ----------
    size : int
        Outputs of the network.
    draws : int
        Uniform draws that sampling one action takes.
    boxes : (B,) int
        The outputs that are elements of a Box, which action noise is added to.

    Raises
    ------
    ValueError
        As `Observations`, and on a choice between more than 1024 values.
    """

    def __init__(self, space: spaces.Space[Any]):
        self.space = space
        parts: list[_Part] = []
        self._tree = _tree(space, parts)
        self.parts = parts
        self.size = parts[-1].end if parts else 0
        self.draws = parts[-1].last_draw if parts else 0
        boxes = [np.arange(part.begin, part.end) for part in parts if isinstance(part, _Box)]
        self.boxes = np.concatenate(boxes) if boxes else np.zeros(0, np.int64)

    def __reduce__(self) -> Any:
        return Actions, (self.space,)

    def make(
        self, outputs: NDArray[np.float32], units: NDArray[np.float32] | None = None
    ) -> Sequence[Any]:
        """Make the action of each row of outputs.

        Parameters
        ----------
        outputs : (K, size) float32
            Free of NaN.
        units : (K, draws) float32 in [0, 1), optional
            Draws to sample by; without them every choice is the most probable one.

        Returns
        -------
        sequence of K actions
        """
        values = [part.values(outputs, units) for part in self.parts]
        if isinstance(self._tree, int):
            return values[0]
        return [_assemble(self._tree, values, row) for row in range(len(outputs))]


class _Part:
    """A space without parts: outputs [begin, end), draws [draw, last_draw)."""

    def __init__(self, space: Any, begin: int, draw: int):
        self.space, self.begin, self.draw = space, begin, draw
        self.end = begin + spaces.flatdim(space)
        self.last_draw = draw

    def values(self, outputs: NDArray[np.float32], units: NDArray[np.float32] | None) -> Any:
        raise NotImplementedError


class _Box(_Part):
    def __init__(self, space: spaces.Box, begin: int, draw: int):
        super().__init__(space, begin, draw)
        self.low = space.low.astype(np.float64).ravel()
        self.high = space.high.astype(np.float64).ravel()
        self.whole = space.dtype is not None and space.dtype.kind in "iub"

    def values(self, outputs: NDArray[np.float32], units: NDArray[np.float32] | None) -> Any:
        values = outputs[:, self.begin : self.end].astype(np.float64)
        if self.whole:
            np.rint(values, out=values)
        np.maximum(values, self.low, out=values)
        np.minimum(values, self.high, out=values)
        values = values.astype(self.space.dtype)
        if not self.space.shape:  # arrays without axes, and not the numbers in them
            return [np.array(value) for value in values[:, 0]]
        return values.reshape(len(outputs), *self.space.shape)


class _Bits(_Part):
    def __init__(self, space: spaces.MultiBinary, begin: int, draw: int):
        super().__init__(space, begin, draw)
        self.last_draw = draw + self.end - begin

    def values(self, outputs: NDArray[np.float32], units: NDArray[np.float32] | None) -> Any:
        block = outputs[:, self.begin : self.end]
        if units is None:
            bits = block > 0
        else:
            pair = np.zeros((*block.shape, 2), np.float32)
            pair[..., 1] = block
            bits = _samples(pair, units[:, self.draw : self.last_draw]) > 0
        return bits.astype(self.space.dtype).reshape(len(outputs), *self.space.shape)


class _Choices(_Part):
    """Discrete and MultiDiscrete."""

    def __init__(self, space: Any, begin: int, draw: int):
        super().__init__(space, begin, draw)
        single = isinstance(space, spaces.Discrete)
        counts = [int(n) for n in np.ravel(space.n if single else space.nvec)]
        if counts and max(counts) > CHOICES:
            raise ValueError(
                f"the action space {space} has a choice between {max(counts)} values: at most "
                f"{CHOICES} are supported"
            )
        ends = np.cumsum([begin, *counts]).tolist()
        self.choices = [slice(a, b) for a, b in pairwise(ends)]
        self.last_draw = draw + len(counts)
        self.start = np.ravel(space.start)
        self.shape: tuple[int, ...] = () if single else space.shape

    def values(self, outputs: NDArray[np.float32], units: NDArray[np.float32] | None) -> Any:
        numbers = np.empty((len(outputs), len(self.choices)), np.int64)
        for i, choice in enumerate(self.choices):
            block = outputs[:, choice]
            if units is None:
                numbers[:, i] = block.argmax(1)
            else:
                draw = slice(self.draw + i, self.draw + i + 1)
                numbers[:, i] = _samples(block[:, None], units[:, draw])[:, 0]
        numbers += self.start
        return numbers.astype(self.space.dtype).reshape(len(outputs), *self.shape)


def _samples(logits: NDArray[np.float32], units: NDArray[np.float32]) -> NDArray[np.int64]:
    """Draw of each softmax over the last axis of logits, (K, G, A), by units, (K, G)."""
    logits = np.ascontiguousarray(logits)
    return np.array(
        [
            [_policy.sample(row, float(unit)) for row, unit in zip(rows, some, strict=True)]
            for rows, some in zip(logits, units, strict=True)
        ],
        np.int64,
    ).reshape(units.shape)


def _tree(space: Any, parts: list[_Part]) -> Any:
    """Append a space's parts; return the number of its part, or a dict or tuple of trees."""
    if isinstance(space, spaces.Dict):
        return {key: _tree(part, parts) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_tree(part, parts) for part in space.spaces)
    kinds: list[tuple[Any, type[_Part]]] = [
        (spaces.Discrete, _Choices),
        (spaces.MultiDiscrete, _Choices),
        (spaces.MultiBinary, _Bits),
        (spaces.Box, _Box),
    ]
    for kind, part in kinds:
        if isinstance(space, kind):
            begin, draw = (parts[-1].end, parts[-1].last_draw) if parts else (0, 0)
            parts.append(part(space, begin, draw))
            return len(parts) - 1
    raise ValueError(_refusal("action", space))


def _assemble(tree: Any, values: list[Any], row: int) -> Any:
    if isinstance(tree, dict):
        return {key: _assemble(part, values, row) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_assemble(part, values, row) for part in tree)
    return values[tree][row]


def _writer(space: Any, begin: int, what: str) -> tuple[Writer, int]:
    """Return what writes observations of a space from element `begin` on, and where it ends."""
    if isinstance(space, spaces.Dict):
        return _dict_writer(space, begin, what)
    if isinstance(space, spaces.Tuple):
        return _tuple_writer(space, begin, what)
    if isinstance(space, spaces.Discrete):
        return _discrete_writer(space, begin), begin + int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return _multidiscrete_writer(space, begin, what), begin + spaces.flatdim(space)
    if not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise ValueError(_refusal(what, space))
    end, shape = begin + spaces.flatdim(space), space.shape
    flat = len(shape) == 1

    def write(observation: Any, out: NDArray[np.float64]) -> None:
        array = observation if isinstance(observation, np.ndarray) else np.asarray(observation)
        if array.shape != shape:
            raise ValueError(f"the {what} has the shape {array.shape}, its space {shape}")
        out[begin:end] = array if flat else array.reshape(-1)

    return write, end


def _dict_writer(space: spaces.Dict, begin: int, what: str) -> tuple[Writer, int]:
    writers = {}
    for key, part in space.spaces.items():
        writers[key], begin = _writer(part, begin, f"{what}[{key!r}]")

    def write(observation: Any, out: NDArray[np.float64]) -> None:
        for key, writer in writers.items():
            writer(observation[key], out)

    return write, begin


def _tuple_writer(space: spaces.Tuple, begin: int, what: str) -> tuple[Writer, int]:
    writers = []
    for number, part in enumerate(space.spaces):
        writer, begin = _writer(part, begin, f"{what}[{number}]")
        writers.append(writer)

    def write(observation: Any, out: NDArray[np.float64]) -> None:
        if len(observation) != len(writers):
            raise ValueError(f"the {what} has {len(observation)} parts, its space {len(writers)}")
        for writer, part in zip(writers, observation, strict=True):
            writer(part, out)

    return write, begin


def _discrete_writer(space: spaces.Discrete, begin: int) -> Writer:
    end = begin + int(space.n)

    def write(observation: Any, out: NDArray[np.float64]) -> None:
        place = _place(space, observation)
        out[begin:end] = 0
        out[begin + place] = 1

    return write


def _multidiscrete_writer(space: spaces.MultiDiscrete, begin: int, what: str) -> Writer:
    counts, start = np.ravel(space.nvec), np.ravel(space.start)
    first = begin + np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    end = begin + int(counts.sum())

    def write(observation: Any, out: NDArray[np.float64]) -> None:
        array = np.asarray(observation)
        if array.shape != space.shape:
            raise ValueError(f"the {what} has the shape {array.shape}, its space {space.shape}")
        place = array.reshape(-1).astype(np.int64) - start
        if not ((place >= 0) & (place < counts)).all():
            raise ValueError(f"the {what} {array.tolist()} is outside {space}")
        out[begin:end] = 0
        out[first + place] = 1

    return write


def _place(space: Any, observation: Any) -> int:
    place = operator.index(observation) - int(space.start)
    if not 0 <= place < space.n:
        raise ValueError(f"the observation {observation} is outside {space}")
    return place


def _refusal(what: str, space: Any) -> str:
    return (
        f"the {what} space {type(space).__name__} is not supported: it has no vector of a fixed "
        "size (supported are Discrete, MultiDiscrete, MultiBinary, Box, and Dict and Tuple of them)"
    )
