import subprocess
import sys

import pytest
from rollmill._blas import table_address


def test_tables_are_there_and_stay():
    for name in ("scipy", "reference"):
        assert table_address(name) != 0
        assert table_address(name) == table_address(name)
    assert table_address("scipy") != table_address("reference")


@pytest.mark.parametrize("name", ["none", "", None, "openblas"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=f"^blas must be 'none', 'scipy' or .*, got {name!r}"):
        table_address(name)


def test_scipy_is_loaded_at_its_first_use_only():
    code = """
import sys
import numpy as np
from rollmill._es import noise_sum
from rollmill._noise import Noise
call = lambda blas: noise_sum(Noise(1, 9), np.zeros(1, np.uint64), np.ones(1, np.float32),
                              np.empty(9, np.float32), blas=blas)
call("none")
assert "scipy" not in sys.modules
call("scipy")
assert "scipy.linalg.cython_blas" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
