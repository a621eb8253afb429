import inspect
import warnings

import numpy as np
import pytest
from drifting import drift_config, train
from rollmill import ES, Algorithm, ESConfig
from rollmill._rollout import PAIR_DTYPE
from rollmill.batch import Batch

RLLIB = {
    "training_iteration", "timesteps_total", "episodes_total", "episodes_this_iter",
    "episode_reward_mean", "episode_reward_min", "episode_reward_max", "episode_len_mean",
    "time_total_s", "time_this_iter_s", "env_runners/episode_return_mean",
    "env_runners/episode_return_min", "env_runners/episode_return_max",
    "env_runners/episode_len_mean", "steps_per_second", "reproducible",
}  # fmt: skip


def records(pairs, returns, noise_index=None, lengths=1):
    made = np.zeros(pairs, PAIR_DTYPE)
    made["return"] = made["fitness"] = returns
    made["length"] = lengths
    if noise_index is not None:
        made["noise_index"] = noise_index
    return made


class Scripted:
    """An engine whose batches are given."""

    name, num_workers, num_threads = "scripted", 0, 1

    def __init__(self, engine, batches):
        self.engine, self.batches = engine, iter(batches)

    def run_batch(self, task, ledger):
        pairs = next(self.batches)
        batch = Batch(1, pairs, None)
        ledger.length = 1
        ledger.batch = lambda: batch

    def __getattr__(self, name):
        return getattr(self.engine, name)


def scripted(batches, **options):
    algo = ESConfig().training(seed=1, num_threads=1, eval_prob=0, l2_coeff=0, **options).build()
    algo.engine = Scripted(algo.engine, batches)
    return algo


@pytest.mark.parametrize("seed", range(20))
def test_the_maze_is_solved_in_8_steps(seed):
    stop = 0.93
    with ESConfig().debugging(seed=seed).training(num_threads=1).build() as algo:
        for _ in range(40):
            if algo.train()["evaluation_fitness_mean"] >= stop:
                break
        best = algo.evaluate_best(5)
    assert (best["len_min"], best["len_max"], best["reward_mean"]) == (8, 8, 1.0)
    assert best["terminated"] == 5
    assert abs(best["fitness_mean"] - 0.99**7) < 1e-12


def test_drift_is_learned(drift_library):
    config = drift_config(drift_library, episodes_per_batch=200)
    with config.build() as algo:
        before = algo.evaluate(50)["reward_mean"]
        for _ in range(15):
            algo.train()
        after = algo.evaluate_best(50)["reward_mean"]
    assert after > before + 10


def test_a_result_holds_every_promised_name(drift_library):
    with drift_config(drift_library).build() as algo:
        result = algo.train()
        assert result.keys() >= RLLIB
        assert list(result) == algo.result_names()
        assert all(value is not None for value in result.values())
        assert all(np.isfinite(value) for value in result.values())


def test_counters_are_the_sums_of_the_iterations(drift_library):
    _, results, counters = train(drift_config(drift_library))
    for total, part in (("timesteps_total", "timesteps_this_iter"),
                        ("episodes_total", "episodes_this_iter"),
                        ("time_total_s", "time_this_iter_s")):  # fmt: skip
        assert results[-1][total] == pytest.approx(sum(r[part] for r in results))
    assert [r["training_iteration"] for r in results] == [1, 2, 3, 4, 5]
    assert counters["timesteps_total"] == results[-1]["timesteps_total"]


def test_both_bounds_of_the_batch_hold(drift_library):
    for episodes, steps in ((8, 1200), (100, 0), (100, 10), (1, 3000)):
        config = drift_config(drift_library, episodes_per_batch=episodes, train_batch_size=steps)
        for result in train(config, 2)[1]:
            assert result["episodes_this_iter"] >= episodes
            assert result["timesteps_this_iter"] >= steps
            assert result["episodes_this_iter"] % 4 == 0  # whole units of two pairs


def test_episode_reward_mean_is_over_the_last_evaluations(drift_library):
    _, results, counters = train(drift_config(drift_library, report_length=3))
    evaluations = [r["evaluation_reward_mean"] for r in results]
    assert len(set(evaluations)) == 5
    assert results[-1]["episode_reward_mean"] == pytest.approx(np.mean(evaluations[-3:]))
    assert results[1]["episode_reward_mean"] == pytest.approx(np.mean(evaluations[:2]))
    assert counters["rewards"] == evaluations[-3:]


def test_without_evaluation_the_training_episodes_are_reported(drift_library):
    with drift_config(drift_library, eval_prob=0).build() as algo:
        result = algo.train()
        assert result["evaluation_episodes"] == 0
        assert result["evaluation_reward_mean"] is None
        assert result["episode_reward_mean"] == result["train_reward_mean"]
        assert result["episode_len_mean"] == result["train_len_mean"]
        assert algo.best_iteration == 1
        assert np.array_equal(algo.best_theta, algo.policy.theta)


def test_the_best_policy_is_that_of_the_best_evaluation(drift_library):
    with drift_config(drift_library, stepsize=0.3).build() as algo:
        fitness, hashes = [], []
        for _ in range(6):
            fitness.append(algo.train()["evaluation_fitness_mean"])
            hashes.append(algo.policy.theta.copy())
        best = int(np.argmax(fitness))
        assert algo.best_iteration == best + 1
        assert algo.best_fitness == fitness[best]
        assert np.array_equal(algo.best_theta, hashes[best])
        assert np.array_equal(algo.best_policy().theta, hashes[best])
        assert algo.best_policy().num_params == algo.policy.num_params


def test_the_gradient_is_the_ranked_sum_of_noise():
    algo = scripted([])
    pairs = records(3, [[1, 0], [5, 7], [2, 2]], noise_index=[5, 1000, 70000])
    gradient = algo._gradient(pairs)
    ranks = np.array([[1, 0], [4, 5], [2.5, 2.5]]) / 5 - 0.5
    noise = [algo.noise.fill(i, algo.policy.num_params) for i in (5, 1000, 70000)]
    expected = -sum((r[0] - r[1]) * n for r, n in zip(ranks, noise, strict=True)) / 6
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    algo.stop()


def test_weight_decay_joins_the_gradient():
    config = ESConfig().training(seed=1, num_threads=1, l2_coeff=0.5)
    pairs = records(2, [[1, 0], [5, 7]], noise_index=[5, 9])
    with config.build() as algo, scripted([]) as plain:
        difference = algo._gradient(pairs) - plain._gradient(pairs)
        np.testing.assert_allclose(difference, 0.5 * algo.policy.theta, atol=1e-6)


def test_an_interrupted_iteration_leaves_the_algorithm_as_it_was(drift_library):
    """Whatever stage it is in: units, update, evaluation."""
    with drift_config(drift_library).build() as algo:
        algo.train()
        for stage in ("run_batch", "map_columns", "run_episodes", "facts"):
            before, policy = algo.state(), algo.policy.stats.copy()

            def interrupt(*_, **__):
                raise KeyboardInterrupt

            setattr(algo.engine, stage, interrupt)
            with pytest.raises(KeyboardInterrupt):
                algo.train()
            delattr(algo.engine, stage)
            after = algo.state()
            assert after[0] == before[0], stage
            assert all(np.array_equal(after[1][k], before[1][k]) for k in before[1]), stage
            assert np.array_equal(algo.policy.stats, policy), stage
        algo.train()
        hashed = algo.parameters_sha256
    assert train(drift_config(drift_library), 2)[0][-1] == hashed


def test_an_update_that_overflows_is_refused():
    config = ESConfig().training(
        seed=1, num_threads=1, optimizer="sgd", stepsize=1e30, l2_coeff=1e30
    )
    with config.build() as algo:
        with pytest.raises(FloatingPointError, match=r"iteration 1: .*smaller stepsize"):
            algo.train()
        assert np.isfinite(algo.policy.theta).all()
        assert algo.iteration == algo.state()[0]["training_iteration"]


def test_failing_environment_is_counted_and_not_called_reproducible(drift_library):
    config = drift_config(drift_library, "drift_fail")
    with pytest.warns(UserWarning, match="1 of .* pairs dropped"):
        hashes, results, _ = train(config, 3)
    assert [r["pairs_dropped"] for r in results] == [1, 2, 3]
    assert not results[0]["reproducible"]
    assert len(set(hashes)) == 3


def test_nothing_left_after_drops_stands_still():
    everything = records(4, np.nan)
    everything["status"] = -6
    good = records(2, [[1, 0], [5, 7]], noise_index=[5, 9])
    with scripted([everything, good]) as algo:
        before = algo.parameters_sha256
        with pytest.warns(UserWarning, match="4 of 4 pairs dropped.*stands still"):
            result = algo.train()
        assert algo.parameters_sha256 == before
        assert result["train_reward_mean"] is None
        assert result["episode_reward_mean"] is None
        assert algo.optimizer.steps == 0
        algo.train()
        assert algo.parameters_sha256 != before


@pytest.mark.parametrize("episodes", [0, -1, 2**31 + 1])
def test_evaluate_refuses(episodes):
    with ESConfig().training(num_threads=1).build() as algo:
        for evaluate in (algo.evaluate, algo.evaluate_best):
            with pytest.raises(ValueError, match="episodes must be in"):
                evaluate(episodes)


def test_evaluation_figures_are_those_of_the_episodes(drift_library):
    with drift_config(drift_library).build() as algo:
        figures = algo.evaluate(20)
        episodes = algo.engine.run_episodes(algo._evaluation_task(), "report", 20)
    returns, lengths = episodes["return"], episodes["length"]
    assert figures["reward_mean"] == pytest.approx(returns.mean())
    assert (figures["reward_min"], figures["reward_max"]) == (returns.min(), returns.max())
    assert figures["reward_sem"] == pytest.approx(returns.std(ddof=1) / 20**0.5)
    assert (figures["len_min"], figures["len_max"]) == (lengths.min(), lengths.max())
    assert figures["terminated"] == (episodes["flags"] & 1).sum() > 0
    assert (figures["episodes"], figures["failed"]) == (20, 0)


def test_a_failing_evaluation_is_not_zero(drift_library):
    with drift_config(drift_library, "drift_fail").build() as algo:
        figures = algo.evaluate(5)
        assert (figures["episodes"], figures["failed"]) == (5, 1)


def test_actions_of_an_algorithm(drift_library):
    with ESConfig().training(seed=1, num_threads=1).build() as algo:
        assert algo.compute_single_action(3) == algo.policy.compute_single_action(3)
        actions = algo.compute_actions({"a": 3, "b": 7})
        assert actions == {"a": algo.compute_single_action(3), "b": algo.compute_single_action(7)}
        assert algo.compute_actions({}) == {}
        assert list(algo.compute_actions(np.array([3, 7]))) == list(actions.values())
        assert algo.get_policy() is algo.policy
        assert algo.get_weights().keys() == algo.policy.layers.keys()
    with drift_config(drift_library).build() as algo:
        algo.train()
        obs = {"a": [0.1, 0.2, 1000.0, 0.0], "b": [-2.0, 0.2, 900.0, 0.0]}
        assert all(0 <= action < 3 for action in algo.compute_actions(obs).values())
        with pytest.raises(ValueError, match="finite"):
            algo.compute_single_action([np.nan, 0, 0, 0])


def test_weights_set_by_hand_are_where_training_goes_on(drift_library):
    with drift_config(drift_library).build() as algo, drift_config(drift_library).build() as other:
        algo.policy.set_weights(np.zeros(algo.policy.num_params))
        algo.train()
        other.train()
        assert algo.parameters_sha256 != other.parameters_sha256


def test_algorithms_are_built_from_a_copy_of_the_config(drift_library):
    config = drift_config(drift_library, seed=None)
    with config.build() as algo:
        assert config.seed is None
        assert algo.config is not config


def test_stop_may_be_called_twice():
    algo = ESConfig().build()
    algo.stop()
    algo.stop()


def test_public_methods_are_documented():
    for cls in (Algorithm, ES, ESConfig):
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            assert name.startswith("_") or inspect.getdoc(member), name


def test_no_warning_where_nothing_is_wrong(drift_library):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(drift_config(drift_library), 2)


def test_an_environment_that_always_fails_ends_the_run(drift_library):
    with (
        drift_config(drift_library, "drift_broken").build() as algo,
        pytest.raises(RuntimeError, match="failed in every pair of an iteration"),
    ):
        algo.train()


def test_reward_offset_shifts_the_fitness_and_no_reported_return(drift_library):
    plain = train(drift_config(drift_library), 1)
    shifted = train(drift_config(drift_library, reward_offset=0.7), 1)
    assert plain[0] != shifted[0]  # another update
    for name in ("train_reward_mean", "timesteps_total"):
        assert plain[1][0][name] == shifted[1][0][name]
    result, other = plain[1][0], shifted[1][0]
    assert other["train_fitness_mean"] == pytest.approx(
        result["train_fitness_mean"] - 0.7 * result["train_len_mean"]
    )
    with drift_config(drift_library, reward_offset=0.7).build() as algo:
        figures = algo.evaluate(4)
    assert figures["fitness_mean"] == figures["reward_mean"]  # evaluation is not shifted


def test_action_noise_acts_on_box_actions_while_training_alone():
    pytest.importorskip("mujoco")
    options = {
        "episodes_per_batch": 4, "train_batch_size": 0, "unit_pairs": 1, "num_threads": 1,
        "fcnet_hiddens": (), "noise_size": 1 << 12, "max_episode_steps": 20, "preset": "none",
        "seed": 1,
    }  # fmt: skip

    def told(noise):
        config = ESConfig().environment("InvertedPendulum-v5")
        with config.training(**options, action_noise_std=noise).build() as algo:
            before = algo.evaluate(3)
            return before, algo.train()["train_fitness_mean"], algo.parameters_sha256

    quiet, loud = told(0.0), told(0.9)
    assert quiet[0] == loud[0]  # evaluation has none
    assert quiet[1:] != loud[1:]
