"""What evolution strategies and augmented random search share: everything but the step.

An iteration is a batch of mirrored episodes, a gradient from their returns, a step of the
optimiser, and an evaluation without noise.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollmill import seeding
from rollmill._es import TILE, noise_sum
from rollmill._noise import Noise
from rollmill._rollout import EPISODE_DTYPE, PAIR_DTYPE
from rollmill._stats import stats_merge
from rollmill.batch import Batch, Ledger
from rollmill.engine import Engine, make_engine
from rollmill.envs.native import env_spec
from rollmill.optimizers import Optimizer
from rollmill.policies import MLP
from rollmill.rollouts import Task

from .algorithm import Algorithm
from .evolution_config import EvolutionConfig
from .figures import evaluation_figures, norm, prefixed, reward_names, training_figures
from .schedules import value_at

#: Status of a pair whose environment failed (RML_EENV).
FAILED = -5


class Evolution(Algorithm):
    """Training by mirrored perturbations of a policy's parameters.

    Parameters
    ----------
    config : EvolutionConfig

    Raises
    ------
    ValueError
        On an environment or option that does not fit.
    """

    config: Any
    optimizer: Optimizer
    COUNTERS = (
        "timesteps_total", "episodes_total", "pairs_dropped", "tied_iterations", "time_total_s",
        "best_iteration", "best_fitness", "reproducible", "rewards",
    )  # fmt: skip

    def __init__(self, config: EvolutionConfig):
        self.config = config = config.resolved()
        self.seed = seeding.resolve(config.seed)
        config.seed = self.seed
        key = seeding.key(self.seed)
        env = env_spec(config.env, **config.env_config)
        config.env = env.id
        description = env.describe()
        self.policy = MLP.for_env(description, config.fcnet_hiddens, config.fcnet_activation)
        size = self.policy.num_params
        if config.noise_size < size:
            raise ValueError(
                f"noise_size must be at least {size}, the number of parameters, "
                f"got {config.noise_size}"
            )
        self.spec = config.rollout_spec(env, key)
        self.policy.theta = self._initial(key)
        self.stats: NDArray[np.float64] | None = None
        if config.observation_filter == "MeanStdFilter" and not description.one_hot:
            self.stats = np.zeros(1 + 2 * description.inputs)
        self._show_filter()
        self._env_has_limit = description.max_episode_steps > 0
        self._interpreted = description.interpreted  # its rollouts tell what the failures were
        if description.interpreted and not self._env_has_limit and not config.max_episode_steps:
            warnings.warn(
                f"{env.id} tells no step limit: where its episodes may never end, set "
                "max_episode_steps",
                stacklevel=2,
            )
        self.best_theta, self.best_stats = self.policy.theta, self.policy.stats
        self.best_fitness: float | None = None
        self.best_iteration = 0
        self.iteration = 0
        self.timesteps_total = self.episodes_total = self.pairs_dropped = self.tied_iterations = 0
        self.time_total_s = 0.0
        self.reproducible = True
        self.rewards: list[float] = []
        self._steps_per_unit: float | None = None
        self.optimizer = self._optimizer()
        self.engine: Engine = make_engine(config.engine_name, self.spec, **self._engine_options())
        self.noise = Noise(key, config.noise_size, getattr(self.engine, "table", None))

    @abstractmethod
    def _optimizer(self) -> Optimizer:
        """Return the optimiser that makes the steps."""

    @abstractmethod
    def _ledger(self) -> Ledger:
        """Return the ledger of the next iteration."""

    @abstractmethod
    def _gradient(self, kept: NDArray[np.void]) -> NDArray[np.float32] | None:
        """Return the gradient to descend; None where the returns say nothing."""

    def _initial(self, key: int) -> NDArray[np.float32]:
        """Return the parameters before the first iteration."""
        return self.policy.kernel.init(key)

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

    def scheduled(self, name: str) -> float:
        """Return the present value of an option that may be a schedule; 0 for None."""
        value = getattr(self.config, name)
        return 0 if value is None else value_at(value, self.timesteps_total)

    def task(self) -> Task:
        """What the units of the next iteration are a function of."""
        return Task(
            iteration=self.iteration,
            theta=self.policy.theta,
            noise_stdev=self.scheduled("noise_stdev"),
            max_episode_steps=int(self.scheduled("max_episode_steps")),
            stats=self.policy.stats,
        )

    def train(self) -> dict[str, Any]:
        """Run one iteration: a batch of mirrored episodes, an update, an evaluation.

        Whatever interrupts it, Ctrl-C included, leaves the algorithm as it was before.

        Returns
        -------
        dict
            RLlib's names as flat keys. `episode_reward_mean` is that of the noiseless evaluation
            episodes of the last `report_length` iterations, `train_reward_mean` that of the
            perturbed ones.

        Raises
        ------
        FloatingPointError
            If the update leads to parameters that are not finite.
        """
        before = self.state()
        try:
            return self._iterate()
        except BaseException:
            self.restore(*before)
            raise

    def _iterate(self) -> dict[str, Any]:
        old = self.policy.theta
        clock = [time.perf_counter()]
        ledger = self._ledger()
        self.engine.run_batch(self.task(), ledger)
        batch = ledger.batch()
        kept = batch.pairs[batch.pairs["status"] == 0]
        if not self._interpreted and (batch.pairs["status"] == FAILED).all():
            raise RuntimeError(
                f"the environment {self.config.env} failed in every pair of an iteration: its "
                "reset or step returns an error, or an observation lies outside its space"
            )
        clock.append(time.perf_counter())

        self.iteration += 1
        gradient = self._gradient(kept)
        if gradient is not None:
            self.optimizer.stepsize = self.scheduled("stepsize")
            self.policy.theta = self.optimizer.update(old, gradient)
            if not np.isfinite(self.policy.theta).all():
                raise FloatingPointError(
                    f"iteration {self.iteration}: the update makes parameters that are not finite; "
                    f"try a smaller stepsize (now {self.optimizer.stepsize:g})"
                )
        if self.stats is not None and batch.stats is not None:
            stats_merge(self.stats, batch.stats)
            self._show_filter()
        clock.append(time.perf_counter())

        self._count(batch, kept, tied=gradient is None)
        evaluation = self._evaluate_iteration(len(batch.pairs))
        clock.append(time.perf_counter())
        self.time_total_s += clock[-1] - clock[0]
        return self._result(batch, kept, evaluation, ledger.steps_discarded, clock, old, gradient)

    def _noise_sum(
        self, kept: NDArray[np.void], weight: NDArray[np.floating[Any]]
    ) -> NDArray[np.float32]:
        """Return the sum over pairs of weight times noise, in the order of the pairs."""
        total = np.zeros(self.policy.num_params, np.float32)
        weight = np.ascontiguousarray(weight, np.float32)
        index = np.ascontiguousarray(kept["noise_index"])

        def columns(begin: int, end: int) -> None:
            noise_sum(self.noise, index, weight, total, begin, end, blas=self.config.update_blas)

        self.engine.map_columns(columns, len(total), TILE)
        return total

    def _count(self, batch: Batch, kept: NDArray[np.void], *, tied: bool) -> None:
        """Book a batch, and warn the first time that something is wrong; results always count."""
        dropped = len(batch.pairs) - len(kept)
        steps = int(batch.pairs["length"].sum(dtype=np.int64))
        self.timesteps_total += steps
        self.episodes_total += 2 * len(batch.pairs)
        self.pairs_dropped += dropped
        self.tied_iterations += tied
        self._steps_per_unit = steps / batch.units
        self.reproducible &= bool(self.engine.facts().get("reproducible", True))
        if np.any(batch.pairs["status"] == FAILED):
            self.reproducible = False  # what made the environment fail may lie outside the run
        if dropped and dropped == self.pairs_dropped:
            rest = "" if len(kept) else ", so that none is left and the policy stands still"
            warnings.warn(
                f"iteration {self.iteration}: {dropped} of {len(batch.pairs)} pairs dropped (a "
                f"return or observation is not finite, or the environment failed){rest}",
                stacklevel=4,
            )
        if tied and len(kept) and self.tied_iterations == 1:
            warnings.warn(
                f"iteration {self.iteration}: all returns are equal, so the policy stands still; "
                "try sample_actions, a larger noise_stdev or a shaped reward",
                stacklevel=4,
            )

    def _evaluate_iteration(self, pairs: int) -> dict[str, Any]:
        """Evaluate the new policy, and keep it if it is the best so far."""
        episodes = math.ceil(self.config.eval_prob * pairs)
        records = np.empty(0, EPISODE_DTYPE)
        if episodes:
            records = self.engine.run_episodes(self._evaluation_task(), "iteration", episodes)
        figures = evaluation_figures(records)
        fitness = figures["fitness_mean"]
        better = fitness is not None and (self.best_fitness is None or fitness > self.best_fitness)
        if better or not episodes:  # without episodes there is nothing to choose by: the newest
            self.best_fitness, self.best_iteration = fitness, self.iteration
            self.best_theta, self.best_stats = self.policy.theta, self.policy.stats
        if fitness is not None:
            rewards = [*self.rewards, figures["reward_mean"]]
            self.rewards = rewards[-self.config.report_length :]
        return figures

    def _result(
        self,
        batch: Batch,
        kept: NDArray[np.void],
        evaluation: dict[str, Any],
        discarded: int,
        clock: list[float],
        old: NDArray[np.float32],
        gradient: NDArray[np.float32] | None,
    ) -> dict[str, Any]:
        steps = int(batch.pairs["length"].sum(dtype=np.int64))
        episodes = 2 * len(batch.pairs)
        seconds = clock[-1] - clock[0]
        training = training_figures(kept)
        reported = training
        if evaluation["reward_mean"] is not None:
            reported = {**evaluation, "reward_mean": float(np.mean(self.rewards))}
        weights_norm = norm(self.policy.theta)
        return {
            "training_iteration": self.iteration,
            "timesteps_total": self.timesteps_total,
            "timesteps_this_iter": steps,
            "timesteps_discarded": discarded,
            "episodes_total": self.episodes_total,
            "episodes_this_iter": episodes,
            **reward_names(reported),
            **prefixed("train_", training),
            **prefixed("evaluation_", evaluation),
            "best_iteration": self.best_iteration,
            "pairs_dropped": self.pairs_dropped,
            "tied_iterations": self.tied_iterations,
            "time_this_iter_s": seconds,
            "time_total_s": self.time_total_s,
            "steps_per_second": steps / seconds if seconds else 0.0,
            "time/units_s": clock[1] - clock[0],
            "time/update_s": clock[2] - clock[1],
            "time/evaluation_s": clock[3] - clock[2],
            "info/weights_norm": weights_norm,
            "info/grad_norm": 0.0 if gradient is None else norm(gradient),
            "info/update_ratio": norm(self.policy.theta - old) / weights_norm
            if weights_norm
            else 0.0,
            "info/episodes_this_iter": episodes,
            "info/episodes_so_far": self.episodes_total,
            "reproducible": self.reproducible,
        }

    def result_names(self) -> list[str]:
        """Return the names of the numbers in a result."""
        none = np.empty(0, PAIR_DTYPE)
        evaluation = evaluation_figures(np.empty(0, EPISODE_DTYPE))
        theta = self.policy.theta
        return list(self._result(Batch(0, none, None), none, evaluation, 0, [0.0] * 4, theta, None))

    def _evaluation_task(self) -> Task:
        return self._noiseless(self.iteration, self.policy.theta, self.policy.stats)

    def _noiseless(
        self, iteration: int, theta: NDArray[np.float32], stats: NDArray[np.float64] | None
    ) -> Task:
        # Evaluation episodes end where the environment says, if it says so at all.
        cap = 0 if self._env_has_limit else int(self.scheduled("max_episode_steps"))
        return Task(iteration, theta, self.scheduled("noise_stdev"), cap, stats)

    def evaluate(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the present policy, without noise, on a fixed set of seeds.

        The same episodes for every policy of this seed, and none that training has seen.

        Parameters
        ----------
        episodes : int in [1, 2**31]
            How many.

        Returns
        -------
        dict
            episodes, failed, reward_mean, reward_min, reward_max, reward_sem, len_mean, len_min,
            len_max, fitness_mean, terminated.
        """
        return self._report(self._evaluation_task(), episodes)

    def evaluate_best(self, episodes: int = 100) -> dict[str, Any]:
        """Evaluate the best policy so far as `evaluate` does."""
        return self._report(self._noiseless(0, self.best_theta, self.best_stats), episodes)

    def _report(self, task: Task, episodes: int) -> dict[str, Any]:
        if not 1 <= episodes <= 2**31:
            raise ValueError(f"episodes must be in [1, 2**31], got {episodes}")
        return evaluation_figures(self.engine.run_episodes(task, "report", episodes))

    def best_policy(self) -> MLP:
        """Return the policy whose evaluation was the best so far."""
        best = MLP.for_env(
            self.spec.env.describe(), self.config.fcnet_hiddens, self.config.fcnet_activation
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
            "optimizer_steps": self.optimizer.steps,
            **{name: getattr(self, name) for name in self.COUNTERS},
        }
        arrays: dict[str, NDArray[Any]] = {}
        arrays |= {"theta": self.policy.theta, "best_theta": self.best_theta}
        for name, array in self.optimizer.state().items():
            arrays[f"optimizer/{name}"] = array.copy()
        if self.stats is not None:
            arrays["stats"] = self.stats.copy()
            arrays["best_stats"] = self.stats if self.best_stats is None else self.best_stats
        return counters, arrays

    def restore(self, counters: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back, or on, to what `state` returned."""
        self.policy.theta, self.best_theta = arrays["theta"], arrays["best_theta"]
        for name, array in self.optimizer.state().items():
            array[:] = arrays[f"optimizer/{name}"]
        if self.stats is not None:
            self.stats = arrays["stats"].copy()
            self.best_stats = arrays["best_stats"]
        self._show_filter()
        self.iteration = counters["training_iteration"]
        self.optimizer.steps = counters["optimizer_steps"]
        for name in self.COUNTERS:
            setattr(self, name, counters[name])
