"""What every algorithm offers beside its training loop: checkpoints, actions, an end."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..checkpoint import Checkpoint, as_checkpoint_path, load_checkpoint, save_checkpoint
from ..names import unknown
from ..policies import MLP

#: Options that say where a run is computed: free to change when it goes on.
PLACE = ("engine", "num_workers", "num_threads", "address", "slots_per_actor", "noise_storage")


class Algorithm(ABC):
    """A training run. A context manager: leaving it ends its threads and actors."""

    name: ClassVar[str]
    config: Any
    policy: MLP
    iteration: int

    @abstractmethod
    def train(self) -> dict[str, Any]:
        """Run one iteration and return its result."""

    @abstractmethod
    def evaluate(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the policy, without noise, on a fixed set of seeds."""

    @abstractmethod
    def stop(self) -> None:
        """End threads and actors. May be called twice."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return counters and arrays from which the run can go on bit for bit.

        Copies: they stay as they are while training goes on. Only between iterations.
        """

    @abstractmethod
    def _load(self, checkpoint: Checkpoint) -> None: ...

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
        from ..checkpoint import checkpoint_name
        from ..run import default_output

        if path is None:
            folder = f"{self.name}_{Path(str(self.config.env)).name}".replace(":", "_")
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
        checkpoint : str, os.PathLike or what `save` returned
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
        for name in place:
            if name not in PLACE:
                raise ValueError(unknown("option", name, PLACE))
        config = ALGORITHMS[found.kind](preset="none").update_from_dict(
            {**{k: v for k, v in found.config.items() if k not in PLACE}, **place}
        )
        algorithm = config.build()
        try:
            algorithm._load(found)
        except BaseException:
            algorithm.stop()
            raise
        return algorithm

    @property
    def parameters_sha256(self) -> str:
        """SHA-256 of the parameter vector as little-endian float32."""
        return hashlib.sha256(self.policy.theta.astype("<f4").tobytes()).hexdigest()

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
