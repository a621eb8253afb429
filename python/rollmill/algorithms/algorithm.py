"""What every algorithm offers beside its training loop: checkpoints, actions, an end."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rollmill.checkpoint import (
    Checkpoint,
    CheckpointError,
    as_checkpoint_path,
    load_checkpoint,
    save_checkpoint,
)
from rollmill.engine import Engine
from rollmill.names import unknown
from rollmill.policies import MLP

#: Options that say where a run is computed: free to change when it goes on.
PLACE = ("engine", "num_workers", "num_threads", "address", "slots_per_actor", "noise_storage")


class Algorithm(ABC):
    """A training run. A context manager: leaving it ends its threads and actors."""

    name: ClassVar[str]
    config: Any
    seed: int
    engine: Engine
    policy: MLP
    iteration: int
    best_iteration: int
    timesteps_total: int
    episodes_total: int
    time_total_s: float
    reproducible: bool

    @abstractmethod
    def train(self) -> dict[str, Any]:
        """Run one iteration and return its result."""

    @abstractmethod
    def evaluate(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the policy, without noise, on a fixed set of seeds."""

    @abstractmethod
    def evaluate_best(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the best policy so far as `evaluate` does."""

    @abstractmethod
    def best_policy(self) -> MLP:
        """Return the policy whose evaluation was the best so far."""

    @abstractmethod
    def stop(self) -> None:
        """End threads and actors. May be called twice."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return counters and arrays from which the run can go on bit for bit.

        Copies: they stay as they are while training goes on. Only between iterations.
        """

    @abstractmethod
    def restore(self, counters: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back, or on, to what `state` returned."""

    @abstractmethod
    def result_names(self) -> list[str]:
        """Return the names of the numbers in a result."""

    def save(self, path: Any = None) -> Checkpoint:
        """Write a checkpoint.

        Parameters
        ----------
        path : str or os.PathLike, optional
            Its directory; by default a new one under ``~/rollmill_results``.

        Returns
        -------
        Checkpoint
            Prints as its path, and is taken by `from_checkpoint`.

        Raises
        ------
        rollmill.results.OutputError
            Where it cannot be written.
        """
        from rollmill.checkpoint import checkpoint_name
        from rollmill.run import default_output, run_name

        if path is None:
            folder = run_name(self.name, self.config.env)
            path = default_output() / folder / checkpoint_name(self.iteration)
        counters, arrays = self.state()
        return save_checkpoint(
            path, kind=self.name, config=self.config.to_dict(), counters=counters, arrays=arrays
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, **place: Any) -> Self:
        """Go on from a checkpoint: the next iterations are those of the run that wrote it.

        Parameters
        ----------
        checkpoint : str, os.PathLike or Checkpoint
            Its directory, or what `save` returned.
        **place
            Options that say where the run is computed (engine, num_workers, num_threads, address,
            slots_per_actor, noise_storage). They change no result.

        Raises
        ------
        rollmill.checkpoint.CheckpointError
            If it is missing, damaged, of a newer format or of another algorithm.
        """
        from . import ALGORITHMS

        found = load_checkpoint(
            as_checkpoint_path(checkpoint), kind=None if cls is Algorithm else cls.name
        )
        if found.kind not in ALGORITHMS:
            raise CheckpointError(
                f"checkpoint {found.path}: {unknown('algorithm', found.kind, ALGORITHMS)}"
            )
        for name in place:
            if name not in PLACE:
                raise ValueError(unknown("option", name, PLACE))
        config = ALGORITHMS[found.kind](preset="none").update_from_dict(
            {**{k: v for k, v in found.config.items() if k not in PLACE}, **place}
        )
        algorithm: Any = config.build()
        try:
            algorithm._load(found)
        except BaseException:
            algorithm.stop()
            raise
        return algorithm

    def _load(self, checkpoint: Checkpoint) -> None:
        counters, arrays = self.state()
        missing = counters.keys() - checkpoint.counters.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise CheckpointError(f"checkpoint {checkpoint.path} lacks {names}")
        for name, model in counters.items():
            if not _fits(checkpoint.counters[name], model):
                raise CheckpointError(
                    f"checkpoint {checkpoint.path}: {name} cannot be {checkpoint.counters[name]!r}"
                )
        wanted = {
            name: checkpoint.array(name, dtype=array.dtype, shape=array.shape)
            for name, array in arrays.items()
        }
        for name, array in wanted.items():
            if not np.isfinite(array).all():
                raise CheckpointError(f"checkpoint {checkpoint.path}: {name} is not finite")
        self.restore(checkpoint.counters, wanted)

    @property
    def parameters_sha256(self) -> str:
        """SHA-256 of the parameter vector as little-endian float32."""
        return self.policy.sha256

    def get_policy(self) -> MLP:
        """Return the policy."""
        return self.policy

    def get_weights(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of the policy's weights by layer name."""
        return self.policy.get_weights()

    def compute_single_action(self, obs: Any) -> int:
        """Return the greedy action for an observation."""
        return self.policy.compute_single_action(obs)

    def compute_actions(self, obs: Any) -> Any:
        """Return greedy actions for a batch: a dict by the same keys, or (N,) int64."""
        if isinstance(obs, Mapping):
            if not obs:
                return {}
            actions = self.policy.compute_actions(np.stack([np.asarray(o) for o in obs.values()]))
            return {key: int(action) for key, action in zip(obs, actions, strict=True)}
        return self.policy.compute_actions(obs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _fits(value: Any, model: Any) -> bool:
    """Whether a counter read from a file can stand where `model` stands in a new run."""
    if isinstance(model, bool):
        return isinstance(value, bool)
    if isinstance(model, int):
        return type(value) is int and 0 <= value < 2**63
    if isinstance(model, list):
        return isinstance(value, list) and all(_fits(item, 0.0) for item in value)
    if model is None and value is None:  # a number that is not there yet
        return True
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
