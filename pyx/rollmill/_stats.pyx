#!python
# cython: embedsignature=True, binding=True
"""Running mean and variance of observations.

A block of statistics is (1 + 2*O,) float64: count, mean, sum of squared deviations.
"""

import numpy as np

from rollmill.ckernels cimport rml_stats_freeze, rml_stats_merge, rml_stats_push


cdef size_t elements(const double[::1] stats, str name) except? 0:
    if stats.shape[0] < 3 or stats.shape[0] % 2 == 0:
        raise ValueError(f"{name} must have shape (1 + 2*O,), O >= 1, got ({stats.shape[0]},)")
    return (stats.shape[0] - 1) // 2


def stats_push(double[::1] stats not None, const double[:, ::1] x not None):
    """Add observations to a block in place, row after row.

    stats : (1 + 2*O,) float64, writable
    x : (N, O) float64, C-contiguous, may be read-only
    """
    cdef size_t o = elements(stats, "stats"), i, n = x.shape[0]
    if <size_t>x.shape[1] != o:
        raise ValueError(f"x must have shape (N, {o}), got ({x.shape[0]}, {x.shape[1]})")
    with nogil:
        for i in range(n):
            rml_stats_push(&stats[0], &x[i, 0], o)


def stats_merge(double[::1] stats not None, const double[:, ::1] blocks not None):
    """Merge blocks into a block in place, in their order.

    stats : (1 + 2*O,) float64, writable
    blocks : (K, 1 + 2*O) float64, C-contiguous, may be read-only
    """
    cdef size_t o = elements(stats, "stats"), i, k = blocks.shape[0]
    if blocks.shape[1] != stats.shape[0]:
        raise ValueError(f"blocks must have shape (K, {stats.shape[0]}), "
                         f"got ({blocks.shape[0]}, {blocks.shape[1]})")
    with nogil:
        for i in range(k):
            rml_stats_merge(&stats[0], &blocks[i, 0], o)


def stats_freeze(const double[::1] stats not None):
    """Mean and scale that a policy applies: (x - mean) * scale.

    scale is 1 / std (divisor count - 1), 0 where std < 1e-7; mean 0 and scale 1 below two
    observations. Returns (mean, scale), (O,) float64 each.
    """
    cdef size_t o = elements(stats, "stats")
    mean, scale = np.empty(o), np.empty(o)
    cdef double[::1] mean_o = mean
    cdef double[::1] scale_o = scale
    rml_stats_freeze(&mean_o[0], &scale_o[0], &stats[0], o)
    return mean, scale
