"""What policies, trainers and engines need to know of an environment, of whatever kind it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rollmill._env import NativeEnv, SpaceSpec

if TYPE_CHECKING:
    from rollmill.envs.flatten import Actions, Observations


@dataclass(frozen=True)
class EnvDescription:
    """An environment's inputs and outputs.

    Attributes
    ----------
    name : str
    inputs, outputs : int
        Inputs and outputs of a policy that fits.
    one_hot : bool
        Observations are integers in [0, inputs) and stand for one-hot rows; no filter is used.
    action : {"discrete", "box", "mixed"}
        The arg-max of the outputs; the outputs clipped to `box`; or as `actions` makes them.
    box : SpaceSpec or None
        The bounds and dtype where `action` is "box".
    max_episode_steps : int
        Steps after which the environment ends an episode by itself; 0 if it tells none.
    observations, actions : Observations, Actions or None
        How Gymnasium's spaces become vectors, and vectors actions; None for a C environment.
    """

    name: str
    inputs: int
    outputs: int
    one_hot: bool
    action: str
    box: SpaceSpec | None
    max_episode_steps: int
    observations: Observations | None = None
    actions: Actions | None = None

    @property
    def interpreted(self) -> bool:
        """Whether the interpreter steps the environment, so that threads do not help."""
        return self.observations is not None


def describe(env: NativeEnv | EnvDescription) -> EnvDescription:
    """Describe a C environment; a description is returned as it is."""
    if isinstance(env, EnvDescription):
        return env
    observation, action = env.observation_space_spec, env.action_space_spec
    return EnvDescription(
        name=env.name,
        inputs=observation.n,
        outputs=action.n,
        one_hot=observation.kind == "discrete",
        action=action.kind,
        box=action if action.kind == "box" else None,
        max_episode_steps=env.max_episode_steps,
    )


def describe_spaces(
    name: str, observation_space: Any, action_space: Any, max_episode_steps: int
) -> EnvDescription:
    """Describe an environment of Gymnasium's by its spaces.

    Raises
    ------
    ValueError
        On a space that has no vector of a fixed size, or none at all.
    """
    from gymnasium import spaces

    from rollmill.envs.flatten import Actions, Observations

    try:
        observations, actions = Observations(observation_space), Actions(action_space)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for what, size in (("observation", observations.size), ("action", actions.size)):
        if not size:
            raise ValueError(f"{name}: the {what} space is empty")
    box = None
    if isinstance(action_space, spaces.Box):
        box = SpaceSpec(
            "box",
            np.dtype(action_space.dtype),
            actions.size,
            action_space.shape,
            action_space.low.astype(np.float64),
            action_space.high.astype(np.float64),
        )
    kind = "discrete" if isinstance(action_space, spaces.Discrete) else "mixed"
    return EnvDescription(
        name=name,
        inputs=observations.size,
        outputs=actions.size,
        one_hot=observations.one_hot,
        action="box" if box else kind,
        box=box,
        max_episode_steps=max_episode_steps,
        observations=observations,
        actions=actions,
    )
