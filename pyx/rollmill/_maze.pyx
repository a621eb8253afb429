#!python
# cython: embedsignature=True, binding=True
"""The maze in C."""

from rollmill._arrays cimport whole
from rollmill._env cimport NativeEnv
from rollmill._status cimport check
from rollmill.ckernels cimport rml_maze_init


cdef class MazeStorage:
    """Owns the C structs of one maze."""


def maze(rows, columns, start, goal, max_episode_steps):
    """The environment of an open maze.

    rows, columns : int in [1, 4096], not both 1
    start, goal : int, different cells in [0, rows*columns), numbered columns*row + column
    max_episode_steps : int, steps after which an episode is truncated; 0 is never

    Returns a NativeEnv. Raises ValueError on an argument out of its range.
    """
    cdef MazeStorage storage = MazeStorage()
    check(rml_maze_init(&storage.maze, &storage.env, whole(rows, "rows"),
                        whole(columns, "columns"), whole(start, "start"), whole(goal, "goal"),
                        whole(max_episode_steps, "max_episode_steps")), "maze")
    return NativeEnv.wrap(&storage.env, storage)
