"""What the tests of training share: a small config on the environments of drift.c, and a run."""

from rollmill import ESConfig

# The batch is bound by steps and episodes differ in length, so that the pairs of an iteration vary.
OPTIONS = {
    "seed": 11,
    "episodes_per_batch": 8,
    "train_batch_size": 1200,
    "unit_pairs": 2,
    "fcnet_hiddens": (16, 8),
    "noise_stdev": 0.3,
    "noise_size": 1 << 16,
    "stepsize": 0.05,
    "eval_prob": 0.1,
    "num_threads": 1,
    "update_blas": "none",
}


def drift_config(library, symbol="drift", **options):
    return ESConfig().environment(f"{library}:{symbol}").training(**{**OPTIONS, **options})


def train(config, iterations=5, engine=None):
    """Train; returns the parameters and the results of each iteration, and the counters."""
    with config.build() as algo:
        if engine is not None:
            algo.engine.close()
            algo.engine = engine(algo.spec)
        hashes, results = [], []
        for _ in range(iterations):
            results.append(algo.train())
            hashes.append(algo.parameters_sha256)
        return hashes, results, algo.state()[0]
