"""Checkpoints: a directory that holds `checkpoint.json` and one safetensors file of arrays.

A checkpoint is built in a temporary directory and renamed into place. Saving again under the same
name adds the new arrays beside the old ones and then replaces `checkpoint.json`, which names the
arrays that belong to it: whatever moment the process is killed at, a reader finds the old
checkpoint or the new one, whole. Reading runs no code and follows no link.

`checkpoint.json` carries its own SHA-256 (of its other fields as compact JSON with sorted keys)
and that of the arrays. A float that is not finite is written as {"$float": "nan"}.
"""

import contextlib
import errno
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from .names import quoted, unknown
from .results import OutputError, from_exact, json_loads, make_directory, reason, to_exact

FORMAT = "rollmill-checkpoint"
FORMAT_VERSION = 1

_DOCUMENT = "checkpoint.json"
_ARRAYS = re.compile(r"arrays(-[0-9a-f]{16})?\.safetensors")
_NUMBERED = re.compile(r"checkpoint_(\d{6}|[1-9]\d{6,})", re.ASCII)
_TEMPORARY = ".rollmill-tmp-"
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


class CheckpointError(ValueError):
    """A checkpoint cannot be used, or something cannot be kept in one; the sentence says why."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint holds; as text and as a path it is the path of its directory."""

    path: str  # absolute path of the directory
    kind: str  # what was saved, such as "ES"
    config: dict[str, Any]
    counters: dict[str, Any]
    extra: dict[str, Any] | None
    created_with: dict[str, str]  # versions of rollmill, numpy and python; the machine
    format_version: int
    files: dict[str, dict[str, Any]] = field(repr=False)  # name -> sha256, size in bytes

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays in order of their names, writable; read and verified at first use.

        Raises CheckpointError if the file is missing, truncated or damaged.
        """
        ((name, entry),) = self.files.items()
        data = _read(self.path, name)
        where = f"checkpoint {quoted(self.path)}"
        if len(data) < entry["size"]:
            raise CheckpointError(
                f"{where} is truncated: {name} has {len(data)} of {entry['size']} bytes"
            )
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise CheckpointError(f"{where} is damaged: {name} does not match its checksum")
        try:
            return dict(sorted(safetensors.numpy.load(data).items()))
        except (SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"{where} is damaged: {name}: {error}") from error

    def array(
        self, name: str, *, dtype: Any = None, shape: tuple[int | None, ...] | None = None
    ) -> np.ndarray:
        """One array, with the dtype and shape that the caller relies on.

        name : of the array
        dtype : wanted; None for any
        shape : wanted; None for any, also in place of one axis
        Raises CheckpointError on a missing array, another dtype or another shape.
        """
        if name not in self.arrays:
            sentence = unknown("array", name, self.arrays)
            raise CheckpointError(f"checkpoint {quoted(self.path)}: {sentence}")
        array = self.arrays[name]
        where = f"array {quoted(name)} of checkpoint {quoted(self.path)}"
        if dtype is not None and array.dtype != np.dtype(dtype):
            raise CheckpointError(f"{where} must be {np.dtype(dtype)}, got {array.dtype}")
        if shape is not None and not (
            len(shape) == array.ndim
            and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
        ):
            text = str(tuple(shape)).replace("None", "any")
            raise CheckpointError(f"{where} must have shape {text}, got {array.shape}")
        return array

    def __str__(self) -> str:
        return self.path

    def __fspath__(self) -> str:
        return self.path


def as_checkpoint_path(value: Any) -> str:
    """The path that `value` stands for.

    value : a str, an os.PathLike, or an object with `.path` or `.checkpoint.path`
    Raises CheckpointError on anything else.
    """
    for candidate in (
        value,
        getattr(value, "path", None),
        getattr(getattr(value, "checkpoint", None), "path", None),
    ):
        if isinstance(candidate, str | os.PathLike) and os.fspath(candidate):
            return os.path.expanduser(os.fsdecode(candidate))
    raise CheckpointError(f"checkpoint must be a path or an object with .path, got {value!r:.80}")


def checkpoint_name(iteration: int) -> str:
    """`checkpoint_000010` for training iteration 10."""
    return f"checkpoint_{iteration:06d}"


def save_checkpoint(
    path: Any,
    *,
    kind: str,
    config: Mapping[str, Any],
    counters: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    extra: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Write a checkpoint at `path`, replacing the one that is there, whole or not at all.

    path : the directory; missing parents are made
    kind : what is saved; `load_checkpoint` can insist on it
    config, counters, extra : plain values under str keys; tuples and arrays become lists
    arrays : by name; bool, 8 to 64 bit integers, 16 to 64 bit floats, any shape
    Returns the checkpoint as a reader sees it. Raises CheckpointError on what cannot be kept,
    OutputError if it cannot be written; an earlier checkpoint at `path` is then unchanged.
    """
    if not isinstance(kind, str) or not kind:
        raise CheckpointError(f"kind must be a name, got {kind!r}")
    shown = os.path.abspath(as_checkpoint_path(path))
    target = os.path.realpath(shown)
    parent = os.path.dirname(target)
    arrays = _storable(arrays)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "created_with": _versions(),
        "counters": _encode(counters, "counters"),
        "config": _encode(config, "config"),
        "extra": None if extra is None else _encode(extra, "extra"),
    }
    try:
        make_directory(parent)
        _sweep(parent)
        if os.path.lexists(target):
            with _lock(target) as held:
                if held is False:
                    raise OSError(errno.EBUSY, "another process is writing it")
                _sweep(target)
                with _staging(target) as staging:
                    text = _build(staging, document, arrays, target)
                    _install(staging, target)
        else:
            with _staging(parent) as staging:
                text = _build(staging, document, arrays, target)
                os.rename(staging, target)
                _sync(parent)
    except (OSError, SafetensorError) as error:
        raise OutputError(f"cannot write checkpoint {quoted(shown)}: {_cause(error)}") from error
    return _parse(shown, text)


def load_checkpoint(path: Any, *, kind: str | None = None) -> Checkpoint:
    """Read and verify the checkpoint at `path`.

    path : anything that `as_checkpoint_path` takes
    kind : what it must be a checkpoint of; None for anything
    Raises CheckpointError if it is missing, no checkpoint, damaged, truncated, of a newer
    format, or of another kind.
    """
    directory = os.path.abspath(as_checkpoint_path(path))
    while True:
        text = _read(directory, _DOCUMENT)
        try:
            checkpoint = _parse(directory, text)
            _ = checkpoint.arrays
            break
        except CheckpointError:
            if _read(directory, _DOCUMENT) == text:
                raise  # otherwise it was saved anew in between
    if kind is not None and checkpoint.kind != kind:
        raise CheckpointError(
            f"checkpoint {quoted(directory)} must be of kind {quoted(kind)}, "
            f"got {quoted(checkpoint.kind)}"
        )
    return checkpoint


def newest_checkpoint(directory: str | os.PathLike[str]) -> str | None:
    """The whole `checkpoint_NNNNNN` of the highest training iteration in `directory`.

    Returns its path, None if there is none. Those that cannot be loaded are passed over with a
    warning that says why.
    """
    directory = os.path.abspath(os.path.expanduser(directory))
    for name in _numbered(directory):
        path = os.path.join(directory, name)
        try:
            load_checkpoint(path)
        except CheckpointError as error:
            warnings.warn(f"passed over: {error}", RuntimeWarning, stacklevel=2)
        else:
            return path
    return None


def find_resume(output: str | os.PathLike[str], name: str | None = None) -> str:
    """The checkpoint to resume from: the newest of the run `name` under `output`.

    output : directory of runs
    name : of the run's directory; None takes the run that wrote a checkpoint last
    Returns its path. Raises CheckpointError if there is none.
    """
    output = os.path.abspath(os.path.expanduser(output))
    if name is not None and (os.path.basename(name) != name or name in ("", ".", "..")):
        raise CheckpointError(f"name must be the name of a run's directory, got {quoted(name)}")
    runs = [name] if name is not None else _runs(output)
    for run in runs:
        path = newest_checkpoint(os.path.join(output, run))
        if path is not None:
            return path
    where = output if name is None else os.path.join(output, name)
    raise CheckpointError(f"there is no checkpoint to resume from under {quoted(where)}")


# Names


def _numbered(directory: str) -> list[str]:
    """The names of numbered checkpoints in `directory`, newest first."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read {quoted(directory)}: {reason(error)}") from error
    matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    return [m[0] for m in sorted(matches, key=lambda m: int(m[1]), reverse=True)]


def _runs(output: str) -> list[str]:
    """The names of runs in `output`, the one with the latest checkpoint first."""
    latest = []
    for run in sorted(os.listdir(output)) if os.path.isdir(output) else []:
        for name in _numbered(os.path.join(output, run)):
            with contextlib.suppress(OSError):
                document = os.path.join(output, run, name, _DOCUMENT)
                latest.append((os.stat(document).st_mtime_ns, run))
    return list(dict.fromkeys(run for _, run in sorted(latest, reverse=True)))


# Reading


def _read(directory: str, name: str) -> bytes:
    """The bytes of the regular file `name` in `directory`; a link is refused."""
    try:
        descriptor = os.open(
            os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.ELOOP, "")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except OSError as error:
        where = quoted(directory)
        if error.errno == errno.ELOOP:
            sentence = f"checkpoint {where} is refused: {name} is no regular file"
        elif error.errno == errno.ENOTDIR:
            sentence = f"{where} is not a checkpoint: it is no directory"
        elif error.errno != errno.ENOENT:
            sentence = f"cannot read checkpoint {where}: {name}: {reason(error)}"
        elif not os.path.isdir(directory):
            sentence = f"checkpoint {where} does not exist"
        elif name != _DOCUMENT:
            sentence = f"checkpoint {where} is damaged: {name} is missing"
        else:
            sentence = f"{where} is not a checkpoint: it has no {_DOCUMENT}"
            if numbered := _numbered(directory):
                sentence += f"; it holds {numbered[0]}"
        raise CheckpointError(sentence) from error


def _parse(path: str, text: bytes) -> Checkpoint:
    """The checkpoint that `checkpoint.json` describes. Raises CheckpointError."""
    try:
        document = json_loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CheckpointError(f"{quoted(path)} is not a checkpoint of rollmill")
        version = document["format_version"]
        if type(version) is int and version > FORMAT_VERSION:
            raise CheckpointError(
                f"checkpoint {quoted(path)} has format version {version}, newer than "
                f"{FORMAT_VERSION}: read it with a newer rollmill"
            )
        if document.pop("sha256") != _checksum(document):
            raise ValueError("it does not match its checksum")
        checkpoint = Checkpoint(
            path=path,
            kind=_typed(document, "kind", str),
            config=from_exact(_typed(document, "config", dict)),
            counters=from_exact(_typed(document, "counters", dict)),
            extra=from_exact(_typed(document, "extra", dict | None)),
            created_with=_typed(document, "created_with", dict),
            format_version=_typed(document, "format_version", int),
            files=_typed(document, "files", dict),
        )
        ((name, entry),) = checkpoint.files.items()
        if not _ARRAYS.fullmatch(name):
            raise ValueError(f"it names the file {quoted(name)}")
        _typed(entry, "sha256", str)
        _typed(entry, "size", int)
    except CheckpointError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"checkpoint {quoted(path)} is damaged: {_DOCUMENT}: {what}"
        ) from error
    return checkpoint


def _typed(document: Mapping[str, Any], name: str, wanted: Any) -> Any:
    value = document[name]
    if not isinstance(value, wanted):
        raise ValueError(f"{name} is of type {type(value).__name__}")
    return value


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# Writing


def _storable(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`arrays` in C order, which the safetensors writer takes for granted. Raises on the rest."""
    storable = {}
    for name, array in arrays.items():
        if not isinstance(name, str) or name in ("", "__metadata__") or not name.isprintable():
            raise CheckpointError(f"an array cannot be kept under the name {name!r}")
        if not isinstance(array, np.ndarray):
            raise CheckpointError(
                f"array {quoted(name)} must be a NumPy array, got {type(array).__name__}"
            )
        if array.dtype.name not in _DTYPES or not array.dtype.isnative:
            raise CheckpointError(
                f"array {quoted(name)} must be of a bool, integer or float dtype of up to 64 bits "
                f"in native byte order, got {array.dtype.str}"
            )
        storable[name] = array if array.flags.c_contiguous else array.copy(order="C")
    return storable


def _encode(value: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, Mapping):
        raise CheckpointError(f"{where} must be a mapping, got {type(value).__name__}")
    try:
        exact = to_exact(value, where)
        json.dumps(exact)  # refuses an int of more digits than it could read back
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"a checkpoint cannot keep this: {error}") from error
    return exact


def _versions() -> dict[str, str]:
    try:
        version = importlib.metadata.version("rollmill")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return {
        "rollmill": version,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _build(
    staging: str, document: dict[str, Any], arrays: Mapping[str, np.ndarray], target: str
) -> bytes:
    """Write both files into `staging` and to the disk; returns the text of `checkpoint.json`."""
    name = "arrays.safetensors"
    path = os.path.join(staging, name)
    safetensors.numpy.save_file(dict(arrays), path)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
        os.fsync(file.fileno())
    if os.path.lexists(os.path.join(target, name)):
        name = f"arrays-{digest[:16]}.safetensors"
        os.rename(path, os.path.join(staging, name))
    document = {**document, "files": {name: {"sha256": digest, "size": size}}}
    text = json.dumps({**document, "sha256": _checksum(document)}, indent=1).encode() + b"\n"
    with open(os.path.join(staging, _DOCUMENT), "xb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        os.chmod(os.path.join(staging, name), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    _sync(staging)
    return text


def _install(staging: str, target: str) -> None:
    """Move the files into the existing directory `target`; the document's rename decides."""
    (name,) = (name for name in os.listdir(staging) if name != _DOCUMENT)
    again = os.path.lexists(os.path.join(target, _DOCUMENT))
    os.rename(os.path.join(staging, name), os.path.join(target, name))
    _sync(target)
    os.rename(os.path.join(staging, _DOCUMENT), os.path.join(target, _DOCUMENT))
    _sync(target)
    for old in os.listdir(target) if again else []:
        if old != name and _ARRAYS.fullmatch(old):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(target, old))


@contextlib.contextmanager
def _staging(parent: str) -> Iterator[str]:
    """A new locked directory in `parent`, removed at the end if it is still there."""
    while True:
        directory = os.path.join(parent, _TEMPORARY + secrets.token_hex(8))
        os.mkdir(directory)
        with contextlib.suppress(FileNotFoundError), _lock(directory) as held:
            if held is False or not os.path.isdir(directory):
                continue  # another process swept it before it was locked
            try:
                yield directory
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            return


@contextlib.contextmanager
def _lock(directory: str) -> Iterator[bool | None]:
    """Lock `directory`: True if held, False if another holds it, None if locks do not work here.

    The system drops the lock when its process dies.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    held: bool | None = True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = False
        except OSError:
            held = None
        yield held
    finally:
        os.close(descriptor)


def _sweep(directory: str) -> None:
    """Remove what killed processes left in `directory`; the living hold a lock on theirs."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(_TEMPORARY):
                path = os.path.join(directory, name)
                with contextlib.suppress(OSError), _lock(path) as held:
                    if held:
                        shutil.rmtree(path, ignore_errors=True)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cause(error: BaseException) -> str:
    code = re.search(r"\(os error (\d+)\)", str(error))  # how the safetensors writer says it
    return os.strerror(int(code[1])) if code else reason(error)
