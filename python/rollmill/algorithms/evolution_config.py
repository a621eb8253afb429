"""Options that evolution strategies and augmented random search share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from rollmill import seeding
from rollmill.envs.gymnasium_env import GymnasiumSpec, environment_name
from rollmill.envs.native import EnvSpec, env_spec
from rollmill.policies import MLP
from rollmill.presets import find_preset
from rollmill.rollouts import RolloutSpec

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
from .schedules import scheduled

if TYPE_CHECKING:
    from .evolution import Evolution


def _env(name: str, value: Any) -> str:
    if isinstance(value, EnvSpec):
        return value.id
    if not isinstance(value, str):
        return environment_name(name, value)
    return text(name, value)


def _widths(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > 7:
        raise ValueError(f"{name} must be a list of at most 7 layer widths, got {value!r}")
    return tuple(integer(1, 65536)(name, width) for width in value)


@dataclass(init=False)
class EvolutionConfig(AlgorithmConfig):
    """Where a run is computed, what its episodes are, and how they are perturbed."""

    ALIASES: ClassVar = {
        "num_rollout_workers": "num_workers",
        "num_env_runners": "num_workers",
        "horizon": "max_episode_steps",
        "offset": "reward_offset",
        "action_noise_stdev": "action_noise_std",
    }
    IGNORED: ClassVar = {
        "num_gpus": "kernels run on processors",
        "framework": "policies are kernels of our own",
        "create_env_on_local_worker": "the driver always can",
        "create_env_on_local_env_runner": "the driver always can",
        "create_local_env_runner": "the driver always can",
        "log_level": "warnings go through Python's `warnings`",
    }
    #: The algorithm's name, as `--run` takes it.
    ALGORITHM: ClassVar[str]

    env: str = option("rollmill/Maze-v0", _env, "environment id, or path/to/library.so:symbol")
    env_config: dict[str, Any] = option(  # noqa: RUF009
        dict, mapping, "arguments the environment is built with"
    )
    seed: int | None = option(None, maybe(integer(0)), "seed; null draws one")
    preset: str = option(
        "auto",
        choice("auto", "none", "es", "ars"),
        "auto: tuned values, if there are any for the environment, for what is not set; es, ars: "
        "that algorithm's, which must exist",
    )

    engine: str = option("auto", choice("auto", "threads", "ray"), "who computes the units")
    num_workers: int = option(0, integer(0), "slots of a Ray cluster; 0: threads here")
    num_threads: int | None = option(None, maybe(integer(1, 4096)), "threads; null: all processors")
    address: str | None = option(None, maybe(text), "address of a Ray cluster")
    slots_per_actor: int | None = option(None, maybe(integer(1)), "slots in one Ray actor")

    unit_pairs: int = option(8, integer(1, 4096), "mirrored pairs in a work unit")
    max_episode_steps: int | tuple[tuple[int, int], ...] | None = option(
        None, maybe(scheduled(integer(1, 2**32 - 1))), "episode cap, or a schedule"
    )

    noise_stdev: float | tuple[tuple[int, float], ...] = option(
        0.02,
        scheduled(factor),
        "scale of the perturbations, or a schedule [[timestep, value], ...]",
    )
    noise_size: int = option(250_000_000, integer(1, 2**32), "length of the shared noise")
    noise_storage: str = option(
        "auto",
        choice("auto", "generated", "table"),
        "auto: a table up to 2**24 numbers, else generated; equal bits",
    )
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

    def set(self, name: str, value: Any) -> Self:
        """Set one option by its name; `model` is a dict of options of its own."""
        if name == "model":
            return self.update_from_dict(mapping(name, value))
        if name == "env" and getattr(value, "kwargs", None):
            super().set("env_config", value.kwargs)
        return super().set(name, value)

    def resolved(self) -> Self:
        """Return a config in which the environment's preset fills what was not set.

        Raises ValueError if a preset is named that there is not.
        """
        config = self.copy()
        for name, value in find_preset(self.ALGORITHM, self.env, self.preset).config.items():
            if name not in self.set_by_user:
                setattr(config, name, value)
        return config

    def build_policy(self, env: Any = None, **options: Any) -> MLP:
        """Build the policy alone, as it is before the first iteration of a hidden network.

        Parameters
        ----------
        env : str, optional
            The environment, if it is not the config's.
        **options
            More options.
        """
        config = self.copy()._given(env=env).update_from_dict(options).resolved()
        description = env_spec(config.env, **config.env_config).describe()
        policy = MLP.for_env(description, config.fcnet_hiddens, config.fcnet_activation)
        policy.theta = policy.kernel.init(seeding.key(config.seed or 0))
        return policy

    def rollout_spec(self, env: EnvSpec | GymnasiumSpec, key: int) -> RolloutSpec:
        """Return what workers build their rollouts from."""
        return RolloutSpec(
            env=env,
            hiddens=self.fcnet_hiddens,
            activation=self.fcnet_activation,
            key=key,
            noise_size=self.noise_size,
            gamma=self.gamma,
            reward_offset=self.reward_offset,
            action_noise_stdev=self.action_noise_std,
            unit_pairs=self.unit_pairs,
            sample_actions=self.sample_actions,
            observation_filter=self.observation_filter,
        )

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

    def build(self) -> Evolution:
        """Build the algorithm: its policy, threads or actors."""
        raise NotImplementedError

    def build_algo(self) -> Evolution:
        """Build the algorithm, by RLlib's newer name of `build`."""
        return self.build()
