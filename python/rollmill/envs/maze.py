"""The tutorial's maze as a Gymnasium environment."""

import operator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from rollmill import _maze, _vector, seeding
from rollmill._env import NativeEnv
from rollmill.envs.native import check_options, space
from rollmill.envs.registration import MAZE_STEPS

Position = tuple[int, int]

SIDE = 4096  # the most rows and columns
RENDER_MODES = ["ansi", "rgb_array"]
_PICTURE = 512  # pixels that the longer side of a picture may take, at least one a cell
_EMPTY, _LINE, _GOAL, _SEEKER = (255, 255, 255), (160, 160, 160), (46, 160, 67), (207, 34, 46)


@dataclass(frozen=True)
class Layout:
    """Where things are in a maze, checked by `layout`."""

    rows: int
    columns: int
    start: Position
    goal: Position

    def place(self, cell: int) -> Position:
        """Return the (row, column) of a cell."""
        return divmod(cell, self.columns)

    def cell(self, place: Position) -> int:
        """Return the cell at a (row, column)."""
        return self.columns * place[0] + place[1]


def layout(
    rows: int = 5, columns: int = 5, start: Position | None = None, goal: Position | None = None
) -> Layout:
    """Return the layout of a maze; the arguments are those of `Maze`."""
    rows, columns = _size("rows", rows), _size("columns", columns)
    if rows * columns == 1:
        raise ValueError("a maze needs at least 2 cells, got rows=1 and columns=1")
    start = _place("start", (0, 0) if start is None else start, rows, columns)
    goal = _place("goal", (rows - 1, columns - 1) if goal is None else goal, rows, columns)
    if start == goal:
        raise ValueError(f"start and goal must differ, got {start} for both")
    return Layout(rows, columns, start, goal)


def native_maze(
    rows: int = 5,
    columns: int = 5,
    start: Position | None = None,
    goal: Position | None = None,
    max_episode_steps: int | None = MAZE_STEPS,
) -> NativeEnv:
    """Return the C environment of a maze; the arguments are those of `Maze`."""
    grid = layout(rows, columns, start, goal)
    return _maze.maze(
        grid.rows,
        grid.columns,
        grid.cell(grid.start),
        grid.cell(grid.goal),
        _limit(max_episode_steps),
    )


def make(**kwargs: Any) -> "Maze":
    """Build a Maze for `gymnasium.make`, whose TimeLimit wrapper applies the limit instead."""
    return Maze(**kwargs, max_episode_steps=None)


class Maze(gym.Env[int, int]):
    """An open rectangle of cells with a start and a goal.

    The observation is the cell, columns*row + column; the actions are 0 down, 1 left, 2 up,
    3 right; a move off the grid leaves the seeker where it is. The reward is 1 on the step that
    arrives at the goal, which terminates the episode, and else 0. `info` holds "seeker" and
    "goal", each (row, column). The maze uses no randomness.

    Parameters
    ----------
    rows, columns : int in [1, 4096], not both 1
    start : (row, column), or None for the upper left cell
    goal : (row, column) other than start, or None for the lower right cell
    max_episode_steps : int
        Steps after which an episode is truncated, also if it terminates there; None or -1: never.
        `gymnasium.make` leaves the limit to its TimeLimit wrapper.
    render_mode : "ansi", "rgb_array" or None

    Raises
    ------
    TypeError, ValueError
        On an argument of another type or out of its range.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        rows: int = 5,
        columns: int = 5,
        start: Position | None = None,
        goal: Position | None = None,
        max_episode_steps: int | None = MAZE_STEPS,
        render_mode: str | None = None,
    ) -> None:
        self.native = native_maze(rows, columns, start, goal, max_episode_steps)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space = space(self.native.observation_space_spec)
        self.action_space = space(self.native.action_space_spec)
        self.layout = layout(rows, columns, start, goal)
        self._vector = _vector.Vector(self.native, 1, _vector.DISABLED)
        self._action_n = np.zeros(1, np.int64)
        self._obs_n = np.zeros(1, np.int64)
        self._reward_n = np.zeros(1, np.float64)
        self._flags_n = np.zeros(1, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed : int, at least 0, of any size
            None goes on to the next episode of the last seed; the first time it is fresh entropy,
            which `np_random_seed` tells.
        options : dict, optional
            There are none.

        Returns
        -------
        observation : int
        info : dict
        """
        check_options("reset", options or {}, set())
        if seed is None and not self._vector.begun:
            seed = seeding.entropy()
        keys = None
        if seed is not None:
            seed = seeding.checked(seed)
            keys = np.array([seeding.key(seed)], np.uint64)
        super().reset(seed=seed)
        self._vector.reset_into(self._obs_n, keys=keys)
        return int(self._obs_n[0]), self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Move.

        Parameters
        ----------
        action : int or NumPy integer
            0 down, 1 left, 2 up, 3 right.

        Returns
        -------
        observation : int
        reward : float
        terminated, truncated : bool
            Both are True if the goal is reached on the last step allowed.
        info : dict

        Raises
        ------
        TypeError, ValueError
            On another action; nothing changes.
        gymnasium.error.ResetNeeded
            Before the first reset and after the end of an episode.
        """
        try:
            number = operator.index(action)
        except TypeError:
            raise TypeError(
                f"action must be an integer, got {action!r} of type {type(action).__name__}"
            ) from None
        if not 0 <= number < 4:
            raise ValueError(f"action must be in [0, 3], got {number}")
        if not self._vector.begun:
            raise ResetNeeded("the environment must be reset before it steps")
        self._action_n[0] = number
        try:
            self._vector.step_into(self._action_n, self._obs_n, self._reward_n, self._flags_n)
        except RuntimeError:
            raise ResetNeeded("the episode is over: reset the environment first") from None
        flags = int(self._flags_n[0])
        return (
            int(self._obs_n[0]),
            float(self._reward_n[0]),
            bool(flags & _vector.TERMINATED),
            bool(flags & _vector.TRUNCATED),
            self._info(),
        )

    def render(self) -> Any:
        """Draw the maze: a str for "ansi", (height, width, 3) uint8 for "rgb_array"."""
        if self.render_mode is None:
            gym.logger.warn("render() draws nothing: the environment has no render_mode")
            return None
        if not self._vector.begun:
            raise ResetNeeded("the environment must be reset before it is drawn")
        if self.render_mode == "ansi":
            return self._vector.render(0)
        return picture(self.layout, int(self._obs_n[0]))

    def _info(self) -> dict[str, Any]:
        return {"seeker": self.layout.place(int(self._obs_n[0])), "goal": self.layout.goal}


def picture(grid: Layout, cell: int) -> np.ndarray:
    """Draw a maze whose seeker is in a cell.

    Returns
    -------
    numpy.ndarray
        (rows*side, columns*side, 3) uint8, with cells of side = 512 / max(rows, columns) pixels,
        at most 32 and at least 1.
    """
    side = min(32, max(1, _PICTURE // max(grid.rows, grid.columns)))
    line = int(side > 2)
    image = np.full((grid.rows * side, grid.columns * side, 3), _EMPTY, np.uint8)
    if line:
        image[::side] = _LINE
        image[:, ::side] = _LINE
    for (row, column), colour in ((grid.goal, _GOAL), (grid.place(cell), _SEEKER)):
        top, left = row * side, column * side
        image[top + line : top + side, left + line : left + side] = colour
    return image


def check_render_mode(render_mode: str | None) -> str | None:
    """Return a render mode, or raise ValueError."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode must be None, 'ansi' or 'rgb_array', got {render_mode!r}")
    return render_mode


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None


def _size(name: str, value: Any) -> int:
    number = _integer(name, value)
    if not 1 <= number <= SIDE:
        raise ValueError(f"{name} must be in [1, {SIDE}], got {number}")
    return number


def _place(name: str, value: Any, rows: int, columns: int) -> Position:
    try:
        row, column = value
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (row, column), got {value!r}") from None
    place = _integer(f"the row of {name}", row), _integer(f"the column of {name}", column)
    if not (0 <= place[0] < rows and 0 <= place[1] < columns):
        raise ValueError(f"{name} must be a cell of the {rows}x{columns} maze, got {place}")
    return place


def _limit(max_episode_steps: Any) -> int:
    """Return the limit as C has it, where 0 is none."""
    if max_episode_steps is None:
        return 0
    number = _integer("max_episode_steps", max_episode_steps)
    if number == -1:  # what gymnasium.make takes for "no limit"
        return 0
    if not 1 <= number < 2**32:
        raise ValueError(
            f"max_episode_steps must be None, -1 or in [1, 2^32), got {max_episode_steps}"
        )
    return number


make.metadata = Maze.metadata  # type: ignore[attr-defined]  # gymnasium.make reads it
