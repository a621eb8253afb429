"""A checkpoint is whole or refused, whatever happens while it is written or lies on disk."""

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rollmill import checkpoint as module
from rollmill.checkpoint import (
    Checkpoint,
    CheckpointError,
    as_checkpoint_path,
    checkpoint_name,
    find_resume,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from rollmill.results import OutputError

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
mappings = st.dictionaries(st.text(), plain, max_size=4)
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
arrays = hnp.arrays(
    st.sampled_from(DTYPES).map(np.dtype), hnp.array_shapes(min_dims=0, min_side=0, max_side=4)
)


def save(path, **changes):
    content = {
        "kind": "ES",
        "config": {"env": "rollmill/Maze-v0", "hidden": (32, 32)},
        "counters": {"training_iteration": 10, "timesteps_total": 2**63 + 1},
        "arrays": {"theta": np.arange(6, dtype=np.float32), "step": np.array(3, np.uint64)},
        "extra": {"best": -math.inf},
    }
    return save_checkpoint(path, **{**content, **changes})


def content(checkpoint):
    parts = {name: getattr(checkpoint, name) for name in ("kind", "config", "counters", "extra")}
    held = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in checkpoint.arrays.items()}
    return repr((parts, held))


def entry(directory):
    document = json.loads((pathlib.Path(directory) / "checkpoint.json").read_text())
    return next(iter(document["files"]))


# What is kept


@settings(max_examples=60, deadline=None)
@given(mappings, mappings, st.none() | mappings, st.dictionaries(names, arrays, max_size=3))
def test_everything_is_kept_bit_for_bit(config, counters, extra, arrays):
    assume("$float" not in str((config, counters, extra)))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "c")
        saved = save_checkpoint(
            path, kind="x", config=config, counters=counters, arrays=arrays, extra=extra
        )
        loaded = load_checkpoint(path)
        assert content(saved) == content(loaded)
        assert repr((loaded.config, loaded.counters, loaded.extra)) == repr(
            (config, counters, extra)
        )
        assert list(loaded.arrays) == sorted(arrays)
        for name, array in arrays.items():
            back = loaded.arrays[name]
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert back.tobytes() == array.tobytes()
            assert back.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::3],
        np.arange(6)[::-1],
        np.broadcast_to(np.float32(2), (3, 2)),
        np.arange(24, dtype="i2").reshape(2, 3, 4).transpose(2, 0, 1),
    ],
)
def test_strided_and_read_only_arrays_are_kept(tmp_path, array):
    array.flags.writeable = False
    back = save(tmp_path / "c", arrays={"a": array}).arrays["a"]
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype


def test_saving_does_not_keep_hold_of_the_arrays(tmp_path):
    theta = np.zeros(3)
    saved = save(tmp_path / "c", arrays={"theta": theta})
    theta += 1
    assert saved.arrays["theta"].tolist() == [0, 0, 0]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / name)
    for name in ("checkpoint.json", "arrays.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_document_is_strict_json(tmp_path):
    save(tmp_path / "c", extra={"nan": math.nan})
    text = (tmp_path / "c" / "checkpoint.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["extra"] == {"nan": {"$float": "nan"}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"config": {"env": len}}, "config/env is of type builtin_function_or_method"),
        ({"config": {1: 2}}, "config has the key 1, wanted keys of type str"),
        ({"config": [1]}, "config must be a mapping, got list"),
        ({"counters": {"n": 10**5000}}, "cannot keep this: .*digits"),
        ({"extra": {"$float": 1}}, 'extra has the key "\\$float", which is reserved'),
        ({"arrays": {"a": [1.0]}}, 'array "a" must be a NumPy array, got list'),
        ({"arrays": {"a": np.zeros(2, ">f4")}}, 'array "a" must be .* native byte order, got >f4'),
        ({"arrays": {"a": np.array([None])}}, 'array "a" must be of a bool, .*, got \\|O'),
        ({"arrays": {"a": np.zeros(2, "c8")}}, 'array "a" must be .*, got <c8'),
        ({"arrays": {"a": np.zeros(2, "f4,i4")}}, 'array "a" must be .*, got \\|V8'),
        ({"arrays": {"__metadata__": np.zeros(2)}}, "cannot be kept under the name '__metadata__'"),
        ({"arrays": {"\ud800": np.zeros(2)}}, "cannot be kept under the name"),
        ({"arrays": {"": np.zeros(2)}}, "cannot be kept under the name ''"),
        ({"kind": ""}, "kind must be a name, got ''"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(tmp_path, changes, sentence):
    with pytest.raises(CheckpointError, match=sentence):
        save(tmp_path / "c", **changes)
    assert os.listdir(tmp_path) == []


# Paths


def test_a_checkpoint_is_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved = save("runs/c/")
    assert str(saved) == f"{saved}" == os.fspath(saved) == str(tmp_path / "runs" / "c")
    assert content(load_checkpoint(saved)) == content(saved)


def test_paths_are_taken_from_what_save_functions_return(tmp_path):
    holder = types.SimpleNamespace(path=str(tmp_path))
    for value in (
        str(tmp_path),
        tmp_path,
        holder,
        types.SimpleNamespace(checkpoint=holder),
        Checkpoint(str(tmp_path), "", {}, {}, None, {}, 1, {}),
    ):
        assert as_checkpoint_path(value) == str(tmp_path)
    for value in (None, 3, "", types.SimpleNamespace(path=3), [str(tmp_path)]):
        with pytest.raises(CheckpointError, match=r"must be a path or an object with \.path, got"):
            as_checkpoint_path(value)


def test_links_to_the_directory_are_followed(tmp_path):
    save(tmp_path / "c")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    assert content(save(tmp_path / "link", kind="DQN")) == content(load_checkpoint(tmp_path / "c"))
    assert (tmp_path / "link").is_symlink()


def test_newest_is_the_highest_iteration(tmp_path):
    assert newest_checkpoint(tmp_path / "nowhere") is None
    assert newest_checkpoint(tmp_path) is None
    for iteration in (2, 1_000_000, 10, 999_999):
        save(tmp_path / checkpoint_name(iteration))
    for other in ("checkpoint_0", "checkpoint_00000000002000000", "checkpoint_final", ".x"):
        save(tmp_path / other)
    assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint_1000000")
    with pytest.raises(CheckpointError, match=r"no checkpoint\.json; it holds checkpoint_1000000"):
        load_checkpoint(tmp_path)


def test_newest_passes_over_the_damaged_with_a_warning(tmp_path):
    for iteration in (1, 2, 3):
        save(tmp_path / checkpoint_name(iteration))
    (tmp_path / checkpoint_name(3) / "checkpoint.json").unlink()
    os.truncate(tmp_path / checkpoint_name(2) / "arrays.safetensors", 20)
    with pytest.warns(RuntimeWarning) as caught:
        assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint_000001")
    assert ["checkpoint_000003" in str(w.message) for w in caught] == [True, False]
    assert ["checkpoint_000002" in str(w.message) for w in caught] == [False, True]


def test_resume_finds_the_newest_of_a_run(tmp_path):
    for number, path in enumerate(
        ["maze/checkpoint_000020", "maze/checkpoint_000003", "b/checkpoint_000001"]
    ):
        save(tmp_path / path)
        os.utime(tmp_path / path / "checkpoint.json", (number, number))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert find_resume(tmp_path, "maze") == str(tmp_path / "maze" / "checkpoint_000020")
    assert find_resume(str(tmp_path)) == str(tmp_path / "b" / "checkpoint_000001")
    for output, name in [(tmp_path, "empty"), (tmp_path, "x"), (tmp_path / "x", None)]:
        with pytest.raises(CheckpointError, match="there is no checkpoint to resume from under"):
            find_resume(output, name)
    for name in ("", "..", "a/b", "/"):
        with pytest.raises(CheckpointError, match="name must be the name of a run's directory"):
            find_resume(tmp_path, name)


# What is refused


@pytest.mark.parametrize("name", ["checkpoint.json", "arrays.safetensors"])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_no_changed_byte_goes_unseen(tmp_path, name, mask):
    whole = content(save(tmp_path / "c"))
    file = tmp_path / "c" / name
    data = file.read_bytes()
    for at in range(len(data)):
        file.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
        with contextlib.suppress(CheckpointError):
            seen = content(load_checkpoint(tmp_path / "c"))
            assert name == "checkpoint.json"
            assert data[at : at + 1].isspace()  # between values, where it means nothing
            assert seen == whole


@pytest.mark.parametrize("name", ["checkpoint.json", "arrays.safetensors"])
def test_no_missing_or_added_byte_goes_unseen(tmp_path, name):
    save(tmp_path / "c")
    file = tmp_path / "c" / name
    data = file.read_bytes()
    end = len(data.rstrip())
    for part in [*(data[:at] for at in range(end)), data + b"\0", data + data, b"", b"{}", b"[]"]:
        file.write_bytes(part)
        with pytest.raises(CheckpointError, match=r"damaged|truncated|not a checkpoint"):
            load_checkpoint(tmp_path / "c")


def test_truncation_is_told_in_bytes(tmp_path):
    save(tmp_path / "c")
    os.truncate(tmp_path / "c" / "arrays.safetensors", 30)
    with pytest.raises(
        CheckpointError, match=r"is truncated: arrays.safetensors has 30 of \d+ byt"
    ):
        load_checkpoint(tmp_path / "c")


def rewrite(directory, **changes):
    """Change the document and make its checksum right again."""
    file = directory / "checkpoint.json"
    document = {**json.loads(file.read_text()), **changes}
    del document["sha256"]
    document = {name: value for name, value in document.items() if value is not ...}
    file.write_text(json.dumps({**document, "sha256": module._checksum(document)}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "other"}, "is not a checkpoint of rollmill"),
        ({"format_version": 2}, "has format version 2, newer than 1: read it with a newer roll"),
        ({"format_version": None}, "is damaged: checkpoint.json: format_version is of type None"),
        ({"kind": ...}, "is damaged: checkpoint.json: it has no 'kind'"),
        ({"config": []}, "is damaged: checkpoint.json: config is of type list"),
        ({"config": {"a": {"$float": "x"}}}, "is damaged"),
        ({"files": {}}, "is damaged"),
        ({"files": {"../x": {"size": 1, "sha256": ""}}}, 'it names the file "../x"'),
        ({"files": {"/etc/passwd": {"size": 1, "sha256": ""}}}, "it names the file"),
        ({"files": {"arrays.safetensors": 3}}, "is damaged"),
        ({"files": {"arrays.safetensors": {"size": "1", "sha256": ""}}}, "size is of type str"),
        ({"files": {"arrays.safetensors": {"size": 0, "sha256": ""}}}, "not match its checksum"),
    ],
)
def test_a_document_that_says_something_else_is_refused(tmp_path, changes, sentence):
    save(tmp_path / "c")
    rewrite(tmp_path / "c", **changes)
    with pytest.raises(CheckpointError, match=sentence):
        load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("name", ["checkpoint.json", "arrays.safetensors"])
@pytest.mark.parametrize("make", ["link", "pipe", "directory"])
def test_only_regular_files_are_read(tmp_path, name, make):
    save(tmp_path / "c")
    file = tmp_path / "c" / name
    file.rename(tmp_path / name)
    if make == "link":
        file.symlink_to(tmp_path / name)
    elif make == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(CheckpointError, match=f"is refused: {name} is no regular file"):
        load_checkpoint(tmp_path / "c")


def test_what_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    save(tmp_path / "c")
    (tmp_path / "c" / "arrays.safetensors").unlink()
    for name, sentence in {
        "nowhere": 'checkpoint ".*" does not exist',
        "file": 'file" is not a checkpoint: it is no directory',
        "empty": 'empty" is not a checkpoint: it has no checkpoint.json',
        "c": "is damaged: arrays.safetensors is missing",
    }.items():
        with pytest.raises(CheckpointError, match=sentence):
            load_checkpoint(tmp_path / name)


def test_kind_dtype_and_shape_can_be_insisted_on(tmp_path):
    save(tmp_path / "c")
    loaded = load_checkpoint(tmp_path / "c", kind="ES")
    assert loaded.array("theta", dtype=np.float32, shape=(6,)) is loaded.arrays["theta"]
    assert loaded.array("theta", shape=(None,)) is loaded.arrays["theta"]
    assert loaded.array("step", shape=()) == 3
    with pytest.raises(CheckpointError, match='must be of kind "DQN", got "ES"'):
        load_checkpoint(tmp_path / "c", kind="DQN")
    for wanted, sentence in [
        ({"dtype": "f8"}, "must be float64, got float32"),
        ({"shape": (7,)}, r"must have shape \(7,\), got \(6,\)"),
        ({"shape": (None, 1)}, r"must have shape \(any, 1\), got \(6,\)"),
        ({"shape": ()}, r"must have shape \(\), got \(6,\)"),
    ]:
        with pytest.raises(CheckpointError, match=sentence):
            loaded.array("theta", **wanted)
    with pytest.raises(CheckpointError, match=r'unknown array "thet"\. Did you mean "theta"\?'):
        loaded.array("thet")


# Writing


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    for n in (0, 1, 1, 2, 3):
        save(tmp_path / "c", arrays={"theta": np.full(5, n)})
        (tmp_path / "c" / "notes.txt").write_text("mine")
        assert load_checkpoint(tmp_path / "c").arrays["theta"].tolist() == [n] * 5
        assert sorted(os.listdir(tmp_path / "c")) == sorted(
            [entry(tmp_path / "c"), "checkpoint.json", "notes.txt"]
        )
        assert os.listdir(tmp_path) == ["c"]


def test_a_checkpoint_that_was_replaced_does_not_mix(tmp_path):
    first = save(tmp_path / "c", arrays={"theta": np.zeros(3)})
    for n in (1, 2):
        save(tmp_path / "c", arrays={"theta": np.full(3, n)})
    with pytest.raises(CheckpointError, match="damaged"):
        _ = first.arrays


def test_an_existing_directory_is_used(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "arrays.safetensors").write_text("somebody's")
    whole = content(save(tmp_path / "c"))
    assert content(load_checkpoint(tmp_path / "c")) == whole
    assert (tmp_path / "c" / "arrays.safetensors").read_text() == "somebody's"


def test_damaged_checkpoints_can_be_replaced(tmp_path):
    for name in ("checkpoint.json", "arrays.safetensors"):
        save(tmp_path / "c")
        (tmp_path / "c" / name).write_bytes(b"x")
        whole = content(save(tmp_path / "c"))
        assert content(load_checkpoint(tmp_path / "c")) == whole


def test_left_overs_of_the_dead_are_swept_and_the_living_are_left(tmp_path):
    save(tmp_path / "c")
    for parent in (tmp_path, tmp_path / "c"):
        for name in ("dead", "living"):
            (parent / f".rollmill-tmp-{name}").mkdir()
            (parent / f".rollmill-tmp-{name}" / "arrays.safetensors").write_text("part")
    assert load_checkpoint(tmp_path / "c").kind == "ES"
    with (
        module._lock(tmp_path / ".rollmill-tmp-living"),
        module._lock(tmp_path / "c" / ".rollmill-tmp-living"),
    ):
        save(tmp_path / "c")
    for parent in (tmp_path, tmp_path / "c"):
        assert [n for n in os.listdir(parent) if "tmp" in n] == [".rollmill-tmp-living"]


def test_two_writers_of_one_checkpoint_are_kept_apart(tmp_path):
    whole = content(save(tmp_path / "c"))
    with (
        module._lock(tmp_path / "c"),
        pytest.raises(OutputError, match=r"cannot write checkpoint .*: another process is writing"),
    ):
        save(tmp_path / "c", kind="DQN")
    assert content(load_checkpoint(tmp_path / "c")) == whole


def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "c")
    finally:
        os.umask(before)
    for name, mode in {"": 0o750, "checkpoint.json": 0o640, "arrays.safetensors": 0o640}.items():
        assert (tmp_path / "c" / name).stat().st_mode & 0o777 == mode


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "file" / "a" / "b"):
        with pytest.raises(OutputError) as e:
            save(path)
        assert str(e.value) == f'cannot write checkpoint "{path}": Not a directory'
    assert (tmp_path / "file").read_text() == ""


# A process that ends at any moment, and a disk that refuses

COMMON = """
import os, random, resource, shutil, signal, sys
import numpy as np
from rollmill import checkpoint
from rollmill.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from rollmill.results import OutputError

def save(path, n, size=2000):
    array = np.full(size, n)
    save_checkpoint(path, kind="x", config={}, counters={"n": n}, arrays={"a": array})

def number(path):
    loaded = load_checkpoint(path)
    n = loaded.counters["n"]
    assert (loaded.arrays["a"] == n).all()
    return n

def leftovers():
    return [name for _, inner, _ in os.walk(root) for name in inner if "tmp" in name]

root = sys.argv[1]
"""

EACH_LINE = (
    COMMON
    + """
points, swept = [], 0
for again in (0, 1, 2):
    point, status = 0, -1
    while status != 0:
        point += 1
        path = f"{root}/{again}"
        shutil.rmtree(path, ignore_errors=True)
        for n in range(again):
            save(path, n)
        child = os.fork()
        if child == 0:
            left = point
            def count(frame, event, argument):
                global left
                if frame.f_code.co_filename != checkpoint.__file__:
                    return None
                left -= event == "line"
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return count
            sys.settrace(count)
            save(path, again)
            sys.settrace(None)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.path.exists(path):
            assert number(path) in (again - 1, again), point
        else:
            assert again == 0
        swept += len(leftovers())
        save(path, 9)
        assert number(path) == 9
        assert not leftovers()
        assert len(os.listdir(path)) == 2
    points.append(point)
print(min(points), swept)
"""
)

RANDOM = (
    COMMON
    + """
draw = random.Random(7)
seen, last = set(), -1
for round in range(100):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        for n in range(last + 1, 10**9):
            save(f"{root}/same", n)
            save(f"{root}/checkpoint_{n:06d}", n)
            os.write(tell, b"x")
    os.read(ready, 1)
    for _ in range(draw.randrange(12)):
        number(f"{root}/same")
        number(newest_checkpoint(root))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    same, newest = number(f"{root}/same"), number(newest_checkpoint(root))
    assert newest in (same, same - 1), (same, newest)
    assert newest > last
    last = same
save(f"{root}/same", 0)
assert not leftovers()
print(last)
"""
)

FULL = (
    COMMON
    + """
save(f"{root}/c", 1, 10)
for limit, size in (20, 10), (300, 1), (4096, 2000):  # arrays, document, arrays
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for path in (f"{root}/c", f"{root}/new"):
        try:
            save(path, 2, size)
        except OutputError as error:
            print(error)
assert number(f"{root}/c") == 1
assert os.listdir(root) == ["c"] and len(os.listdir(f"{root}/c")) == 2
"""
)

FORBIDDEN = (
    COMMON
    + """
checkpoint._versions()  # loads modules that another user may be unable to read
try:
    if os.geteuid() == 0:
        os.seteuid(65534)
except PermissionError:
    sys.exit(0)
try:
    save(f"{root}/c", 1)
except OutputError as error:
    print(error)
"""
)


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_save_killed_before_any_line_of_code_leaves_a_whole_checkpoint(tmp_path):
    points, swept = run(EACH_LINE, tmp_path).split()
    assert int(points) > 100
    assert int(swept) > 50


def test_a_reader_always_finds_a_whole_checkpoint_while_savers_are_killed(tmp_path):
    assert int(run(RANDOM, tmp_path)) >= 99


def test_a_full_disk_leaves_the_old_checkpoint_and_is_told(tmp_path):
    lines = run(FULL, tmp_path).splitlines()
    assert (
        lines
        == [f'cannot write checkpoint "{tmp_path}/{name}": File too large' for name in ("c", "new")]
        * 3
    )


def test_a_directory_without_write_permission_is_told():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o555)
        answer = run(FORBIDDEN, directory)
        if answer == "":
            pytest.skip("root that may not change its user writes to any directory")
        assert answer == f'cannot write checkpoint "{directory}/c": Permission denied\n'
        assert os.listdir(directory) == []
