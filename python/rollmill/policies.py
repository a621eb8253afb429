"""Policies: views with names over one flat parameter vector."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _policy
from ._stats import stats_freeze
from .names import unknown

if TYPE_CHECKING:
    from ._env import NativeEnv, SpaceSpec
    from .envs.description import EnvDescription


class MLP:
    """A multilayer perceptron that acts: the arg-max of its outputs.

    Parameters
    ----------
    widths : sequence of int
        Inputs, hidden layers, actions.
    activation : {"tanh", "relu"}
    one_hot : bool
        Observations are integers in [0, inputs) and stand for one-hot rows.
    box : SpaceSpec, optional
        Actions are the outputs, clipped to this space's bounds, instead of their arg-max.
    env : EnvDescription, optional
        Of an environment of Gymnasium's: its spaces say what observations and actions are.

    Attributes
    ----------
    kernel : rollmill._policy.Network
        The network's shape, as the kernels take it.
    theta : (D,) float32
        The parameters; layer after layer weights (inputs, outputs), then biases.
    stats : (1 + 2*O,) float64 or None
        Frozen observation statistics, if a filter is in use.
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: str = "tanh",
        one_hot: bool = False,
        box: SpaceSpec | None = None,
        env: EnvDescription | None = None,
    ):
        self.kernel = _policy.Network(widths, activation)
        self.one_hot = one_hot
        self.box = box
        self.spaces = None if env is None or env.observations is None else env
        self.theta = np.zeros(self.num_params, np.float32)
        self.stats: NDArray[np.float64] | None = None

    @classmethod
    def for_env(
        cls, env: NativeEnv | EnvDescription, hiddens: Sequence[int], activation: str = "tanh"
    ) -> MLP:
        """Build the policy whose inputs and outputs fit an environment."""
        from .envs.description import describe

        env = describe(env)
        widths = (env.inputs, *hiddens, env.outputs)
        return cls(widths, activation, one_hot=env.one_hot, box=env.box, env=env)

    @property
    def num_params(self) -> int:
        """Length of the parameter vector."""
        return self.kernel.num_params

    @property
    def sha256(self) -> str:
        """SHA-256 of the parameter vector as little-endian float32."""
        return hashlib.sha256(self.theta.astype("<f4").tobytes()).hexdigest()

    @property
    def layers(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Where each named array lies in the parameter vector, and its shape."""
        found: dict[str, tuple[slice, tuple[int, ...]]] = {}
        start = 0
        widths = self.kernel.widths
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            name = "logits" if i == len(widths) - 2 else f"hidden_{i}"
            shapes: dict[str, tuple[int, ...]] = {"kernel": (inputs, outputs), "bias": (outputs,)}
            for part, shape in shapes.items():
                size = int(np.prod(shape))
                found[f"{name}/{part}"] = (slice(start, start + size), shape)
                start += size
        return found

    def get_weights(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the weights by layer name."""
        return {
            name: self.theta[where].reshape(shape).copy()
            for name, (where, shape) in self.layers.items()
        }

    def set_weights(self, weights: Mapping[str, Any] | NDArray[np.float32]) -> None:
        """Set some or all weights by layer name, or all by one flat vector.

        Raises ValueError on an unknown name, a wrong shape or a number that is not finite;
        nothing is changed then.
        """
        theta = self.theta.copy()
        if not isinstance(weights, Mapping):
            weights = {"theta": weights}
        layers = {"theta": (slice(0, self.num_params), (self.num_params,)), **self.layers}
        for name, value in weights.items():
            if name not in layers:
                raise ValueError(unknown("layer", name, layers))
            where, shape = layers[name]
            array = np.asarray(value, np.float32)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite, got NaN or infinity")
            theta[where] = array.ravel()
        self.theta = theta

    def logits(self, obs: Any) -> NDArray[np.float32]:
        """Outputs for a batch: (N,) integers where observations are one-hot, else (N, ...).

        Observations of Gymnasium's Dict, Tuple and Multi spaces come as a sequence of N.
        Returns (N, actions) float32. Observations pass the frozen filter, if there is one.
        """
        if self.spaces is not None:
            obs = self.vectors(obs)
        if self.one_hot:
            index = np.asarray(obs)
            if index.ndim != 1 or not np.can_cast(index.dtype, np.int64):
                raise ValueError(
                    f"obs must be (N,) integers, got {index.dtype} of shape {index.shape}"
                )
            return self.kernel.eval(self.theta, index=np.ascontiguousarray(index, np.int64))
        x = np.asarray(obs, np.float64)
        if x.ndim < 2 or x[0:1].size != (self.kernel.widths[0] if len(x) else 0):
            raise ValueError(
                f"obs must be (N, ...) with {self.kernel.widths[0]} elements each, got {x.shape}"
            )
        if not np.isfinite(x).all():
            raise ValueError("obs must be finite, got NaN or infinity")
        x = x.reshape(len(x), -1)
        if self.stats is not None:
            mean, scale = stats_freeze(self.stats)
            x = (x - mean) * scale
        return self.kernel.eval(self.theta, x=np.ascontiguousarray(x, np.float32))

    def vectors(self, obs: Any) -> NDArray[Any]:
        """Return a batch of observations of Gymnasium's spaces as the network takes them."""
        assert self.spaces is not None
        observations = self.spaces.observations
        assert observations is not None
        if self.one_hot:
            return np.array([observations.index(row) for row in obs], np.int64)
        return observations.rows(obs)

    def compute_actions(self, obs: Any) -> Any:
        """Actions for a batch of observations, without noise.

        Returns (N,) int64, the arg-max of the outputs; for a Box of actions (N, ...) of its dtype,
        the outputs clipped to its bounds; for other spaces of Gymnasium's a sequence of N actions.
        """
        outputs = self.logits(obs)
        if self.spaces is not None:
            assert self.spaces.actions is not None
            return self.spaces.actions.make(outputs)
        box = self.box
        if box is None:
            return np.array([_policy.argmax(row) for row in outputs], np.int64)
        actions = outputs.astype(np.float64).reshape(len(outputs), *box.shape)
        if box.low is not None:
            actions = np.maximum(actions, box.low)
        if box.high is not None:
            actions = np.minimum(actions, box.high)
        return actions.astype(box.dtype)

    def compute_single_action(self, obs: Any) -> Any:
        """Action for one observation: an int, or an array for a Box of actions."""
        if self.spaces is not None:
            action = self.compute_actions([obs])[0]
            return int(action) if self.spaces.action == "discrete" else action
        action = self.compute_actions(np.asarray(obs)[None])[0]
        return int(action) if self.box is None else action

    def summary(self) -> str:
        """Table of the layers: name, shape, parameters."""
        rows = [(name, str(shape), str(int(np.prod(shape)))) for name, (_, shape) in
                self.layers.items()]  # fmt: skip
        rows = [("layer", "shape", "parameters"), *rows, ("total", "", str(self.num_params))]
        sizes = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            f"{a:<{sizes[0]}}  {b:<{sizes[1]}}  {c:>{sizes[2]}}".rstrip() for a, b, c in rows
        )
