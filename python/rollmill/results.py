"""Results of training: plain values, strict JSON, `progress.csv` and `result.json`.

Both files hold each training iteration once. `result.json` is the record: one JSON object a line.
`progress.csv` is derived from it and is made anew from it on resume and when a column appears.
A number that is not finite is `null` in `result.json` and an empty cell in `progress.csv`, because
JSON has no other word for it.
"""

import csv
import errno
import io
import json
import math
import os
import re
import stat
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from .names import quoted

RESULT_FILE = "result.json"
PROGRESS_FILE = "progress.csv"

_FLOAT = "$float"
_FIRST_KEYS = (
    "episode_reward_max",
    "episode_reward_mean",
    "episode_reward_min",
    "episode_len_mean",
    "episodes_this_iter",
    "episodes_total",
    "timesteps_total",
    "training_iteration",
    "time_total_s",
    "steps_per_second",
)


class OutputError(OSError):
    """A file or directory could not be written or read; the sentence names it and says why."""


def reason(error: BaseException) -> str:
    """The cause of `error` in the system's words, such as "No space left on device"."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def make_directory(path: str) -> None:
    """Make the directory `path` and its parents. Raises OSError, also if a file is in the way."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def to_plain(value: Any, where: str = "value") -> Any:
    """`value` made of dict, list, str, int, float, bool and None only.

    value : NumPy scalars and arrays, mappings with str keys, sequences and paths are converted
    where : how to name the value in an error
    Returns new containers. Raises TypeError on a type that has no plain form.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value)
        case np.bool_():
            return bool(value)
        case np.ndarray():
            return to_plain(value.tolist(), where)
        case Mapping():
            plain = {}
            for key, item in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"{where} has the key {key!r}, wanted keys of type str")
                plain[str(key)] = to_plain(item, f"{where}/{key}")
            return plain
        case list() | tuple():
            return [to_plain(item, where) for item in value]
        case os.PathLike():
            return os.fsdecode(value)
    raise TypeError(
        f"{where} is of type {type(value).__name__}, wanted numbers, text, lists or dicts"
    )


def json_dumps(value: Any, *, indent: int | None = None) -> str:
    """`value` as strict JSON in ASCII; numbers that are not finite become null.

    value : anything that `to_plain` takes
    indent : spaces a level; None keeps it on one line
    Returns the text. Raises TypeError on a type that has no plain form.
    """
    return json.dumps(_finite(to_plain(value)), indent=indent, allow_nan=False)


def json_loads(text: str | bytes) -> Any:
    """The value of strict JSON. Raises ValueError on NaN, Infinity and a name given twice."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def to_exact(value: Any, where: str = "value") -> Any:
    """`value` in a form that strict JSON keeps exactly: NaN is {"$float": "nan"}.

    value : anything that `to_plain` takes, without a key "$float"
    where : how to name the value in an error
    Raises TypeError on a type that has no plain form, ValueError on a key "$float".
    """
    return _exact(to_plain(value, where), where)


def from_exact(value: Any) -> Any:
    """What `to_exact` was given, as plain values."""
    if isinstance(value, dict):
        if _FLOAT in value:
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value[_FLOAT]]
        return {key: from_exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_exact(item) for item in value]
    return value


def flatten(result: Mapping[str, Any]) -> dict[str, Any]:
    """`result` with nested dicts as keys joined by "/", in the order of appearance."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, Mapping):
            flat.update({f"{key}/{inner}": item for inner, item in flatten(value).items()})
        else:
            flat[key] = value
    return flat


def read_results(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The whole rows of `result.json` in `directory`, oldest first; [] if there is no such file.

    Raises OutputError if it cannot be read.
    """
    path = os.path.join(os.fspath(directory), RESULT_FILE)
    try:
        with open(path, "rb", opener=_open_waiting_for_nobody) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OutputError(f"cannot read {quoted(path)}: not a regular file")
            data = file.read()
    except FileNotFoundError:
        return []
    except IsADirectoryError:
        raise OutputError(f"cannot read {quoted(path)}: not a regular file") from None
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot read {quoted(path)}: {reason(error)}") from error
    rows: list[dict[str, Any]] = []
    for row in _whole_rows(path, data):
        while rows and rows[-1]["training_iteration"] >= row["training_iteration"]:
            rows.pop()
        rows.append(row)
    return rows


class ResultWriter:
    """Writes a run's results to `result.json` and `progress.csv`, a line each an iteration.

    Each line is handed to the system before `write` returns, so a process killed at any moment
    loses at most the line that it was writing.

    directory : made if missing
    resume_from : the training iteration that training continues after. Later rows of the earlier
        run are dropped and a truncated last line is repaired. None starts both files anew.
    Raises OutputError if the directory or a file in it cannot be written.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, resume_from: int | None = None
    ) -> None:
        self.directory = os.path.abspath(os.path.expanduser(directory))
        self._header: list[str] = []
        self._last = -1 if resume_from is None else int(resume_from)
        rows: list[dict[str, Any]] = []
        try:
            make_directory(self.directory)
            if resume_from is not None:
                rows = read_results(self.directory)
                rows = [row for row in rows if row["training_iteration"] <= self._last]
            self._replace(RESULT_FILE, "".join(json_dumps(row) + "\n" for row in rows))
            self._result = self._open(RESULT_FILE)
            self._replace(PROGRESS_FILE, self._table(rows))
            self._progress = self._open(PROGRESS_FILE)
        except OutputError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    def write(self, result: Mapping[str, Any]) -> None:
        """Append one row to both files.

        result : flat or nested, with an int `training_iteration` above every one written before
        Raises ValueError on a bad `training_iteration`, TypeError on a value without a plain
        form, OutputError if a file cannot be written; neither file is changed then.
        """
        row = to_plain(result, "result")
        iteration = row.get("training_iteration")
        if type(iteration) is not int or iteration <= self._last:
            raise ValueError(
                f"training_iteration must be an int above {self._last}, got {iteration!r}"
            )
        flat = flatten(row)
        progress = self._progress
        result_end = self._result.seek(0, os.SEEK_END)
        progress_end = progress.seek(0, os.SEEK_END)
        try:
            _write_all(self._result, json_dumps(row) + "\n")
            if flat.keys() <= set(self._header):
                _write_all(progress, _csv_line([flat.get(key) for key in self._header]))
            else:
                self._widen()
        except BaseException as error:
            self._result.truncate(result_end)
            if not progress.closed:
                progress.truncate(progress_end)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        self._last = iteration

    def close(self) -> None:
        """Close both files; may be called twice."""
        self._result.close()
        self._progress.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _widen(self) -> None:
        """Make `progress.csv` anew from `result.json`, with the columns that have appeared."""
        header = self._header
        try:
            self._replace(PROGRESS_FILE, self._table(read_results(self.directory)))
            progress = self._open(PROGRESS_FILE)
        except BaseException:
            self._header = header
            raise
        self._progress.close()
        self._progress = progress

    def _table(self, rows: list[dict[str, Any]]) -> str:
        """The text of `progress.csv`; sets the header."""
        flat = [flatten(row) for row in rows]
        self._header = list(dict.fromkeys(key for row in flat for key in row))
        if not flat:
            return ""
        lines = [_csv_line(self._header)]
        lines += [_csv_line([row.get(key) for key in self._header]) for row in flat]
        return "".join(lines)

    def _replace(self, name: str, text: str) -> None:
        """Give the file `name` the content `text`, at once or not at all."""
        path = os.path.join(self.directory, name)
        temporary = os.path.join(self.directory, f".{name}.tmp")
        try:
            with open(temporary, "wb", buffering=0) as file:
                _write_all(file, text)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise

    def _open(self, name: str) -> io.FileIO:
        return io.FileIO(os.path.join(self.directory, name), "ab")

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write results to {quoted(self.directory)}: {reason(error)}")


def pretty_print(result: Mapping[str, Any]) -> str:
    """`result` as short text in the manner of YAML, the keys that people look for first.

    Floats are shown with six significant digits; keys with "/" are grouped.
    """
    plain = to_plain(result, "result")
    first = {key: plain[key] for key in _FIRST_KEYS if key in plain}
    tree: dict[str, Any] = {}
    for key, value in flatten(plain).items():
        if key not in first:
            *groups, leaf = key.split("/")
            node = tree
            for group in groups:
                inner = node.get(group)
                node[group] = node = inner if isinstance(inner, dict) else {}
            node[leaf] = value
    return "\n".join([*_yaml_lines(first), *_yaml_lines(dict(sorted(tree.items())))])


def _yaml_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{_yaml_scalar(key)}:"
            yield from _yaml_lines(dict(sorted(value.items())), indent + "  ")
        else:
            yield f"{indent}{_yaml_scalar(key)}: {_yaml_scalar(value)}"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return repr(float(f"{value:.6g}"))
    if isinstance(value, list):
        return "[" + ", ".join(_yaml_scalar(item) for item in value) + "]"
    if isinstance(value, str):
        bare = re.fullmatch(r"[A-Za-z_][\w./-]*", value, re.ASCII)
        words = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
        return value if bare and value.lower() not in words else json.dumps(value)
    return json.dumps(value)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name is given twice")
    return value


def _exact(value: Any, where: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
    if isinstance(value, dict):
        if _FLOAT in value:
            raise ValueError(f"{where} has the key {quoted(_FLOAT)}, which is reserved")
        return {key: _exact(item, f"{where}/{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item, where) for item in value]
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _whole_rows(path: str, data: bytes) -> Iterator[dict[str, Any]]:
    """The rows in `data`; anything else than a truncated last line is warned about."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and type(row.get("training_iteration")) is int and not _deep(row):
            yield row
        elif line.strip() and number < len(lines):
            warnings.warn(f"line {number} of {quoted(path)} is no result; left out", stacklevel=4)


def _deep(value: Any) -> bool:
    """Whether `value` is nested deeper than any result is; what converts one is recursive."""
    level = [value]
    for _ in range(100):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _open_waiting_for_nobody(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO has no writer


def _csv_line(values: list[Any]) -> str:
    """One line, whatever the text in `values` holds: unprintable text is escaped as in JSON."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_csv_cell(value) for value in values])
    return text.getvalue()


def _csv_cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, str) and value.isprintable():
        return value
    return json_dumps(value)


def _write_all(file: io.FileIO, text: str) -> None:
    data = memoryview(text.encode())
    while data:
        data = data[file.write(data) or 0 :]
