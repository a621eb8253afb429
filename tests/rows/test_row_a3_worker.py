"""Row A3: `Worker.remote(config, policy_params, env_name, noise_id)`, `do_rollouts.remote`."""

import numpy as np
import pytest
from rollmill import ESConfig
from rollmill.algorithms import EsBatch, EsWorker

MAZE = "rollmill/Maze-v0"
CONFIG = {"seed": 3, "noise_size": 1 << 16, "sample_actions": True, "noise_stdev": 0.3}
PARAMS = {"fcnet_hiddens": [8]}


@pytest.fixture
def worker():
    return EsWorker(CONFIG, PARAMS, MAZE)


def test_row_a3_the_tutorials_line(ray2):
    from rollmill.cluster import Worker, create_shared_noise

    noise_id = create_shared_noise.remote(1 << 16)
    workers = [Worker.remote(CONFIG, PARAMS, MAZE, noise_id) for _ in range(2)]
    policy = ESConfig(**CONFIG).build_policy(MAZE, **PARAMS)
    theta_id = ray2.put(policy.get_weights())
    results = ray2.get([w.do_rollouts.remote(theta_id) for w in workers for _ in range(3)])
    assert all(isinstance(batch, EsBatch) for batch in results)
    assert all(batch.return_p2.shape == batch.steps_p2.shape == (1, 2) for batch in results)
    indices = [int(batch.index_p[0]) for batch in results]
    assert len(set(indices)) == 6  # built alike, and no two draw the same
    numbered = [w.do_rollouts.remote(theta_id, iteration=1, first_pair=5, pairs=4) for w in workers]
    one, two = ray2.get(numbered)
    assert np.array_equal(one.index_p, two.index_p)
    assert np.array_equal(one.return_p2, two.return_p2)


def test_row_a3_numbered_pairs_are_those_of_training(worker):
    """The same streams as `ES` draws from."""
    config = ESConfig(**CONFIG, **PARAMS, unit_pairs=4, num_threads=1, gamma=0.99, preset="none")
    with config.build() as algo:
        pairs = algo.engine.rollouts.units(algo.task(), 0, 2, np.zeros(1, np.int32)).pairs
        batch = EsWorker(config, None, MAZE).do_rollouts(algo.get_weights(), 0, 0, 8)
    assert np.array_equal(batch.index_p, pairs["noise_index"])
    assert np.array_equal(batch.return_p2, pairs["return"])
    assert np.array_equal(batch.fitness_p2, pairs["fitness"])
    assert np.array_equal(batch.steps_p2, pairs["length"])


def test_row_a3_weights_are_taken_by_name_or_flat(worker):
    theta = np.random.default_rng(0).normal(size=worker.policy.num_params).astype(np.float32)
    theta.flags.writeable = False
    flat = worker.do_rollouts(theta, 1, 2, 3)
    named = worker.do_rollouts(worker.policy.get_weights(), 1, 2, 3)
    assert np.array_equal(flat.return_p2, named.return_p2)
    for bad, message in ((theta[1:], "shape"), ({"no": theta}, "unknown layer"),
                         (theta * np.float32("nan"), "finite")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            worker.do_rollouts(bad)


def test_row_a3_numbers_go_on_from_call_to_call(worker):
    theta = worker.policy.get_weights()
    seen = [worker.do_rollouts(theta, pairs=n).index_p for n in (1, 5, 2)]
    again = EsWorker(CONFIG, PARAMS, MAZE, identity="x"), EsWorker(CONFIG, PARAMS, MAZE)
    seen += [w.do_rollouts(theta, pairs=8).index_p for w in again]
    assert len(set(np.concatenate(seen))) == 24
    named = EsWorker(CONFIG, PARAMS, MAZE, identity="x").do_rollouts(theta, pairs=8)
    assert np.array_equal(named.index_p, seen[3])


def test_row_a3_arguments_that_do_not_fit(worker):
    theta = worker.policy.get_weights()
    for options, message in (({"iteration": 1}, "go together"), ({"pairs": 0}, "at least 1"),
                             ({"first_pair": 1}, "go together")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            worker.do_rollouts(theta, **options)
    with pytest.raises(ValueError, match="unknown option"):
        EsWorker({"noise_std": 1}, {}, MAZE)
    with pytest.raises(ValueError, match="unknown"):
        EsWorker({}, {}, "rollmill/Mase-v0")
