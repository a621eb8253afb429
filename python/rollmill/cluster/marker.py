"""How a process died, told by the process itself.

To Ray a SIGKILL, a SIGSEGV, an abort and a call of exit look alike: the connection ends. A worker
therefore keeps a file on its node. A fatal signal writes a trace there (faulthandler), and a call
of the C function exit writes a word: it flushes the C streams, and one holds that word. SIGKILL,
an out-of-memory kill and the loss of the node leave the file empty, and so does _exit, which
nothing in a process can see. The worker that takes the dead one's place reads the file.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

#: Seconds for which the marker of a dead process is kept.
KEEP_SECONDS = 3600.0
_NAME = re.compile(r"[0-9a-f]{8,64}")
_TRACE = re.compile(r"Fatal Python error: (.+)")


def directory() -> Path | None:
    """The user's own folder for markers on this node, or None if there can be none."""
    path = Path(tempfile.gettempdir()) / f"rollmill-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return path if mine and not found.st_mode & 0o022 else None


class Marker:
    """The marker of this process, open until the process ends. One in a process.

    Parameters
    ----------
    name : str
        Eight or more hexadecimal digits that nothing else uses.
    """

    def __init__(self, name: str):
        folder = directory()
        self.path = None if folder is None else _inside(folder, name)
        if folder is None or self.path is None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "a")
        except OSError:
            self.path = None
            return
        fcntl.flock(self._file, fcntl.LOCK_SH)  # for as long as this process lives
        _sweep(folder)
        faulthandler.enable(file=self._file, all_threads=False)
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        libc.fputs.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
        stream = libc.fopen(os.fsencode(self.path), b"ae")
        if stream:
            libc.fputs(b"exit\n", stream)  # stays in the buffer until exit flushes it

    def remove(self) -> None:
        """Delete the file: this process ends as it should."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def read(name: str) -> str | None:
    """How the process of that marker ended; the file is deleted.

    Returns
    -------
    str or None
        A few words such as "Segmentation fault" or "exit"; "" if it was ended from outside; None
        if this node has no such file.
    """
    folder = directory()
    path = None if folder is None else _inside(folder, name)
    if path is None:
        return None
    try:
        text = path.read_text(errors="replace")
        path.unlink(missing_ok=True)
    except OSError:
        return None
    found = _TRACE.search(text)
    if found:
        return found[1].strip()
    return "exit" if text.startswith("exit") else ""


def _sweep(folder: Path) -> None:
    """Delete what processes left that ended over an hour ago and that nobody asked for."""
    for path in folder.glob("worker-*"):
        with suppress(OSError), open(path, "rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > KEEP_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _inside(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f"a marker's name must be 8 to 64 hexadecimal digits, got {name!r}")
    return folder / f"worker-{name}"
