#!python
# cython: embedsignature=True, binding=True
"""Evolution strategies: fitness shaping and the weighted sum of noise."""

import numpy as np

from libc.stdint cimport uint32_t, uint64_t
from rollmill._arrays cimport aligned_bytes, check_apart, check_array, whole
from rollmill._isa cimport isa_of
from rollmill._noise cimport Noise
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_ENONFINITE, RML_ES_BLOCK, RML_ES_TILE, rml_blas,
                                rml_es_noise_sum, rml_es_rank, rml_es_scratch, rml_isa, rml_status)

#: Pairs in a block of the sum.
BLOCK = RML_ES_BLOCK
#: Ranges of columns begin at multiples of this.
TILE = RML_ES_TILE


def centered_ranks(values):
    """Ranks scaled to [-0.5, 0.5], ties sharing their mean rank.

    values : (N,) float64, C-contiguous, may be read-only, no NaN
    Returns (N,) float32, zeros where all values are equal. Raises ValueError on NaN.
    """
    check_array("values", values, "float64", ("N",))
    cdef const double[::1] value_n = values
    cdef size_t n = value_n.shape[0]
    out = np.empty(n, np.float32)
    if n == 0:
        return out
    cdef float[::1] out_n = out
    cdef uint32_t[::1] order = np.empty(2 * n, np.uint32)
    cdef rml_status status
    with nogil:
        status = rml_es_rank(&out_n[0], &value_n[0], n, &order[0])
    if status == RML_ENONFINITE:
        raise ValueError("values must not be NaN, got NaN at "
                         f"{int(np.argmax(np.isnan(values)))}")
    check(status)
    return out


def noise_sum(Noise noise not None, index, weight, out, begin=0, end=None, blas="none", isa=None):
    """sum over p of weight[p] * noise[index[p] + column], for columns [begin, end) of out.

    index : (P,) uint64, each in [0, noise.size - D], may be read-only
    weight : (P,) float32, may be read-only
    out : (D,) float32, writable, apart from weight
    begin : int, a multiple of TILE
    end : int, at most D; D if None
    blas : {"none", "scipy", "reference"}: our kernel, or a saxpy for each row
    Returns out. Any split into ranges gives the same bits. Raises ValueError on a range, array
    or index that does not fit.
    """
    check_array("index", index, "uint64", ("P",))
    check_array("weight", weight, "float32", (len(index),))
    check_array("out", out, "float32", ("D",), True)
    check_apart("weight and out", (weight, out))
    cdef float[::1] out_d = out
    cdef const uint64_t[::1] index_k = index
    cdef const float[::1] weight_k = weight
    cdef size_t d = out_d.shape[0], p = index_k.shape[0], k, first, stop
    cdef const rml_blas *table = NULL
    cdef rml_isa set_ = isa_of(isa)
    if blas != "none":  # SciPy's BLAS is loaded at its first use
        table = load_blas(blas)
    begin, end = whole(begin, "begin"), d if end is None else whole(end, "end")
    if begin % TILE or not 0 <= begin <= end <= d:
        raise ValueError(f"[begin, end) must lie in [0, {d}] and begin at a multiple of {TILE}, "
                         f"got [{begin}, {end})")
    first, stop = begin, end
    if d > noise.c.size:
        raise ValueError(f"out must have at most {noise.c.size} elements, the noise size, got {d}")
    for k in range(p):
        if index_k[k] > noise.c.size - d:
            raise ValueError(f"index must be in [0, {noise.c.size - d}], got {index_k[k]}")
    if first == stop:
        return out
    cdef char[::1] scratch = aligned_bytes(rml_es_scratch(p))
    cdef const uint64_t *index_p = &index_k[0] if p else NULL
    cdef const float *weight_p = &weight_k[0] if p else NULL
    cdef rml_status status
    with nogil:
        status = rml_es_noise_sum(&out_d[0], first, stop, d, &noise.c, index_p, weight_p, p,
                                  table, &scratch[0], set_)
    check(status)
    return out


cdef const rml_blas *load_blas(name) except NULL:
    from rollmill._blas import table_address
    return <const rml_blas *><size_t>table_address(name)
