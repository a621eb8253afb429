import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from misfits import SIZES, bits, check_refused, read_only
from rollmill._optim import adam_step, clipup_step, sgd_step

examples = settings(deadline=None, derandomize=True, max_examples=60)
beta = st.floats(0, 1, exclude_max=True)


def vectors(d, seed, count):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=d).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("d", SIZES)
@settings(examples, max_examples=10)
@given(
    st.integers(0, 2**32),
    st.integers(1, 10_000),
    st.floats(-1, 1),
    beta,
    beta,
    st.floats(1e-12, 1),
    st.sampled_from([0.0, 0.01, 3.0]),
)
def test_adam_equals_the_reference(d, seed, t, stepsize, beta1, beta2, epsilon, decay):
    theta, m, v, gradient = vectors(d, seed, 4)
    v = np.abs(v)
    want = reference.adam(theta, m, v, gradient, t, stepsize, beta1, beta2, epsilon, decay)
    adam_step(theta, m, v, read_only(gradient), t, stepsize, beta1, beta2, epsilon, decay)
    assert [bits(a) for a in (theta, m, v)] == [bits(a) for a in want]


@pytest.mark.parametrize("d", SIZES)
@settings(examples, max_examples=10)
@given(st.integers(0, 2**32), st.floats(-1, 1), beta)
def test_sgd_equals_the_reference(d, seed, stepsize, momentum):
    theta, v, gradient = vectors(d, seed, 3)
    want = reference.sgd(theta, v, gradient, stepsize, momentum)
    sgd_step(theta, v, read_only(gradient), stepsize, momentum)
    assert [bits(a) for a in (theta, v)] == [bits(a) for a in want]


@pytest.mark.parametrize("d", SIZES)
@settings(examples, max_examples=10)
@given(st.integers(0, 2**32), st.floats(-1, 1), beta, st.floats(1e-3, 2))
def test_clipup_equals_the_reference(d, seed, stepsize, momentum, max_speed):
    theta, v, gradient = vectors(d, seed, 3)
    want = reference.clipup(theta, v, gradient, stepsize, max_speed, momentum)
    clipup_step(theta, v, read_only(gradient), stepsize, max_speed, momentum)
    assert [bits(a) for a in (theta, v)] == [bits(a) for a in want]


def test_clipups_speed_is_bounded_and_a_gradients_length_does_not_matter():
    theta, v, gradient = vectors(50, 1, 3)
    v[:] = 0
    for scale in (1e-30, 1.0, 1e30) * 10:
        before = theta.copy()
        clipup_step(theta, v, np.float32(scale) * gradient, 0.1, 0.15, 0.9)
        assert np.linalg.norm(theta - before) < 0.15 + 1e-5
    np.testing.assert_allclose(v, 0.15 * gradient / np.linalg.norm(gradient), rtol=1e-5)
    clipup_step(theta, v, np.zeros(50, np.float32), 0.1, 0.15, 0.5)
    assert np.linalg.norm(v) == pytest.approx(0.075)  # no gradient: it slows down


def test_adam_follows_its_paper():
    """Kingma and Ba's algorithm 1 in float64, with the epsilon of their section 2."""
    theta, gradient = vectors(50, 1, 2)
    exact, m64, v64 = theta.astype(float), np.zeros(50), np.zeros(50)
    m, v = np.zeros(50, np.float32), np.zeros(50, np.float32)
    for t in range(1, 101):
        gradient = np.sin(gradient + np.float32(t))
        m64 = 0.9 * m64 + 0.1 * gradient
        v64 = 0.999 * v64 + 0.001 * gradient.astype(float) ** 2
        rate = 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        exact -= rate * m64 / (np.sqrt(v64) + 1e-8)
        adam_step(theta, m, v, gradient, t, 0.01)
    np.testing.assert_allclose(theta, exact, atol=2e-5)


@pytest.mark.parametrize("step", ["adam", "sgd", "clipup"])
def test_all_minimise(step):
    target, theta, m, v = (np.zeros(9, np.float32) for _ in range(4))
    target += 3
    for t in range(1, 2001):
        if step == "adam":
            adam_step(theta, m, v, theta - target, t, 0.01)
        elif step == "clipup":
            clipup_step(theta, v, theta - target, 0.3 / t**0.5, 0.6 / t**0.5, 0.5)
        else:
            sgd_step(theta, v, theta - target, 0.01, 0.9)
    np.testing.assert_allclose(theta, target, atol=2e-2)


def test_no_gradient_makes_no_step():
    theta, m, v, gradient = (np.ones(4, np.float32), *(np.zeros(4, np.float32) for _ in range(3)))
    adam_step(theta, m, v, gradient, 1, 0.1, epsilon=1e-40)
    assert theta.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "bad",
    [
        {"t": 0},
        {"t": -1},
        {"t": 2**64},
        {"stepsize": np.nan},
        {"stepsize": np.inf},
        {"stepsize": 1e300},
        {"beta1": 1.0},
        {"beta1": -0.1},
        {"beta2": 1.0},
        {"beta2": np.nan},
        {"epsilon": 0.0},
        {"epsilon": 1e-60},
        {"epsilon": np.inf},
        {"weight_decay": -0.1},
        {"weight_decay": np.nan},
        {"weight_decay": 1e300},
    ],
)
def test_refused_adam_steps_change_nothing(bad):
    arrays = vectors(3, 1, 4)
    before = [bits(a) for a in arrays]
    with pytest.raises(ValueError, match=next(iter(bad))):
        adam_step(*arrays, **{"t": 1, "stepsize": 0.1, **bad})
    assert [bits(a) for a in arrays] == before


@pytest.mark.parametrize("bad", [{"stepsize": np.nan}, {"stepsize": 1e300}, {"momentum": 1.0}])
def test_refused_sgd_steps_change_nothing(bad):
    arrays = vectors(3, 1, 3)
    before = [bits(a) for a in arrays]
    with pytest.raises(ValueError, match=next(iter(bad))):
        sgd_step(*arrays, **{"stepsize": 0.1, **bad})
    assert [bits(a) for a in arrays] == before


@pytest.mark.parametrize(
    "bad",
    [{"stepsize": np.nan}, {"stepsize": 1e300}, {"momentum": 1.0}, {"max_speed": 0},
     {"max_speed": np.nan}, {"max_speed": 1e300}, {"gradient": np.nan}, {"gradient": np.inf}],
)  # fmt: skip
def test_refused_clipup_steps_change_nothing(bad):
    theta, v, gradient = vectors(3, 1, 3)
    gradient[1] = bad.get("gradient", 1)
    options = {key: value for key, value in bad.items() if key != "gradient"}
    before = [bits(a) for a in (theta, v)]
    with pytest.raises(ValueError, match=next(iter(bad))):
        clipup_step(theta, v, gradient, **{"stepsize": 0.1, "max_speed": 1.0, **options})
    assert [bits(a) for a in (theta, v)] == before


def test_bad_arrays_are_named():
    for count, step, names in (
        (4, lambda *a: adam_step(*a, 1, 0.1), ("theta", "m", "v", "gradient")),
        (3, lambda *a: sgd_step(*a, 0.1), ("theta", "v", "gradient")),
        (3, lambda *a: clipup_step(*a, 0.1, 0.2), ("theta", "v", "gradient")),
    ):
        for i, name in enumerate(names):
            good = vectors(5, 1, count)

            def call(array, i=i, step=step, good=good):
                step(*good[:i], array, *good[i + 1 :])

            # The first array sets the length, so another one that does not fit is named.
            check_refused(
                call, name, good[i].copy(), free=(0,) * (i == 0), write=name != "gradient"
            )
        good[1] = good[0]
        listed = ", ".join(names[:-1])
        with pytest.raises(ValueError, match=f"^{listed} and gradient must not overlap"):
            step(*good)
