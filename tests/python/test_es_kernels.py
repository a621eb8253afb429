from itertools import pairwise

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused, read_only
from rollmill._es import BLOCK, TILE, centered_ranks, noise_sum
from rollmill._isa import available
from rollmill._noise import Noise
from scipy import stats

examples = settings(deadline=None, derandomize=True, max_examples=60)
D = 2 * TILE + 1025
SIZE = D + 3000


def pairs(p, seed, size=SIZE, d=D):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, size - d + 1, p).astype(np.uint64)
    weight = rng.normal(size=p).astype(np.float32)
    if p:
        index[0], index[-1] = 0, size - d
    return read_only(index), read_only(weight)


@pytest.fixture(scope="module")
def made():
    return Noise(77, SIZE)


@pytest.fixture(scope="module")
def table(made):
    return Noise(77, SIZE, read_only(made.fill(size=SIZE)))


# Ranks


@examples
@given(st.lists(st.integers(-3, 3) | st.floats(allow_nan=False), max_size=40))
def test_ranks_equal_the_reference(values):
    values = read_only(np.array(values, float))
    got = centered_ranks(values)
    assert bits(got) == bits(reference.centered_ranks(values))
    if len(values) > 1:
        expected = (stats.rankdata(values) - 1) / (len(values) - 1) - 0.5
        np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize("n", SIZES)
def test_ranks_of_many_with_ties(n):
    values = np.random.default_rng(n).integers(0, n // 3 + 1, n).astype(float)
    got = centered_ranks(values)
    assert bits(got) == bits(reference.centered_ranks(values))
    assert abs(got.sum(dtype=float)) < 1e-4


@examples
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    values = np.array(values, float)
    assert bits(centered_ranks(values[order])) == bits(centered_ranks(values)[order])


def test_equal_returns_rank_exactly_zero_and_give_no_gradient(table):
    for n in (1, 2, 128):
        weight = centered_ranks(np.full(n, 3.25))
        assert not weight.any()
        total = noise_sum(table, pairs(n, 1)[0], weight, np.ones(D, np.float32))
        assert not total.any()


def test_nan_is_refused_by_its_place():
    with pytest.raises(ValueError, match=r"^values must not be NaN, got NaN at 2"):
        centered_ranks(np.array([1.0, 2.0, np.nan, np.nan]))


# The weighted sum


@pytest.mark.parametrize("p", [0, 1, 63, 64, 65, 127, 128, 129, 200, 1000])
def test_sums_follow_the_fixed_tree(made, table, p):
    index, weight = pairs(p, p)
    want = bits(reference.noise_sum(np.asarray(table.fill(size=SIZE)), index, weight, D))
    out = np.full(D, 7, np.float32)
    assert noise_sum(table, index, weight, out) is out
    assert bits(out) == want
    for isa in available():
        assert bits(noise_sum(table, index, weight, np.empty(D, np.float32), isa=isa)) == want
    assert bits(noise_sum(made, index, weight, np.empty(D, np.float32))) == want
    assert bits(noise_sum(table, index, weight, np.empty(D, np.float32), blas="reference")) == want


@pytest.mark.parametrize("d", SIZES[1:])
@settings(examples, max_examples=10)
@given(st.integers(1, 150), st.integers(0, 2**32), st.data())
def test_any_sum_equals_the_reference(d, p, seed, data):
    noise = Noise(seed, d + 100)
    index, weight = pairs(p, seed, d + 100, d)
    zero = data.draw(st.lists(st.integers(0, p - 1), max_size=p))
    weight = weight.copy()
    weight[zero] = 0
    want = bits(reference.noise_sum(noise.fill(size=d + 100), index, weight, d))
    for blas in ("none", "reference"):
        assert bits(noise_sum(noise, index, weight, np.empty(d, np.float32), blas=blas)) == want


def test_scipy_blas_agrees_to_rounding(table):
    index, weight = pairs(500, 1)
    ours = noise_sum(table, index, weight, np.empty(D, np.float32))
    theirs = noise_sum(table, index, weight, np.empty(D, np.float32), blas="scipy")
    rows = table.fill(size=SIZE).astype(float)
    exact = sum(w * rows[int(i) :][:D] for i, w in zip(index, weight.astype(float), strict=True))
    scale = np.linalg.norm(weight)
    assert np.abs(ours - exact).max() < 2e-6 * scale
    assert np.abs(theirs - exact).max() < 2e-6 * scale


@pytest.mark.parametrize("blas", ["none", "reference", "scipy"])
@pytest.mark.parametrize("stored", [True, False])
def test_any_split_gives_the_same_bits(made, table, blas, stored):
    noise = table if stored else made
    index, weight = pairs(130, 3)
    whole = noise_sum(noise, index, weight, np.empty(D, np.float32), blas=blas)
    for cuts in ([0, D], [0, TILE, D], [0, 2 * TILE, D], [0, TILE, 2 * TILE, D]):
        parts = np.full(D, np.nan, np.float32)
        ranges = list(pairwise(cuts))
        for begin, end in reversed(ranges):
            noise_sum(noise, index, weight, parts, begin, end, blas=blas)
        assert bits(parts) == bits(whole)


def test_a_range_writes_its_columns_only(table):
    index, weight = pairs(130, 3)
    whole = noise_sum(table, index, weight, np.empty(D, np.float32))
    part = np.full(D, 7, np.float32)
    noise_sum(table, index, weight, part, TILE, TILE + 9)
    assert bits(part[TILE : TILE + 9]) == bits(whole[TILE : TILE + 9])
    assert (part[:TILE] == 7).all()
    assert (part[TILE + 9 :] == 7).all()


def test_blocks_add_up_as_siblings(table):
    """Sums of aligned runs of blocks, added pairwise, are the whole: nodes may share the work."""
    index, weight = pairs(4 * BLOCK, 9)

    def part(first, count):
        at = slice(first * BLOCK, (first + count) * BLOCK)
        return noise_sum(table, index[at], weight[at], np.empty(D, np.float32))

    whole = bits(part(0, 4))
    assert bits(part(0, 2) + part(2, 2)) == whole
    assert bits((part(0, 1) + part(1, 1)) + (part(2, 1) + part(3, 1))) == whole


def test_bad_arguments_are_named(made):
    index, weight = np.zeros(3, np.uint64), np.zeros(3, np.float32)
    out = np.zeros(9, np.float32)
    check_refused(centered_ranks, "values", np.zeros(3), free=(0,))
    check_refused(lambda a: noise_sum(made, a, weight, out), "index", index, free=(0,))
    check_refused(lambda a: noise_sum(made, index, a, out), "weight", weight)
    check_refused(lambda a: noise_sum(made, index, weight, a), "out", out, free=(0,), write=True)
    for begin, end in [(1, 9), (-TILE, 9), (0, 10), (TILE, 9), (0, -1), (0, 2**64)]:
        with pytest.raises(ValueError, match=rf"^\[begin, end\) must lie in .*got \[{begin}, "):
            noise_sum(made, index, weight, out, begin, end)
    with pytest.raises(ValueError, match=rf"^index must be in \[0, {SIZE - 9}\], got {SIZE - 8}"):
        noise_sum(made, index + np.uint64(SIZE - 8), weight, out)
    with pytest.raises(ValueError, match=rf"^out must have at most {SIZE} elements, .*{SIZE + 1}"):
        noise_sum(made, index, weight, np.zeros(SIZE + 1, np.float32))
    with pytest.raises(ValueError, match=r"^blas must be 'none', .* got 'mkl'"):
        noise_sum(made, index, weight, out, blas="mkl")
    with pytest.raises(ValueError, match=r"^weight and out must not overlap"):
        noise_sum(made, index, out[:3], out)
    with pytest.raises(TypeError, match="noise"):
        noise_sum(None, index, weight, out)


# What the estimate is for


def estimate(noise, fitness, theta, stdev, p, seed):
    """The mirrored estimate of the gradient of a fitness."""
    d = len(theta)
    index = np.array([noise.index(seed, k, 0, d) for k in range(p)], np.uint64)
    both = [noise.perturb(theta, int(i), stdev) for i in index]
    weight = np.array([fitness(plus) - fitness(minus) for plus, minus in both])
    weight = (weight / (2 * stdev * p)).astype(np.float32)
    return noise_sum(noise, index, weight, np.empty(d, np.float32)).astype(float), index, weight


def test_a_linear_fitness_is_climbed():
    noise, rng = Noise(5, 10**7), np.random.default_rng(5)
    c, theta = rng.normal(size=10), rng.normal(size=10).astype(np.float32)
    found, index, weight = estimate(noise, lambda x: c @ x, theta, 0.1, 4000, 6)
    # The estimate is c plus noise of standard deviation |c| / sqrt(P) in each element.
    assert np.abs(found - c).max() < 5 * np.linalg.norm(c) / np.sqrt(4000)
    assert c @ found / np.linalg.norm(c) / np.linalg.norm(found) > 0.99
    swapped = noise_sum(noise, index, -weight, np.empty(10, np.float32))
    assert np.array_equal(swapped, -found.astype(np.float32))


def test_a_quadratic_fitness_is_unbiased():
    noise, rng = Noise(7, 10**7), np.random.default_rng(7)
    target, theta = rng.normal(size=6), rng.normal(size=6).astype(np.float32)
    exact = -2 * (theta - target)
    each = np.array(
        [
            estimate(noise, lambda x: -((x - target) ** 2).sum(), theta, 0.3, 50, seed)[0]
            for seed in range(60)
        ]
    )
    error = (each.mean(0) - exact) / (each.std(0, ddof=1) / np.sqrt(len(each)))
    assert np.abs(error).max() < 4
