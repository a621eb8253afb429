import pickle

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused, read_only
from rollmill._isa import available
from rollmill._noise import SIZE_MAX, Noise
from rollmill._policy import Network
from scipy import stats

examples = settings(deadline=None, derandomize=True, max_examples=60)
KEY, N = 20240229, 1 << 20


@pytest.fixture(scope="module")
def long_noise():
    return Noise(KEY, N).fill(size=N).astype(float)


@pytest.mark.parametrize("size", SIZES)
@settings(examples, max_examples=10)
@given(st.integers(0, 2**64 - 1), st.integers(0, SIZE_MAX - 2000) | st.integers(0, 200))
def test_noise_equals_the_reference(size, key, start):
    want = bits(reference.normals(size, key, "noise", start=start))
    for isa in available():
        assert bits(Noise(key, SIZE_MAX).fill(start, size, isa=isa)) == want


def test_fill_reaches_both_ends_and_no_further():
    noise = Noise(1, 100)
    out = np.empty(100, np.float32)
    assert noise.fill(out=out) is out
    assert bits(noise.fill(99, 1)) == bits(out[99:])
    assert noise.fill(100, 0).shape == (0,)
    for start, size in [(0, 101), (99, 2), (101, 0), (-1, 1), (0, -1), (2**64, 1), (1, 2**64)]:
        with pytest.raises(ValueError, match=r"^start and size must .* at most 100, got "):
            noise.fill(start, size)
    with pytest.raises(ValueError, match=r"at most 100, got 1 and 100"):
        noise.fill(1, out=out)


# Chunks inside the kernel are 2048 long.
@pytest.mark.parametrize("d", [1, 7, 8, 9, 63, 64, 65, 1025, 2047, 2048, 2049, 5000])
@settings(examples, max_examples=10)
@given(st.integers(0, 2**64 - 1), st.integers(0, 130), st.floats(2.0**-20, 10, width=32))
def test_both_storages_perturb_alike_in_every_build(d, key, index, stdev):
    made = Noise(key, d + 130)
    table = Noise(key, d + 130, read_only(made.fill(size=d + 130)))
    theta = read_only(reference.normals(d, key, "init"))
    want = [bits(one) for one in reference.perturb(theta, key, index, stdev)]
    for noise in (made, table):
        for isa in available():
            assert [bits(one) for one in noise.perturb(theta, index, stdev, isa=isa)] == want
    plus, minus = np.empty(d, np.float32), np.empty(d, np.float32)
    got = made.perturb(theta, index, stdev, plus, minus)
    assert got[0] is plus
    assert got[1] is minus
    assert [bits(plus), bits(minus)] == want


@examples
@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(1, SIZE_MAX),
    st.data(),
)
def test_indices_equal_the_reference(key, pair, iteration, size, data):
    d = data.draw(st.integers(1, size))
    index = Noise(0, size).index(key, pair, iteration, d)
    assert index == reference.noise_index(size, key, pair, iteration, d)
    assert 0 <= index <= size - d


def test_indices_reach_both_ends_evenly():
    noise = Noise(1, 1000)
    index = [noise.index(KEY, pair, 0, 997) for pair in range(4000)]
    count = np.bincount(index, minlength=4)
    assert len(count) == 4
    assert stats.chisquare(count).pvalue > 1e-3
    assert noise.index(KEY, 0, 0, 1000) == 0


def test_no_pair_repeats_a_perturbation_beyond_chance():
    noise = Noise(1, 250_000_000)
    index = [noise.index(KEY, pair, it, 6000) for it in range(40) for pair in range(500)]
    # 20,000 draws: 0.8 equal pairs are expected, and 7 or more have a chance of 1e-5.
    assert len(index) - len(set(index)) < 7


def test_more_parameters_than_noise_are_refused():
    noise = Noise(1, 100)
    for d in (0, 101, -1, 2**64):
        with pytest.raises(ValueError, match=rf"^d must be in \[1, 100\], the noise size, got {d}"):
            noise.index(1, 0, 0, d)
    with pytest.raises(ValueError, match=r"^theta must have 1 to 100 parameters, .* got 101"):
        noise.perturb(np.zeros(101, np.float32), 0, 1.0)
    for index in (91, -1, 2**64):
        with pytest.raises(ValueError, match=rf"^index must be in \[0, 90\], got {index}"):
            noise.perturb(np.zeros(10, np.float32), index, 1.0)


def test_sizes_out_of_range_are_refused():
    for size in (0, -1, SIZE_MAX + 1):
        with pytest.raises(ValueError, match=rf"^size must be in \[1, 2\*\*32\], got {size}"):
            Noise(1, size)


def test_bad_arrays_are_named():
    six = np.zeros(6, np.float32)
    noise = Noise(1, 6)
    check_refused(lambda a: Noise(1, 6, a), "table", six, optional=True)
    check_refused(lambda a: noise.fill(out=a), "out", six, free=(0,), optional=True, write=True)
    check_refused(lambda a: noise.perturb(a, 0, 1.0), "theta", six, free=(0,))
    for name in ("plus", "minus"):
        check_refused(
            lambda a, name=name: noise.perturb(six, 0, 1.0, **{name: a}),
            name,
            np.zeros(6, np.float32),
            optional=True,
            write=True,
        )


def test_overlapping_outputs_are_refused_and_untouched():
    noise, both = Noise(1, 100), np.arange(12, dtype=np.float32)
    theta, a, b = both[:8], both[2:10], np.zeros(8, np.float32)
    before = bits(both)
    for plus, minus in [(a, b), (b, a), (b, b), (theta, b)]:
        with pytest.raises(ValueError, match=r"^theta, plus and minus must not overlap"):
            noise.perturb(theta, 0, 1.0, plus, minus)
    assert bits(both) == before


def test_noise_survives_pickling():
    table = Noise(3, 50).fill(size=50)
    for noise in (Noise(3, 50), Noise(3, 50, table)):
        again = pickle.loads(pickle.dumps(noise))
        assert (again.key, again.size) == (3, 50)
        theta = np.zeros(20, np.float32)
        assert bits(again.perturb(theta, 7, 1.0)[0]) == bits(table[7:27])


# Quality, with seeds fixed above


def test_moments_are_those_of_a_standard_normal(long_noise):
    assert abs(long_noise.mean()) < 4 / np.sqrt(N)
    assert abs(long_noise.var() - 1) < 4 * np.sqrt(2 / N)
    assert abs(stats.skew(long_noise)) < 4 * np.sqrt(6 / N)
    assert abs(stats.kurtosis(long_noise)) < 4 * np.sqrt(24 / N)


def test_distribution_is_normal(long_noise):
    assert stats.kstest(long_noise, "norm").pvalue > 1e-3
    # Each of the four rows of a group too: cosines and sines of two pairs of words.
    for row in range(4):
        part = long_noise.reshape(-1, 4, 16)[:, row].ravel()
        assert stats.kstest(part, "norm").pvalue > 1e-3


def test_tails_are_there(long_noise):
    beyond = 2 * stats.norm.sf(4) * N
    assert abs(np.count_nonzero(np.abs(long_noise) > 4) - beyond) < 4 * np.sqrt(beyond)


@pytest.mark.parametrize("lag", [1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 128, 4096])
def test_lags_are_uncorrelated(long_noise, lag):
    a, b = long_noise[:-lag], long_noise[lag:]
    assert abs(np.mean(a * b)) < 4 / np.sqrt(N)
    assert abs(np.mean((a * a - 1) * (b * b - 1))) < 4 * 2 / np.sqrt(N)


def test_layers_of_one_shape_get_unrelated_noise():
    network = Network((64, 64, 64, 64, 64))
    noise, each = Noise(KEY, 10**6), 64 * 64 + 64
    for pair in range(8):
        index = noise.index(KEY, pair, 0, network.num_params)
        layers = noise.fill(index, network.num_params).astype(float).reshape(4, each)
        correlation = np.corrcoef(layers)[np.triu_indices(4, 1)]
        assert np.abs(correlation).max() < 4 / np.sqrt(each)


def test_keys_give_unrelated_noise(long_noise):
    for key in (KEY + 1, KEY ^ 1 << 63):
        other = Noise(key, N).fill(size=N).astype(float)
        assert abs(np.mean(other * long_noise)) < 4 / np.sqrt(N)


def test_integers_are_whole():
    noise, theta = Noise(1, np.int32(100)), np.zeros(3, np.float32)
    assert noise.fill(np.uint8(1), np.int64(2)).shape == (2,)
    for call, name in (
        (lambda: Noise(1.0, 100), "key"),
        (lambda: Noise(1, 100.5), "size"),
        (lambda: noise.fill(0.5, 1), "start"),
        (lambda: noise.fill(0, 1.5), "size"),
        (lambda: noise.index(0, 0.5, 0, 3), "pair"),
        (lambda: noise.index(0, 0, 0, 3.5), "d"),
        (lambda: noise.perturb(theta, 1.5, 0.1), "index"),
    ):
        with pytest.raises(TypeError, match=rf"^{name} must be an integer"):
            call()
