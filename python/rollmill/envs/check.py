"""A checker for vector environments, which Gymnasium has none of."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rollmill.envs.compare import equal, overlap, shape_of, spoil

Factory = Callable[..., VectorEnv[Any, Any, Any]]


def check_vector_env(
    env: VectorEnv[Any, Any, Any] | Factory,
    *,
    seed: int = 0,
    steps: int = 300,
    strict: bool = True,
) -> None:
    """Check that a vector environment keeps Gymnasium's promises, and ours.

    Spaces, dtypes and shapes; seeds that repeat an episode; what the declared autoreset mode says;
    arrays that are new in every call. A factory is also checked for a step before the first reset,
    for closing twice and, if it takes `max_episode_steps`, for a termination on the last step
    allowed, which must set both flags.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv or a function that returns one
        An environment is left open, in some episode.
    seed : int
        Of the environment and of the sampled actions.
    steps : int
        Steps of each run.
    strict : bool
        Also check what Gymnasium asks of no vector: a list of seeds is taken, a refused action
        changes nothing, the caller's options stay as they were, and a finished environment
        restarts as reset would restart it.

    Raises
    ------
    AssertionError
        With a sentence that says which promise is broken.
    ValueError
        If no episode ends within the steps, so that little can be said.
    """
    if isinstance(env, VectorEnv):
        _Check(env, seed, steps).run(strict)
        return
    with _built(env) as fresh:
        try:
            fresh.step(_sample(fresh, seed))
        except Exception:
            pass
        else:
            raise AssertionError("a step before the first reset must be refused")
        check = _Check(fresh, seed, steps)
        check.run(strict)
    try:
        fresh.close()
    except Exception as error:
        raise AssertionError(f"closing twice must be allowed, but raised {error!r}") from error
    if "max_episode_steps" in inspect.signature(env).parameters:
        _check_limit(env, check)


@dataclass
class _Run:
    """What a run returned: results as they came, and copies made at once."""

    kept: list[Any] = field(default_factory=list)
    copies: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)  # the copies that are of steps, not of resets

    def add(self, result: Any) -> None:
        self.kept.append(result)
        self.copies.append(deepcopy(result))
        if len(result) == 5:
            self.steps.append(self.copies[-1])

    @property
    def done_tn(self) -> np.ndarray:
        """(T, N) bool: where an episode ended."""
        return np.array([terminated | truncated for _, _, terminated, truncated, _ in self.steps])


class _Check:
    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int, steps: int) -> None:
        self.env: Any = env  # the checks ask more of it than its class promises
        self.seed = seed
        self.check_attributes()
        self.n: int = env.num_envs
        self.mode: AutoresetMode = env.metadata["autoreset_mode"]
        env.action_space.seed(seed)
        self.actions = [env.action_space.sample() for _ in range(steps)]
        for action in self.actions:
            if isinstance(action, np.ndarray):
                action.flags.writeable = False

    def run(self, strict: bool) -> None:
        run = self.play(self.seed)
        if not run.done_tn.any():
            raise ValueError(
                f"no episode ended in {len(self.actions)} steps: there is too little to check, "
                f"raise steps"
            )
        self.check_arrays(run)
        self.check_seeds(run)
        if self.mode is AutoresetMode.NEXT_STEP:
            self.check_next_step(run)
        elif self.mode is AutoresetMode.SAME_STEP:
            self.check_same_step(run)
        else:
            self.check_disabled(run, strict)
        if strict:
            self.check_seed_list(run)
            self.check_refusals(run)
            self.check_restart(run)

    def check_attributes(self) -> None:
        env = self.env
        n = getattr(env, "num_envs", None)
        _require(isinstance(n, int) and n >= 1, f"num_envs must be a positive int, got {n!r}")
        mode = env.metadata.get("autoreset_mode")
        _require(
            isinstance(mode, AutoresetMode),
            f"metadata['autoreset_mode'] must be an AutoresetMode, got {mode!r}",
        )
        for name in ("observation_space", "action_space"):
            batched: Any = getattr(env, name, None)
            single: Any = getattr(env, f"single_{name}", None)
            _require(
                isinstance(single, gym.Space), f"single_{name} must be a Space, got {single!r}"
            )
            wanted = batch_space(single, env.num_envs)
            same = type(batched) is type(wanted) and batched.shape == wanted.shape
            _require(
                same and batched.dtype == wanted.dtype,
                f"{name} must be a batch of {n} single_{name}, {wanted}, got {batched}",
            )

    def play(
        self,
        seed: Any,
        actions: list[Any] | None = None,
        *,
        spoiled: bool = False,
    ) -> _Run:
        """Run from a seeded reset; `spoiled` writes over what is returned once it is copied."""
        run = _Run()
        result = self.env.reset(seed=seed)
        self.check_reset(result)
        run.add(result)
        done = np.zeros(self.n, np.bool_)
        for action in self.actions if actions is None else actions:
            if self.mode is AutoresetMode.DISABLED and done.any():
                result = self.env.reset(options={"reset_mask": done.copy()})
                self.check_reset(result)
                run.add(result)
            result = self.env.step(action)
            self.check_step(result)
            done = result[2] | result[3]
            run.add(result)
            if spoiled:
                spoil(result)
        return run

    def check_reset(self, result: Any) -> None:
        _require(
            isinstance(result, tuple) and len(result) == 2,
            f"reset must return (observations, info), got {type(result).__name__}",
        )
        self.check_observations("reset", result[0])
        self.check_info("reset", result[1])

    def check_step(self, result: Any) -> None:
        _require(
            isinstance(result, tuple) and len(result) == 5,
            "step must return (observations, rewards, terminations, truncations, info), "
            f"got {type(result).__name__}",
        )
        obs, reward, terminated, truncated, info = result
        self.check_observations("step", obs)
        for name, array, kinds in (
            ("rewards", reward, "fiu"),
            ("terminations", terminated, "b"),
            ("truncations", truncated, "b"),
        ):
            _require(
                isinstance(array, np.ndarray) and array.shape == (self.n,),
                f"{name} must be an array of shape ({self.n},), got {shape_of(array)}",
            )
            _require(array.dtype.kind in kinds, f"{name} must not have dtype {array.dtype}")
        _require(np.isfinite(reward).all(), f"rewards must be finite, got {reward}")
        self.check_info("step", info)

    def check_observations(self, source: str, obs: Any) -> None:
        space = self.env.observation_space
        _require(
            space.contains(obs),
            f"the observations of {source} are not in the observation space {space}: "
            f"got {shape_of(obs)}",
        )

    def check_info(self, source: str, info: Any) -> None:
        _require(
            isinstance(info, dict),
            f"the info of {source} must be a dict, got {type(info).__name__}",
        )
        for name, value in info.items():
            if isinstance(value, np.ndarray):
                _require(
                    value.shape[:1] == (self.n,),
                    f"info[{name!r}] must have {self.n} entries, got shape {value.shape}",
                )
            mask = info.get(f"_{name}")
            _require(
                mask is None or getattr(mask, "dtype", None) == np.bool_,
                f"info['_{name}'] must be a bool array, got {shape_of(mask)}",
            )

    def check_arrays(self, run: _Run) -> None:
        """Nothing that was returned has changed since, or shares memory with what came next."""
        for t, (kept, copy) in enumerate(zip(run.kept, run.copies, strict=True)):
            _require(
                equal(kept, copy),
                f"what call {t} returned was rewritten by a later call: return new arrays",
            )
        for t, (first, second) in enumerate(zip(run.kept, run.kept[1:], strict=False)):
            _require(
                not overlap(first, second),
                f"what calls {t} and {t + 1} returned shares memory: return new arrays",
            )
        rerun = self.play(self.seed, spoiled=True)
        _require(
            equal(run.copies, rerun.copies),
            "writing into returned arrays changes what the environment does next",
        )

    def check_seeds(self, run: _Run) -> None:
        _require(
            equal(run.copies, self.play(self.seed).copies),
            f"two resets with seed={self.seed} and the same actions gave different episodes",
        )
        self.check_reset(self.env.reset())

    def check_seed_list(self, run: _Run) -> None:
        seeds = [self.seed + i for i in range(self.n)]
        _require(
            equal(run.copies, self.play(seeds).copies),
            f"seed={self.seed} and seed={seeds} must be the same",
        )
        self.check_reset(self.env.reset(seed=[self.seed, *[None] * (self.n - 1)]))

    def check_next_step(self, run: _Run) -> None:
        done_tn = run.done_tn
        for t, (_, reward, terminated, truncated, _) in enumerate(run.steps[1:]):
            over = done_tn[t]
            _require(not reward[over].any(), "the reward of a NEXT_STEP reset must be 0")
            _require(
                not (terminated | truncated)[over].any(),
                "both flags of a NEXT_STEP reset must be False",
            )
        if not isinstance(self.actions[0], np.ndarray):
            return
        changed = [action.copy() for action in self.actions]
        for t in range(1, len(changed)):
            changed[t][done_tn[t - 1]] = self.actions[t - 1][done_tn[t - 1]]
        _require(
            equal(run.copies, self.play(self.seed, changed).copies),
            "the action of a NEXT_STEP reset must be ignored",
        )

    def check_same_step(self, run: _Run) -> None:
        for (_, _, _, _, info), done in zip(run.steps, run.done_tn, strict=True):
            if not done.any():
                told = info.get("_final_obs", np.False_)
                _require(not np.any(told), "info['final_obs'] is told where no episode ended")
                continue
            for name in ("final_obs", "final_info"):
                _require(name in info, f"a SAME_STEP reset must tell info[{name!r}]")
                _require(
                    np.array_equal(info.get(f"_{name}"), done),
                    f"info['_{name}'] must be True where an episode ended and nowhere else",
                )
            final = info["final_obs"]
            _require(
                isinstance(final, np.ndarray) and final.dtype == object,
                "info['final_obs'] must be an object array",
            )
            for i, entry in enumerate(final):
                if done[i]:
                    _require(
                        self.env.single_observation_space.contains(entry),
                        f"info['final_obs'][{i}] is not in the observation space: {entry!r}",
                    )
                else:
                    _require(entry is None, f"info['final_obs'][{i}] must be None, got {entry!r}")

    def check_disabled(self, run: _Run, strict: bool) -> None:
        done_tn = run.done_tn
        last = int(np.flatnonzero(done_tn.any(axis=1))[0])
        obs, done = run.steps[last][0], done_tn[last]

        def replay() -> None:
            self.play(self.seed, self.actions[: last + 1])

        replay()
        with _refused("a step of a finished environment under DISABLED"):
            self.env.step(self.actions[last])
        replay()
        for name, mask in (
            ("a list", done.tolist()),
            ("an int array", done.astype(np.int64)),
            ("a mask that is too long", np.ones(self.n + 1, np.bool_)),
            ("a mask without True", np.zeros(self.n, np.bool_)),
        ):
            with _refused(f"reset_mask as {name}"):
                self.env.reset(options={"reset_mask": mask})
        options = {"reset_mask": done.copy()}
        replay()
        result = self.env.reset(options=options)
        self.check_reset(result)
        if strict:
            _require(
                set(options) == {"reset_mask"} and np.array_equal(options["reset_mask"], done),
                "reset changed the caller's options",
            )
        if isinstance(obs, np.ndarray):
            _require(
                np.array_equal(result[0][~done], obs[~done]),
                "a reset with a mask must leave the other observations as they were",
            )
        self.check_step(self.env.step(self.actions[last]))

    def check_refusals(self, run: _Run) -> None:
        """A refused call changes nothing: the next step is as if it had not been."""
        single = self.env.single_action_space
        sample = self.actions[0]
        bad: list[tuple[str, Any]] = [("None", None)]
        if isinstance(sample, np.ndarray):
            bad.append(("too few", sample[:-1]))
            bad.append(("one more axis", sample[..., np.newaxis]))
        if isinstance(single, gym.spaces.Discrete):
            for value in (int(single.start + single.n), int(single.start) - 1):
                action = sample.astype(np.int64)
                action[-1] = value
                bad.append((f"the last one {value}", action))
            bad.append(("dtype float64", sample.astype(np.float64)))
        # A step before which no episode has ended, so that every action counts.
        t = min(3, int(np.flatnonzero(run.done_tn.any(axis=1))[0]))
        for name, action in bad:
            self.play(self.seed, self.actions[:t])
            with _refused(f"actions with {name}"):
                self.env.step(action)
            _require(
                equal(self.env.step(self.actions[t]), run.steps[t]),
                f"a refused action must change nothing: it was refused with {name}",
            )

    def check_restart(self, run: _Run) -> None:
        """A finished environment restarts with the observation that reset would give it."""
        last = int(np.flatnonzero(run.done_tn.any(axis=1))[0])
        done = run.done_tn[last]
        after = last + (self.mode is AutoresetMode.NEXT_STEP)
        if self.mode is AutoresetMode.DISABLED or after >= len(run.steps):
            return
        # Under SAME_STEP the episode of the last step has begun already: reset one step earlier.
        same = self.mode is AutoresetMode.SAME_STEP
        self.play(self.seed, self.actions[: last if same else last + 1])
        obs = self.env.reset()[0]
        wanted = run.steps[after][0]
        if isinstance(obs, np.ndarray):
            _require(
                np.array_equal(obs[done], wanted[done]),
                "a finished environment must restart with the observation that reset gives",
            )


def _check_limit(factory: Factory, check: _Check) -> None:
    """An episode that terminates on the last step allowed is both terminated and truncated."""
    with _built(factory) as env:
        run = _Check(env, check.seed, len(check.actions)).play(check.seed, check.actions)
    first_n = np.argmax(run.done_tn, axis=0)
    for i, t in enumerate(first_n.tolist()):
        if not run.done_tn[t, i] or not run.steps[t][2][i]:
            continue
        with _built(factory, max_episode_steps=t + 1) as env:
            limited = _Check(env, check.seed, t + 1).play(check.seed, check.actions[: t + 1])
        _, _, terminated, truncated, _ = limited.steps[t]
        _require(terminated[i], "a termination on the last step allowed is lost")
        _require(truncated[i], "the last step allowed must truncate, also where it terminates")
        _require(truncated[first_n >= t].all(), "the last step allowed must truncate every episode")
        return


@contextmanager
def _built(factory: Factory, **kwargs: Any) -> Iterator[VectorEnv[Any, Any, Any]]:
    env = factory(**kwargs)
    _require(isinstance(env, VectorEnv), f"not a gymnasium.vector.VectorEnv: {env!r}")
    try:
        yield env
    finally:
        env.close()


@contextmanager
def _refused(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        return
    raise AssertionError(f"{what} must be refused")


def _require(promise: Any, sentence: str) -> None:
    """Raise AssertionError, also where Python strips assert statements."""
    if not promise:
        raise AssertionError(sentence)


def _sample(env: VectorEnv[Any, Any, Any], seed: int) -> Any:
    env.action_space.seed(seed)
    return env.action_space.sample()
