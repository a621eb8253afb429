"""From records of episodes to the numbers of a result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill._rollout import TERMINATED


def evaluation_figures(records: NDArray[np.void]) -> dict[str, Any]:
    """Summarise noiseless episodes; None for what no episode tells.

    records : (E,) of `rollmill._rollout.EPISODE_DTYPE`; episodes that failed count in `failed`
    """
    good = records[records["status"] == 0]
    returns, lengths = good["return"], good["length"]
    figures = {
        "reward_mean": _mean(returns),
        "reward_min": _extreme(returns, np.min),
        "reward_max": _extreme(returns, np.max),
        "reward_sem": _sem(returns),
        "len_mean": _mean(lengths),
        "len_min": _extreme(lengths, np.min),
        "len_max": _extreme(lengths, np.max),
        "fitness_mean": _mean(good["fitness"]),
    }
    return {
        "episodes": len(records),
        "failed": len(records) - len(good),
        **figures,
        "terminated": int(np.count_nonzero(good["flags"] & TERMINATED)),
    }


def training_figures(kept: NDArray[np.void]) -> dict[str, Any]:
    """Summarise perturbed episodes; None where no pair was kept.

    kept : (P,) of `rollmill._rollout.PAIR_DTYPE`; the standard error is over pairs, since the two
        signs of one are not independent
    """
    return {
        "reward_mean": _mean(kept["return"]),
        "reward_min": _extreme(kept["return"], np.min),
        "reward_max": _extreme(kept["return"], np.max),
        "reward_sem": _sem(kept["return"].mean(axis=1)),
        "len_mean": _mean(kept["length"]),
        "fitness_mean": _mean(kept["fitness"]),
    }


def reward_names(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures under RLlib's names, the old ones and today's."""
    return {
        "episode_reward_mean": figures["reward_mean"],
        "episode_reward_min": figures["reward_min"],
        "episode_reward_max": figures["reward_max"],
        "episode_len_mean": figures["len_mean"],
        "env_runners/episode_return_mean": figures["reward_mean"],
        "env_runners/episode_return_min": figures["reward_min"],
        "env_runners/episode_return_max": figures["reward_max"],
        "env_runners/episode_len_mean": figures["len_mean"],
    }


def prefixed(prefix: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures with a prefix before each name."""
    return {f"{prefix}{name}": value for name, value in figures.items()}


def norm(vector: NDArray[np.float32]) -> float:
    """Return the Euclidean norm, summed in float64."""
    return float(np.linalg.norm(vector.astype(np.float64)))


def spread(fitness: NDArray[np.float64]) -> float:
    """Return the standard deviation of finite numbers, the same bits on every processor.

    Its sums are rounded once. Exactly 0 where all are equal, and for none.
    """
    values = fitness.ravel()
    if not values.size or values.min() == values.max():
        return 0.0
    unit = float(np.abs(values).max())  # so that no square overflows
    scaled = values / unit
    mean = math.fsum(scaled) / scaled.size
    return unit * math.sqrt(math.fsum((scaled - mean) ** 2) / scaled.size)


def _sem(values: NDArray[Any]) -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if values.size else None


def _extreme(values: NDArray[Any], pick: Any) -> int | float | None:
    return pick(values).item() if values.size else None
