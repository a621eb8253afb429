"""Unknown names are answered with the nearest one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollmill.names import listed, nearest, quoted, unknown

OPTIONS = ["episodes_per_batch", "train_batch_size", "noise_stdev", "stepsize"]


def test_nearest_name_is_suggested():
    assert nearest("epsiodes_per_batch", OPTIONS) == ' Did you mean "episodes_per_batch"?'
    assert unknown("option", "epsiodes_per_batch", OPTIONS) == (
        'unknown option "epsiodes_per_batch". Did you mean "episodes_per_batch"?'
    )


@pytest.mark.parametrize("name", ["NOISE_STDEV", "noise-stdev", "Noise-Stdev"])
def test_case_and_dashes_do_not_count(name):
    assert nearest(name, OPTIONS) == ' Did you mean "noise_stdev"?'


def test_nothing_near_lists_the_known():
    assert nearest("zzz", OPTIONS) == ""
    assert unknown("engine", "zzz", ["ray", "threads"]) == (
        'unknown engine "zzz". Known: "ray", "threads".'
    )
    assert unknown("engine", "zzz", []) == 'unknown engine "zzz".'


def test_long_lists_are_cut():
    assert listed(str(i) for i in range(9)) == '"0", "1", "2", "3", "4", "5" and 3 more'


def test_other_types_are_compared_by_their_text():
    assert unknown("option", 5, ["50"]) == 'unknown option "5". Did you mean "50"?'
    assert unknown("option", None, ["a"]) == 'unknown option "None". Known: "a".'


@settings(deadline=None)
@given(st.text(), st.lists(st.text(max_size=20), max_size=10))
def test_the_sentence_is_one_line(name, choices):
    assert len(unknown("option", name, choices).splitlines()) == 1


@settings(deadline=None)
@given(st.sampled_from(OPTIONS), st.integers(0, 30))
def test_one_lost_letter_finds_the_name(name, at):
    at %= len(name)
    assert quoted(name) in nearest(name[:at] + name[at + 1 :], OPTIONS)
