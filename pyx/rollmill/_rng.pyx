#!python
# cython: embedsignature=True, binding=True
"""Random numbers without state: Philox4x32-10 over counters that name what a number is for."""

import numpy as np

from libc.stdint cimport uint32_t, uint64_t
from rollmill._arrays cimport check_array, whole
from rollmill._isa cimport isa_of
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_STREAM_ACTION, RML_STREAM_ACTION_NOISE, RML_STREAM_ENV_LAYOUT,
                                RML_STREAM_ENV_RESET, RML_STREAM_ENV_STEP, RML_STREAM_EVALUATION,
                                RML_STREAM_EXPLORE, RML_STREAM_INIT, RML_STREAM_NOISE,
                                RML_STREAM_NOISE_INDEX, RML_STREAM_REPLAY, rml_isa,
                                rml_normal_fill, rml_philox, rml_rng_block, rml_rng_derive,
                                rml_status, rml_stream)

#: What each stream is for, by name.
STREAMS = {
    "noise": RML_STREAM_NOISE,
    "noise_index": RML_STREAM_NOISE_INDEX,
    "init": RML_STREAM_INIT,
    "env_reset": RML_STREAM_ENV_RESET,
    "env_step": RML_STREAM_ENV_STEP,
    "env_layout": RML_STREAM_ENV_LAYOUT,
    "action": RML_STREAM_ACTION,
    "action_noise": RML_STREAM_ACTION_NOISE,
    "explore": RML_STREAM_EXPLORE,
    "replay": RML_STREAM_REPLAY,
    "evaluation": RML_STREAM_EVALUATION,
}

# Numbers in a stream: 2**56 blocks of four.
cdef object NORMALS = 2**58


cdef int stream_of(stream) except -1:
    if stream not in STREAMS:
        raise ValueError(f"stream must be one of {', '.join(STREAMS)}, got {stream!r}")
    return STREAMS[stream]


def philox(key, c0, c1, c2, c3):
    """The four 32-bit words of Philox4x32-10 for a 64-bit key and a counter.

    key, c0, c1, c2, c3 : int
    Returns (4,) uint32. Raises OverflowError for a number out of its range.
    """
    out = np.empty(4, np.uint32)
    cdef uint32_t[::1] out_4 = out
    rml_philox(&out_4[0], whole(key, "key"), whole(c0, "c0"), whole(c1, "c1"), whole(c2, "c2"),
               whole(c3, "c3"))
    return out


def block(key, stream, item, iteration, number):
    """The four draws of one block of a stream.

    stream : str, a name in STREAMS
    Returns (4,) uint32.
    """
    out = np.empty(4, np.uint32)
    cdef uint32_t[::1] out_4 = out
    rml_rng_block(&out_4[0], whole(key, "key"), <rml_stream>stream_of(stream), whole(item, "item"),
                  whole(iteration, "iteration"), whole(number, "number"))
    return out


def derive(key, kind):
    """A key of its own for each (key, kind), as evaluation episodes use it."""
    return rml_rng_derive(whole(key, "key"), whole(kind, "kind"))


def normal_fill(key, stream, item, iteration, start, size=0, out=None, isa=None):
    """Standard normals `start`, `start + 1`, ... of a stream.

    start : int >= 0, start + size at most 2**58
    size : int >= 0, numbers to make if out is None
    out : (K,) float32, writable, C-contiguous
    isa : {"base", "v3", "v4", "auto"}, optional
    Returns out. The definition is in rng.h. Raises ValueError on a range or array that does not
    fit.
    """
    cdef uint64_t key_ = whole(key, "key")
    cdef uint32_t item_ = whole(item, "item"), iteration_ = whole(iteration, "iteration")
    if out is not None:
        check_array("out", out, "float32", ("K",), True)
        size = out.shape[0]
    start, size = whole(start, "start"), whole(size, "size")
    if not (0 <= start <= NORMALS and 0 <= size <= NORMALS - start):
        raise ValueError(f"start and size must be at least 0 and start + size at most 2**58, got "
                         f"{start} and {size}")
    if out is None:
        out = np.empty(size, np.float32)
    cdef float[::1] out_k = out
    cdef size_t k = out_k.shape[0]
    cdef uint64_t first = start
    cdef rml_isa set_ = isa_of(isa)
    cdef rml_stream which = <rml_stream>stream_of(stream)
    cdef rml_status status
    if k == 0:
        return out
    with nogil:
        status = rml_normal_fill(&out_k[0], k, key_, which, item_, iteration_, first, set_)
    check(status)
    return out
