"""The checker passes what keeps the promises and names the one that is broken."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit
from rollmill.envs import Maze, VectorMaze, check_vector_env

MODES = list(AutoresetMode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_vector_maze_passes(mode, positions, n):
    def factory(max_episode_steps=100):
        return VectorMaze(
            n,
            rows=2,
            columns=3,
            max_episode_steps=max_episode_steps,
            autoreset_mode=mode,
            positions=positions,
        )

    check_vector_env(factory)
    check_vector_env(factory(7), seed=3)


def sync(mode):
    def factory(max_episode_steps=100):
        def single():
            return TimeLimit(Maze(2, 3, max_episode_steps=None), max_episode_steps)

        return SyncVectorEnv([single] * 3, autoreset_mode=mode)

    return factory


@pytest.mark.parametrize("mode", MODES)
def test_sync_vector_env_passes_what_gymnasium_promises(mode):
    check_vector_env(sync(mode), strict=False)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (AutoresetMode.NEXT_STEP, "a refused action must change nothing"),
        (AutoresetMode.SAME_STEP, "a refused action must change nothing"),
        (AutoresetMode.DISABLED, "reset changed the caller's options"),
    ],
)
def test_sync_vector_env_does_not_pass_the_strict_check(mode, message):
    with pytest.raises(AssertionError, match=message):
        check_vector_env(sync(mode))


def test_gymnasiums_cart_poles_pass():
    check_vector_env(
        gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"), strict=False
    )


def test_an_environment_without_an_end_cannot_be_checked():
    with pytest.raises(ValueError, match="no episode ended in 5 steps"):
        check_vector_env(VectorMaze(2), steps=5)


def test_what_is_no_vector_is_refused():
    with pytest.raises(AssertionError, match=r"not a gymnasium\.vector\.VectorEnv"):
        check_vector_env(Maze)


class Broken(VectorMaze):
    """A vector of small mazes that breaks one promise."""

    mode = AutoresetMode.NEXT_STEP

    def __init__(self, max_episode_steps=50):
        super().__init__(
            3,
            rows=2,
            columns=3,
            max_episode_steps=max_episode_steps,
            autoreset_mode=self.mode,
        )


class WithoutMode(Broken):
    def __init__(self):
        super().__init__()
        del self.metadata["autoreset_mode"]


class WrongSpace(Broken):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.MultiDiscrete([6] * 4)


class WrongDtype(Broken):
    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated.astype(np.uint8), truncated, info


class WrongShape(Broken):
    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward[:, None], terminated, truncated, info


class OutsideTheSpace(Broken):
    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return obs + 6, info


class ReusedBuffer(Broken):
    def step(self, actions):
        _, *rest = super().step(actions)
        return self._obs_n, *rest


class ReusedReward(Broken):
    def step(self, actions):
        obs, reward, *rest = super().step(actions)
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(2 * self.num_envs)
        self.buffer[:3] = reward
        return obs, self.buffer[:3], *rest


class SharedWithCaller(Broken):
    """Returns a view of what it goes on to read."""

    def step(self, actions):
        if hasattr(self, "last"):
            actions = (np.asarray(actions) + self.last) % 4
        obs, *rest = super().step(actions)
        self.last = obs
        return obs, *rest

    def reset(self, **kwargs):
        self.last = np.zeros(3, np.int64)
        return super().reset(**kwargs)


class UnseededStart(Broken):
    """Draws from a generator that the seed does not reach."""

    generator = np.random.Generator(np.random.PCG64(0))

    def step(self, actions):
        obs, reward, *rest = super().step(actions)
        return obs, reward + self.generator.random(3) * 1e-9, *rest


class RewardOnReset(Broken):
    def step(self, actions):
        over = self._vector.done
        obs, reward, *rest = super().step(actions)
        return obs, reward - over, *rest


class FlagOnReset(Broken):
    def step(self, actions):
        over = self._vector.done
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated, truncated | over, info


class ActsOnReset(Broken):
    """Does not ignore the action of the step that resets."""

    def step(self, actions):
        over = self._vector.done
        obs, *rest = super().step(actions)
        return np.where(over, np.asarray(actions) % 2, obs), *rest


class LosesTermination(Broken):
    """Tells a goal on the last step allowed as a truncation alone."""

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated & ~truncated, truncated, info


class LosesTruncation(Broken):
    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated, truncated & ~terminated, info


class ClampsActions(Broken):
    def step(self, actions):
        return super().step(np.clip(actions, 0, 3))


class StepsBeforeRefusing(Broken):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError:
            super().step(np.zeros(3, np.int64))
            raise


class ResetsByItself(Broken):
    """Steps before the first reset."""

    def step(self, actions):
        if not self._vector.begun:
            self.reset(seed=0)
        return super().step(actions)


class ClosesOnce(Broken):
    def close(self, **kwargs):
        if self.closed:
            raise RuntimeError("already closed")
        super().close(**kwargs)


class WithoutFinal(Broken):
    mode = AutoresetMode.SAME_STEP

    def step(self, actions):
        *rest, info = super().step(actions)
        info.pop("final_obs", None)
        return *rest, info


class DenseFinal(WithoutFinal):
    """Tells a final observation for every environment."""

    def step(self, actions):
        *rest, info = VectorMaze.step(self, actions)
        if "final_obs" in info:
            info["final_obs"] = np.array([obs or 0 for obs in info["final_obs"]])
        return *rest, info


class WrongFinalMask(WithoutFinal):
    def step(self, actions):
        *rest, info = VectorMaze.step(self, actions)
        if "_final_obs" in info:
            info["_final_obs"] = np.ones(3, np.bool_)
        return *rest, info


class ContinuesInstead(Broken):
    """Says that it restarts, and shows the goal once more."""

    mode = AutoresetMode.SAME_STEP

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return np.where(terminated, 5, obs), reward, terminated, truncated, info


class StepsFinished(Broken):
    """Goes on under DISABLED where an episode is over."""

    mode = AutoresetMode.DISABLED

    def step(self, actions):
        if self._vector.begun and self._vector.done.any():
            VectorMaze.reset(self, options={"reset_mask": self._vector.done})
        return super().step(actions)


class IgnoresMask(Broken):
    mode = AutoresetMode.DISABLED

    def reset(self, *, seed=None, options=None):
        if options:
            self._mask(options["reset_mask"])
        return super().reset(seed=seed)


class TakesAnyMask(Broken):
    mode = AutoresetMode.DISABLED

    def reset(self, *, seed=None, options=None):
        if options:
            options = {"reset_mask": np.resize(options["reset_mask"], 3).astype(np.bool_)}
        return super().reset(seed=seed, options=options)


class ChangesOptions(Broken):
    mode = AutoresetMode.DISABLED

    def reset(self, *, seed=None, options=None):
        if options:
            options = {"reset_mask": options.pop("reset_mask")}
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WithoutMode, "metadata"),
        (WrongSpace, "observation_space must be a batch of 3"),
        (WrongDtype, "terminations must not have dtype uint8"),
        (WrongShape, r"rewards must be an array of shape \(3,\), got float64 of shape \(3, 1\)"),
        (OutsideTheSpace, "observations of reset are not in the observation space"),
        (ReusedBuffer, "was rewritten by a later call"),
        (ReusedReward, "was rewritten by a later call"),
        (SharedWithCaller, "writing into returned arrays changes"),
        (UnseededStart, "writing into returned arrays|gave different episodes"),
        (RewardOnReset, "the reward of a NEXT_STEP reset must be 0"),
        (FlagOnReset, "both flags of a NEXT_STEP reset must be False"),
        (ActsOnReset, "the action of a NEXT_STEP reset must be ignored"),
        (LosesTermination, "a termination on the last step allowed is lost"),
        (LosesTruncation, "the last step allowed must truncate"),
        (ClampsActions, "must be refused"),
        (StepsBeforeRefusing, "a refused action must change nothing"),
        (ResetsByItself, "a step before the first reset must be refused"),
        (ClosesOnce, "closing twice must be allowed"),
        (WithoutFinal, r"a SAME_STEP reset must tell info\['final_obs'\]"),
        (DenseFinal, "must be an object array"),
        (WrongFinalMask, r"info\['_final_obs'\] must be True where an episode ended"),
        (ContinuesInstead, "must restart with the observation that reset gives"),
        (StepsFinished, "a step of a finished environment under DISABLED must be refused"),
        (IgnoresMask, "must leave the other observations as they were"),
        (TakesAnyMask, "reset_mask as a list must be refused"),
        (ChangesOptions, "reset changed the caller's options"),
    ],
)
def test_a_broken_promise_is_named(broken, message):
    assert issubclass(broken, VectorEnv)
    with pytest.raises(AssertionError, match=message):
        check_vector_env(broken)


@pytest.mark.parametrize("mode", MODES)
def test_the_base_of_the_broken_ones_is_sound(mode):
    check_vector_env(type("Sound", (Broken,), {"mode": mode}))
