"""Row A4: `noise_id = create_shared_noise.remote()`."""

import inspect

import numpy as np
from rollmill import seeding
from rollmill._noise import Noise

MAZE = "rollmill/Maze-v0"


def test_row_a4_one_copy_that_workers_map(ray2):
    import ray
    from rollmill.cluster import create_shared_noise
    from rollmill.cluster.es import ActorWorker, make_noise

    class Probe(ActorWorker):
        def table(self):
            noise = self.rollouts.table
            return noise.flags.owndata, noise.flags.writeable, noise[:3].tolist(), len(noise)

        def resident(self):
            with open("/proc/self/statm") as numbers:
                return int(numbers.read().split()[5]) * 4096  # private data

    size = 1 << 24
    noise_id = create_shared_noise.remote(size, 7)
    noise = ray2.get(noise_id)
    assert np.array_equal(noise[:1000], Noise(seeding.key(7), size).fill(0, 1000))
    assert not noise.flags.writeable
    probe = ray.remote(Probe)
    config = {"seed": 7}
    workers = [probe.remote(config, {"fcnet_hiddens": []}, MAZE, noise_id) for _ in range(2)]
    tables = ray2.get([w.table.remote() for w in workers])
    assert tables == [(False, False, noise[:3].tolist(), size)] * 2
    defaults = inspect.signature(make_noise).parameters
    assert (defaults["size"].default, defaults["seed"].default) == (250_000_000, 0)


def test_row_a4_generated_noise_has_the_same_bits(ray2):
    from rollmill.algorithms import EsWorker
    from rollmill.cluster import create_shared_noise

    table = ray2.get(create_shared_noise.remote(1 << 16, 3))
    config = {"seed": 3, "noise_size": 1 << 16}
    batches = [
        EsWorker(config, {}, MAZE, noise).do_rollouts(
            EsWorker(config, {}, MAZE).policy.theta, 0, 0, 4
        )
        for noise in (table, None)
    ]
    assert np.array_equal(batches[0].index_p, batches[1].index_p)
    assert np.array_equal(batches[0].return_p2, batches[1].return_p2)
