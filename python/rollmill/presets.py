"""Presets: options and stop criteria tuned for an algorithm on an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .envs.registration import MAZE_ID, MUJOCO_IDS
from .names import unknown


@dataclass(frozen=True)
class Preset:
    """What an environment is trained with where nothing else was asked for."""

    config: dict[str, Any]
    stop: dict[str, float] = field(default_factory=dict)


#: ARS by task, from the paper's table of best settings (alpha, nu, N, b) and its survival bonus,
#: which is taken from each reward.
_ARS = {
    "Swimmer": (0.02, 0.01, 1, 1, 0),
    "Hopper": (0.01, 0.025, 8, 4, 1),
    "HalfCheetah": (0.02, 0.03, 32, 4, 0),
    "Walker2d": (0.03, 0.025, 40, 30, 1),
    "Ant": (0.015, 0.025, 60, 20, 1),
    "Humanoid": (0.02, 0.0075, 230, 230, 5),
}


def _ars(
    sgd_stepsize: float, noise_stdev: float, num_rollouts: int, rollouts_used: int, offset: float
) -> Preset:
    return Preset(
        config={
            "sgd_stepsize": sgd_stepsize,
            "noise_stdev": noise_stdev,
            "num_rollouts": num_rollouts,
            "rollouts_used": rollouts_used,
            "reward_offset": float(offset),
            "eval_prob": min(0.25, max(0.03, 4 / num_rollouts)),  # of one episode, best is luck
            "noise_size": 1 << 24,
        }
    )


#: ES on MuJoCo: batches that two processors compute in seconds, where the defaults are for a
#: cluster. A unit is one pair, since an episode may take a second.
_ES_MUJOCO = Preset(
    config={
        "episodes_per_batch": 128,
        "train_batch_size": 10_000,
        "unit_pairs": 1,
        "noise_size": 1 << 24,
    }
)

#: By (algorithm, environment id).
PRESETS: dict[tuple[str, str], Preset] = {
    **{
        ("ARS", f"{task}-{version}"): _ars(*values)
        for task, values in _ARS.items()
        for version in ("v4", "v5")
    },
    **{("ES", env_id): _ES_MUJOCO for env_id in MUJOCO_IDS},
    # With arg-max actions and a 0/1 return all returns tie and nothing is learned: so actions are
    # sampled while training, and the fitness is discounted, which prefers short paths.
    # 0.99**7 = 0.932 is the discounted return of the shortest path of 8 steps; find_stop puts in
    # that of a maze of another size.
    ("ES", MAZE_ID): Preset(
        config={
            "sample_actions": True,
            "gamma": 0.99,
            "noise_stdev": 0.3,
            "stepsize": 0.05,
            "l2_coeff": 0.0,
            "episodes_per_batch": 4096,
            "train_batch_size": 0,
            "noise_size": 1 << 24,
            "fcnet_hiddens": (64, 64),
        },
        stop={"evaluation_fitness_mean": 0.93, "training_iteration": 100},
    ),
}


def find_stop(
    algorithm: str, env: Any, env_config: Mapping[str, Any], preset: str = "auto"
) -> dict[str, float]:
    """Return the stop criteria of an environment's preset, fitted to how it is built."""
    stop = dict(find_preset(algorithm, env, preset).stop)
    if env == MAZE_ID and stop and env_config:
        from .envs.maze import layout

        sides = {k: v for k, v in env_config.items() if k in ("rows", "columns", "start", "goal")}
        maze = layout(**sides)
        shortest = sum(abs(a - b) for a, b in zip(maze.start, maze.goal, strict=True))
        # Between the shortest path and the next one, which is two steps longer.
        stop["evaluation_fitness_mean"] = round(0.99 ** (shortest - 1) * 0.998, 4)
    return stop


def find_preset(algorithm: str, env: Any, preset: str = "auto") -> Preset:
    """Return the preset of an environment; an empty one if it has none.

    Parameters
    ----------
    algorithm : str
        Its name, such as "ES".
    env : str
        The environment's id.
    preset : str
        "auto"; "none" for an empty one; or the name of the algorithm, in lower case.

    Raises
    ------
    ValueError
        If a preset is named and there is none, or it is another algorithm's.
    """
    if preset == "none":
        return Preset({})
    if preset == "auto":
        return PRESETS.get((algorithm, str(env)), Preset({}))
    if preset != algorithm.lower():
        raise ValueError(f"preset {preset!r} is one of {preset.upper()}, got --run {algorithm}")
    if (algorithm, str(env)) not in PRESETS:
        known = [name for kind, name in PRESETS if kind == algorithm]
        raise ValueError(unknown(f"environment for the preset {preset!r}:", env, known))
    return PRESETS[algorithm, str(env)]
