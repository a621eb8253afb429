"""Augmented random search: its step against the paper's formula, its batch, its pitfalls."""

import numpy as np
import pytest
from drifting import OPTIONS, train
from rollmill import ARS, Algorithm, ARSConfig
from rollmill.rollouts import Rollouts
from test_determinism import Postman
from test_es import Scripted, records

STOP = np.zeros(1, np.int32)
SHARED = {k: v for k, v in OPTIONS.items() if k not in ("episodes_per_batch", "train_batch_size")}


def ars_config(library, symbol="drift", **options):
    options = {"num_rollouts": 7, "rollouts_used": 4, "fcnet_hiddens": (), **options}
    return ARSConfig().environment(f"{library}:{symbol}").training(**{**SHARED, **options})


def scripted(batches, **options):
    algo = ARSConfig().training(seed=1, num_threads=1, eval_prob=0, **options).build()
    algo.engine = Scripted(algo.engine, batches)
    return algo


def rows_of(algo, index):
    return np.array([algo.noise.fill(int(i), algo.policy.num_params) for i in index])


@pytest.fixture(scope="module")
def reference(drift_library):
    return train(ars_config(drift_library))


# The step.


def test_the_step_is_the_papers():
    """The update: theta += alpha / (b sigma_R) * sum over the top b of (r+ - r-) * delta."""
    rng = np.random.default_rng(0)
    index, returns = rng.integers(0, 10**6, 9).astype("u8"), rng.normal(5, 3, (9, 2))
    with scripted([records(9, returns, noise_index=index)], rollouts_used=4, num_rollouts=9,
                  sgd_stepsize=0.5) as algo:  # fmt: skip
        assert not algo.policy.theta.any()
        algo.train()
        top = np.argsort(-returns.max(1))[:4]
        weight = returns[top, 0] - returns[top, 1]
        expected = 0.5 / (4 * returns[top].std()) * weight @ rows_of(algo, index[top])
        np.testing.assert_allclose(algo.policy.theta, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("used", [1, 3, 4])
def test_exactly_b_directions_are_kept_under_ties_the_first_ones(used):
    """Four directions tie for the best; the others are worse."""
    index = np.arange(6, dtype="u8") * 1000
    returns = np.array([[0, 1], [5, 0], [1, 5], [5, 2], [3, 5], [2, 2]], float)
    pairs = records(6, returns, noise_index=index)
    with scripted([], num_rollouts=6, rollouts_used=used) as algo:
        gradient = algo._gradient(pairs)
        kept = [1, 2, 3, 4][:used]
        scale = -1 / (used * returns[kept].std())
        expected = scale * (returns[kept, 0] - returns[kept, 1]) @ rows_of(algo, index[kept])
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_directions_are_kept_by_their_better_episode():
    index = np.array([0, 1000], "u8")
    pairs = records(2, [[10.0, -100.0], [9.0, 8.0]], noise_index=index)
    with scripted([], num_rollouts=2, rollouts_used=1) as algo:
        gradient = algo._gradient(pairs)
        np.testing.assert_allclose(gradient, -110 / 55 * rows_of(algo, index)[0], rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 5e-324])
def test_no_spread_makes_no_step(value):
    batches = [records(8, value, noise_index=np.arange(8)) for _ in range(2)]
    with scripted(batches, num_rollouts=8) as algo:
        before = algo.parameters_sha256
        with pytest.warns(UserWarning, match="all returns are equal"):
            results = [algo.train(), algo.train()]
        assert algo.parameters_sha256 == before
        assert [r["tied_iterations"] for r in results] == [1, 2]
        assert algo.optimizer.steps == 0


def test_the_scale_of_the_returns_does_not_matter():
    returns = np.random.default_rng(1).normal(size=(8, 2))
    with scripted([], num_rollouts=8, rollouts_used=5) as algo:
        gradients = [
            algo._gradient(records(8, factor * returns, noise_index=np.arange(8) * 99))
            for factor in (1.0, 1e-200, 1e200)
        ]
    for gradient in gradients[1:]:
        np.testing.assert_allclose(gradient, gradients[0], rtol=1e-5)


def test_a_linear_fitness_is_climbed():
    rng = np.random.default_rng(0)
    with scripted([], num_rollouts=2000, rollouts_used=2000) as algo:
        size = algo.policy.num_params
        slope = rng.standard_normal(size)
        index = rng.choice(algo.config.noise_size - size, 2000, replace=False).astype("u8")
        along = rows_of(algo, index) @ slope
        pairs = records(2000, np.stack([along, -along], 1), noise_index=index)
        swapped = records(2000, np.stack([-along, along], 1), noise_index=index)
        gradient = algo._gradient(pairs)
        assert np.array_equal(algo._gradient(swapped), -gradient)
        cosine = -gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope)
        assert cosine > 0.9
        # E[(r+ - r-) delta] = 2 c and sigma_R = |c|: the step has twice the length of a unit one.
        along_slope = -gradient @ slope / np.linalg.norm(slope)
        assert along_slope == pytest.approx(2, abs=0.2)
        assert (algo.optimizer.update(algo.policy.theta, gradient) @ slope) > 0


def test_a_nan_return_drops_its_direction_and_is_never_kept(drift_library):
    with ars_config(drift_library, "drift_nan", rollouts_used=7).build() as algo:
        with pytest.warns(UserWarning, match="1 of 7 pairs dropped"):
            results = [algo.train() for _ in range(3)]
        assert np.isfinite(algo.policy.theta).all()
        assert [r["pairs_dropped"] for r in results] == [1, 2, 3]
        assert np.isfinite(algo.stats).all()


# The batch.


@pytest.mark.parametrize(("directions", "unit_pairs"), [(7, 2), (7, 3), (1, 8), (8, 8), (9, 8)])
def test_an_iteration_has_exactly_the_directions_asked_for(drift_library, directions, unit_pairs):
    config = ars_config(drift_library, num_rollouts=directions, unit_pairs=unit_pairs,
                        rollouts_used=1, num_threads=2)  # fmt: skip
    with config.build() as algo:
        results = [algo.train() for _ in range(3)]
        assert [r["episodes_this_iter"] for r in results] == [2 * directions] * 3
        assert [r["timesteps_discarded"] for r in results] == [0] * 3
        assert algo.stats[0] == algo.timesteps_total


def test_the_size_of_a_unit_changes_no_episode(drift_library):
    """The pairs are the same; only the filter's sums round in another order."""
    runs = [train(ars_config(drift_library, unit_pairs=n, observation_filter="NoFilter"))[0]
            for n in (1, 2, 3, 7, 100)]  # fmt: skip
    assert all(hashes == runs[0] for hashes in runs)


def test_the_last_unit_is_the_same_whoever_computes_it(drift_library):
    with ars_config(drift_library, unit_pairs=3).build() as algo:
        rollouts, task = Rollouts(algo.spec), algo.task()
        whole = rollouts.units(task, 0, 3, STOP)
        assert whole.pairs["pair"].tolist() == list(range(7))
        last = rollouts.units(task, 2, 1, STOP)
        assert last.pairs.tobytes() == whole.pairs[6:].tobytes()
        assert last.stats.tobytes() == whole.stats[2:].tobytes()
        with pytest.raises(ValueError, match="pairs must be 0 or more than 9"):
            rollouts.units(task, 2, 2, STOP)


# Reproducibility.


def test_the_reference_run_is_not_trivial(reference):
    assert len(set(reference[0])) == 5


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(reference, drift_library, threads):
    assert train(ars_config(drift_library, num_threads=threads))[0] == reference[0]


@pytest.mark.parametrize("seed", range(3))
def test_arrival(reference, drift_library, seed):
    def build(spec):
        return Postman(spec, seed)

    assert train(ars_config(drift_library), engine=build)[0] == reference[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_resume(reference, drift_library, tmp_path, threads):
    with ars_config(drift_library).build() as algo:
        algo.train()
        algo.train()
        checkpoint = algo.save(tmp_path / "c")
    with Algorithm.from_checkpoint(checkpoint, num_threads=threads) as algo:
        assert isinstance(algo, ARS)
        hashes = [algo.train() and algo.parameters_sha256 for _ in range(3)]
    assert hashes == reference[0][2:]


def test_an_interrupted_iteration_leaves_the_algorithm_as_it_was(drift_library, reference):
    with ars_config(drift_library).build() as algo:
        for _ in range(5):

            def interrupt(*_, **__):
                raise KeyboardInterrupt

            algo.engine.run_episodes = interrupt
            with pytest.raises(KeyboardInterrupt):
                algo.train()
            del algo.engine.run_episodes
            algo.train()
        assert algo.parameters_sha256 == reference[0][-1]


# Policies.


def test_a_linear_policy_begins_at_zero_and_another_does_not(drift_library):
    with ars_config(drift_library).build() as algo:
        assert not algo.policy.theta.any()
        assert algo.train()["info/update_ratio"] == pytest.approx(1)
    with ars_config(drift_library, fcnet_hiddens=(8,)).build() as algo:
        assert algo.policy.theta.any()


def test_the_survival_bonus_is_taken_from_training_alone(drift_library):
    with ars_config(drift_library).build() as plain:
        figures, before = plain.evaluate(20), plain.engine.rollouts.units(plain.task(), 0, 2, STOP)
    with ars_config(drift_library, offset=0.5).build() as algo:
        assert algo.evaluate(20) == figures
        pairs = algo.engine.rollouts.units(algo.task(), 0, 2, STOP).pairs
    assert np.array_equal(pairs["return"], before.pairs["return"])
    np.testing.assert_allclose(pairs["fitness"], pairs["return"] - 0.5 * pairs["length"])


def test_drift_is_learned(drift_library):
    config = ars_config(drift_library, num_rollouts=32, rollouts_used=16, sgd_stepsize=0.1)
    with config.build() as algo:
        before = algo.evaluate(50)["reward_mean"]
        for _ in range(20):
            algo.train()
        assert algo.evaluate_best(50)["reward_mean"] > before + 10
