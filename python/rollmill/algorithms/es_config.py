"""Options of evolution strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .config import MAX_FLOAT32, choice, factor, integer, maybe, number, option
from .evolution_config import EvolutionConfig
from .schedules import scheduled

if TYPE_CHECKING:
    from .es import ES


@dataclass(init=False)
class ESConfig(EvolutionConfig):
    """Options of evolution strategies, with RLlib's names.

    Examples
    --------
    >>> from rollmill import ESConfig
    >>> config = ESConfig().environment("rollmill/Maze-v0").debugging(seed=1)
    >>> with config.build() as algo:
    ...     result = algo.train()
    >>> result["training_iteration"]
    1
    """

    ALGORITHM: ClassVar = "ES"
    ALIASES: ClassVar = {
        **EvolutionConfig.ALIASES,
        "timesteps_per_batch": "train_batch_size",
        "l2coeff": "l2_coeff",
    }

    episodes_per_batch: int = option(1000, integer(1, 2**32), "least episodes of an iteration")
    train_batch_size: int = option(10000, integer(0, 2**53), "least steps of an iteration")
    return_proc_mode: str = option(
        "centered_rank",
        choice("centered_rank", "normalized", "raw"),
        "how a fitness weighs: by its rank, less the mean over the deviation, or as it is",
    )
    optimizer: str = option("adam", choice("adam", "adamw", "sgd", "clipup"), "optimiser")
    stepsize: float | tuple[tuple[int, float], ...] = option(
        0.01, scheduled(factor), "learning rate, or a schedule [[timestep, value], ...]"
    )
    momentum: float = option(0.9, number(0, 0.999999), "momentum of sgd and clipup")
    max_speed: float | None = option(
        None, maybe(factor), "longest step of clipup; null: twice the stepsize"
    )
    l2_coeff: float = option(
        0.005, number(0, MAX_FLOAT32), "weight decay, added to the gradient; with adamw beside it"
    )

    def build(self) -> ES:
        """Build the algorithm: its policy, threads or actors."""
        from .es import ES

        return ES(self)
