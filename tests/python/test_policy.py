import pickle

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused, read_only
from rollmill._isa import available
from rollmill._policy import Network, argmax, sample, tanh

examples = settings(deadline=None, derandomize=True, max_examples=60)
width = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 65]) | st.integers(1, 40)
widths = st.lists(width, min_size=2, max_size=5).map(tuple)
activations = st.sampled_from(["tanh", "relu"])
logits = st.lists(
    st.floats(-30, 30, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -88.0]),
    min_size=1,
    max_size=12,
).map(lambda x: np.array(x, np.float32))


@examples
@given(widths, activations, st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_networks_equal_the_reference_in_every_build(shape, activation, key, rows):
    network = Network(shape, activation)
    theta = read_only(reference.normals(network.num_params, key, "replay"))
    x = read_only(reference.normals(rows * shape[0], key, "init").reshape(rows, shape[0]))
    index = read_only(np.arange(rows, dtype=np.int64) * 3 % shape[0])
    dense = [reference.forward(shape, activation, theta, row) for row in x]
    hot = [reference.forward(shape, activation, theta, int(i)) for i in index]
    for isa in available():
        assert bits(network.eval(theta, x, isa=isa)) == bits(np.array(dense, np.float32))
        assert bits(network.eval(theta, index=index, isa=isa)) == bits(np.array(hot, np.float32))


@pytest.mark.parametrize("rows", SIZES)
def test_a_row_does_not_depend_on_its_batch(rows):
    network = Network((5, 17, 3))
    theta = network.init(1)
    x = reference.normals(rows * 5, 2, "init").reshape(rows, 5)
    out = np.empty((rows, 3), np.float32)
    assert network.eval(theta, x, out=out) is out
    for i in range(0, rows, 100):
        assert bits(out[i]) == bits(network.eval(theta, x[i : i + 1]))


def test_one_hot_rows_are_looked_up():
    network = Network((25, 64, 4))
    theta = network.init(1)
    dense = network.eval(theta, np.eye(25, dtype=np.float32))
    assert np.array_equal(network.eval(theta, index=np.arange(25)), dense)


@examples
@given(widths, st.integers(0, 2**64 - 1))
def test_first_parameters_equal_the_reference(shape, key):
    network = Network(shape)
    assert network.num_params == reference.num_params(shape)
    for isa in available():
        assert bits(network.init(key, isa=isa)) == bits(reference.init(shape, key))


def test_a_network_tells_its_shape_and_pickles():
    network = Network((3, 5, 2), "relu")
    for one in (network, pickle.loads(pickle.dumps(network))):
        assert (one.widths, one.activation, one.num_params) == ((3, 5, 2), "relu", 32)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((3,), r"^widths must have 2 to 9 numbers, got 1"),
        ((3,) * 10, r"^widths must have 2 to 9 numbers, got 10"),
        ((3, 0), r"^widths must be in \[1, 65536\], got 0"),
        ((-1, 3), r"^widths must be in \[1, 65536\], got -1"),
        ((65537, 3), r"^widths must be in \[1, 65536\], got 65537"),
    ],
)
def test_bad_shapes_are_refused(shape, text):
    with pytest.raises(ValueError, match=text):
        Network(shape)


def test_bad_arguments_are_named():
    network = Network((3, 2))
    theta, x = np.zeros(8, np.float32), np.zeros((2, 3), np.float32)
    index, out = np.zeros(2, np.int64), np.zeros((2, 2), np.float32)
    check_refused(lambda a: network.eval(a, x), "theta", theta)
    check_refused(lambda a: network.eval(theta, a), "x", x, free=(0,), optional=True)
    check_refused(lambda a: network.eval(theta, index=a), "index", index, free=(0,), optional=True)
    check_refused(lambda a: network.eval(theta, x, out=a), "out", out, optional=True, write=True)
    check_refused(lambda a: argmax(a), "logits", np.zeros(3, np.float32), free=(0,))
    check_refused(lambda a: sample(a, 0.5), "logits", np.zeros(3, np.float32), free=(0,))
    check_refused(lambda a: tanh(a), "x", np.zeros(3, np.float32), free=(0,))
    with pytest.raises(TypeError, match="integer"):
        Network((3, 2.5))
    with pytest.raises(ValueError, match=r"^activation must be 'tanh' or 'relu', got 'gelu'"):
        Network((3, 2), "gelu")
    with pytest.raises(ValueError, match=r"^exactly one of x and index must be given"):
        network.eval(theta, x, index)
    with pytest.raises(ValueError, match=r"^exactly one of x and index must be given"):
        network.eval(theta)
    for bad in (3, -1):
        with pytest.raises(ValueError, match=rf"^index must be in \[0, 2\], got {bad}"):
            network.eval(theta, index=np.array([0, bad]))
    with pytest.raises(ValueError, match=r"^out and x must not overlap"):
        Network((2, 2)).eval(np.zeros(6, np.float32), out, out=out)
    with pytest.raises(ValueError, match=r"^out and theta must not overlap"):
        network.eval(theta, x, out=theta[:4].reshape(2, 2))
    with pytest.raises(ValueError, match=r"^logits must not be empty"):
        argmax(np.empty(0, np.float32))
    for count in (0, 1025):
        with pytest.raises(ValueError, match=rf"^logits must have 1 to 1024 .* got {count}"):
            sample(np.zeros(count, np.float32), 0.5)
    for unit in (-0.1, 1.0, 1 - 1e-12, np.nan):
        with pytest.raises(ValueError, match=r"^unit must be in \[0, 1\), got "):
            sample(np.zeros(3, np.float32), unit)


@pytest.mark.parametrize("size", SIZES)
@settings(examples, max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.01, 10))
def test_tanh_equals_the_reference_in_every_build(size, key, scale):
    x = read_only(reference.normals(size, key, "init") * np.float32(scale))
    for isa in available():
        assert bits(tanh(x, isa=isa)) == bits(reference.tanh(x))


def test_tanh_keeps_its_bound():
    x = np.arange(0, np.float32(10).view(np.uint32), 997, np.uint32).view(np.float32)
    x = np.concatenate([-x[::-1], x, np.array([np.inf, 3e38], np.float32)])
    exact = np.tanh(x.astype(float))
    error = np.abs(tanh(x) - exact)
    assert error.max() < 4e-7
    assert (error[exact != 0] / np.abs(exact[exact != 0])).max() < 4e-7
    assert np.isnan(tanh(np.array([np.nan], np.float32))).all()


@examples
@given(logits)
def test_argmax_equals_the_reference(values):
    assert argmax(values) == reference.argmax(values)
    if not np.isnan(values).all():
        assert argmax(values) == np.nanargmax(values)


@examples
@given(logits, st.integers(0, 2**24 - 1))
def test_samples_equal_the_reference(values, draw):
    unit = np.float32(draw) * np.float32(2.0**-24)
    action = sample(read_only(values), unit)
    assert action == reference.sample(values, unit)
    assert np.isnan(values).all() or not np.isnan(values[action])


def test_sampled_actions_follow_the_softmax():
    values = np.array([0.5, -1.0, np.nan, 2.0, -3.0], np.float32)
    probability = np.exp(values.astype(float))
    probability = np.nan_to_num(probability / np.nansum(probability))
    n = 20_000  # evenly spaced draws: counts are exact up to one
    actions = [sample(values, (i + 0.5) / n) for i in range(n)]
    assert np.abs(np.bincount(actions, minlength=5) - n * probability).max() <= 1


def test_exp_keeps_its_bound():
    # `sample` equals the reference bit for bit, so this is the kernel's bound.
    last = np.float32(87).view(np.uint32)
    x = -np.arange(0, last, 97, np.uint32).view(np.float32)
    exact = np.exp(x.astype(float))
    assert (np.abs(reference.exp_negative(x) - exact) / exact).max() < 2e-7
