"""Observations and actions of every kind of space, against Gymnasium's own flattening."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from rollmill import MLP
from rollmill._policy import argmax, sample
from rollmill.envs.description import describe_spaces
from rollmill.envs.flatten import Actions, Observations
from rollmill.envs.old_style import as_space

shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
numbers = st.integers(1, 5)


def box(shape, dtype):
    low, high = (0, 200) if np.dtype(dtype).kind == "u" else (-3, 4)
    return spaces.Box(low, high, shape, dtype)


leaves = st.one_of(
    st.builds(lambda n, start: spaces.Discrete(n, start=start), numbers, st.integers(-3, 3)),
    st.builds(lambda shape, n: spaces.MultiDiscrete(np.full(shape or (1,), n)), shapes, numbers),
    st.lists(numbers, min_size=1, max_size=4).map(
        lambda nvec: spaces.MultiDiscrete(nvec, start=list(range(len(nvec))))
    ),
    st.one_of(numbers, shapes.filter(len)).map(spaces.MultiBinary),
    st.builds(box, shapes, st.sampled_from(
        [np.uint8, np.int32, np.int64, np.float32, np.float64])),
)  # fmt: skip
every = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("cab"), parts, min_size=1, max_size=3).map(spaces.Dict),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(every, st.integers(0, 2**31))
def test_observations_lie_as_gymnasium_flattens_them(space, seed):
    space.seed(seed)
    ours = Observations(space)
    assert ours.size == spaces.flatdim(space)
    out = np.full(ours.size, np.nan)
    for _ in range(3):  # a vector is written over again and again
        observation = space.sample()
        ours.write(observation, out)
        np.testing.assert_array_equal(out, spaces.flatten(space, observation))


@settings(max_examples=150, deadline=None)
@given(every, st.integers(0, 2**31))
def test_actions_are_those_that_gymnasium_unflattens(space, seed):
    """An action is made of its own flat vector again, and is in its space."""
    space.seed(seed)
    ours = Actions(space)
    assert ours.size == spaces.flatdim(space)
    wanted = [space.sample() for _ in range(3)]
    outputs = np.array([spaces.flatten(space, action) for action in wanted], np.float32)
    for made, flat in zip(ours.make(outputs), outputs, strict=True):
        assert space.contains(made)
        np.testing.assert_array_equal(spaces.flatten(space, made), flat)
    wild = np.random.default_rng(seed).standard_normal((4, ours.size)).astype(np.float32) * 1e3
    units = np.random.default_rng(seed).random((4, ours.draws), np.float32)
    for some in (ours.make(wild), ours.make(wild, units)):
        assert all(space.contains(action) for action in some)


def test_choices_are_the_kernels_arg_max_or_draws():
    space = spaces.MultiDiscrete([3, 2], start=[5, 0])
    outputs = np.array([[1, 1, 0, -2, -2], [0, 1, 2, 0, 1]], np.float32)
    assert np.array_equal(Actions(space).make(outputs), [[5, 0], [7, 1]])
    assert [argmax(row[:3]) for row in outputs] == [0, 2]
    units = np.array([[0.9, 0.2], [0.1, 0.7]], np.float32)
    made = Actions(space).make(outputs, units)
    for action, row, draws in zip(made, outputs, units, strict=True):
        assert action[0] - 5 == sample(row[:3].copy(), float(draws[0]))
        assert action[1] == sample(row[3:].copy(), float(draws[1]))


def test_bits_are_drawn_by_the_logistic_probability():
    units = np.linspace(0, 1, 1000, endpoint=False, dtype=np.float32)[:, None]
    outputs = np.full((1000, 1), 1.0, np.float32)
    share = Actions(spaces.MultiBinary(1)).make(outputs, units).mean()
    assert abs(share - 1 / (1 + np.exp(-1))) < 2e-3


def test_boxes_are_clipped_and_whole_where_their_dtype_is():
    outputs = np.array([[-9, 0.6, 9]], np.float32)
    made = Actions(spaces.Box(-1, 2, (3,), np.float32)).make(outputs)
    assert made.dtype == np.float32
    assert made.tolist() == [[-1, np.float32(0.6), 2]]
    assert Actions(spaces.Box(-1, 2, (3,), np.int32)).make(outputs).tolist() == [[-1, 1, 2]]
    unbounded = Actions(spaces.Box(-np.inf, np.inf, (3,)))
    assert unbounded.make(outputs).tolist() == outputs.tolist()


@pytest.mark.parametrize("space", [
    spaces.Text(3), spaces.Sequence(spaces.Discrete(2)), spaces.OneOf([spaces.Discrete(2)]),
    spaces.Graph(spaces.Box(-1, 1, (2,)), None),
], ids=lambda space: type(space).__name__)  # fmt: skip
def test_spaces_without_a_vector_are_refused_by_name(space):
    nested = spaces.Dict(a=spaces.Discrete(2), b=space)
    for some in (space, nested):
        with pytest.raises(ValueError, match=f"{type(space).__name__} is not supported"):
            Observations(some)
        with pytest.raises(ValueError, match=f"action space {type(space).__name__}"):
            Actions(some)


def test_other_misfits_are_refused():
    with pytest.raises(ValueError, match="a choice between 1025 values: at most 1024"):
        Actions(spaces.Discrete(1025))
    with pytest.raises(ValueError, match="e: the observation space is empty"):
        describe_spaces("e", spaces.Dict({}), spaces.Discrete(2), 0)
    ours = Observations(spaces.Discrete(3, start=2))
    for wrong in (1, 5):
        with pytest.raises(ValueError, match="outside Discrete"):
            ours.index(wrong)
    out = np.zeros(4)
    with pytest.raises(ValueError, match=r"shape \(3,\), its space \(4,\)"):
        Observations(spaces.Box(-1, 1, (4,))).write(np.zeros(3), out)
    with pytest.raises(ValueError, match="outside MultiDiscrete"):
        Observations(spaces.MultiDiscrete([2, 2])).write([1, 2], out)
    with pytest.raises(KeyError):
        Observations(spaces.Dict(a=spaces.Box(-1, 1, (4,)))).write({}, out)


def test_layouts_pickle():
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3))
    for kind in (Observations, Actions):
        again = pickle.loads(pickle.dumps(kind(space)))
        assert (again.space, again.size) == (space, 5)


def test_a_policy_acts_on_spaces_with_parts():
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3, start=1))
    actions = spaces.Tuple([spaces.Discrete(2, start=4), spaces.Box(-1, 1, (2,))])
    policy = MLP.for_env(describe_spaces("e", space, actions, 0), (4,))
    assert policy.kernel.widths == (5, 4, 4)
    policy.theta = np.random.default_rng(0).standard_normal(policy.num_params, np.float32)
    observation = {"a": np.array([0.5, -0.5], np.float32), "b": 2}
    action = policy.compute_single_action(observation)
    assert actions.contains(action)
    flat = spaces.flatten(space, observation).astype(np.float32)
    outputs = policy.kernel.eval(policy.theta, x=flat[None])[0]
    assert action[0] == 4 + outputs[:2].argmax()
    np.testing.assert_array_equal(action[1], np.clip(outputs[2:], -1, 1))
    assert len(policy.compute_actions([observation] * 3)) == 3


def test_a_policy_acts_on_numbers_that_do_not_begin_at_0():
    spec = describe_spaces("e", spaces.Discrete(3, start=10), spaces.Discrete(2, start=7), 0)
    policy = MLP.for_env(spec, ())
    policy.theta[:] = [0, 1, 1, 0, 0, 1, 0, 0]
    assert policy.compute_actions([10, 11, 12]).tolist() == [8, 7, 8]
    assert policy.compute_single_action(11) == 7
    with pytest.raises(ValueError, match="outside Discrete"):
        policy.compute_single_action(0)


def test_spaces_of_other_packages_are_taken_by_their_names():
    class Space:
        def __init__(self, **attributes):
            self.__dict__.update(attributes)

    def named(name, **attributes):
        return type(name, (Space,), {})(**attributes)

    assert as_space(named("Discrete", num_actions=4)) == spaces.Discrete(4)
    low, high = np.zeros(2, np.float32), np.ones(2, np.float32)
    assert as_space(named("Box", low=low, high=high)) == spaces.Box(0, 1, (2,))
    pair = named("Tuple", spaces=[named("Discrete", n=2), named("MultiBinary", n=3)])
    assert as_space(pair) == spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(3)])
    nested = named("Dict", spaces={"a": named("MultiDiscrete", nvec=[2, 3])})
    assert as_space(nested) == gym.spaces.Dict(a=spaces.MultiDiscrete([2, 3]))
    with pytest.raises(TypeError, match="no space that is known"):
        as_space(named("Ring"))
