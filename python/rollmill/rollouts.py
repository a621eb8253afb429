"""Work units: what a worker computes, wherever it runs.

`make_rollouts` gives `Rollouts` for environments in C, and `GymnasiumRollouts` for those that the
interpreter steps. Either is built from a picklable `RolloutSpec` in the process of the threads or
in a Ray actor, and answers calls that carry consecutive units. An answer is a pure function of the
spec, the task and the unit numbers, so it does not matter who gives it, or how often.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from . import _rollout
from .envs.description import describe
from .envs.native import EnvSpec
from .policies import MLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .envs.gymnasium_env import GymnasiumSpec
    from .gymnasium_rollouts import GymnasiumRollouts

#: Kinds of evaluation episodes: their keys are derived from the seed by this number.
EVALUATION_KIND = {"iteration": 0, "report": 1}


@dataclass(frozen=True)
class RolloutSpec:
    """What holds for a whole run. Picklable; every worker builds its `Rollouts` from it.

    Attributes
    ----------
    env : EnvSpec or GymnasiumSpec
        Environment by id, library or class, with its arguments.
    hiddens : tuple of int
        Widths of the hidden layers; empty for a linear policy.
    activation : {"tanh", "relu"}
    key : int
        64-bit key of every random number of the run.
    noise_size : int
        Length of the shared noise, in [parameters, 2**32].
    gamma : float
        Discount of the fitness, in [0, 1].
    reward_offset : float
        Taken from each reward in the fitness of training episodes.
    action_noise_stdev : float
        Normal noise on Box actions of training episodes.
    unit_pairs : int
        Pairs in a work unit.
    sample_actions : bool
        Whether training episodes sample from the softmax; evaluation takes the arg-max.
    observation_filter : {"MeanStdFilter", "NoFilter"}
        The filter acts on Box observations.
    """

    env: EnvSpec | GymnasiumSpec
    hiddens: tuple[int, ...]
    activation: Literal["tanh", "relu"]
    key: int
    noise_size: int
    gamma: float = 1.0
    reward_offset: float = 0.0
    action_noise_stdev: float = 0.0
    unit_pairs: int = 8
    sample_actions: bool = False
    observation_filter: Literal["MeanStdFilter", "NoFilter"] = "NoFilter"


@dataclass(frozen=True)
class Task:
    """What holds for one iteration. Arrays may be read-only.

    Attributes
    ----------
    iteration : int
    theta : (D,) float32
        Parameters around which the pairs are drawn.
    noise_stdev : float
    max_episode_steps : int
        Episode cap beside the environment's own; 0 is none.
    stats : (1 + 2*O,) float64 or None
        Frozen observation statistics: count, mean, sum of squared deviations.
    pairs : int
        Pairs of the iteration where their number is known ahead, so that the last unit holds what
        is left; else 0.
    """

    iteration: int
    theta: NDArray[np.float32]
    noise_stdev: float
    max_episode_steps: int = 0
    stats: NDArray[np.float64] | None = None
    pairs: int = 0


@dataclass(frozen=True)
class Answer:
    """What a call of `Rollouts.units` returns.

    Attributes
    ----------
    iteration, first_unit, units : int
        The units [first_unit, first_unit + units) of that iteration, all whole.
    pairs : (P,) records of `rollmill._rollout.PAIR_DTYPE`
        `unit_pairs` for each unit, fewer for the last unit of a task whose pairs are known.
    stats : (units, 1 + 2*O) float64 or None
        Observation statistics of each unit.
    source : str
        "host:pid" of the process that computed it.
    seconds : float
        Processor time spent in the kernels.
    """

    iteration: int
    first_unit: int
    units: int
    pairs: NDArray[np.void]
    stats: NDArray[np.float64] | None
    source: str
    seconds: float


def make_rollouts(
    spec: RolloutSpec, table: NDArray[np.float32] | None = None
) -> Rollouts | GymnasiumRollouts:
    """Return what evaluates units of a spec; the arguments are those of `Rollouts`."""
    if isinstance(spec.env, EnvSpec):
        return Rollouts(spec, table)
    from .gymnasium_rollouts import GymnasiumRollouts

    return GymnasiumRollouts(spec, table)


def source() -> str:
    """Return the name of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Rollouts:
    """Evaluates units of C environments. Stateless between calls, and safe in several threads.

    Parameters
    ----------
    spec : RolloutSpec
    table : (noise_size,) float32, optional
        The noise table, may be read-only; without it noise is generated. Equal bits either way.
    """

    interpreted = False  #: whether the interpreter steps the environments
    trouble: str | None = None  #: the first exception of an environment; there are none in C

    def __init__(self, spec: RolloutSpec, table: NDArray[np.float32] | None = None):
        self.spec = spec
        assert isinstance(spec.env, EnvSpec)
        self.env = spec.env.build()
        self.description = describe(self.env)
        self.policy = MLP.for_env(self.description, spec.hiddens, spec.activation)
        self.table = table
        self.kernel = _rollout.Rollout(
            self.env,
            self.policy.kernel,
            key=spec.key,
            noise_size=spec.noise_size,
            table=table,
            gamma=spec.gamma,
            reward_offset=spec.reward_offset,
            action_noise_stdev=spec.action_noise_stdev,
            sample_actions=spec.sample_actions,
            gather_stats=self.filters,
        )

    @cached_property
    def source(self) -> str:
        """Name of this process."""
        return source()

    @property
    def filters(self) -> bool:
        """Whether observation statistics are gathered and used."""
        return self.spec.observation_filter == "MeanStdFilter" and not self.description.one_hot

    @property
    def stats_size(self) -> int:
        """Length of a unit's observation statistics; 0 without a filter."""
        return 1 + 2 * self.description.inputs if self.filters else 0

    def close(self) -> None:
        """Release nothing: environments in C are values."""

    def units(self, task: Task, first_unit: int, units: int, stop: NDArray[np.int32]) -> Answer:
        """Evaluate units [first_unit, first_unit + units) without the interpreter.

        `stop` is polled at each environment step; once it is not zero the call returns the whole
        units that it has finished.
        """
        start = time.thread_time()
        done, pairs, stats = self.kernel.eval_units(
            task.theta, task.iteration, task.noise_stdev, task.max_episode_steps, task.stats,
            first_unit, units, self.spec.unit_pairs, stop, task.pairs,
        )  # fmt: skip
        seconds = time.thread_time() - start
        return Answer(task.iteration, first_unit, done, pairs, stats, self.source, seconds)

    def episodes(
        self, task: Task, kind: str, first: int, episodes: int, stop: NDArray[np.int32]
    ) -> NDArray[np.void]:
        """Evaluate noiseless arg-max episodes [first, first + episodes).

        Returns the finished ones as records of `rollmill._rollout.EPISODE_DTYPE`. Episodes of kind
        "report" depend on no iteration: every policy meets the same ones.
        """
        iteration = task.iteration if kind == "iteration" else 0
        return self.kernel.eval_episodes(
            task.theta, iteration, task.max_episode_steps, task.stats, EVALUATION_KIND[kind],
            first, episodes, stop,
        )  # fmt: skip
