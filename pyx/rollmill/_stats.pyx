#!python
# cython: embedsignature=True, binding=True
"""Running mean and variance of observations.

A block of statistics is (1 + 2*O,) float64: count, mean, sum of squared deviations.
"""

import numpy as np

from libc.stdint cimport int32_t
from rollmill._arrays cimport check_apart, check_array
from rollmill.ckernels cimport rml_stats_freeze, rml_stats_merge, rml_stats_push


cdef size_t elements(object stats, bint write) except 0:
    """O of a block of statistics, which is checked."""
    check_array("stats", stats, "float64", ("1 + 2*O",), write)
    length = stats.shape[0]
    if length < 3 or length % 2 == 0:
        raise ValueError(f"stats must have shape (1 + 2*O,), O >= 1, got ({length},)")
    return (length - 1) // 2


def stats_push(stats, x):
    """Add observations to a block in place, row after row.

    stats : (1 + 2*O,) float64, C-contiguous, writable
    x : (N, O) float64, C-contiguous, may be read-only, apart from stats
    Raises ValueError on an array that does not fit.
    """
    cdef size_t o = elements(stats, True), i, n
    check_array("x", x, "float64", ("N", o))
    check_apart("stats and x", (stats, x))
    cdef double[::1] stats_s = stats
    cdef const double[:, ::1] x_no = x
    n = x_no.shape[0]
    with nogil:
        for i in range(n):
            rml_stats_push(&stats_s[0], &x_no[i, 0], o)


def stats_push_rows(blocks, x, rows):
    """Add one observation to each of some blocks in place: row r of x to block r.

    blocks : (M, 1 + 2*O) float64, C-contiguous, writable
    x : (M, O) float64, C-contiguous, may be read-only, apart from blocks
    rows : (K,) int32 in [0, M)
    Raises ValueError on an array or row that does not fit.
    """
    check_array("x", x, "float64", ("M", "O"))
    cdef const double[:, ::1] x_mo = x
    cdef size_t m = x_mo.shape[0], o = x_mo.shape[1], i, k
    check_array("blocks", blocks, "float64", (m, 1 + 2 * o), True)
    check_array("rows", rows, "int32", ("K",))
    check_apart("blocks and x", (blocks, x))
    cdef double[:, ::1] block_ms = blocks
    cdef const int32_t[::1] row_k = rows
    k = row_k.shape[0]
    for i in range(k):
        if not 0 <= row_k[i] < <int32_t>m:
            raise ValueError(f"rows must be in [0, {m - 1}], got {row_k[i]}")
    if o == 0:
        raise ValueError("x must have at least one column")
    with nogil:
        for i in range(k):
            rml_stats_push(&block_ms[row_k[i], 0], &x_mo[row_k[i], 0], o)


def stats_merge(stats, blocks):
    """Merge blocks into a block in place, in their order.

    stats : (1 + 2*O,) float64, C-contiguous, writable
    blocks : (K, 1 + 2*O) float64, C-contiguous, may be read-only, apart from stats
    Raises ValueError on an array that does not fit.
    """
    cdef size_t o = elements(stats, True), i, k
    check_array("blocks", blocks, "float64", ("K", 1 + 2 * o))
    check_apart("stats and blocks", (stats, blocks))
    cdef double[::1] stats_s = stats
    cdef const double[:, ::1] block_ks = blocks
    k = block_ks.shape[0]
    with nogil:
        for i in range(k):
            rml_stats_merge(&stats_s[0], &block_ks[i, 0], o)


def stats_freeze(stats):
    """Mean and scale that a policy applies: (x - mean) * scale.

    stats : (1 + 2*O,) float64, C-contiguous, may be read-only

    scale is 1 / std (divisor count - 1), 0 where std < 1e-7; mean 0 and scale 1 below two
    observations. Returns (mean, scale), (O,) float64 each. Raises ValueError on an array that
    does not fit.
    """
    cdef size_t o = elements(stats, False)
    cdef const double[::1] stats_s = stats
    mean, scale = np.empty(o), np.empty(o)
    cdef double[::1] mean_o = mean
    cdef double[::1] scale_o = scale
    rml_stats_freeze(&mean_o[0], &scale_o[0], &stats_s[0], o)
    return mean, scale
