"""What other implementations of evolution strategies got wrong, a test a pitfall.

Tested elsewhere: worker counts, call sizes and arrival order (test_determinism), a batch's prefix
(test_batch), the noise itself (test_noise), merging statistics (test_stats), resuming (test_run),
metrics without evaluation (test_es), parameters that do not act (test_policies).
"""

import os

import numpy as np
import pytest
from drifting import drift_config, train
from rollmill import ESConfig
from rollmill._es import TILE, centered_ranks
from rollmill.batch import Ledger
from rollmill.envs import Maze
from rollmill.policies import MLP
from rollmill.rollouts import Rollouts, RolloutSpec, Task
from test_es import records, scripted

STOP = np.zeros(1, np.int32)


def units_of(spec, task, units, first=0):
    return Rollouts(spec).units(task, first, units, STOP)


@pytest.fixture
def drift(drift_library):
    with drift_config(drift_library).build() as algo:
        yield algo


# Noise and worlds.


def test_no_two_pairs_draw_the_same_noise(drift_library):
    """Whoever asks: the index is a function of (iteration, pair)."""
    with drift_config(drift_library, noise_size=2**32).build() as algo:
        theta, seen = algo.policy.theta, []
        for iteration in range(10):
            seen += list(units_of(algo.spec, Task(iteration, theta, 0.1), 32).pairs["noise_index"])
        apart = units_of(algo.spec, Task(9, theta, 0.1), 1, first=31).pairs["noise_index"]
    assert len(set(seen)) == len(seen) == 640
    assert list(apart) == seen[-2:]


def test_both_signs_meet_the_same_world_and_no_other_pair_does(drift_library):
    with drift_config(drift_library).build() as algo:
        returns = [
            units_of(algo.spec, Task(iteration, algo.policy.theta, 1e-30), 8).pairs["return"]
            for iteration in range(3)
        ]
    returns = np.concatenate(returns)
    assert np.array_equal(returns[:, 0], returns[:, 1])  # no noise, no difference
    assert len(set(returns[:, 0])) == len(returns)


def test_both_signs_draw_the_same_actions(drift_library):
    config = drift_config(drift_library, sample_actions=True)
    with config.build() as algo:
        pairs = units_of(algo.spec, Task(0, algo.policy.theta, 1e-30), 8).pairs
    assert np.array_equal(pairs["return"][:, 0], pairs["return"][:, 1])


def test_the_edges_of_the_noise_are_reached(drift_library):
    with drift_config(drift_library).build() as algo:
        size = algo.policy.num_params
    found = {}
    for noise_size in (size, size + 1, size + 3):
        with drift_config(drift_library, noise_size=noise_size).build() as algo:
            found[noise_size - size] = set(
                units_of(algo.spec, algo.task(), 40).pairs["noise_index"]
            )
            algo.train()
    assert found == {0: {0}, 1: {0, 1}, 3: {0, 1, 2, 3}}
    with pytest.raises(ValueError, match=f"noise_size must be at least {size}"):
        drift_config(drift_library, noise_size=size - 1).build()


def test_layers_of_the_same_shape_get_different_noise(drift_library):
    with drift_config(drift_library, fcnet_hiddens=(32, 32, 32)).build() as algo:
        index = int(units_of(algo.spec, algo.task(), 1).pairs["noise_index"][0])
        noise = algo.noise.fill(index, algo.policy.num_params)
        layers = [noise[algo.policy.layers[f"hidden_{i}/kernel"][0]] for i in (1, 2)]
    assert layers[0].shape == layers[1].shape == (1024,)
    assert abs(np.corrcoef(*layers)[0, 1]) < 4 / 32


# Evaluating members.


def test_evaluation_leaves_theta_as_it_is(drift):
    theta = drift.policy.theta.copy()
    theta.flags.writeable = False
    expected = theta.tobytes()
    task = Task(0, theta, 0.3, stats=drift.policy.stats)
    units_of(drift.spec, task, 4)
    Rollouts(drift.spec).episodes(task, "report", 0, 4, STOP)
    assert theta.tobytes() == expected
    before = drift.parameters_sha256
    drift.evaluate(3)
    drift.compute_single_action([0, 0, 1000, 0])
    assert drift.parameters_sha256 == before


def play(policy, steps=100):
    env = Maze(max_episode_steps=steps)
    obs, _ = env.reset(seed=0)
    total, length, over = 0.0, 0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(policy.compute_single_action(obs))
        total, length, over = total + reward, length + 1, terminated or truncated
    return total, length, terminated


def test_members_are_theta_plus_and_minus_noise_and_steps_are_counted_exactly():
    """Each episode is played again, step by step, by the perturbed policy."""
    config = ESConfig(sample_actions=False, noise_stdev=1.0, num_threads=1, seed=3)
    lengths = set()
    with config.build() as algo:
        pairs = units_of(algo.spec, algo.task(), 4).pairs
        for pair in pairs:
            noise = algo.noise.fill(int(pair["noise_index"]), algo.policy.num_params)
            for side, sign in enumerate((1, -1)):
                member = MLP.for_env(algo.spec.env.build(), algo.config.fcnet_hiddens)
                member.theta = algo.policy.theta + np.float32(sign) * noise
                total, length, arrived = play(member)
                assert (pair["return"][side], pair["length"][side]) == (total, length)
                assert pair["fitness"][side] == pytest.approx(0.99 ** (length - 1) * arrived)
                lengths.add(length)
        result = algo.train()
    assert len(lengths) > 1
    assert result["timesteps_this_iter"] <= result["episodes_this_iter"] * 100


def test_steps_after_the_end_are_not_counted():
    """Of a policy that always arrives after 8 steps, each episode counts 8."""
    with ESConfig().training(seed=1, num_threads=1).build() as algo:
        while algo.train()["evaluation_fitness_mean"] < 0.93:
            pass
        task = Task(99, algo.best_theta, 1e-30)
        still = RolloutSpec(**{**algo.spec.__dict__, "sample_actions": False})
        pairs = units_of(still, task, 4).pairs
    assert (pairs["length"] == 8).all()
    assert (pairs["return"] == 1).all()
    np.testing.assert_allclose(pairs["fitness"], 0.99**7)


def test_fitness_is_discounted_and_the_return_is_not(drift_library):
    with drift_config(drift_library, gamma=0.5).build() as algo:
        pairs = units_of(algo.spec, algo.task(), 4).pairs
    with drift_config(drift_library).build() as algo:
        plain = units_of(algo.spec, algo.task(), 4).pairs
    assert np.array_equal(pairs["return"], plain["return"])
    assert np.array_equal(plain["fitness"], plain["return"])
    assert (pairs["fitness"] <= 2).all()
    assert (pairs["fitness"] != pairs["return"]).all()


@pytest.mark.parametrize("cap", [1, 7, 59, 60, 61, 1000])
def test_the_cap_holds_for_each_episode_beside_the_environments_own(drift_library, cap):
    with drift_config(drift_library).build() as algo:
        free = units_of(algo.spec, algo.task(), 6).pairs["length"]
    with drift_config(drift_library, max_episode_steps=cap).build() as algo:
        assert np.array_equal(
            units_of(algo.spec, algo.task(), 6).pairs["length"], np.minimum(free, cap)
        )
        figures = algo.evaluate(20)  # is not capped
        algo.train()
    with drift_config(drift_library).build() as algo:
        assert algo.evaluate(20) == figures
    assert free.max() == 60 > free.min()


def test_the_cap_is_in_the_checkpoint(drift_library, tmp_path):
    with drift_config(drift_library, max_episode_steps=7).build() as algo:
        algo.train()
        checkpoint = algo.save(tmp_path / "c")
    with type(algo).from_checkpoint(checkpoint) as algo:
        assert algo.task().max_episode_steps == 7
        assert algo.train()["train_len_mean"] <= 7


def test_short_episodes_are_not_favoured(drift_library):
    """Over many batches bound by steps the mean length is that of episodes as such."""
    with drift_config(drift_library).build() as algo:
        rollouts = Rollouts(algo.spec)
        theta = algo.policy.theta
        lengths = []
        for iteration in range(60):
            ledger = Ledger(iteration, 2, 2, 300)
            task = Task(iteration, theta, 0.3)
            while not ledger.complete:
                first, count = ledger.claim(10)
                ledger.add(rollouts.units(task, first, count, STOP))
            lengths.append(ledger.batch().pairs["length"].ravel())
        whole = rollouts.units(Task(1000, theta, 0.3), 0, 400, STOP).pairs["length"].mean(1)
    batches = np.concatenate(lengths)
    error = np.hypot(whole.std() / len(whole) ** 0.5, batches.std() / (len(batches) / 2) ** 0.5)
    # The last unit is the one that reaches the bound: longer by a little, not shorter.
    assert abs(batches.mean() - whole.mean()) < 4 * error
    assert batches.std() > 5


# From returns to an update.


def test_a_pair_moves_theta_towards_its_better_sign():
    """A linear fitness: the step is along its gradient, and turns round when the signs swap."""
    rng = np.random.default_rng(0)
    with scripted([], fcnet_hiddens=()) as algo:
        size = algo.policy.num_params
        slope = rng.standard_normal(size)
        index = rng.choice(algo.config.noise_size - size, 2000, replace=False).astype("u8")
        noise = np.array([algo.noise.fill(int(i), size) for i in index])
        along = noise @ slope
        pairs = records(2000, np.stack([along, -along], 1), noise_index=index)
        swapped = records(2000, np.stack([-along, along], 1), noise_index=index)
        gradient = algo._gradient(pairs)
        assert np.array_equal(algo._gradient(swapped), -gradient)
        cosine = -gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope)
        assert cosine > 0.9
        before = algo.policy.theta
        after = algo.optimizer.update(before, gradient)
        assert (after - before) @ slope > 0  # the fitness is maximised


def test_a_symmetric_fitness_moves_nothing():
    """At the top of a quadratic both signs are as good: each pair's weight is 0."""
    rng = np.random.default_rng(1)
    value = -rng.random(50)
    with scripted([]) as algo:
        index = rng.integers(0, 10**6, 50).astype("u8")
        gradient = algo._gradient(records(50, np.stack([value, value], 1), noise_index=index))
        assert not gradient.any()


def test_equal_returns_move_nothing_and_are_warned_about_once():
    batches = [records(8, 1.0, noise_index=np.arange(8)) for _ in range(3)]
    with scripted(batches) as algo:
        before = algo.parameters_sha256
        assert algo._gradient(batches[0]) is None
        with pytest.warns(UserWarning, match="iteration 1: all returns are equal") as caught:
            results = [algo.train() for _ in range(3)]
        assert len(caught) == 1
        assert algo.parameters_sha256 == before
        assert [r["tied_iterations"] for r in results] == [1, 2, 3]
        assert results[0]["info/grad_norm"] == 0
        assert algo.optimizer.steps == 0


def test_tied_returns_share_their_mean_rank():
    values = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 7.0])
    ranks = centered_ranks(values)
    assert ranks[0] == ranks[2]
    assert ranks[1] == ranks[3] == ranks[4]
    np.testing.assert_allclose(ranks, np.array([3.5, 1, 3.5, 1, 1, 5]) / 5 - 0.5, atol=1e-7)
    order = np.array([3, 5, 0, 2, 4, 1])
    assert np.array_equal(centered_ranks(values[order]), ranks[order])
    assert np.array_equal(centered_ranks(np.ones(9)), np.zeros(9, np.float32))


def test_a_return_that_is_not_finite_is_dropped_and_never_best(drift_library):
    with drift_config(drift_library, "drift_nan", eval_prob=1).build() as algo:
        with pytest.warns(UserWarning, match="1 of .* pairs dropped") as caught:
            results = [algo.train() for _ in range(4)]
        assert len(caught) == 1
        assert [r["pairs_dropped"] for r in results] == [1, 2, 3, 4]
        assert all(r["evaluation_failed"] == 1 for r in results)
        assert np.isfinite([r["episode_reward_mean"] for r in results]).all()
        assert np.isfinite(algo.best_fitness)
        assert np.isfinite(algo.stats).all()
        assert all(r["reproducible"] for r in results)
        pairs = units_of(algo.spec, algo.task(), 4).pairs
        assert list(np.flatnonzero(pairs["status"])) == [5]


@pytest.mark.parametrize("unit_pairs", [1, 2])
def test_one_pair_is_enough(drift_library, unit_pairs):
    config = drift_config(
        drift_library, episodes_per_batch=1, train_batch_size=0, unit_pairs=unit_pairs
    )
    hashes, results, _ = train(config, 3)
    assert results[0]["episodes_this_iter"] == 2 * unit_pairs
    assert len(set(hashes)) == 3
    assert all(np.isfinite(r["info/grad_norm"]) for r in results)


def test_the_update_ratio_is_finite_at_theta_0(drift_library):
    with drift_config(drift_library).build() as algo:
        algo.policy.set_weights(np.zeros(algo.policy.num_params))
        result = algo.train()
        assert result["info/update_ratio"] == pytest.approx(1)
    with scripted([records(2, 1.0)]) as algo:
        algo.policy.set_weights(np.zeros(algo.policy.num_params))
        with pytest.warns(UserWarning, match="equal"):
            assert algo.train()["info/update_ratio"] == 0


# The filter.


def test_the_filter_is_frozen_within_an_iteration(drift):
    drift.train()
    tasks, run_batch = [], drift.engine.run_batch

    def watched(task, ledger):
        tasks.append((task, task.stats.copy(), drift.stats.copy()))
        run_batch(task, ledger)
        assert np.array_equal(drift.stats, tasks[-1][2])  # nothing merges before the end

    drift.engine.run_batch = watched
    drift.train()
    (task, frozen, merged) = tasks[0]
    assert np.array_equal(task.stats, frozen)
    assert not np.shares_memory(task.stats, drift.stats)
    assert not np.shares_memory(drift.policy.stats, drift.stats)
    assert np.array_equal(frozen, merged)
    assert drift.stats[0] > merged[0]
    assert np.array_equal(drift.policy.stats, drift.stats)


def test_both_signs_of_a_pair_see_the_same_filter(drift):
    drift.train()
    task = drift.task()
    whole = units_of(drift.spec, task, 6).pairs
    later = units_of(drift.spec, task, 1, first=5).pairs
    assert np.array_equal(whole[-2:], later)  # whatever was gathered before it


def test_evaluating_and_serving_use_the_filter_and_do_not_change_it(drift):
    drift.train()
    before = drift.stats.copy()
    figures = drift.evaluate(10)
    drift.policy.compute_actions(np.random.default_rng(0).normal(1000, 300, (50, 4)))
    assert np.array_equal(drift.stats, before)
    assert drift.evaluate(10) == figures
    obs = [0.5, 0.1, 1100.0, 0.0]
    with_filter = drift.policy.logits([obs])
    drift.policy.stats = None
    assert not np.array_equal(drift.policy.logits([obs]), with_filter)
    assert drift.evaluate(10) != figures


def test_the_filters_count_is_the_number_of_observations(drift):
    """One observation a step, those of dropped pairs left out."""
    result = drift.train()
    assert drift.stats[0] == result["timesteps_this_iter"]


def test_the_filters_mean_and_spread_are_those_of_the_observations(drift):
    drift.train()
    count, mean, squares = drift.stats[0], drift.stats[1:5], drift.stats[5:]
    assert abs(mean[2] - 1000) < 60  # a field of 1000 +- 200, uniform
    assert 80 < np.sqrt(squares[2] / count) < 160


def test_a_restored_policy_acts_identically(drift, drift_library, tmp_path):
    drift.train()
    drift.train()
    obs = np.random.default_rng(0).normal((0, 0, 1000, 0), (2, 1, 150, 0.5), (200, 4))
    actions = drift.policy.compute_actions(obs)
    best = drift.best_policy().compute_actions(obs)
    checkpoint = drift.save(tmp_path / "c")
    with type(drift).from_checkpoint(checkpoint) as other:
        assert np.array_equal(other.policy.logits(obs), drift.policy.logits(obs))
        assert np.array_equal(other.policy.compute_actions(obs), actions)
        assert np.array_equal(other.best_policy().compute_actions(obs), best)
        assert other.evaluate(10) == drift.evaluate(10)
        assert other.evaluate_best(10) == drift.evaluate_best(10)
    assert len(set(actions)) > 1


# Evaluation.


def test_evaluation_is_apart_from_training(drift_library):
    """More of it changes no parameter, no counter and no filter; it meets worlds of its own."""
    runs = [train(drift_config(drift_library, eval_prob=p), 3) for p in (0, 0.1, 1)]
    assert runs[0][0] == runs[1][0] == runs[2][0]
    for name in ("timesteps_total", "episodes_total"):
        assert len({counters[name] for _, _, counters in runs}) == 1
    with drift_config(drift_library).build() as algo:
        task = Task(0, algo.policy.theta, 1e-30)
        training = set(units_of(algo.spec, task, 8).pairs["return"].ravel())
        for kind in ("iteration", "report"):
            evaluation = algo.engine.run_episodes(task, kind, 16)["return"]
            assert not training & set(evaluation)
        again = algo.engine.run_episodes(Task(1, algo.policy.theta, 1e-30), "iteration", 16)
        first = algo.engine.run_episodes(task, "iteration", 16)
        assert not set(again["return"]) & set(first["return"])  # each iteration its own


def test_evaluation_samples_no_actions():
    with ESConfig().training(seed=1, num_threads=1).build() as algo:
        assert algo.config.sample_actions
        figures = algo.evaluate(20)
        assert figures["len_min"] == figures["len_max"]
        pairs = units_of(algo.spec, Task(0, algo.policy.theta, 1e-30), 8).pairs
        assert len(set(pairs["length"].ravel())) > 1  # training does


# Work and memory.


def test_an_answer_that_comes_twice_counts_once_and_a_stale_one_not_at_all(drift):
    ledger = Ledger(0, 2, 8, 0)
    answer = units_of(drift.spec, drift.task(), 2)
    stale = units_of(drift.spec, Task(7, drift.policy.theta, 0.1), 2)
    assert ledger.add(stale) == 0
    assert ledger.add(answer) == 2
    assert ledger.add(answer) == 0
    assert (ledger.duplicates, ledger.stale) == (2, 2)
    assert ledger.complete
    assert np.array_equal(ledger.batch().pairs, answer.pairs)


def test_memory_is_flat(drift_library):
    def resident():
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    config = drift_config(drift_library, train_batch_size=300, num_threads=2)
    with config.build() as algo:
        for _ in range(60):
            algo.train()
        before = resident()
        for _ in range(200):
            algo.train()
        assert resident() - before < 2**20


def test_blas_gets_pieces_too_short_for_its_threads():
    """OpenBLAS splits a saxpy among threads from 10,000 elements on: ours are never as long."""
    assert TILE < 10_000
