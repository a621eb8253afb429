"""Schedules, optimisers and fitness shaping of evolution strategies."""

import json

import numpy as np
import pytest
from drifting import drift_config, train
from rollmill import Algorithm, ESConfig
from rollmill.algorithms.figures import spread, training_figures
from rollmill.algorithms.schedules import value_at
from test_es import records, scripted

# Schedules.


@pytest.mark.parametrize(
    ("timestep", "value"),
    [(0, 1.0), (1, 0.95), (5, 0.75), (10, 0.5), (20, 0.3), (30, 0.1), (31, 0.1), (2**60, 0.1)],
)
def test_a_schedule_is_linear_between_its_points(timestep, value):
    assert value_at(((0, 1.0), (10, 0.5), (30, 0.1)), timestep) == pytest.approx(value, abs=1e-12)
    assert value_at(0.7, timestep) == 0.7
    assert value_at(((0, 0.7),), timestep) == 0.7


def test_schedules_follow_the_timesteps(drift_library):
    config = drift_config(
        drift_library,
        noise_stdev=[[0, 0.5], [4000, 0.1]],
        stepsize=[[0, 0.1], [3000, 0.01]],
        max_episode_steps=[[0, 10], [2000, 50]],
    )
    with config.build() as algo:
        while algo.timesteps_total < 4000:
            steps, task = algo.timesteps_total, algo.task()
            assert task.noise_stdev == pytest.approx(max(0.1, 0.5 - steps * 1e-4))
            assert task.max_episode_steps == min(50, int(10 + steps * 0.02))
            result = algo.train()
            assert result["train_len_mean"] <= task.max_episode_steps
            assert algo.optimizer.stepsize == pytest.approx(max(0.01, 0.1 - steps * 3e-5))
        assert algo.evaluate(10)["len_max"] > 50  # is not capped
        assert algo.task().noise_stdev == 0.1


def test_a_run_with_schedules_goes_on_bit_for_bit(drift_library, tmp_path):
    config = drift_config(
        drift_library, noise_stdev=[[0, 0.5], [4000, 0.1]], stepsize=[[0, 0.1], [3000, 0.01]]
    )
    hashes = train(config, 5)[0]
    assert len(set(hashes)) == 5
    with config.build() as algo:
        algo.train()
        checkpoint = algo.save(tmp_path / "c")
    json.dumps(config.to_dict())
    with Algorithm.from_checkpoint(checkpoint, num_threads=2) as algo:
        assert [algo.train() and algo.parameters_sha256 for _ in range(4)] == hashes[1:]


def test_a_constant_schedule_is_the_constant(drift_library):
    constant = train(drift_config(drift_library), 2)[0]
    points = drift_config(drift_library, noise_stdev=[[0, 0.3]], stepsize=[[0, 0.05], [9, 0.05]])
    assert train(points, 2)[0] == constant


# Optimisers.


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "clipup"])
def test_every_optimizer_trains_and_resumes(drift_library, tmp_path, optimizer):
    config = drift_config(drift_library, optimizer=optimizer)
    hashes = train(config, 4)[0]
    assert len(set(hashes)) == 4
    assert train(config.copy().training(num_threads=3), 4)[0] == hashes
    with config.build() as algo:
        algo.train()
        algo.train()
        checkpoint = algo.save(tmp_path / "c")
    with Algorithm.from_checkpoint(checkpoint) as algo:
        assert [algo.train() and algo.parameters_sha256 for _ in range(2)] == hashes[2:]


def test_adamw_decays_beside_the_gradient():
    pairs = records(2, [[1, 0], [5, 7]], noise_index=[5, 9])
    with scripted([]) as plain, scripted([pairs], optimizer="adamw") as algo:
        algo.optimizer.weight_decay = 0.5
        assert np.array_equal(algo._gradient(pairs), plain._gradient(pairs))
        before = algo.policy.theta
        algo.train()
        adam = plain.optimizer.update(before, plain._gradient(pairs))
        np.testing.assert_allclose(
            adam - algo.policy.theta, algo.optimizer.stepsize * 0.5 * before, atol=1e-6
        )
    with ESConfig(optimizer="adamw", l2_coeff=0.25, num_threads=1).build() as algo:
        assert algo.optimizer.weight_decay == 0.25


def test_clipups_steps_are_of_bounded_length(drift_library):
    config = drift_config(drift_library, optimizer="clipup", stepsize=0.3, max_speed=0.4)
    with config.build() as algo:
        for _ in range(5):
            before = algo.policy.theta
            algo.train()
            assert 0.01 < np.linalg.norm(algo.policy.theta - before) < 0.4001


# Fitness shaping.


@pytest.mark.parametrize("mode", ["centered_rank", "normalized", "raw"])
def test_ties_move_nothing_in_any_mode(mode):
    with scripted([], return_proc_mode=mode) as algo:
        assert algo._gradient(records(8, 0.1, noise_index=np.arange(8))) is None
        assert algo._gradient(records(0, 0.1)) is None
        symmetric = records(3, [[1, 1], [2, 2], [5, 5]], noise_index=np.arange(3))
        assert not algo._gradient(symmetric).any()


def test_normalized_weighs_by_the_deviation_and_raw_does_not():
    returns = np.random.default_rng(0).normal(100, 7, (6, 2))
    pairs = records(6, returns, noise_index=np.arange(6) * 500)
    with scripted([], return_proc_mode="raw") as raw:
        noise = np.array([raw.noise.fill(i * 500, raw.policy.num_params) for i in range(6)])
        expected = -(returns[:, 0] - returns[:, 1]) @ noise / 12
        np.testing.assert_allclose(raw._gradient(pairs), expected, rtol=1e-4, atol=1e-4)
    with scripted([], return_proc_mode="normalized") as algo:
        np.testing.assert_allclose(
            algo._gradient(pairs), expected / returns.std(), rtol=1e-4, atol=1e-5
        )
        scaled = records(6, 1e6 * returns - 5, noise_index=np.arange(6) * 500)
        np.testing.assert_allclose(algo._gradient(scaled), algo._gradient(pairs), rtol=1e-5)


def test_the_estimate_of_a_quadratics_gradient_is_unbiased():
    """With f(x) = -|x - c|^2, E[(f+ - f-) n] / (2 s) = -2 (x - c) exactly, for any scale s."""
    rng, pairs, scale = np.random.default_rng(3), 4000, 0.7
    with scripted([], return_proc_mode="raw", fcnet_hiddens=()) as algo:
        size = algo.policy.num_params
        goal = rng.standard_normal(size) * 3
        index = rng.choice(algo.config.noise_size - size, pairs, replace=False).astype("u8")
        noise = np.array([algo.noise.fill(int(i), size) for i in index], np.float64)
        x = algo.policy.theta.astype(float)
        fitness = np.stack(
            [-((x + sign * scale * noise - goal) ** 2).sum(1) for sign in (1, -1)], axis=1
        )
        estimate = -algo._gradient(records(pairs, fitness, noise_index=index)) / scale
    exact = -2 * (x - goal)
    each = (fitness[:, :1] - fitness[:, 1:]) * noise / (2 * scale)
    z = (estimate - exact) / (each.std(0) / np.sqrt(pairs))
    assert abs(z.mean()) < 4 / np.sqrt(size)
    assert 0.7 < z.std() < 1.3
    assert np.corrcoef(estimate, exact)[0, 1] > 0.97


# Figures.


def test_the_deviation_is_numpys_but_exactly_zero_where_all_are_equal():
    values = np.random.default_rng(0).normal(1e6, 3, (50, 2))
    assert spread(values) == pytest.approx(values.std(), rel=1e-9)
    assert spread(values * 1e200) == pytest.approx(values.std() * 1e200, rel=1e-9)
    assert spread(np.full((7, 2), 0.1)) == spread(np.zeros((0, 2))) == 0.0
    shuffled = np.random.default_rng(1).permutation(values.ravel()).reshape(-1, 2)
    assert spread(shuffled) == spread(values)  # sums are rounded once: in any order


def test_the_standard_error_is_over_pairs():
    returns = np.array([[1.0, 3.0], [5.0, 7.0], [0.0, 2.0]])
    sem = training_figures(records(3, returns))["reward_sem"]
    assert sem == pytest.approx(returns.mean(1).std(ddof=1) / 3**0.5)
    assert training_figures(records(1, returns[:1]))["reward_sem"] is None


def test_results_have_standard_errors(drift_library):
    with drift_config(drift_library, eval_prob=0.5).build() as algo:
        result = algo.train()
        assert result["train_reward_sem"] > 0
        assert result["evaluation_reward_sem"] > 0
        assert {"train_reward_sem", "evaluation_reward_sem"} <= set(algo.result_names())
