"""Cases: what is measured, what of, and what its floor is.

A case prepares probes that are timed in turns: our line, one or more peers, and a floor of the
machine. Their work is counted in the case's unit, so that a rate is a figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill import _noise
from rollmill.machine import Machine, buffer_bytes, measure_machine
from rollmill.timing import Probe, measure

#: Floating-point operations of one tanh: a rational function of degree 4 over 4 in the square.
TANH_FLOPS = 19
#: Floating-point operations of one normal, half of a Box-Muller pair; Philox has none.
NORMAL_FLOPS = 24


@dataclass(frozen=True)
class Plan:
    """How large and how long.

    Attributes
    ----------
    name : str
    table_bytes : int
        Of the noise table, which is also the buffer that the bandwidth is measured on.
    repeats : int
    seconds : float
        Wall time of a repeat of one line.
    seeds, peer_seeds : int
        Training runs of ours and of the peer.
    """

    name: str
    table_bytes: int
    repeats: int
    seconds: float
    seeds: int
    peer_seeds: int


PLANS = {
    "full": Plan("full", 1 << 30, 15, 0.05, 20, 5),
    "quick": Plan("quick", 512 << 20, 7, 0.02, 7, 2),
    "tiny": Plan("tiny", 4 << 20, 3, 0.0005, 1, 1),  # the shape of a run, and no figure to believe
}


@dataclass
class Setup:
    """What cases share: the plan, the noise table, the machine's floors, once measured."""

    plan: Plan
    key: int = 2017
    details: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def table(self) -> NDArray[np.float32]:
        """The noise table, random rows of which come from memory."""
        size = buffer_bytes(self.plan.table_bytes) // 4
        table = _noise.Noise(self.key, size).fill(0, size)
        table.flags.writeable = False
        return table

    @cached_property
    def noise(self) -> _noise.Noise:
        """The noise in its table."""
        return _noise.Noise(self.key, self.table.size, self.table)

    @cached_property
    def generated(self) -> _noise.Noise:
        """The same noise, generated."""
        return _noise.Noise(self.key, self.table.size)

    @cached_property
    def machine(self) -> Machine:
        """The floors, measured on the table when they are first asked for."""
        return measure_machine(self.table, self.plan.repeats, self.plan.seconds)


@dataclass(frozen=True)
class Lines:
    """Probes of one case.

    Attributes
    ----------
    ours : Probe
    peers : dict of Probe
        By a short key; the first is the one that the case is named for.
    floor : Probe, optional
        What bounds our line, measured beside it: its work is what that bandwidth would allow.
    flops : float
        Instead of a floor: arithmetic of our line for one of what `ours.work` counts, in GFLOP.
    bytes : int
        What our line reads and writes in a call.
    """

    ours: Probe
    peers: dict[str, Probe]
    floor: Probe | None = None
    flops: float = 0.0
    bytes: int = 0


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes
    ----------
    name : str
        Unique.
    subject : str
        Name of the family, one benchmarks/bench_<subject>.py each.
    unit : str
        Of the figure; a rate, or with `lower` its inverse.
    prepare : callable
        Setup to Lines.
    peers : tuple of str
        The keys of the lines' peers.
    floor : bool
        Whether the lines have a floor that is timed beside them.
    lower : bool
        The figure is a time: smaller is better.
    """

    name: str
    subject: str
    unit: str
    prepare: Callable[[Setup], Lines]
    peers: tuple[str, ...]
    floor: bool = False
    lower: bool = False

    @property
    def summary(self) -> str:
        """What is measured, and of which size."""
        return (self.prepare.__doc__ or "").partition("\n")[0].rstrip(".")

    def lines(self, setup: Setup) -> Lines:
        """Prepare the probes."""
        lines = self.prepare(setup)
        assert tuple(lines.peers) == self.peers
        assert (lines.floor is not None) == self.floor
        return lines


@dataclass(frozen=True)
class Result:
    """A figure beside its peer and its floor.

    Attributes
    ----------
    name, unit : str
    value : float
        Median over the repeats.
    peer : str or None
    peer_value : float or None
    ratio : float or None
        How many times as fast as the peer.
    floor : float or None
        What the machine's measured bandwidth or arithmetic would allow at most, in the same unit.
    floor_ratio : float or None
        Share of the floor that is reached; 1 is all.
    spread : float
        Interquartile range of the value over its median.
    floor_name : str or None
    peer_spread, cpu_value : float or None
        Spread of the peer's value; the value by processor time.
    """

    name: str
    value: float
    unit: str
    peer: str | None
    peer_value: float | None
    ratio: float | None
    floor: float | None
    floor_ratio: float | None
    spread: float
    floor_name: str | None = None
    peer_spread: float | None = None
    cpu_value: float | None = None


def run_case(case: Case, setup: Setup) -> list[Result]:
    """Measure a case; a result for each peer."""
    lines = case.lines(setup)
    probes = [lines.ours, *lines.peers.values()]
    if lines.floor:
        probes.append(lines.floor)
    ours, *rest = measure(probes, setup.plan.repeats, setup.plan.seconds)
    floor, floor_name = None, None
    if lines.floor:
        floor, floor_name = rest.pop().rate, lines.floor.name
    elif lines.flops:
        floor, floor_name = setup.machine.flops.value / lines.flops, "arithmetic (sgemm)"

    def figure(rate: float) -> float:
        return 1.0 / rate if case.lower else rate

    return [
        Result(
            name=case.name if k == 0 else f"{case.name}_vs_{key}",
            value=figure(ours.rate),
            unit=case.unit,
            peer=peer.probe.name,
            peer_value=figure(peer.rate),
            ratio=ours.rate / peer.rate,
            floor=figure(floor) if floor else None,
            floor_ratio=ours.rate / floor if floor else None,
            spread=ours.spread,
            floor_name=floor_name,
            peer_spread=peer.spread,
            cpu_value=figure(ours.cpu_rate),
        )
        for k, (key, peer) in enumerate(zip(lines.peers, rest, strict=True))
    ]


def policy_flops(widths: tuple[int, ...], one_hot: bool = False) -> int:
    """Floating-point operations of one tanh network for one observation."""
    flops = 0
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        flops += outputs if one_hot and layer == 0 else 2 * inputs * outputs
        if layer < len(widths) - 2:
            flops += TANH_FLOPS * outputs
    return flops
