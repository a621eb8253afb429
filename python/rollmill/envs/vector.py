"""Many mazes that step together in C."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rollmill import _vector, seeding
from rollmill.envs.maze import (
    RENDER_MODES,
    Position,
    check_render_mode,
    layout,
    native_maze,
    picture,
)
from rollmill.envs.native import check_options, space
from rollmill.envs.registration import MAZE_STEPS

_MODES = {
    AutoresetMode.NEXT_STEP: _vector.NEXT_STEP,
    AutoresetMode.SAME_STEP: _vector.SAME_STEP,
    AutoresetMode.DISABLED: _vector.DISABLED,
}
_OPTIONS = {
    "num_envs",
    "rows",
    "columns",
    "start",
    "goal",
    "max_episode_steps",
    "render_mode",
    "autoreset_mode",
    "positions",
}

Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class VectorMaze(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many mazes that step together in C; step by step what SyncVectorEnv makes of `Maze`.

    Observations are (N,) int64, rewards (N,) float64, both flags (N,) bool, each a new array.
    A call is checked before any environment is touched.

    `info` is empty, unless `positions` is set or an episode ends under SAME_STEP; then "final_obs"
    and "final_info" are Gymnasium's, and final_info holds "seeker" and "goal".

    Parameters
    ----------
    num_envs : int, at least 1
        Or a mapping of these same arguments (RLlib passes its `env_config` so), which replaces
        the others.
    rows, columns, start, goal, max_episode_steps, render_mode
        As `Maze`.
    autoreset_mode : gymnasium.vector.AutoresetMode or its value
        NEXT_STEP: a finished environment resets at the next step, where its action is ignored
        (of whatever value), its reward is 0 and its flags are False. SAME_STEP: it resets at
        once. DISABLED: it must be reset by `reset(options={"reset_mask": mask})`.
    positions : bool
        Whether `info` holds "seeker" and "goal", object arrays of (row, column), in every call.
        It costs a Python object an environment.

    Raises
    ------
    TypeError, ValueError
        On an unknown argument, one of another type or one out of its range.
    """

    def __init__(
        self,
        num_envs: int | Mapping[str, Any] = 1,
        *,
        rows: int = 5,
        columns: int = 5,
        start: Position | None = None,
        goal: Position | None = None,
        max_episode_steps: int | None = MAZE_STEPS,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        positions: bool = False,
    ) -> None:
        if isinstance(num_envs, Mapping):
            check_options("VectorMaze", num_envs, _OPTIONS)
            VectorMaze.__init__(self, **num_envs)
            return
        try:
            self.num_envs = operator.index(num_envs)
        except TypeError:
            raise TypeError(f"num_envs must be an integer, got {num_envs!r}") from None
        if not 1 <= self.num_envs < 2**31:
            raise ValueError(f"num_envs must be in [1, 2^31), got {num_envs}")
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            raise ValueError(
                f"autoreset_mode must be one of {[mode.value for mode in AutoresetMode]}, "
                f"got {autoreset_mode!r}"
            ) from None
        self.native = native_maze(rows, columns, start, goal, max_episode_steps)
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {
            "render_modes": RENDER_MODES,
            "render_fps": 4,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = space(self.native.observation_space_spec)
        self.single_action_space = space(self.native.action_space_spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.layout = layout(rows, columns, start, goal)
        self.positions = bool(positions)
        self._vector = _vector.Vector(self.native, self.num_envs, _MODES[self.autoreset_mode])
        self._obs_n = np.zeros(self.num_envs, np.int64)  # never handed out
        self._final_n = np.zeros(self.num_envs, np.int64)
        self._first = seeding.entropy()  # for environments that nobody seeds
        self._long_seeds: dict[int, int] = {}  # those that their key does not tell

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each environment; before the first reset those that it will use."""
        if not self._vector.begun:
            return tuple(range(self._first, self._first + self.num_envs))
        seeds = self._vector.keys.tolist()
        for i, seed in self._long_seeds.items():
            seeds[i] = seed
        return tuple(seeds)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes.

        Parameters
        ----------
        seed : int or a sequence of N ints or None
            An int s seeds environment i with s + i. None goes on to the next episode of the last
            seed; the first time it is fresh entropy, which `np_random_seed` tells.
        options : dict, not changed
            "reset_mask": (N,) bool array, at least one True: the environments to reset.

        Returns
        -------
        observations : (N,) int64
        info : dict

        Raises
        ------
        TypeError, ValueError
            On a bad seed or mask; nothing changes.
        gymnasium.error.ResetNeeded
            If a mask is given before the first reset.
        """
        self._check_open()
        check_options("reset", options or {}, {"reset_mask"})
        mask = self._mask(options["reset_mask"]) if options else None
        if mask is not None and not self._vector.begun:
            raise ResetNeeded("the first reset must be of all environments, without 'reset_mask'")
        keys, fresh, long_seeds = self._keys(seed)
        self._vector.reset_into(self._obs_n, keys=keys, fresh=fresh, mask=mask)
        if fresh is not None:
            seeded = fresh if mask is None else fresh & mask
            kept = {i: s for i, s in self._long_seeds.items() if not seeded[i]}
            self._long_seeds = kept | {i: s for i, s in long_seeds.items() if seeded[i]}
        return self._obs_n.copy(), self._positions(mask)

    def step(self, actions: Any) -> Step:
        """Step all environments.

        Parameters
        ----------
        actions : (N,) of an integer dtype that int64 holds
            Each 0 down, 1 left, 2 up, 3 right.

        Returns
        -------
        observations : (N,) int64
        rewards : (N,) float64
        terminations, truncations : (N,) bool
        info : dict

        Raises
        ------
        TypeError, ValueError
            On actions of another dtype, shape or range; nothing changes.
        gymnasium.error.ResetNeeded
            Before the first reset, and under DISABLED if an environment has finished.
        """
        self._check_open()
        action_n = self._actions(actions)
        if not self._vector.begun:
            raise ResetNeeded("the environments must be reset before they step")
        reward_n = np.empty(self.num_envs, np.float64)
        flags_n = np.empty(self.num_envs, np.uint8)
        try:
            self._vector.step_into(action_n, self._obs_n, reward_n, flags_n, self._final_n)
        except RuntimeError as error:
            raise ResetNeeded(str(error)) from None
        info: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and flags_n.any():
            info = self._final(flags_n != 0)
        info |= self._positions(None)
        terminated_n = (flags_n & _vector.TERMINATED).astype(np.bool_)
        truncated_n = (flags_n & _vector.TRUNCATED).astype(np.bool_)
        return self._obs_n.copy(), reward_n, terminated_n, truncated_n, info

    def render(self) -> tuple[Any, ...] | None:
        """Draw each maze: a tuple of N str for "ansi", of (height, width, 3) for "rgb_array"."""
        self._check_open()
        if self.render_mode is None:
            gym.logger.warn("render() draws nothing: the environment has no render_mode")
            return None
        if not self._vector.begun:
            raise ResetNeeded("the environments must be reset before they are drawn")
        if self.render_mode == "ansi":
            return tuple(self._vector.render(i) for i in range(self.num_envs))
        return tuple(picture(self.layout, cell) for cell in self._obs_n.tolist())

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("the vector environment is closed")

    def _actions(self, actions: Any) -> np.ndarray:
        """Return actions as the C environment takes them, without a copy where they are so."""
        try:
            array = np.asarray(actions)
        except ValueError as error:
            raise ValueError(f"actions must be an array of {self.num_envs}: {error}") from None
        if array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64):
            raise TypeError(
                f"actions must have an integer dtype that int64 holds, got {array.dtype}"
            )
        if array.shape != (self.num_envs,):
            hint = "; actions.squeeze(-1) has it" if array.shape == (self.num_envs, 1) else ""
            raise ValueError(
                f"actions must have the shape ({self.num_envs},), got {array.shape}{hint}"
            )
        return np.ascontiguousarray(array, np.int64)

    def _mask(self, mask: Any) -> np.ndarray:
        if not isinstance(mask, np.ndarray):
            raise TypeError(
                f"options['reset_mask'] must be a NumPy array, got {type(mask).__name__}"
            )
        if mask.dtype != np.bool_:
            raise TypeError(f"options['reset_mask'] must have dtype bool, got {mask.dtype}")
        if mask.shape != (self.num_envs,):
            raise ValueError(
                f"options['reset_mask'] must have the shape ({self.num_envs},), got {mask.shape}"
            )
        if not mask.any():
            raise ValueError("options['reset_mask'] must have at least one True")
        return np.ascontiguousarray(mask)

    def _keys(self, seed: Any) -> tuple[np.ndarray | None, np.ndarray | None, dict[int, int]]:
        """Return the keys, where they count, and the seeds that are no key themselves."""
        n = self.num_envs
        if seed is None:
            if self._vector.begun:
                return None, None, {}
            return seeding.keys(self._first, n), np.ones(n, np.bool_), {}
        if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
            seeds = list(seed)
            if len(seeds) != n:
                raise ValueError(
                    f"seed must have {n} entries, one an environment, got {len(seeds)}"
                )
            seeds = [None if entry is None else seeding.checked(entry) for entry in seeds]
        else:
            first = seeding.checked(seed)
            if first + n <= 2**64:
                return seeding.keys(first, n), np.ones(n, np.bool_), {}
            seeds = [first + i for i in range(n)]
        if not self._vector.begun:
            seeds = [self._first + i if entry is None else entry for i, entry in enumerate(seeds)]
        keys = np.array([0 if entry is None else seeding.key(entry) for entry in seeds], np.uint64)
        fresh = np.array([entry is not None for entry in seeds], np.bool_)
        long_seeds = {i: entry for i, entry in enumerate(seeds) if entry and entry >= 2**64}
        return keys, fresh, long_seeds

    def _positions(self, mask: np.ndarray | None) -> dict[str, Any]:
        """Return what Gymnasium's vectors make of the info of `Maze`, where the mask is set."""
        if not self.positions:
            return {}
        if mask is None:
            mask = np.ones(self.num_envs, np.bool_)
        return self._places(self._obs_n, mask)

    def _places(self, cell_n: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        seeker_n = np.full(self.num_envs, None, object)
        goal_n = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(mask).tolist():
            seeker_n[i] = self.layout.place(int(cell_n[i]))
            goal_n[i] = self.layout.goal
        return {"seeker": seeker_n, "_seeker": mask.copy(), "goal": goal_n, "_goal": mask.copy()}

    def _final(self, ended_n: np.ndarray) -> dict[str, Any]:
        final_n = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended_n).tolist():
            final_n[i] = int(self._final_n[i])
        return {
            "final_obs": final_n,
            "_final_obs": ended_n.copy(),
            "final_info": self._places(self._final_n, ended_n),
            "_final_info": ended_n.copy(),
        }
