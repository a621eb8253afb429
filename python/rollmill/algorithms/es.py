"""Evolution strategies (Salimans et al., "Evolution strategies as a scalable alternative to
reinforcement learning", 2017): mirrored sampling, centred ranks, shared noise.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import seeding
from .._es import TILE, centered_ranks, noise_sum
from .._noise import Noise
from .._rollout import EPISODE_DTYPE, TERMINATED
from .._stats import stats_merge
from ..batch import Batch, Ledger
from ..checkpoint import Checkpoint
from ..engine import Engine, make_engine
from ..envs.native import EnvSpec, env_spec
from ..optimizers import make_optimizer
from ..policies import MLP
from ..presets import find_preset
from ..rollouts import RolloutSpec, Task
from .algorithm import Algorithm
from .config import (AlgorithmConfig, boolean, choice, integer, mapping, maybe, number, option,
                     text)  # fmt: skip


#: Status of a pair whose environment failed (RML_EENV).
FAILED = -5


def _env(name: str, value: Any) -> str:
    if isinstance(value, EnvSpec):
        return value.id
    return text(name, value)


def _widths(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > 7:
        raise ValueError(f"{name} must be a list of at most 7 layer widths, got {value!r}")
    return tuple(integer(1, 65536)(name, width) for width in value)


@dataclass
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
    }
    IGNORED: ClassVar = {
        "num_gpus": "kernels run on processors",
        "framework": "policies are kernels of our own",
        "create_env_on_local_worker": "the driver always can",
        "create_env_on_local_env_runner": "the driver always can",
        "create_local_env_runner": "the driver always can",
    }

    env: str = option("rollmill/Maze-v0", _env, "environment id, or path/to/library.so:symbol")
    env_config: dict[str, Any] = option({}, mapping, "arguments the environment is built with")
    seed: int | None = option(None, maybe(integer(0)), "seed; null draws one")
    preset: str = option("auto", choice("auto", "none"), "tuned values for what is not set")

    engine: str = option("auto", choice("auto", "threads", "ray"), "who computes the units")
    num_workers: int = option(0, integer(0), "slots of a Ray cluster; 0: threads here")
    num_threads: int | None = option(None, maybe(integer(1, 4096)), "threads; null: all processors")
    address: str | None = option(None, maybe(text), "address of a Ray cluster")
    slots_per_actor: int | None = option(None, maybe(integer(1)), "slots in one Ray actor")

    episodes_per_batch: int = option(1000, integer(1), "least episodes of an iteration")
    train_batch_size: int = option(10000, integer(0), "least steps of an iteration")
    unit_pairs: int = option(8, integer(1, 4096), "mirrored pairs in a work unit")
    max_episode_steps: int | None = option(None, maybe(integer(1, 2**32 - 1)), "episode cap")

    noise_stdev: float = option(0.02, number(0, above=True), "scale of the perturbations")
    noise_size: int = option(250_000_000, integer(1, 2**32), "length of the shared noise")
    noise_storage: str = option(
        "auto",
        choice("auto", "generated", "table"),
        "auto: a table up to 2**24 numbers, else generated; equal bits",
    )
    optimizer: str = option("adam", choice("adam", "sgd"), "optimiser")
    stepsize: float = option(0.01, number(0, above=True), "learning rate")
    momentum: float = option(0.9, number(0, 0.999999), "momentum of sgd")
    l2_coeff: float = option(0.005, number(0), "weight decay, added to the gradient")
    gamma: float = option(1.0, number(0, 1), "discount of the fitness, not of reported returns")
    sample_actions: bool = option(False, boolean, "sample actions in training episodes")
    observation_filter: str = option(
        "MeanStdFilter", choice("MeanStdFilter", "NoFilter"), "filter of Box observations"
    )
    update_blas: str = option(
        "none", choice("none", "scipy", "reference"), "none: our kernel; else saxpy row by row"
    )

    fcnet_hiddens: tuple[int, ...] = option((64, 64), _widths, "widths of the hidden layers")
    fcnet_activation: str = option("tanh", choice("tanh", "relu"), "their activation")

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
        return ES(self)

    build_algo = build


class ES(Algorithm):
    """Evolution strategies over native environments.

    Parameters
    ----------
    config : ESConfig

    Raises
    ------
    ValueError
        On an environment or option that does not fit.
    """

    name = "ES"

    def __init__(self, config: ESConfig):
        self.config = config = config.resolved()
        self.seed = seeding.resolve(config.seed)
        config.seed = self.seed
        key = seeding.key(self.seed)
        env = env_spec(config.env, **config.env_config)
        config.env = env.id
        native = env.build()
        self.policy = MLP.for_env(native, config.fcnet_hiddens, config.fcnet_activation)
        size = self.policy.num_params
        if config.noise_size < size:
            raise ValueError(
                f"noise_size must be at least {size}, the number of parameters, "
                f"got {config.noise_size}"
            )
        self.spec = RolloutSpec(
            env=env,
            hiddens=config.fcnet_hiddens,
            activation=config.fcnet_activation,
            key=key,
            noise_size=config.noise_size,
            gamma=config.gamma,
            unit_pairs=config.unit_pairs,
            sample_actions=config.sample_actions,
            observation_filter=config.observation_filter,
        )
        options = {"momentum": config.momentum} if config.optimizer == "sgd" else {}
        self.optimizer = make_optimizer(
            config.optimizer, size, stepsize=config.stepsize, **options
        )
        self.policy.theta = self.policy.kernel.init(key)
        self.stats: NDArray[np.float64] | None = None
        spec = native.observation_space_spec
        if config.observation_filter == "MeanStdFilter" and spec.kind == "box":
            self.stats = np.zeros(1 + 2 * spec.n)
        self._show_filter()
        self.best_theta, self.best_stats = self.policy.theta, self.policy.stats
        self.best_fitness: float | None = None
        self.best_iteration = 0
        self.iteration = 0
        self.timesteps_total = self.episodes_total = self.pairs_dropped = self.tied_iterations = 0
        self.time_total_s = 0.0
        self.reproducible = True
        self.rewards: list[float] = []
        self._steps_per_unit: float | None = None
        self.engine: Engine = make_engine(
            config.engine_name,
            self.spec,
            **self._engine_options(),
        )
        self.noise = Noise(key, config.noise_size, getattr(self.engine, "table", None))

    def _engine_options(self) -> dict[str, Any]:
        config = self.config
        storage = config.noise_storage
        if storage == "auto":  # 64 MB are made in some 10 ms, and read faster than generated
            storage = "table" if config.noise_size <= 1 << 24 else "generated"
        options = {"num_threads": config.num_threads, "table": storage == "table"}
        if config.engine_name == "ray":
            options |= {
                "num_workers": config.num_workers or 1,
                "address": config.address,
                "slots_per_actor": config.slots_per_actor,
            }
        return options

    def _show_filter(self) -> None:
        """Let the policy see the observations as the next iteration's members do."""
        self.policy.stats = None if self.stats is None else self.stats.copy()

    def task(self) -> Task:
        """What the units of the next iteration are a function of."""
        return Task(
            iteration=self.iteration,
            theta=self.policy.theta,
            noise_stdev=self.config.noise_stdev,
            max_episode_steps=self.config.max_episode_steps or 0,
            stats=self.policy.stats,
        )

    def train(self) -> dict[str, Any]:
        """Run one iteration: a batch of mirrored episodes, an update, an evaluation.

        Returns
        -------
        dict
            RLlib's names as flat keys. `episode_reward_mean` is that of the noiseless evaluation
            episodes of the last `report_length` iterations, `train_reward_mean` that of the
            perturbed ones.
        """
        config = self.config
        clock = [time.perf_counter()]
        ledger = Ledger(
            self.iteration,
            config.unit_pairs,
            config.episodes_per_batch,
            config.train_batch_size,
            self._steps_per_unit,
        )
        self.engine.run_batch(self.task(), ledger)
        batch = ledger.batch()
        clock.append(time.perf_counter())

        kept = batch.pairs[batch.pairs["status"] == 0]
        gradient, tied = self._gradient(kept)
        theta = self.policy.theta
        if not tied:
            theta = self.optimizer.update(theta, gradient)
        update_norm = float(np.linalg.norm((theta - self.policy.theta).astype(np.float64)))
        clock.append(time.perf_counter())

        self.policy.theta = theta
        if self.stats is not None and batch.stats is not None:
            stats_merge(self.stats, batch.stats)
            self._show_filter()
        lengths = int(batch.pairs["length"].sum(dtype=np.int64))
        episodes = 2 * len(batch.pairs)
        dropped = len(batch.pairs) - len(kept)
        self.iteration += 1
        self.timesteps_total += lengths
        self.episodes_total += episodes
        self.pairs_dropped += dropped
        self.tied_iterations += tied
        self._steps_per_unit = lengths / batch.units
        facts = self.engine.facts()
        self.reproducible &= bool(facts.get("reproducible", True))
        if np.any(batch.pairs["status"] == FAILED):
            self.reproducible = False  # what made the environment fail may lie outside the run
        evaluation = self._evaluate_iteration(len(batch.pairs))
        clock.append(time.perf_counter())

        seconds = clock[-1] - clock[0]
        self.time_total_s += seconds
        self._warn(tied, dropped, len(kept))
        result = {
            "training_iteration": self.iteration,
            "timesteps_total": self.timesteps_total,
            "timesteps_this_iter": lengths,
            "timesteps_discarded": ledger.steps_discarded,
            "episodes_total": self.episodes_total,
            "episodes_this_iter": episodes,
            **self._rewards(evaluation, kept),
            **evaluation,
            "pairs_dropped": self.pairs_dropped,
            "tied_iterations": self.tied_iterations,
            "time_this_iter_s": seconds,
            "time_total_s": self.time_total_s,
            "steps_per_second": lengths / seconds,
            "time/units_s": clock[1] - clock[0],
            "time/update_s": clock[2] - clock[1],
            "time/evaluation_s": clock[3] - clock[2],
            "info/weights_norm": float(np.linalg.norm(theta.astype(np.float64))),
            "info/grad_norm": float(np.linalg.norm(gradient.astype(np.float64))),
            "info/episodes_this_iter": episodes,
            "info/episodes_so_far": self.episodes_total,
            "reproducible": self.reproducible,
        }
        norm = result["info/weights_norm"]
        result["info/update_ratio"] = update_norm / norm if norm > 0 else 0.0
        return result

    def _gradient(self, kept: NDArray[np.void]) -> tuple[NDArray[np.float32], bool]:
        """Return the gradient to descend, and whether the returns said nothing at all."""
        size = self.policy.num_params
        gradient = np.zeros(size, np.float32)
        fitness = np.ascontiguousarray(kept["fitness"])
        ranks = centered_ranks(fitness.ravel()).reshape(fitness.shape)
        if not ranks.any():
            return gradient, True
        weight = np.ascontiguousarray(ranks[:, 0] - ranks[:, 1])
        index = np.ascontiguousarray(kept["noise_index"])

        def columns(begin: int, end: int) -> None:
            noise_sum(self.noise, index, weight, gradient, begin, end, blas=self.config.update_blas)

        self.engine.map_columns(columns, size, TILE)
        gradient *= np.float32(-1.0 / ranks.size)
        gradient += np.float32(self.config.l2_coeff) * self.policy.theta
        return gradient, False

    def _warn(self, tied: bool, dropped: int, kept: int) -> None:
        """Warn the first time; results count every time."""
        why = "a return or observation that is not finite, or an environment that failed"
        if dropped and dropped == self.pairs_dropped:
            rest = "" if kept else ", so that none is left and the policy stands still"
            warnings.warn(
                f"iteration {self.iteration}: {dropped} pairs were dropped ({why}){rest}",
                stacklevel=3,
            )
        if tied and kept and self.tied_iterations == 1:
            warnings.warn(
                f"iteration {self.iteration}: all returns are equal, so the policy stands still; "
                "try sample_actions, a larger noise_stdev or a shaped reward",
                stacklevel=3,
            )

    def _evaluate_iteration(self, pairs: int) -> dict[str, Any]:
        """Evaluate the new policy, and keep it if it is the best so far."""
        episodes = math.ceil(self.config.eval_prob * pairs)
        records = np.empty(0, EPISODE_DTYPE)
        if episodes:
            records = self.engine.run_episodes(self.task(), "iteration", episodes)
        figures = _figures(records)
        fitness = figures["fitness_mean"]
        if not episodes:  # nothing to choose by: the newest
            self.best_theta, self.best_stats = self.policy.theta, self.policy.stats
            self.best_iteration = self.iteration
        elif fitness is not None and (self.best_fitness is None or fitness > self.best_fitness):
            self.best_fitness, self.best_iteration = fitness, self.iteration
            self.best_theta, self.best_stats = self.policy.theta, self.policy.stats
        return {f"evaluation_{name}": value for name, value in figures.items()}

    def _rewards(self, evaluation: dict[str, Any], kept: NDArray[np.void]) -> dict[str, Any]:
        """Return RLlib's reward names, old and new."""
        returns, lengths = kept["return"], kept["length"]
        train = {
            "train_reward_mean": float(returns.mean()) if len(kept) else None,
            "train_reward_max": float(returns.max()) if len(kept) else None,
            "train_len_mean": float(lengths.mean()) if len(kept) else None,
            "train_fitness_mean": float(kept["fitness"].mean()) if len(kept) else None,
        }
        if evaluation.get("evaluation_reward_mean") is not None:
            self.rewards = [*self.rewards, evaluation["evaluation_reward_mean"]]
            self.rewards = self.rewards[-self.config.report_length :]
            names = {
                "episode_reward_mean": float(np.mean(self.rewards)),
                "episode_reward_min": evaluation["evaluation_reward_min"],
                "episode_reward_max": evaluation["evaluation_reward_max"],
                "episode_len_mean": evaluation["evaluation_len_mean"],
            }
        else:
            names = {
                "episode_reward_mean": train["train_reward_mean"],
                "episode_reward_min": float(returns.min()) if len(kept) else None,
                "episode_reward_max": train["train_reward_max"],
                "episode_len_mean": train["train_len_mean"],
            }
        today = {
            "env_runners/episode_return_mean": names["episode_reward_mean"],
            "env_runners/episode_return_min": names["episode_reward_min"],
            "env_runners/episode_return_max": names["episode_reward_max"],
            "env_runners/episode_len_mean": names["episode_len_mean"],
        }
        return {**names, **today, **train}

    def evaluate(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the present policy, without noise, on a fixed set of seeds.

        The same episodes for every policy of this seed, and none that training has seen.

        Returns
        -------
        dict
            episodes, reward_mean, reward_min, reward_max, reward_sem, len_mean, len_min, len_max,
            fitness_mean, terminated.
        """
        return _figures(self.engine.run_episodes(self.task(), "report", episodes))

    def evaluate_best(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the best policy so far as `evaluate` does."""
        task = Task(0, self.best_theta, self.config.noise_stdev,
                    self.config.max_episode_steps or 0, self.best_stats)  # fmt: skip
        return _figures(self.engine.run_episodes(task, "report", episodes))

    def best_policy(self) -> MLP:
        """Return the policy whose evaluation was the best so far."""
        best = MLP.for_env(
            self.spec.env.build(), self.config.fcnet_hiddens, self.config.fcnet_activation
        )
        best.theta, best.stats = self.best_theta, self.best_stats
        return best

    def stop(self) -> None:
        """End threads and actors. May be called twice."""
        self.engine.close()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return counters and arrays from which the run can go on bit for bit."""
        counters = {
            "training_iteration": self.iteration,
            "timesteps_total": self.timesteps_total,
            "episodes_total": self.episodes_total,
            "pairs_dropped": self.pairs_dropped,
            "tied_iterations": self.tied_iterations,
            "time_total_s": self.time_total_s,
            "optimizer_steps": self.optimizer.steps,
            "best_iteration": self.best_iteration,
            "best_fitness": self.best_fitness,
            "reproducible": self.reproducible,
            "rewards": self.rewards,
        }
        arrays = {"theta": self.policy.theta, "best_theta": self.best_theta}
        for name, array in self.optimizer.state().items():
            arrays[f"optimizer/{name}"] = array.copy()
        if self.stats is not None:
            arrays["stats"] = self.stats.copy()
            arrays["best_stats"] = self.stats if self.best_stats is None else self.best_stats
        return counters, arrays

    def _load(self, checkpoint: Checkpoint) -> None:
        counters, size = checkpoint.counters, (self.policy.num_params,)
        self.policy.theta = checkpoint.array("theta", dtype=np.float32, shape=size)
        self.best_theta = checkpoint.array("best_theta", dtype=np.float32, shape=size)
        for name, array in self.optimizer.state().items():
            array[:] = checkpoint.array(f"optimizer/{name}", dtype=np.float32, shape=size)
        if self.stats is not None:
            shape = self.stats.shape
            self.stats = checkpoint.array("stats", dtype=np.float64, shape=shape).copy()
            self.best_stats = checkpoint.array("best_stats", dtype=np.float64, shape=shape)
        self._show_filter()
        self.iteration = counters["training_iteration"]
        self.timesteps_total = counters["timesteps_total"]
        self.episodes_total = counters["episodes_total"]
        self.pairs_dropped = counters["pairs_dropped"]
        self.tied_iterations = counters["tied_iterations"]
        self.time_total_s = counters["time_total_s"]
        self.optimizer.steps = counters["optimizer_steps"]
        self.best_iteration = counters["best_iteration"]
        self.best_fitness = counters["best_fitness"]
        self.reproducible = counters["reproducible"]
        self.rewards = list(counters["rewards"])


def _figures(records: NDArray[np.void]) -> dict[str, Any]:
    """Summarise evaluation episodes; None where none succeeded in running."""
    good = records[records["status"] == 0]
    if not len(good):
        names = ("reward_mean", "reward_min", "reward_max", "reward_sem", "len_mean", "len_min",
                 "len_max", "fitness_mean", "terminated")  # fmt: skip
        return {"episodes": len(records), **dict.fromkeys(names)}
    returns, lengths = good["return"], good["length"]
    return {
        "episodes": len(records),
        "reward_mean": float(returns.mean()),
        "reward_min": float(returns.min()),
        "reward_max": float(returns.max()),
        "reward_sem": float(returns.std(ddof=1) / math.sqrt(len(good))) if len(good) > 1 else 0.0,
        "len_mean": float(lengths.mean()),
        "len_min": int(lengths.min()),
        "len_max": int(lengths.max()),
        "fitness_mean": float(good["fitness"].mean()),
        "terminated": int(np.count_nonzero(good["flags"] & TERMINATED)),
    }
