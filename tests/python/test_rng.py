import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused
from rollmill._isa import available
from rollmill._rng import STREAMS, block, derive, normal_fill, philox

examples = settings(deadline=None, derandomize=True, max_examples=60)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
stream = st.sampled_from(sorted(reference.STREAMS))


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, (2**32 - 1,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(key, counter, words):
    assert philox(key, *counter).tolist() == list(words)
    assert reference.philox(key, *counter).tolist() == list(words)


def test_streams_are_those_of_the_header():
    assert STREAMS == reference.STREAMS


@examples
@given(u64, u32, u32, u32, u32)
def test_philox_equals_the_reference(key, c0, c1, c2, c3):
    assert philox(key, c0, c1, c2, c3).tolist() == reference.philox(key, c0, c1, c2, c3).tolist()


@examples
@given(u64, stream, u32, u32, st.integers(0, 2**56 - 1))
def test_block_equals_the_reference(key, name, item, iteration, number):
    want = reference.block(key, name, item, iteration, number)
    assert block(key, name, item, iteration, number).tolist() == want.tolist()


@examples
@given(u64, u32)
def test_derived_keys_equal_the_reference(key, kind):
    assert derive(key, kind) == reference.derive(key, kind)


@pytest.mark.parametrize("size", [*SIZES, 63, 64, 65])
@settings(examples, max_examples=15)
@given(u64, stream, u32, u32, st.integers(0, 2**58 - 2000) | st.integers(0, 200))
def test_normals_equal_the_reference_in_every_build(size, key, name, item, iteration, start):
    want = bits(reference.normals(size, key, name, item, iteration, start))
    for isa in available():
        assert bits(normal_fill(key, name, item, iteration, start, size, isa=isa)) == want


def test_out_is_filled_and_returned():
    out = np.full(9, 7, np.float32)
    assert normal_fill(1, "init", 2, 3, 4, out=out) is out
    assert bits(out) == bits(normal_fill(1, "init", 2, 3, 4, 9))
    empty = np.empty(0, np.float32)
    assert normal_fill(1, "init", 2, 3, 4, out=empty) is empty


def test_the_last_normals_of_a_stream_are_reached():
    want = reference.normals(70, 5, "noise", start=2**58 - 70)
    assert bits(normal_fill(5, "noise", 0, 0, 2**58 - 70, 70)) == bits(want)


@pytest.mark.parametrize(
    ("start", "size"), [(2**58, 1), (2**58 - 1, 2), (-1, 1), (0, -1), (2**64, 0), (1, 2**64)]
)
def test_ranges_outside_a_stream_are_refused(start, size):
    with pytest.raises(ValueError, match=r"^start and size must be at least 0 .* got "):
        normal_fill(1, "noise", 0, 0, start, size)


def test_bad_arguments_are_named():
    check_refused(
        lambda out: normal_fill(1, "noise", 0, 0, 0, out=out),
        "out",
        np.empty(4, np.float32),
        free=(0,),
        write=True,
        optional=True,
    )
    with pytest.raises(ValueError, match=r"^stream must be one of noise, .*, got 'sound'"):
        block(1, "sound", 0, 0, 0)
    with pytest.raises(OverflowError):
        philox(2**64, 0, 0, 0, 0)
    with pytest.raises(OverflowError):
        philox(0, -1, 0, 0, 0)


# The kernels equal the reference bit for bit, so these bounds are the kernels'.


def spread(low, high, stride):
    """Every stride-th float32 in [low, high], 0 <= low."""
    first, last = (np.float32(x).view(np.uint32) for x in (low, high))
    return np.append(np.arange(first, last, stride, np.uint32), last).view(np.float32)


def test_log_keeps_its_bound():
    u = spread(2.0**-32, 1, 97)
    exact = np.log(u.astype(float))
    error = np.abs(reference.log_unit(u) - exact)
    inner = u < 0.999
    assert np.all(reference.log_unit(u) <= 0)
    assert (error[inner] / -exact[inner]).max() < 2e-7
    assert error[~inner].max() < 1e-10


def test_sine_and_cosine_keep_their_bounds():
    t = spread(0, 1, 97)
    angle = np.pi / 2 * t.astype(float)
    for half in (t, -t):
        assert np.abs(reference.cos_half_turn(half) - np.cos(angle)).max() < 2e-7
        assert np.abs(np.abs(reference.sin_half_turn(half)) - np.sin(angle)).max() < 2e-7


def test_normals_are_bounded():
    extremes = np.array([0, 1, 2, 2**31, 2**32 - 1], np.uint32)
    radius, angle = (a.ravel() for a in np.meshgrid(extremes, extremes))
    both = np.concatenate(reference.normal_pairs(radius, angle))
    assert np.isfinite(both).all()
    assert 6.6 < np.abs(both).max() <= 6.67


def test_integers_are_whole():
    assert normal_fill(1, "noise", 0, 0, np.int64(2), np.uint8(3)).shape == (3,)
    for start, size, name in ((0.5, 3, "start"), (0, 3.0, "size")):
        with pytest.raises(TypeError, match=rf"^{name} must be an integer, got "):
            normal_fill(1, "noise", 0, 0, start, size)
    for call, name in (
        (lambda: normal_fill(1, "noise", 0.5, 0, 0, 3), "item"),
        (lambda: philox(0, 0, 1.5, 0, 0), "c1"),
        (lambda: block(0, "noise", 0, 0, 1.0), "number"),
        (lambda: derive(1.5, 0), "key"),
    ):
        with pytest.raises(TypeError, match=rf"^{name} must be an integer, got "):
            call()
