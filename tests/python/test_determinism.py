"""The result depends on the config and the seed alone. None of these runs is trivial: the
environment is stochastic, its observations are filtered and the number of pairs varies.
"""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from drifting import drift_config, train
from rollmill import ESConfig, _isa, engine
from rollmill.rollouts import Rollouts

GOLDEN_DRIFT = "9ef6c1dfad936846819667cacfd2d84013c3eb8ed1a5c780450bcf4ee3870360"
GOLDEN_CLIPUP = "a0c329b287960022a1223b2c3e00915d5f09ea29d327afa61a323d5d602ab3cc"
GOLDEN_ARS = "44475c95cd94db11d1f15d345a0c761480d8d44987facbc74739515efaf95c19"
GOLDEN_MAZE = "92e4a0ae14f31de89c51e2650d714f213250816f3e32ed271f554818bd12bffa"


class Postman:
    """An engine that delivers late, in a shuffled order, twice, and mail of another iteration."""

    name, num_workers, num_threads = "postman", 0, 1

    def __init__(self, spec, seed=0, delay=0.0):
        self.rollouts = Rollouts(spec)
        self.rng = np.random.default_rng(seed)
        self.delay = delay
        self.duplicates = self.stale = 0
        self.order = []
        self._before = None
        self._stop = np.zeros(1, np.int32)

    def run_batch(self, task, ledger):
        mail = [self._before] if self._before else []
        while not ledger.complete:
            claim = ledger.claim(int(self.rng.integers(1, 4)))
            if claim:
                answer = self.rollouts.units(task, *claim, self._stop)
                mail += [answer, answer]
            if not claim or self.rng.random() < 0.3:
                self.rng.shuffle(mail)
                time.sleep(self.delay)
                for answer in mail:
                    self.order.append(answer.first_unit)
                    ledger.add(answer)
                    self._before = answer
                mail = []
        self.duplicates += ledger.duplicates
        self.stale += ledger.stale

    def run_episodes(self, task, kind, episodes):
        parts = [self.rollouts.episodes(task, kind, e, 1, self._stop) for e in range(episodes)]
        return np.concatenate(parts)

    def map_columns(self, work, columns, tile):
        for begin in reversed(range(0, columns, tile)):
            work(begin, min(begin + tile, columns))

    def facts(self):
        return {}

    def close(self):
        pass


@pytest.fixture(scope="module")
def reference(drift_library):
    return train(drift_config(drift_library))


def test_the_reference_run_is_not_trivial(reference, drift_library):
    hashes, results, _ = reference
    assert len(set(hashes)) == 5  # the parameters change in every iteration
    assert len({r["episodes_this_iter"] for r in results}) > 1  # and so does the batch
    with drift_config(drift_library).build() as algo:
        assert algo.parameters_sha256 not in hashes
        algo.train()
        count, mean = algo.stats[0], algo.stats[1:5]
        assert count > 1000
        assert 900 < mean[2] < 1100  # the filter has seen the field of about 1000
        scale = np.sqrt(algo.stats[5:] / count)
        assert (scale > 0.1).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(reference, drift_library, threads):
    assert train(drift_config(drift_library, num_threads=threads))[0] == reference[0]


@pytest.mark.parametrize("seconds", [1e-9, 1e9])
def test_sizes_of_calls(reference, drift_library, monkeypatch, seconds):
    monkeypatch.setattr(engine, "CALL_SECONDS", seconds)
    assert train(drift_config(drift_library, num_threads=2))[0] == reference[0]


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_late_and_repeated_answers(reference, drift_library, seed):
    postman = None

    def build(spec):
        nonlocal postman
        postman = Postman(spec, seed, delay=0.001)
        return postman

    hashes, results, _ = train(drift_config(drift_library), engine=build)
    assert hashes == reference[0]
    assert postman.duplicates
    assert postman.stale
    assert postman.order != sorted(postman.order)
    for result, expected in zip(results, reference[1], strict=True):
        for name, value in expected.items():
            if not re.search("time_|time/|steps_per_second|discarded", name):
                assert result[name] == value, name


@pytest.mark.parametrize("storage", ["table", "generated"])
def test_storage_of_the_noise(reference, drift_library, storage):
    config = drift_config(drift_library, noise_storage=storage, num_threads=2)
    with config.build() as algo:
        assert (algo.engine.table is None) == (storage == "generated")
    assert train(config)[0] == reference[0]


def test_the_reference_saxpy_gives_the_kernels_bits(reference, drift_library):
    assert train(drift_config(drift_library, update_blas="reference"))[0] == reference[0]


def test_scipys_blas_gives_the_same_bits_for_any_threads(drift_library):
    config = drift_config(drift_library, update_blas="scipy")
    assert train(config)[0] == train(config.copy().training(num_threads=3))[0]


def test_seeds_differ(reference, drift_library):
    assert not set(train(drift_config(drift_library, seed=12))[0]) & set(reference[0])


def test_unit_pairs_is_part_of_the_config(reference, drift_library):
    """The units decide where the batch ends: another size is another run."""
    assert train(drift_config(drift_library, unit_pairs=5))[0] != reference[0]


def test_without_the_filter_it_is_another_run(reference, drift_library):
    config = drift_config(drift_library, observation_filter="NoFilter")
    hashes = train(config)[0]
    assert hashes != reference[0]
    assert train(config.copy().training(num_threads=2))[0] == hashes


def test_a_dropped_pair_changes_nothing_between_engines(drift_library):
    config = drift_config(drift_library, "drift_nan")
    with pytest.warns(UserWarning, match="1 of .* pairs dropped"):
        hashes, results, _ = train(config)
    assert results[-1]["pairs_dropped"] == 5
    assert len(set(hashes)) == 5
    with pytest.warns(UserWarning, match="dropped"):
        assert train(config.copy().training(num_threads=3))[0] == hashes
    with pytest.warns(UserWarning, match="dropped"):
        assert train(config, engine=Postman)[0] == hashes


def test_sampled_actions_are_drawn_by_name(drift_library):
    config = drift_config(drift_library, sample_actions=True)
    assert train(config)[0] == train(config.copy().training(num_threads=2))[0]


# Golden values: nothing but our own kernels is involved, so they hold on every processor.

PROGRAM = """
import sys
from drifting import drift_config, train
from rollmill import ARSConfig, ESConfig, _isa
assert _isa.isa_name() == sys.argv[2], _isa.isa_name()
print(train(drift_config(sys.argv[1]), 5)[0][-1])
maze = ESConfig(preset="none").environment("rollmill/Maze-v0").training(
    seed=1, num_threads=1, episodes_per_batch=512, train_batch_size=0, unit_pairs=8,
    fcnet_hiddens=(32, 32), fcnet_activation="tanh", sample_actions=True, gamma=0.99,
    noise_stdev=0.3, noise_size=1 << 16, optimizer="adam", stepsize=0.05, l2_coeff=0.0,
    update_blas="none", eval_prob=0.03)
print(train(maze, 3)[0][-1])
clipup = drift_config(sys.argv[1], optimizer="clipup", return_proc_mode="normalized",
                      stepsize=[[0, 0.3], [5000, 0.1]], noise_stdev=[[0, 0.4], [3000, 0.2]])
print(train(clipup, 5)[0][-1])
ars = ARSConfig().environment(sys.argv[1] + ":drift").training(
    seed=11, num_rollouts=7, rollouts_used=4, unit_pairs=2, noise_stdev=0.3, noise_size=1 << 16,
    sgd_stepsize=0.05, eval_prob=0.1, num_threads=1)
print(train(ars, 5)[0][-1])
"""


@pytest.mark.parametrize("isa", _isa.available())
def test_golden_parameters_on_every_instruction_set(drift_library, isa):
    environment = {**os.environ, "ROLLMILL_ISA": isa}
    here = os.path.dirname(__file__)
    environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(drift_library), isa],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split() == [GOLDEN_DRIFT, GOLDEN_MAZE, GOLDEN_CLIPUP, GOLDEN_ARS]


# Seeds.


def test_seed_0_is_a_seed(drift_library):
    hashes = train(drift_config(drift_library, seed=0), 1)[0]
    assert train(drift_config(drift_library, seed=0), 1)[0] == hashes
    with drift_config(drift_library, seed=0).build() as algo:
        assert algo.seed == 0


def test_no_seed_draws_one_and_records_it(drift_library):
    config = drift_config(drift_library, seed=None)
    with config.build() as one, config.build() as two:
        assert one.seed != two.seed
        assert one.config.seed == one.seed
        one.train()
        drawn, hashed = one.seed, one.parameters_sha256
    assert config.seed is None
    assert train(drift_config(drift_library, seed=drawn), 1)[0] == [hashed]


def test_seeds_beyond_64_bits(drift_library):
    seeds = [2**64 - 1, 2**64, 2**64 + 1, 2**100, 10**400]
    assert len({train(drift_config(drift_library, seed=s), 1)[0][0] for s in seeds}) == 5


def test_the_seed_also_sets_the_initial_parameters():
    first = [ESConfig().debugging(seed=s).build() for s in (1, 1, 2)]
    a, b, c = (algo.policy.theta for algo in first)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    for algo in first:
        algo.stop()
