"""Presets: options and stop criteria tuned for an algorithm on an environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """What an environment is trained with where nothing else was asked for."""

    config: dict[str, Any]
    stop: dict[str, float] = field(default_factory=dict)


#: By (algorithm, environment id).
PRESETS: dict[tuple[str, str], Preset] = {
    # With arg-max actions and a 0/1 return all returns tie and nothing is learned: so actions are
    # sampled while training, and the fitness is discounted, which prefers short paths.
    # 0.99**7 = 0.932 is the discounted return of the shortest path of 8 steps.
    ("ES", "rollmill/Maze-v0"): Preset(
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


def find_preset(algorithm: str, env: Any) -> Preset:
    """Return the preset of an environment; an empty one if it has none."""
    return PRESETS.get((algorithm, str(env)), Preset({}))
