import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollmill import seeding


@given(st.integers(0, 2**64 - 1))
def test_a_short_seed_is_its_own_key(seed):
    assert seeding.key(seed) == seed


@given(st.integers(2**64, 2**300))
def test_a_long_seed_is_hashed(seed):
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    assert seeding.key(seed) == int.from_bytes(digest, "little")


def test_the_hash_does_not_change():
    """Values of `printf SEED | b2sum -l 64`, its bytes from the last to the first."""
    assert seeding.key(2**64) == 0x41458F14079FD1E7
    assert seeding.key(10**20) == 0x64A76DDBF0D47D6F


@pytest.mark.parametrize("digits", [599, 600, 601, 1200, 4300, 20_000])
def test_seeds_beyond_the_digits_that_python_prints(digits):
    seed = 7 * 10**digits + 3
    text = "7" + "0" * (digits - 1) + "3"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    assert seeding.key(seed) == int.from_bytes(digest, "little")


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_numpy_integers_are_seeds(kind):
    assert seeding.key(kind(17)) == 17
    assert type(seeding.checked(kind(17))) is int


@pytest.mark.parametrize("seed", [1.0, np.float64(3), "4", None, True, np.bool_(1), [1], 2 + 0j])
def test_what_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="seed must be an integer, got"):
        seeding.key(seed)


@pytest.mark.parametrize("seed", [-1, np.int64(-5), -(2**70)])
def test_negative_seeds_are_refused(seed):
    with pytest.raises(ValueError, match="seed must be at least 0, got -"):
        seeding.key(seed)


@pytest.mark.parametrize("first", [0, 5, 2**63 - 3, 2**64 - 9, 2**64 - 4, 2**64 - 1, 2**64, 2**90])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_keys_are_those_of_consecutive_seeds(first, n):
    keys = seeding.keys(first, n)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [seeding.key(first + i) for i in range(n)]


def test_without_a_seed_there_is_entropy():
    drawn = {seeding.resolve() for _ in range(100)}
    assert len(drawn) == 100
    assert max(drawn) < 2**62
    assert max(drawn) > 2**50
    assert seeding.resolve(None) not in drawn
    assert seeding.resolve(np.int64(3)) == 3
