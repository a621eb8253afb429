"""Training stops when any criterion is reached, and on nothing else."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollmill.stopping import StopCriteria, parse_stop

RESULT = {
    "training_iteration": 3,
    "timesteps_total": 3000,
    "episode_reward_mean": 0.5,
    "env_runners/episode_return_mean": 0.5,
    "done": False,
}
finite = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), finite),
    st.fixed_dictionaries(dict.fromkeys("abc", finite)),
)
def test_stops_when_any_number_reaches_its_bound(bounds, result):
    reached = StopCriteria(bounds).reached(result)
    assert (reached is not None) == any(result[key] >= bounds[key] for key in bounds)


def test_the_sentence_names_number_and_bound():
    stop = StopCriteria({"timesteps_total": 10_000, "training_iteration": 3})
    assert stop.reached(RESULT) == "training_iteration is 3, which reaches the stop criterion 3"


@pytest.mark.parametrize(
    "criteria",
    [
        {"env_runners": {"episode_return_mean": 0.5}},
        {"env_runners/episode_return_mean": 0.5},
    ],
)
@pytest.mark.parametrize("result", [RESULT, {"env_runners": {"episode_return_mean": 0.5}}])
def test_nested_dicts_and_slashes_name_the_same(criteria, result):
    stop = StopCriteria(criteria)
    assert stop == StopCriteria({"env_runners/episode_return_mean": 0.5})
    assert stop.reached(result).startswith("env_runners/episode_return_mean is 0.5")


def test_true_waits_for_a_flag():
    stop = StopCriteria({"done": True})
    assert stop.reached(RESULT) is None
    assert stop.reached({**RESULT, "done": True}) is not None
    assert stop.reached({**RESULT, "done": np.True_}) is not None


def test_nothing_and_nan_reach_nothing():
    stop = StopCriteria({"episode_reward_mean": -1e300})
    for value in (math.nan, -math.inf, None, np.float32("nan")):
        assert stop.reached({"episode_reward_mean": value}) is None
    assert stop.reached({"episode_reward_mean": math.inf}) is not None


def test_no_criteria_never_stop():
    stop = StopCriteria({})
    assert len(stop) == 0
    assert stop.reached(RESULT) is None
    assert stop.reached({}) is None


def test_unknown_name_is_an_error_at_the_first_result():
    with pytest.raises(ValueError, match=r"^unknown stop criterion \"episod_reward_mean\"\. ") as e:
        StopCriteria({"episod_reward_mean": 1}).reached(RESULT)
    assert 'Did you mean "episode_reward_mean"? Known: "training_iteration", ' in str(e.value)
    with pytest.raises(ValueError, match=r'unknown stop criterion "x"\. Known: "training_iter'):
        StopCriteria({"x": 1}).reached(RESULT)


def test_a_name_that_is_missing_later_reaches_nothing():
    stop = StopCriteria({"episode_reward_mean": 1})
    assert stop.reached(RESULT) is None
    assert stop.reached({"training_iteration": 4}) is None


def test_text_in_the_result_is_an_error():
    with pytest.raises(ValueError, match=r'stop criterion "a" needs a number in the result'):
        StopCriteria({"a": 1}).reached({"a": "one"})


@pytest.mark.parametrize(
    "bound", [math.nan, math.inf, -math.inf, False, None, "10", [1], np.float32("inf"), {1, 2}]
)
def test_bounds_must_be_finite_numbers_or_true(bound):
    with pytest.raises(ValueError, match=r'stop criterion "a" must be a finite number or True'):
        StopCriteria({"a": bound})


@pytest.mark.parametrize("criteria", [None, 3, "a", ["a"], {1: 2}, {"": 1}])
def test_anything_but_a_mapping_of_names_is_refused(criteria):
    with pytest.raises(ValueError, match="stop"):
        StopCriteria(criteria)


def test_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match='stop criterion "a/b" is given twice'):
        StopCriteria({"a/b": 1, "a": {"b": 2}})


def test_numpy_bounds_and_large_ints_are_exact():
    stop = StopCriteria({"a": np.int64(2**62 + 1)})
    assert stop.reached({"a": 2**62}) is None
    assert stop.reached({"a": 2**62 + 1}) is not None
    assert StopCriteria({"a": 10**400}).reached({"a": 1e308}) is None


def test_the_command_line_form():
    stop = parse_stop('{"timesteps_total": 10000, "env_runners": {"episode_return_mean": 1.5}}')
    assert stop.criteria == {"timesteps_total": 10000, "env_runners/episode_return_mean": 1.5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "timesteps_total=3",
        "[1]",
        "3",
        "null",
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "[" * 5000,
    ],
)
def test_malformed_json_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="stop must be a JSON object such as") as e:
        parse_stop(text)
    assert len(str(e.value).splitlines()) == 1
    assert len(str(e.value)) < 300


def test_numbers_beyond_float_are_refused():
    with pytest.raises(ValueError, match="finite"):
        parse_stop('{"a": 1e999}')


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_criteria_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        assert isinstance(parse_stop(text), StopCriteria)
