import numpy as np
import pytest
from rollmill.optimizers import SGD, Adam, ClipUp, make_optimizer


def random(n, seed):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 1025])
def test_adam_is_the_papers(n):
    adam = Adam(n, stepsize=0.1, beta1=0.8, beta2=0.9, epsilon=1e-6)
    theta = expected = random(n, 0)
    m, v = np.zeros(n), np.zeros(n)
    for t in range(1, 6):
        gradient = random(n, t)
        theta = adam.update(theta, gradient)
        m = 0.8 * m + 0.2 * gradient
        v = 0.9 * v + 0.1 * gradient.astype(float) ** 2
        rate = 0.1 * np.sqrt(1 - 0.9**t) / (1 - 0.8**t)
        expected = expected - rate * m / (np.sqrt(v) + 1e-6)
        np.testing.assert_allclose(theta, expected, rtol=1e-3, atol=1e-5)
    assert adam.steps == 5


def test_sgd_is_the_docstrings():
    sgd = SGD(9, stepsize=0.1, momentum=0.7)
    theta = expected = random(9, 0)
    v = np.zeros(9)
    for t in range(1, 4):
        gradient = random(9, t)
        theta = sgd.update(theta, gradient)
        v = 0.7 * v + 0.3 * gradient
        expected = expected - 0.1 * v
        np.testing.assert_allclose(theta, expected, rtol=1e-4, atol=1e-6)


def test_adamw_decays_the_weights():
    adam, adamw = Adam(9, stepsize=0.1), make_optimizer("adamw", 9, stepsize=0.1, weight_decay=0.5)
    theta = random(9, 0)
    difference = adam.update(theta, random(9, 1)) - adamw.update(theta, random(9, 1))
    np.testing.assert_allclose(difference, 0.05 * theta, atol=1e-6)


def test_clipups_speed_is_twice_its_stepsize_unless_given():
    for clipup, speed in ((ClipUp(9, 0.1), 0.2), (ClipUp(9, 0.1, max_speed=0.11), 0.11)):
        theta = random(9, 0)
        for _ in range(30):
            before, theta = theta, clipup.update(theta, random(9, 1))
        assert np.linalg.norm(theta - before) == pytest.approx(speed, rel=1e-4)
    clipup = ClipUp(9, 0.1)
    clipup.stepsize = 0.05  # a schedule
    for _ in range(30):
        before, theta = theta, clipup.update(theta, random(9, 1))
    assert np.linalg.norm(theta - before) == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "clipup"])
def test_update_leaves_its_arguments_as_they_are(name):
    optimizer = make_optimizer(name, 5, stepsize=0.1)
    theta, gradient = random(5, 0), random(5, 1)
    theta.flags.writeable = gradient.flags.writeable = False
    new = optimizer.update(theta, gradient)
    assert not np.shares_memory(new, theta)
    assert np.array_equal(theta, random(5, 0))
    assert (np.sign(theta - new) == np.sign(gradient)).all()  # it descends


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "clipup"])
def test_the_state_is_all_there_is(name):
    """An optimiser that takes over the state and the count goes on as the first one does."""
    one = make_optimizer(name, 5, stepsize=0.1)
    theta = one.update(random(5, 0), random(5, 1))
    two = make_optimizer(name, 5, stepsize=0.1)
    for key, array in two.state().items():
        array[:] = one.state()[key]
    two.steps = one.steps
    assert np.array_equal(one.update(theta, random(5, 2)), two.update(theta, random(5, 2)))


def test_unknown_optimizer():
    with pytest.raises(ValueError, match=r'unknown optimizer "adm". Did you mean "adam"'):
        make_optimizer("adm", 5, stepsize=0.1)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "clipup"])
def test_arrays_that_do_not_fit(name):
    optimizer = make_optimizer(name, 5, stepsize=0.1)
    with pytest.raises(ValueError, match="shape"):
        optimizer.update(random(5, 0), random(4, 0))
    with pytest.raises((ValueError, TypeError), match="gradient"):
        optimizer.update(random(5, 0), np.zeros(5))
