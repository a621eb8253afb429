"""Gymnasium ids of the environments."""

MAZE_ID = "rollmill/Maze-v0"
MAZE_STEPS = 100  # steps after which an episode of the maze is truncated unless told otherwise
MUJOCO_IDS = [  # Gymnasium's, of which there are C environments too
    f"{name}-{version}"
    for name in (
        "Swimmer",
        "HalfCheetah",
        "Hopper",
        "Walker2d",
        "Ant",
        "Humanoid",
        "HumanoidStandup",
        "Reacher",
        "Pusher",
        "InvertedPendulum",
        "InvertedDoublePendulum",
    )
    for version in ("v4", "v5")
]


def register() -> None:
    """Register the environments with Gymnasium; calling it again does nothing.

    Importing `rollmill` calls it: Gymnasium since 1.0 reads no entry points, so that ids exist
    once their package is imported, also by `gymnasium.make("rollmill:rollmill/Maze-v0")`.
    """
    import gymnasium.envs.registration as gymnasium_registration

    if MAZE_ID in gymnasium_registration.registry:
        return
    gymnasium_registration.register(
        id=MAZE_ID,
        entry_point="rollmill.envs.maze:make",
        vector_entry_point="rollmill.envs.vector:VectorMaze",
        max_episode_steps=MAZE_STEPS,
    )
