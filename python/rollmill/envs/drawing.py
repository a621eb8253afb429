"""Text pictures of what a policy does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rollmill.envs.maze import Maze

if TYPE_CHECKING:
    from rollmill.policies import MLP

_ARROWS = "v<^>"


def draw_path(policy: MLP, **kwargs: Any) -> tuple[str, int, bool]:
    """Walk a maze greedily and draw the way.

    Parameters
    ----------
    policy : MLP
        Its observations are the maze's cells.
    **kwargs
        Of `rollmill.envs.Maze`.

    Returns
    -------
    picture : str
        Each visited cell shows the last move made from it; "G" is the goal.
    steps : int
    arrived : bool
    """
    env = Maze(**kwargs)
    obs, info = env.reset(seed=0)
    cells: dict[tuple[int, int], str] = {}
    steps, over, arrived = 0, False, False
    while not over:
        action = policy.compute_single_action(obs)
        cells[info["seeker"]] = _ARROWS[action]
        obs, _, arrived, truncated, info = env.step(action)
        steps += 1
        over = arrived or truncated
    cells.setdefault(info["goal"], "G")
    rows, columns = env.layout.rows, env.layout.columns
    lines = [
        "|" + "|".join(cells.get((row, column), " ") for column in range(columns)) + "|"
        for row in range(rows)
    ]
    env.close()
    return "\n".join(lines), steps, bool(arrived)
