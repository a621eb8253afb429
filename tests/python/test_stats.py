import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused, read_only
from rollmill._stats import stats_freeze, stats_merge, stats_push

examples = settings(deadline=None, derandomize=True, max_examples=60)


def observations(n, o, seed):
    rng = np.random.default_rng(seed)
    return read_only(rng.normal(rng.choice([0, 1e4, -3], o), rng.choice([1, 1e-3, 0], o), (n, o)))


def block_of(x):
    block = np.zeros(1 + 2 * x.shape[1])
    stats_push(block, x)
    return block


def whole(x):
    """The block by two passes in extended precision."""
    x = x.astype(np.longdouble)
    mean = x.mean(0)
    return np.concatenate([[len(x)], mean, ((x - mean) ** 2).sum(0)]).astype(float)


@pytest.mark.parametrize("n", SIZES)
@settings(examples, max_examples=10)
@given(st.integers(1, 9), st.integers(0, 2**32))
def test_pushes_equal_the_reference(n, o, seed):
    x = observations(n, o, seed)
    want = np.zeros(1 + 2 * o)
    for row in x[:100]:
        reference.stats_push(want, row)
    assert bits(block_of(x[:100])) == bits(want)


@pytest.mark.parametrize("n", [1, 2, 7, 1025, 20_000])
def test_a_large_mean_keeps_its_spread(n):
    x = observations(n, 5, 1) + 1e4
    np.testing.assert_allclose(block_of(x), whole(x), rtol=1e-9, atol=1e-9)


@examples
@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 99))
def test_any_partition_merges_to_the_single_pass(counts, o, seed):
    x = observations(sum(counts), o, seed)
    blocks = np.array([block_of(part) for part in np.split(x, np.cumsum(counts)[:-1])])
    merged, want = np.zeros(1 + 2 * o), np.zeros(1 + 2 * o)
    stats_merge(merged, read_only(blocks))
    for block in blocks:
        reference.stats_merge(want, block)
    assert bits(merged) == bits(want)
    once = block_of(x)
    assert merged[0] == once[0]
    np.testing.assert_allclose(merged[1 : 1 + o], once[1 : 1 + o], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(merged[1 + o :], once[1 + o :], rtol=1e-9, atol=1e-12)


def test_empty_blocks_are_neutral():
    some, empty = block_of(observations(10, 3, 0)), np.zeros((2, 7))
    for blocks in (np.vstack([some[None], empty]), np.vstack([empty, some[None]])):
        total = np.zeros(7)
        stats_merge(total, blocks)
        assert bits(total) == bits(some)
    total = some.copy()
    stats_merge(total, np.empty((0, 7)))
    assert bits(total) == bits(some)
    total = np.zeros(7)
    stats_merge(total, empty)
    assert not total.any()


@examples
@given(st.integers(0, 50), st.integers(1, 9), st.integers(0, 2**32))
def test_the_filter_equals_the_reference(n, o, seed):
    block = read_only(block_of(observations(n, o, seed)))
    got, want = stats_freeze(block), reference.stats_freeze(block)
    assert bits(got) == bits(want)
    assert not np.may_share_memory(got[0], block)  # the frozen filter is no view of the running one


def test_the_filter_standardises_and_silences_constants():
    x = np.random.default_rng(1).normal([1e4, 0.0], [1, 1e-3], (500, 2))
    x = np.column_stack([x, np.full(500, 0.1)])
    mean, scale = stats_freeze(block_of(x))
    y = (x - mean) * scale
    np.testing.assert_allclose(y[:, :2].mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(y[:, :2].std(0, ddof=1), 1, rtol=1e-9)
    assert scale[2] == 0
    for n in (0, 1):
        mean, scale = stats_freeze(block_of(x[:n]))
        assert mean.tolist() == [0, 0, 0]
        assert scale.tolist() == [1, 1, 1]


def test_bad_arguments_are_named():
    x, blocks = np.zeros((2, 3)), np.zeros((2, 7))

    def push(a):
        return stats_push(a, x)

    check_refused(push, "stats", np.zeros(7), free=(0,), write=True)
    check_refused(lambda a: stats_push(np.zeros(7), a), "x", x, free=(0,))
    check_refused(lambda a: stats_merge(a, blocks), "stats", np.zeros(7), free=(0,), write=True)
    check_refused(lambda a: stats_merge(np.zeros(7), a), "blocks", blocks, free=(0,))
    check_refused(stats_freeze, "stats", np.zeros(7), free=(0,))
    for length in (0, 1, 2, 4):
        with pytest.raises(ValueError, match=rf"^stats must have shape \(1 \+ 2\*O,\), .*{length}"):
            stats_freeze(np.zeros(length))
    with pytest.raises(ValueError, match=r"^x must .* of shape \(N, 1\), got float64 of shape"):
        stats_push(np.zeros(3), x)
    with pytest.raises(ValueError, match=r"^stats and blocks must not overlap"):
        stats_merge(blocks[0], blocks)
    with pytest.raises(ValueError, match=r"^stats and x must not overlap"):
        stats_push(blocks[0], blocks.reshape(-1)[:3].reshape(1, 3))
