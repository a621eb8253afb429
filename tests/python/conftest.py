import os
import subprocess
from pathlib import Path

import pytest
import rollmill

CONSUMERS = Path(__file__).parents[1] / "consumers"


@pytest.fixture(scope="session")
def drift_library(tmp_path_factory):
    """Path of tests/consumers/drift.c, compiled as any user of the headers would."""
    library = tmp_path_factory.mktemp("drift") / "drift.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-O2", "-fPIC", "-shared", "-std=c11", "-ffp-contract=off"]
    include = f"-I{rollmill.get_include()}"
    subprocess.run(
        [*compiler, *flags, include, str(CONSUMERS / "drift.c"), "-o", str(library)], check=True
    )
    return library
