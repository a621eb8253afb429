"""Options of evolution strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rollmill.envs.native import EnvSpec
from rollmill.presets import find_preset

from .config import (
    MAX_FLOAT32,
    AlgorithmConfig,
    boolean,
    choice,
    factor,
    integer,
    mapping,
    maybe,
    number,
    option,
    text,
)

if TYPE_CHECKING:
    from .es import ES


def _env(name: str, value: Any) -> str:
    if isinstance(value, EnvSpec):
        return value.id
    return text(name, value)


def _widths(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > 7:
        raise ValueError(f"{name} must be a list of at most 7 layer widths, got {value!r}")
    return tuple(integer(1, 65536)(name, width) for width in value)


@dataclass(init=False)
class ESConfig(AlgorithmConfig):
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

    ALIASES: ClassVar = {
        "timesteps_per_batch": "train_batch_size",
        "l2coeff": "l2_coeff",
        "num_rollout_workers": "num_workers",
        "num_env_runners": "num_workers",
        "horizon": "max_episode_steps",
        "offset": "reward_offset",
    }
    IGNORED: ClassVar = {
        "num_gpus": "kernels run on processors",
        "framework": "policies are kernels of our own",
        "create_env_on_local_worker": "the driver always can",
        "create_env_on_local_env_runner": "the driver always can",
        "create_local_env_runner": "the driver always can",
        "log_level": "warnings go through Python's `warnings`",
    }

    env: str = option("rollmill/Maze-v0", _env, "environment id, or path/to/library.so:symbol")
    env_config: dict[str, Any] = option(  # noqa: RUF009
        dict, mapping, "arguments the environment is built with"
    )
    seed: int | None = option(None, maybe(integer(0)), "seed; null draws one")
    preset: str = option("auto", choice("auto", "none"), "tuned values for what is not set")

    engine: str = option("auto", choice("auto", "threads", "ray"), "who computes the units")
    num_workers: int = option(0, integer(0), "slots of a Ray cluster; 0: threads here")
    num_threads: int | None = option(None, maybe(integer(1, 4096)), "threads; null: all processors")
    address: str | None = option(None, maybe(text), "address of a Ray cluster")
    slots_per_actor: int | None = option(None, maybe(integer(1)), "slots in one Ray actor")

    episodes_per_batch: int = option(1000, integer(1, 2**32), "least episodes of an iteration")
    train_batch_size: int = option(10000, integer(0, 2**53), "least steps of an iteration")
    unit_pairs: int = option(8, integer(1, 4096), "mirrored pairs in a work unit")
    max_episode_steps: int | None = option(None, maybe(integer(1, 2**32 - 1)), "episode cap")

    noise_stdev: float = option(0.02, factor, "scale of the perturbations")
    noise_size: int = option(250_000_000, integer(1, 2**32), "length of the shared noise")
    noise_storage: str = option(
        "auto",
        choice("auto", "generated", "table"),
        "auto: a table up to 2**24 numbers, else generated; equal bits",
    )
    optimizer: str = option("adam", choice("adam", "sgd"), "optimiser")
    stepsize: float = option(0.01, factor, "learning rate")
    momentum: float = option(0.9, number(0, 0.999999), "momentum of sgd")
    l2_coeff: float = option(0.005, number(0, MAX_FLOAT32), "weight decay, added to the gradient")
    gamma: float = option(1.0, number(0, 1), "discount of the fitness, not of reported returns")
    sample_actions: bool = option(False, boolean, "sample actions in training episodes")
    reward_offset: float = option(
        0.0,
        number(-MAX_FLOAT32, MAX_FLOAT32),
        "taken from each reward in the fitness, as a survival bonus",
    )
    action_noise_std: float = option(
        0.01, number(0, MAX_FLOAT32), "noise on Box actions of training episodes"
    )
    observation_filter: Literal["MeanStdFilter", "NoFilter"] = option(
        "MeanStdFilter", choice("MeanStdFilter", "NoFilter"), "filter of Box observations"
    )
    update_blas: str = option(
        "none", choice("none", "scipy", "reference"), "none: our kernel; else saxpy row by row"
    )

    fcnet_hiddens: tuple[int, ...] = option((64, 64), _widths, "widths of the hidden layers")
    fcnet_activation: Literal["tanh", "relu"] = option(
        "tanh", choice("tanh", "relu"), "their activation"
    )

    eval_prob: float = option(0.03, number(0, 1), "evaluation episodes per pair")
    report_length: int = option(10, integer(1), "iterations that episode_reward_mean averages")

    def set(self, name: str, value: Any) -> ESConfig:
        """Set one option by its name; `model` is a dict of options of its own."""
        if name == "model":
            return self.update_from_dict(mapping(name, value))
        if name == "env" and isinstance(value, EnvSpec) and value.kwargs:
            super().set("env_config", value.kwargs)
        return super().set(name, value)

    def resolved(self) -> ESConfig:
        """Return a config in which the environment's preset fills what was not set."""
        config = self.copy()
        if self.preset == "auto":
            for name, value in find_preset("ES", self.env).config.items():
                if name not in self.set_by_user:
                    setattr(config, name, value)
        return config

    @property
    def engine_name(self) -> str:
        """The engine that `auto` leads to."""
        wants_ray = self.num_workers > 0 or self.address is not None
        if self.engine == "threads" and wants_ray:
            raise ValueError(
                f'engine "threads" takes no num_workers and no address, got num_workers '
                f"{self.num_workers} and address {self.address!r}"
            )
        if self.engine == "auto":
            return "ray" if wants_ray else "threads"
        return self.engine

    def build(self) -> ES:
        """Build the algorithm: its policy, threads or actors."""
        from rollmill.algorithms.es import ES

        return ES(self)

    build_algo = build
