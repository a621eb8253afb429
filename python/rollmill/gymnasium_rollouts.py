"""Work units of environments that the interpreter steps, all their members side by side.

The interpreter steps the environments; one kernel call evaluates every perturbed policy that still
runs, on its own observation. Records, streams and statistics are those of the C rollouts: an
environment of C that is wrapped as Gymnasium's gives the same bits.
"""

from __future__ import annotations

import threading
import time
import traceback
import warnings
from contextlib import suppress
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _rng
from ._noise import Noise
from ._policy import Members
from ._rollout import EPISODE_DTYPE, PAIR_DTYPE, TERMINATED, TRUNCATED
from ._stats import stats_freeze, stats_merge, stats_push_rows
from .draws import Draws
from .policies import MLP
from .rollouts import EVALUATION_KIND, Answer, RolloutSpec, Task, source

#: Statuses of a member whose numbers are not finite, or whose environment raised; see status.h.
NONFINITE, FAILED = -7, -5
#: Pairs or episodes that may fail by an exception, from the first one on, before the run ends.
FAILURES_FIRST = 8
#: As many may fail one after another later on.
FAILURES_LATER = 100


class _Member:
    """An episode as it goes."""

    __slots__ = ("discount", "env", "fitness", "flags", "item", "length", "status", "total")

    def __init__(self, item: int):
        self.item = item
        self.env: Any = None
        self.total = self.fitness = 0.0
        self.discount = 1.0
        self.length = self.flags = self.status = 0


class GymnasiumRollouts:
    """Evaluates units, as `Rollouts` does. Calls from several threads take turns.

    Parameters
    ----------
    spec : RolloutSpec
        Its env is a GymnasiumSpec.
    table : (noise_size,) float32, optional
        The noise table, may be read-only; without it noise is generated. Equal bits either way.

    Attributes
    ----------
    trouble : str or None
        The first exception that an environment raised: where, type and message.
    warns : bool
        Whether it is warned about here, and not where the answers go.
    """

    interpreted = True
    warns = True

    def __init__(self, spec: RolloutSpec, table: NDArray[np.float32] | None = None):
        self.spec = spec
        self.description = spec.env.describe()
        assert self.description.observations is not None
        assert self.description.actions is not None
        self.observations, self.actions = self.description.observations, self.description.actions
        self.policy = MLP.for_env(self.description, spec.hiddens, spec.activation)
        self.table = table
        self.noise = Noise(spec.key, spec.noise_size, table)
        self.trouble: str | None = None
        width = 2 * spec.unit_pairs
        self._width = width
        self._members = Members(self.policy.kernel, width, self.description.one_hot)
        self._raw = np.zeros((width, self.description.inputs))
        self._blocks = np.zeros((width, self.stats_size)) if self.filters else None
        one_hot = self.description.one_hot
        self._write = self._write_index if one_hot else self.observations.write
        self._where: list[Any] = list(self._members.index[:, None] if one_hot else self._raw)
        self._envs: list[Any] = [None] * width
        self._lock = threading.Lock()
        self._failed_in_turn = self._items = 0

    @property
    def filters(self) -> bool:
        """Whether observation statistics are gathered and used."""
        return self.spec.observation_filter == "MeanStdFilter" and not self.description.one_hot

    @property
    def stats_size(self) -> int:
        """Length of a unit's observation statistics."""
        return 1 + 2 * self.description.inputs if self.filters else 0

    @cached_property
    def source(self) -> str:
        """Name of this process."""
        return source()

    def units(self, task: Task, first_unit: int, units: int, stop: NDArray[np.int32]) -> Answer:
        """Evaluate units [first_unit, first_unit + units).

        `stop` is polled at each environment step; once it is not zero the call returns the whole
        units that it has finished.

        Raises
        ------
        RuntimeError
            If the environment raises in every episode.
        """
        start = time.thread_time()
        each, end = self.spec.unit_pairs, task.pairs or 2**32
        pairs, stats = [np.empty(0, PAIR_DTYPE)], []
        with self._lock:
            self._check(task)
            for unit in range(first_unit, first_unit + units):
                numbers = range(unit * each, min((unit + 1) * each, end))
                found = self._unit(task, numbers, stop)
                if found is None:
                    break
                pairs.append(found[0])
                stats.append(found[1])
        done = len(pairs) - 1
        gathered = None
        if self.filters:
            gathered = np.array(stats).reshape(done, self.stats_size)
        seconds = time.thread_time() - start
        return Answer(task.iteration, first_unit, done, np.concatenate(pairs), gathered,
                      self.source, seconds)  # fmt: skip

    def episodes(
        self, task: Task, kind: str, first: int, episodes: int, stop: NDArray[np.int32]
    ) -> NDArray[np.void]:
        """Evaluate noiseless arg-max episodes [first, first + episodes), as `Rollouts` does."""
        iteration = task.iteration if kind == "iteration" else 0
        key = _rng.derive(self.spec.key, EVALUATION_KIND[kind])
        records = np.zeros(episodes, EPISODE_DTYPE)
        done = 0
        with self._lock:
            self._check(task)
            self._members.theta[:] = task.theta
            while done < episodes:
                count = min(self._width, episodes - done)
                members = [_Member(first + done + i) for i in range(count)]
                if not self._play(members, task, iteration, key, False, stop):
                    break
                for record, member in zip(records[done:], members, strict=False):
                    status = _status(member)
                    record["return"], record["fitness"] = member.total, member.fitness
                    record["length"], record["flags"] = member.length, member.flags
                    record["status"], record["episode"] = status, member.item
                self._count_failures([member.status for member in members])
                done += count
        return records[:done]

    def close(self) -> None:
        """Close the environments. May be called twice; the next call would build them again."""
        with self._lock:
            for place in range(self._width):
                self._discard(place)

    def _check(self, task: Task) -> None:
        if task.theta.shape != (self.policy.num_params,) or not np.isfinite(task.theta).all():
            raise ValueError(f"theta must be ({self.policy.num_params},) float32 and finite")

    def _unit(
        self, task: Task, numbers: range, stop: NDArray[np.int32]
    ) -> tuple[NDArray[np.void], NDArray[np.float64]] | None:
        """Evaluate the pairs of a unit: their records, and the unit's statistics."""
        records = np.zeros(len(numbers), PAIR_DTYPE)
        members = []
        theta = self._members.theta
        for i, number in enumerate(numbers):
            index = self.noise.index(self.spec.key, number, task.iteration, theta.shape[1])
            self.noise.perturb(
                task.theta, index, task.noise_stdev, theta[2 * i], theta[2 * i + 1]
            )  # fmt: skip
            records[i]["noise_index"], records[i]["pair"] = index, number
            members += [_Member(number), _Member(number)]
        if self._blocks is not None:
            self._blocks[:] = 0
        if not self._play(members, task, task.iteration, self.spec.key, True, stop):
            return None
        unit = np.zeros(max(1, self.stats_size))
        for i, record in enumerate(records):
            two = members[2 * i : 2 * i + 2]
            statuses = [_status(member) for member in two]
            for m in range(2):
                block = None if self._blocks is None else self._blocks[2 * i + m]
                if not statuses[m] and block is not None and not np.isfinite(block).all():
                    statuses[m] = NONFINITE
            record["return"] = [member.total for member in two]
            record["fitness"] = [member.fitness for member in two]
            record["length"] = [member.length for member in two]
            record["status"] = statuses[0] or statuses[1]
            if self._blocks is not None and not record["status"]:
                stats_merge(unit, self._blocks[2 * i : 2 * i + 2])
        self._count_failures(records["status"].tolist())
        return records, unit

    def _play(
        self,
        members: list[_Member],
        task: Task,
        iteration: int,
        key: int,
        training: bool,
        stop: NDArray[np.int32],
    ) -> bool:
        """Run an episode for each member, side by side; False if told to stop."""
        spec = self.spec
        offset = spec.reward_offset if training else 0.0
        gamma, cap = spec.gamma, task.max_episode_steps
        frozen = None if task.stats is None else stats_freeze(task.stats)
        draws = Draws(spec, self.actions, key, iteration, training)
        write, where = self._write, self._where
        running = []
        for place, member in enumerate(members):
            if stop[0]:
                return False
            seed = int(_rng.block(key, "env_reset", member.item, iteration, 0)[0]) >> 1
            if self._reset(place, member, seed):
                running.append(place)
        rows = np.array(running, np.int32)
        step = 0
        while running:
            if stop[0]:
                return False
            kept = self._observe(members, running, rows, frozen, training)
            if kept is not running:
                running, rows = kept, np.array(kept, np.int32)
                if not running:
                    break
            outputs = self._members.eval(rows)
            actions = draws.make(outputs, [members[place].item for place in running], step)
            if actions is None:  # an output is NaN
                kept = self._drop_nan(outputs, members, running)
                running, rows = kept, np.array(kept, np.int32)
                if not running:
                    break
                outputs = self._members.eval(rows)
                actions = draws.make(outputs, [members[place].item for place in running], step)
            step += 1
            ended = False
            for place, action in zip(running, actions, strict=True):
                member = members[place]
                try:
                    observation, reward, terminated, truncated, _ = member.env.step(action)
                    reward = float(reward)
                    member.total += reward
                    member.fitness += member.discount * (reward - offset)
                    member.discount *= gamma
                    member.length = step
                    if terminated or truncated or step == cap:
                        ended = True
                        member.flags = (TERMINATED if terminated else 0) | (
                            TRUNCATED if truncated or step == cap else 0
                        )
                    else:
                        write(observation, where[place])
                except Exception as error:
                    self._fail(place, member, error, f"step {step}")
                    ended = True
            if ended:
                running = [p for p in running if not members[p].flags and not members[p].status]
                rows = np.array(running, np.int32)
        return True

    def _write_index(self, observation: Any, place: NDArray[np.int64]) -> None:
        place[0] = self.observations.index(observation)

    def _observe(
        self,
        members: list[_Member],
        running: list[int],
        rows: NDArray[np.int32],
        frozen: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
        training: bool,
    ) -> list[int]:
        """Take in the observations: who goes on, which is `running` itself if all do."""
        if self.description.one_hot:
            return running
        raw = self._raw
        if not isfinite(np.add.reduce(raw, axis=None)):
            kept = []
            for place in running:
                if np.isfinite(raw[place]).all():
                    kept.append(place)
                else:
                    members[place].status = NONFINITE
                    raw[place] = 0
            if len(kept) < len(running):
                running, rows = kept, np.array(kept, np.int32)
        if training and self._blocks is not None:
            stats_push_rows(self._blocks, raw, rows)
        if frozen is None:
            self._members.x[:] = raw
        else:
            self._members.x[:] = (raw - frozen[0]) * frozen[1]
        return running

    def _drop_nan(
        self, outputs: NDArray[np.float32], members: list[_Member], running: list[int]
    ) -> list[int]:
        kept = []
        for row, place in zip(outputs, running, strict=True):
            if np.isnan(row).any():
                members[place].status = NONFINITE
            else:
                kept.append(place)
        return kept

    # Environments: one a place, built when first needed, again after it raised.

    def _reset(self, place: int, member: _Member, seed: int) -> bool:
        env = self._envs[place]
        if env is None:
            env = self._envs[place] = self.spec.env.build()
            self._compare(env)
        try:
            observation, _ = env.reset(seed=seed)
            self._write(observation, self._where[place])
        except Exception as error:
            self._fail(place, member, error, "reset")
            return False
        member.env = env
        return True

    def _compare(self, env: Any) -> None:
        """Refuse an environment whose spaces are not those that the policy was made for."""
        for name, wanted in (
            ("observation_space", self.observations.space),
            ("action_space", self.actions.space),
        ):
            got = getattr(env, name)
            if got != wanted:
                raise RuntimeError(
                    f"{self.spec.env.id} on {self.source} has the {name} {got}, and where the run "
                    f"began {wanted}"
                )

    def _fail(self, place: int, member: _Member, error: Exception, when: str) -> None:
        """An environment raised: mark its member, keep the first reason, and throw it away."""
        member.status = FAILED
        self._raw[place] = 0
        self._discard(place)
        if self.trouble is None:
            frames = traceback.extract_tb(error.__traceback__)
            where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
            text = " ".join(str(error).split())
            self.trouble = f"{self.spec.env.id}, {when}: {type(error).__name__}: {text}{where}"
            if self.warns:
                warnings.warn(
                    f"an environment raised, and its pair is dropped: {self.trouble}", stacklevel=2
                )

    def _discard(self, place: int) -> None:
        env, self._envs[place] = self._envs[place], None
        if env is not None:
            with suppress(Exception):
                env.close()

    def _count_failures(self, statuses: list[int]) -> None:
        for status in statuses:
            self._items += 1
            self._failed_in_turn = self._failed_in_turn + 1 if status == FAILED else 0
            failed = self._failed_in_turn
            limit = FAILURES_FIRST if failed == self._items else FAILURES_LATER
            if failed >= limit:
                self._items = self._failed_in_turn = 0  # whoever goes on all the same may
                raise RuntimeError(
                    f"the environment raised in each of {failed} episodes, one after another; the "
                    f"first time {self.trouble}"
                )


def _status(member: _Member) -> int:
    if member.status:
        return member.status
    return 0 if isfinite(member.total) and isfinite(member.fitness) else NONFINITE
