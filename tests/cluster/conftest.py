"""One Ray for the whole session, and engines to compare."""

from pathlib import Path

import pytest
from engines import bits, compile_library, run
from rollmill.engine import ThreadEngine

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def drift(tmp_path_factory):
    return compile_library(HERE.parent / "consumers" / "drift.c", tmp_path_factory.mktemp("drift"))


@pytest.fixture(scope="session")
def hazard(tmp_path_factory):
    return compile_library(HERE / "hazard.c", tmp_path_factory.mktemp("hazard"))


@pytest.fixture(scope="session")
def ray4():
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def engine_of(ray4):
    """Make Ray engines that are closed after the test."""
    from rollmill.cluster.engine import RayEngine

    made = []

    def make(spec, **options):
        made.append(RayEngine(spec, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture(scope="session")
def expected():
    """Bits of a batch as one thread computes it."""

    def compute(task, spec, episodes, steps=0):
        engine = ThreadEngine(spec, 1)
        try:
            return bits(run(engine, task, spec, episodes, steps))
        finally:
            engine.close()

    return compute
