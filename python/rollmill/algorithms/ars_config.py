"""Options of augmented random search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from .config import MAX_FLOAT32, factor, integer, number, option
from .evolution_config import EvolutionConfig, _widths
from .schedules import Schedule, scheduled

if TYPE_CHECKING:
    from .ars import ARS


@dataclass(init=False)
class ARSConfig(EvolutionConfig):
    """Options of augmented random search, with RLlib's names.

    `num_rollouts` and `rollouts_used` count directions: each one is two episodes, theta + noise
    and theta - noise.

    Examples
    --------
    >>> from rollmill import ARSConfig
    >>> config = ARSConfig(num_rollouts=4).environment("rollmill/Maze-v0").debugging(seed=1)
    >>> with config.build() as algo:
    ...     result = algo.train()
    >>> result["episodes_this_iter"]
    8
    """

    ALGORITHM: ClassVar = "ARS"
    ALIASES: ClassVar = {
        **EvolutionConfig.ALIASES,
        "deltas_used": "rollouts_used",
        "num_deltas": "num_rollouts",
        "stepsize": "sgd_stepsize",
    }
    IGNORED: ClassVar = {
        **EvolutionConfig.IGNORED,
        "return_proc_mode": "directions weigh by their returns",
    }

    num_rollouts: int = option(32, integer(1, 2**31), "directions of an iteration, 2 episodes each")
    rollouts_used: int = option(
        32, integer(1, 2**31), "directions that make the step: those with the best episodes"
    )
    sgd_stepsize: float | tuple[tuple[int, float], ...] = option(
        0.01, scheduled(factor), "learning rate, or a schedule [[timestep, value], ...]"
    )

    # Other defaults than those of evolution strategies.
    unit_pairs: int = option(1, integer(1, 4096), "directions in a work unit")
    action_noise_std: float = option(
        0.0, number(0, MAX_FLOAT32), "noise on Box actions of training episodes"
    )
    fcnet_hiddens: tuple[int, ...] = option(
        (), _widths, "widths of the hidden layers; none: a linear policy"
    )

    @property
    def stepsize(self) -> Schedule:
        """The learning rate."""
        return self.sgd_stepsize

    def resolved(self) -> Self:
        """Return a config in which the environment's preset fills what was not set.

        Raises ValueError if a preset is named that there is not, or if more directions are to be
        used than there are.
        """
        config = super().resolved()
        if config.rollouts_used > config.num_rollouts:
            if "rollouts_used" in self.set_by_user:
                raise ValueError(
                    f"rollouts_used must be at most num_rollouts, {config.num_rollouts}, "
                    f"got {config.rollouts_used}"
                )
            config.rollouts_used = config.num_rollouts
        return config

    def build(self) -> ARS:
        """Build the algorithm: its policy, threads or actors."""
        from .ars import ARS

        return ARS(self)
