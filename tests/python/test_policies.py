import numpy as np
import pytest
from rollmill import MLP
from rollmill._stats import stats_merge


def reference(policy, x):
    """The network in NumPy, float64."""
    weights = policy.get_weights()
    x = np.asarray(x, np.float64)
    layers = len(policy.kernel.widths) - 1
    for i in range(layers):
        name = "logits" if i == layers - 1 else f"hidden_{i}"
        x = x @ weights[f"{name}/kernel"].astype(float) + weights[f"{name}/bias"]
        if i < layers - 1:
            x = np.tanh(x) if policy.kernel.activation == "tanh" else np.maximum(x, 0)
    return x


def filled(*args, seed=0, **kwargs):
    policy = MLP(*args, **kwargs)
    policy.theta = np.random.default_rng(seed).standard_normal(policy.num_params, np.float32)
    return policy


@pytest.mark.parametrize("widths", [(3, 2), (4, 8, 3), (5, 7, 9, 2)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_logits_are_the_networks(widths, activation):
    policy = filled(widths, activation)
    x = np.random.default_rng(1).standard_normal((11, widths[0]))
    np.testing.assert_allclose(policy.logits(x), reference(policy, x), rtol=2e-4, atol=2e-5)
    assert (policy.compute_actions(x) == policy.logits(x).argmax(1)).all()


def test_one_hot_observations_are_rows():
    policy = filled((6, 8, 4), one_hot=True)
    np.testing.assert_allclose(
        policy.logits(np.arange(6)), reference(policy, np.eye(6)), rtol=2e-4, atol=2e-5
    )
    assert policy.compute_single_action(3) == policy.compute_actions(np.array([3]))[0]


def test_every_parameter_acts():
    """No parameter is perturbed in vain: each changes an output."""
    policy = filled((3, 4, 2))
    x = np.random.default_rng(2).standard_normal((5, 3))
    before = policy.logits(x)
    for i in range(policy.num_params):
        theta = policy.theta.copy()
        policy.theta = theta.copy()
        policy.theta[i] += 1
        assert not np.array_equal(policy.logits(x), before), i
        policy.theta = theta
    assert policy.num_params == 3 * 4 + 4 + 4 * 2 + 2


def test_layers_cover_the_vector_once():
    policy = MLP((25, 64, 32, 4))
    covered = np.zeros(policy.num_params, int)
    for where, shape in policy.layers.values():
        covered[where] += 1
        assert where.stop - where.start == np.prod(shape)
    assert (covered == 1).all()


def test_weights_go_round():
    policy = filled((3, 4, 2))
    weights = policy.get_weights()
    assert list(weights) == ["hidden_0/kernel", "hidden_0/bias", "logits/kernel", "logits/bias"]
    other = MLP((3, 4, 2))
    other.set_weights(weights)
    assert np.array_equal(other.theta, policy.theta)
    other.set_weights(np.zeros(policy.num_params))
    assert not other.theta.any()
    other.set_weights({"logits/bias": [1, 2]})
    assert (other.theta != 0).sum() == 2
    weights["logits/bias"][:] = 9  # a copy
    assert not (policy.get_weights()["logits/bias"] == 9).any()


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"logits/bais": [1, 2]}, 'unknown layer "logits/bais". Did you mean "logits/bias"'),
     ({"logits/bias": [1]}, r"logits/bias must have shape \(2,\), got \(1,\)"),
     ({"logits/bias": [1, np.nan]}, "logits/bias must be finite"),
     ({"logits/bias": [9, 9], "hidden_0/bias": [np.inf] * 4}, "hidden_0/bias must be finite"),
     (np.zeros(3), r"theta must have shape \(26,\)")],
)  # fmt: skip
def test_refused_weights_change_nothing(weights, message):
    policy = filled((3, 4, 2))
    before = policy.theta.copy()
    with pytest.raises(ValueError, match=message):
        policy.set_weights(weights)
    assert np.array_equal(policy.theta, before)


def test_the_filter_is_used_and_not_changed():
    policy = filled((2, 3))
    raw = np.random.default_rng(3).normal(1e4, 1, (50, 2))
    stats = np.concatenate([[50], raw.mean(0), ((raw - raw.mean(0)) ** 2).sum(0)])
    policy.stats = stats.copy()
    x = (raw - raw.mean(0)) / raw.std(0, ddof=1)
    np.testing.assert_allclose(policy.logits(raw), reference(policy, x), rtol=1e-3, atol=1e-4)
    policy.compute_single_action(raw[0])
    assert np.array_equal(policy.stats, stats)


def test_an_empty_filter_is_none():
    policy = filled((2, 3))
    x = np.array([[0.5, -2.0]])
    plain = policy.logits(x)
    policy.stats = np.zeros(5)
    assert np.array_equal(policy.logits(x), plain)
    stats_merge(policy.stats, np.array([[0.0, 0, 0, 0, 0]]))
    assert np.array_equal(policy.logits(x), plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, bool])
def test_box_observations_of_any_dtype_and_layout(dtype):
    policy = filled((4, 3))
    x = np.array([[1, 0, 1, 1], [0, 1, 0, 1]], dtype)
    expected = policy.logits(x.astype(np.float32))
    assert np.array_equal(policy.logits(np.asfortranarray(x)), expected)
    assert np.array_equal(policy.logits(x.reshape(2, 2, 2)), expected)
    assert np.array_equal(policy.logits(x.tolist()), expected)
    assert policy.compute_single_action(x[0]) == expected[0].argmax()


@pytest.mark.parametrize(
    "obs",
    [np.zeros(4), np.zeros((2, 3)), np.zeros((0, 3)), 1.0, [[np.nan] * 4], [[np.inf] * 4],
     [["a"] * 4], np.zeros((2, 4, 2))],
)  # fmt: skip
def test_box_observations_that_do_not_fit(obs):
    with pytest.raises((ValueError, TypeError)):
        filled((4, 3)).compute_actions(obs)


@pytest.mark.parametrize("obs", [[-1], [6], [1.5], [[1]], 1, ["a"], [np.nan], np.uint64([1])])
def test_index_observations_that_do_not_fit(obs):
    with pytest.raises((ValueError, TypeError)):
        filled((6, 3), one_hot=True).compute_actions(obs)


def test_no_observations_no_actions():
    assert filled((6, 3), one_hot=True).compute_actions(np.zeros(0, int)).shape == (0,)


def test_ties_go_to_the_first_action():
    assert MLP((3, 4)).compute_single_action([1.0, 2.0, 3.0]) == 0


def test_parameters_that_are_not_finite_or_of_another_shape_are_refused():
    policy = MLP((3, 4))
    for theta in (np.zeros(5, np.float32), np.zeros(16)):
        policy.theta = theta
        with pytest.raises(ValueError, match="theta"):
            policy.compute_single_action([1.0, 2.0, 3.0])


def test_summary():
    lines = MLP((25, 64, 4)).summary().splitlines()
    assert lines[0].split() == ["layer", "shape", "parameters"]
    assert lines[1].split() == ["hidden_0/kernel", "(25,", "64)", "1600"]
    assert lines[-1].split() == ["total", str(25 * 64 + 64 + 64 * 4 + 4)]


@pytest.mark.parametrize("widths", [(3,), (), (3, 0), (-1, 2), (3, 65537), (1,) * 10])
def test_widths_that_do_not_fit(widths):
    with pytest.raises(ValueError, match="widths"):
        MLP(widths)


def test_unknown_activation():
    with pytest.raises(ValueError, match="activation"):
        MLP((3, 2), "sigmoid")
