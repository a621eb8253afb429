"""What this machine can do: the floors that figures are held against, measured on one core.

Read bandwidth is the best of three reductions over a buffer several times the last-level cache:
BLAS `sdot` of the array with itself, BLAS `dasum`, and NumPy's `max`. (`numpy.sum` is no measure:
its pairwise float32 sum is bound by arithmetic.) Rewrite bandwidth, that of reading and writing the
same bytes, is the best of `numpy.negative` and BLAS `sscal` in place; copy bandwidth is
`numpy.copyto`, which first has to read the lines that it writes. For both the bytes read and
written are added. The peak rate of float32 operations is `sgemm` of matrices that stay in cache.
All run on one core, in one thread.

On some processors OpenBLAS takes kernels of 256 bits though there are 512, and then reaches half of
the peak. So where there are 512 the sgemm runs with such kernels too, in a process of its own, and
the better one counts.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .timing import Probe, measure, one_core

#: Side of the matrices of the sgemm: three of them take 3 MB.
SIDE = 512
#: A read buffer is at least this many times the last-level cache.
CACHES = 4


@dataclass(frozen=True)
class Floor:
    """A measured rate.

    Attributes
    ----------
    value : float
        GB/s or GFLOP/s.
    method : str
        What reached it.
    spread : float
        Interquartile range over the median.
    """

    value: float
    method: str
    spread: float


@dataclass(frozen=True)
class Machine:
    """Floors and facts.

    Attributes
    ----------
    read, rewrite, copy, flops : Floor
        GB/s read, rewritten in place and copied (read and written bytes together), and GFLOP/s in
        float32.
    methods : dict
        GB/s of every method that was tried.
    facts : dict
        Processor, caches, clock, load, versions.
    """

    read: Floor
    rewrite: Floor
    copy: Floor
    flops: Floor
    methods: dict[str, float]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return what the command line prints as `machine`."""
        floors = {
            f"{name}_{part}": value
            for name, unit in (
                ("read", "gb_per_s"),
                ("rewrite", "gb_per_s"),
                ("copy", "gb_per_s"),
                ("flops", "gflop_per_s"),
            )
            for part, value in (
                (unit, getattr(self, name).value),
                ("method", getattr(self, name).method),
                ("spread", getattr(self, name).spread),
            )
        }
        return {**floors, "methods_gb_per_s": self.methods, **self.facts}


def cache_bytes() -> int:
    """Size of the last-level cache, as the kernel tells it; 32 MiB where it does not."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KM")) * unit)
    return max(sizes, default=32 << 20)


def buffer_bytes(wanted: int) -> int:
    """Bytes of a buffer of `wanted` bytes that fits in a third of the free memory.

    Raises MemoryError where that is under CACHES times the last-level cache.
    """
    free = _free_bytes()
    size = min(wanted, free // 3)
    least = CACHES * cache_bytes()
    if wanted >= least > size:
        raise MemoryError(
            f"a buffer of {least >> 20} MiB, {CACHES} times the last-level cache, needs "
            f"{3 * least >> 20} MiB of free memory; {free >> 20} MiB are free"
        )
    return size // 4096 * 4096


def read_methods(buffer: NDArray[np.float32]) -> dict[str, Callable[[], object]]:
    """Return ways of reading a buffer once, by name. All are written in C, with vectors."""
    from scipy.linalg.blas import dasum

    wide = buffer.view(np.float64)
    return {
        "BLAS sdot": lambda: np.dot(buffer, buffer),
        "BLAS dasum": lambda: dasum(wide),
        "numpy.max": lambda: wide.max(),
    }


def rewrite_methods(buffer: NDArray[np.float32]) -> dict[str, Callable[[], object]]:
    """Return ways of reading a buffer and writing it in place, by name."""
    from scipy.linalg.blas import sscal

    return {
        "numpy.negative in place": lambda: np.negative(buffer, out=buffer),
        "BLAS sscal": lambda: sscal(-1.0, buffer),
    }


def read_probe(machine: Machine, buffer: NDArray[np.float32], work: float) -> Probe:
    """Return the fastest way of reading `buffer`, which counts as `work`."""
    name = machine.read.method
    return Probe(f"memory read ({name})", read_methods(buffer)[name], work)


def rewrite_probe(machine: Machine, bytes_: int, work: float, place: str = "memory") -> Probe:
    """Return the fastest way of rewriting as many bytes, half read and half written."""
    buffer = np.ones(max(1, bytes_ // 8), np.float32)
    name = machine.rewrite.method
    return Probe(f"{place} rewrite ({name})", rewrite_methods(buffer)[name], work)


def measure_flops(repeats: int, seconds: float) -> Floor:
    """Measure GFLOP/s of sgemm with the kernels that this process's BLAS has chosen."""
    a = np.full((SIDE, SIDE), 0.5, np.float32)
    b = np.full((SIDE, SIDE), 0.25, np.float32)
    out = np.empty_like(a)
    work = 2 * SIDE**3 * 1e-9
    (timing,) = measure([Probe("sgemm", lambda: np.dot(a, b, out=out), work)], repeats, seconds)
    return Floor(timing.rate, f"sgemm {SIDE}x{SIDE}, {_blas()}", timing.spread)


def _measure_flops_with(kernels: str, repeats: int, seconds: float) -> Floor | None:
    """As measure_flops in a process of its own, where OpenBLAS takes the named kernels."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "rollmill.machine", str(repeats), str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return None if done.returncode else Floor(**json.loads(done.stdout))


def measure_machine(
    buffer: NDArray[np.float32] | None = None, repeats: int = 9, seconds: float = 0.05
) -> Machine:
    """Measure the floors on one core.

    Parameters
    ----------
    buffer : (K,) float32, finite, K even, optional
        Read, and not changed; CACHES times the last-level cache or more, or the figures are those
        of a cache. Made here by default.
    repeats : int
        At least 1.
    seconds : float
        Least time of a repeat.
    """
    if buffer is None:
        buffer = np.ones(buffer_bytes(512 << 20) // 4, np.float32)
    load = os.getloadavg()[0]
    size = min(buffer.size, CACHES * cache_bytes() // 4) // 2 * 2
    own = np.ones(size, np.float32)
    half, other = own[: size // 2], own[size // 2 :]
    with one_core() as processor:
        reads = _measure(read_methods(buffer), buffer.nbytes, repeats, seconds)
        rewrites = _measure(rewrite_methods(own), 2 * own.nbytes, repeats, seconds)
        copies = _measure(
            {"numpy.copyto": lambda: np.copyto(other, half)}, own.nbytes, repeats, seconds
        )
        flops = measure_flops(repeats, seconds)
        if "avx512f" in _cpuinfo().get("flags", "").split():
            more = _measure_flops_with("SkylakeX", repeats, seconds)
            flops = max(flops, more or flops, key=lambda floor: floor.value)
    read, rewrite, copy = (
        max(floors, key=lambda floor: floor.value) for floors in (reads, rewrites, copies)
    )
    return Machine(
        read=read,
        rewrite=rewrite,
        copy=copy,
        flops=flops,
        methods={floor.method: floor.value for floor in (*reads, *rewrites, *copies)},
        facts={"buffer_bytes": buffer.nbytes, "pinned_to": processor, "load": load, **facts()},
    )


def _measure(
    methods: dict[str, Callable[[], object]], bytes_: int, repeats: int, seconds: float
) -> list[Floor]:
    probes = [Probe(name, run, bytes_ * 1e-9) for name, run in methods.items()]
    return [
        Floor(timing.rate, timing.probe.name, timing.spread)
        for timing in measure(probes, repeats, seconds)
    ]


def facts() -> dict[str, Any]:
    """Return what a figure should name beside the floors. Nothing here is measured."""
    from . import _isa
    from .engine import default_threads

    info = _cpuinfo()
    return {
        "processor": info.get("model name", platform.machine()),
        "processors": default_threads(),
        "cache_bytes": cache_bytes(),
        "clock": f"{info.get('cpu MHz', 'unknown')} MHz says the kernel; not measured",
        "isa": _isa.isa_name(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
    }


def _free_bytes() -> int:
    """Memory that can be had without swapping, within the limit of a container."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        free = min(free, limit - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):  # no such files, or no limit
        pass
    return free


def _cpuinfo() -> dict[str, str]:
    """Return the first processor's entries in /proc/cpuinfo."""
    entries: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if not line.strip():
                break
            entries[name.strip()] = value.strip()
    except OSError:
        pass
    return entries


def _blas() -> str:
    """Name NumPy's BLAS."""
    import threadpoolctl

    found = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    for lib in sorted(found, key=lambda lib: "numpy" not in lib["filepath"]):
        return f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', 'unknown')})"
    return "a BLAS that threadpoolctl does not know"


if __name__ == "__main__":
    print(json.dumps(asdict(measure_flops(int(sys.argv[1]), float(sys.argv[2])))))
