"""Results on disk hold each iteration once, whatever moment a run is killed at."""

import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rollmill.results import (
    OutputError,
    ResultWriter,
    flatten,
    from_exact,
    json_dumps,
    json_loads,
    pretty_print,
    read_results,
    to_exact,
    to_plain,
)

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
runs = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c/d", "é,\n"]), values), max_size=6)


def numbered(rows):
    return [{"training_iteration": i, **row} for i, row in enumerate(rows, 1)]


def write(directory, rows, **options):
    with ResultWriter(directory, **options) as writer:
        for row in rows:
            writer.write(row)


def files(directory):
    return {
        name: (pathlib.Path(directory) / name).read_bytes()
        for name in ("result.json", "progress.csv")
    }


def table(directory):
    with open(os.path.join(directory, "progress.csv"), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# Plain values


def test_numpy_values_become_plain():
    value = {
        "f": np.float32(0.1),
        "l": np.longdouble(2),
        "i": np.uint64(2**64 - 1),
        "b": np.bool_(True),
        "s": np.str_("x"),
        "a": np.arange(4, dtype=np.int8).reshape(2, 2),
        "z": np.array(3.0),
        "t": (1, [np.int64(2)]),
        "p": pathlib.PurePosixPath("/a/b"),
        "n": None,
    }
    result = to_plain(value)
    assert result == {
        "f": float(np.float32(0.1)),
        "l": 2.0,
        "i": 2**64 - 1,
        "b": True,
        "s": "x",
        "a": [[0, 1], [2, 3]],
        "z": 3.0,
        "t": [1, [2]],
        "p": "/a/b",
        "n": None,
    }
    assert {type(item) for item in result.values()} <= {float, int, bool, str, list, type(None)}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": {"b": {1}}}, "result/a/b is of type set"),
        ({"a": {1: 2}}, "result/a has the key 1, wanted keys of type str"),
        ({"a": 1j}, "result/a is of type complex"),
        ({"a": b"x"}, "result/a is of type bytes"),
        ({"a": np.array(["2020"], "M8[s]")}, "result/a is of type datetime"),
        ({"a": len}, "result/a is of type builtin_function_or_method"),
    ],
)
def test_other_types_are_refused_by_name(value, sentence):
    with pytest.raises(TypeError, match=sentence):
        to_plain(value, "result")


@settings(deadline=None)
@given(plain)
def test_json_is_strict_ascii_and_one_line(value):
    text = json_dumps(value)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    json_loads(text)


def test_numbers_that_are_not_finite_are_null():
    assert json_dumps({"a": [math.nan, np.inf, -math.inf, 1.5]}) == '{"a": [null, null, null, 1.5]}'


@settings(deadline=None)
@given(plain)
def test_exact_json_keeps_every_value(value):
    assume("$float" not in str(value))
    back = from_exact(json_loads(json.dumps(to_exact(value), allow_nan=False)))
    assert repr(back) == repr(value)


def test_the_reserved_key_is_refused():
    with pytest.raises(ValueError, match=r'value/a has the key "\$float", which is reserved'):
        to_exact({"a": {"$float": 1}})


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": 1, "a": 1}', "[" * 100_000, "{", ""])
def test_loose_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        json_loads(text)


# Writing


@settings(max_examples=50, deadline=None)
@given(runs)
def test_both_files_hold_every_row(rows):
    rows = numbered(rows)
    with tempfile.TemporaryDirectory() as directory:
        write(directory, rows)
        assert read_results(directory) == [json.loads(json_dumps(row)) for row in rows]
        cells = table(directory)
        assert [int(row["training_iteration"]) for row in cells] == list(range(1, len(rows) + 1))
        for row, cell in zip(rows, cells, strict=True):
            for key in ("a", "b", "c/d"):
                value = row.get(key)
                if value is None or (isinstance(value, float) and not math.isfinite(value)):
                    assert not cell.get(key)
                elif isinstance(value, float):
                    assert float(cell[key]) == value
        assert files(directory)["progress.csv"].count(b"\n") == (len(rows) + 1 if rows else 0)
        assert sorted(os.listdir(directory)) == ["progress.csv", "result.json"]


@settings(max_examples=50, deadline=None)
@given(runs, st.data())
def test_resume_gives_the_files_of_a_run_that_was_never_cut(rows, data):
    rows = numbered(rows)
    done = data.draw(st.integers(0, len(rows)))
    keep = data.draw(st.integers(0, done))
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as cut:
        write(whole, rows)
        write(cut, rows[:done])
        for name in ("result.json", "progress.csv"):  # a kill leaves any part of the last line
            path = os.path.join(cut, name)
            last = files(cut)[name].splitlines(keepends=True)[-1:] if keep < done else []
            os.truncate(
                path, os.path.getsize(path) - data.draw(st.integers(0, len(b"".join(last))))
            )
        write(cut, rows[keep:], resume_from=keep)
        assert files(cut)["result.json"] == files(whole)["result.json"]
        assert table(cut) == table(whole) or set(table(cut)[0]) == set(table(whole)[0])


def test_a_new_column_appears_in_the_header_at_once(tmp_path):
    with ResultWriter(tmp_path) as writer:
        writer.write({"training_iteration": 1, "a": 1})
        writer.write({"training_iteration": 2, "evaluation": {"mean": 5}})
        assert (tmp_path / "progress.csv").read_text() == (
            "training_iteration,a,evaluation/mean\n1,1,\n2,,5\n"
        )
        writer.write({"training_iteration": 3, "a": 2})
    assert (tmp_path / "progress.csv").read_text().endswith("\n2,,5\n3,2,\n")


def test_a_new_run_starts_the_files_anew(tmp_path):
    write(tmp_path, numbered([{"a": 1}] * 3))
    write(tmp_path, numbered([{"b": 1}]))
    assert read_results(tmp_path) == [{"training_iteration": 1, "b": 1}]
    assert (tmp_path / "progress.csv").read_text() == "training_iteration,b\n1,1\n"


def test_each_line_is_on_disk_when_write_returns(tmp_path):
    with ResultWriter(tmp_path) as writer:
        for i in (1, 2):
            writer.write({"training_iteration": i})
            assert len(read_results(tmp_path)) == len(table(tmp_path)) == i


def test_a_broken_line_is_left_out_with_a_warning(tmp_path):
    (tmp_path / "result.json").write_text(
        '{"training_iteration": 1}\nxx\n{"training_iteration": 2}'
    )
    with pytest.warns(UserWarning, match=r'line 2 of ".*result\.json" is no result'):
        assert [row["training_iteration"] for row in read_results(tmp_path)] == [1, 2]


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_deep_line_is_left_out_with_a_warning(tmp_path, depth):
    deep = '{"training_iteration": 2, "x": ' + "[" * depth + "]" * depth + "}"
    (tmp_path / "result.json").write_text(f'{{"training_iteration": 1}}\n{deep}\n')
    with pytest.warns(UserWarning, match=r"line 2 of .* is no result"):
        assert read_results(tmp_path) == [{"training_iteration": 1}]
    with pytest.warns(UserWarning, match=r"line 2 of .* is no result"):
        write(tmp_path, [{"training_iteration": 2}], resume_from=1)
    assert len(read_results(tmp_path)) == 2


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_results_that_are_no_file_are_told(tmp_path, make):
    path = tmp_path / "result.json"
    make(path)
    told = f'cannot read "{path}": not a regular file'
    with pytest.raises(OutputError) as e:
        read_results(tmp_path)
    assert str(e.value) == told
    with pytest.raises(OutputError) as e:
        ResultWriter(tmp_path, resume_from=1)
    assert str(e.value) == told


def test_rows_written_twice_are_read_once(tmp_path):
    text = "".join(f'{{"training_iteration": {i}, "n": {n}}}\n' for n, i in enumerate([1, 2, 3, 2]))
    (tmp_path / "result.json").write_text(text)
    assert [(row["training_iteration"], row["n"]) for row in read_results(tmp_path)] == [
        (1, 0),
        (2, 3),
    ]


@pytest.mark.parametrize("iteration", [None, 1, 2, "3", 3.0, True])
def test_iterations_must_go_up(tmp_path, iteration):
    with ResultWriter(tmp_path) as writer:
        writer.write({"training_iteration": 2})
        before = files(tmp_path)
        with pytest.raises(ValueError, match="training_iteration must be an int above 2, got"):
            writer.write({"training_iteration": iteration})
        assert files(tmp_path) == before


def test_a_refused_row_changes_nothing(tmp_path):
    with ResultWriter(tmp_path) as writer:
        writer.write({"training_iteration": 1})
        before = files(tmp_path)
        with pytest.raises(TypeError, match="result/a is of type set"):
            writer.write({"training_iteration": 2, "a": {1}})
        assert files(tmp_path) == before
        writer.write({"training_iteration": 2})
    assert len(read_results(tmp_path)) == 2


def test_missing_results_are_no_rows(tmp_path):
    assert read_results(tmp_path / "nowhere") == []


# A process that ends at any moment, and a disk that refuses

KILLED = """
import os, signal, sys
from rollmill import results
rows = [{"training_iteration": i, **({"late": 1} if i > 1 else {})} for i in range(1, 4)]
root = sys.argv[1]
point, status = 0, -1
while status != 0:
    point += 1
    directory = f"{root}/{point}"
    child = os.fork()
    if child == 0:
        left = point
        def count(frame, event, argument):
            global left
            if frame.f_code.co_filename != results.__file__:
                return None
            left -= event == "line"
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return count
        sys.settrace(count)
        with results.ResultWriter(directory) as writer:
            for row in rows:
                writer.write(row)
                with open(f"{root}/{point}.done", "a") as file:
                    file.write("x")
        sys.settrace(None)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    done = os.path.getsize(f"{root}/{point}.done") if os.path.exists(f"{root}/{point}.done") else 0
    kept = results.read_results(directory)
    assert kept in (rows[:done], rows[:done + 1]), (point, done, kept)
    with results.ResultWriter(directory, resume_from=done) as writer:
        for row in rows[done:]:
            writer.write(row)
    assert results.read_results(directory) == rows
    text = open(f"{directory}/progress.csv").read()
    assert text == "training_iteration,late\\n1,\\n2,1\\n3,1\\n", text
    assert sorted(os.listdir(directory)) == ["progress.csv", "result.json"]
print(point)
"""

FULL = """
import os, resource, sys
from rollmill.results import OutputError, ResultWriter, read_results
directory = sys.argv[1]
writer = ResultWriter(directory)
for i in (1, 2):
    writer.write({"training_iteration": i, "x": "y" * 300})
def files():
    return {name: open(f"{directory}/{name}").read() for name in os.listdir(directory)}
before = files()
for limit in (700, 1200):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for row in ({"x": "y" * 300}, {"x": "", "new": "y" * 400}):
        try:
            writer.write({"training_iteration": 3, **row})
            assert limit == 1200
            break
        except OutputError as error:
            print(error)
        assert files() == before
assert len(read_results(directory)) == 3
"""

FORBIDDEN = """
import os, sys
from rollmill.results import OutputError, ResultWriter
try:
    if os.geteuid() == 0:
        os.seteuid(65534)
except PermissionError:
    sys.exit(0)
try:
    ResultWriter(sys.argv[1])
except OutputError as error:
    print(error)
"""


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_killed_before_any_line_of_code_loses_no_written_row(tmp_path):
    assert int(run(KILLED, tmp_path)) > 100


def test_a_full_disk_changes_nothing_and_is_told(tmp_path):
    lines = run(FULL, tmp_path).splitlines()
    assert lines == [f'cannot write results to "{tmp_path}": File too large'] * 2


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError) as e:
            ResultWriter(path)
        assert str(e.value) == f'cannot write results to "{path}": Not a directory'


def test_a_directory_without_write_permission_is_told():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o555)
        answer = run(FORBIDDEN, directory)
        if answer == "":
            pytest.skip("root that may not change its user writes to any directory")
        assert answer == f'cannot write results to "{directory}": Permission denied\n'
        assert os.listdir(directory) == []


# Printing


def test_pretty_print_puts_the_known_keys_first():
    text = pretty_print(
        {
            "zeta": 1,
            "env_runners/episode_return_mean": np.float32(0.1),
            "alpha": True,
            "training_iteration": 10,
            "episode_reward_mean": 0.123456789,
            "env_runners": {"episode_len_mean": math.nan},
            "note": "a: b",
            "word": "yes",
            "list": [1, math.inf, "x"],
            "none": None,
        }
    )
    assert text == (
        "episode_reward_mean: 0.123457\n"
        "training_iteration: 10\n"
        "alpha: true\n"
        "env_runners:\n"
        "  episode_len_mean: .nan\n"
        "  episode_return_mean: 0.1\n"
        "list: [1, .inf, x]\n"
        "none: null\n"
        'note: "a: b"\n'
        'word: "yes"\n'
        "zeta: 1"
    )


@settings(deadline=None)
@given(st.dictionaries(st.text(), plain, max_size=5))
def test_pretty_print_takes_any_result(result):
    assert isinstance(pretty_print(result), str)


def test_flatten_joins_nested_names():
    assert flatten({"a": {"b": 1, "c": {"d": 2}}, "e/f": 3}) == {"a/b": 1, "a/c/d": 2, "e/f": 3}
