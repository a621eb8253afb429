#!python
# cython: embedsignature=True, binding=True
"""The shared noise: noise[i] for i in [0, size), made where it is needed or kept in a table."""

import numpy as np

from libc.stdint cimport uint64_t
from rollmill._arrays cimport check_apart, check_array, whole
from rollmill._isa cimport isa_of
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_NOISE_SIZE_MAX, rml_isa, rml_noise, rml_noise_fill,
                                rml_noise_index, rml_noise_perturb, rml_status)

#: The largest size.
SIZE_MAX = RML_NOISE_SIZE_MAX


cdef class Noise:
    """Standard normal float32 numbers that a key names.

    key : int in [0, 2**64)
    size : int in [1, 2**32]
    table : (size,) float32, C-contiguous, may be read-only; the same numbers, made by `fill`

    With a table, perturbations and sums read it; without one they generate. Equal bits.
    Raises ValueError on a size or table out of range.
    """

    def __cinit__(self, key, size, table=None):
        key, size = whole(key, "key"), whole(size, "size")
        if not 1 <= size <= SIZE_MAX:
            raise ValueError(f"size must be in [1, 2**32], got {size}")
        self.c = rml_noise(key=key, size=size, table_k=NULL)
        if table is not None:
            check_array("table", table, "float32", (size,))
            self.table = table
            self.table_k = table
            self.c.table_k = &self.table_k[0]

    @property
    def key(self):
        """int, the key."""
        return self.c.key

    @property
    def size(self):
        """int, numbers in all."""
        return self.c.size

    def __reduce__(self):
        return Noise, (self.c.key, self.c.size, self.table)

    def fill(self, start=0, size=0, out=None, isa=None):
        """noise[start], noise[start + 1], ..., generated.

        start : int >= 0
        size : int >= 0, numbers to make if out is None
        out : (K,) float32, writable, C-contiguous
        Returns out. Raises ValueError on an array that does not fit, or past the end of the noise.
        """
        if out is not None:
            check_array("out", out, "float32", ("K",), True)
            size = out.shape[0]
        start, size = whole(start, "start"), whole(size, "size")
        if not (0 <= start <= self.c.size and 0 <= size <= self.c.size - start):
            raise ValueError(f"start and size must be at least 0 and start + size at most "
                             f"{self.c.size}, got {start} and {size}")
        if out is None:
            out = np.empty(size, np.float32)
        cdef float[::1] out_k = out
        cdef size_t k = out_k.shape[0]
        cdef uint64_t first = start
        cdef rml_isa set_ = isa_of(isa)
        cdef rml_status status
        if k == 0:
            return out
        with nogil:
            status = rml_noise_fill(&out_k[0], k, &self.c, first, set_)
        check(status)
        return out

    def index(self, key, pair, iteration, d):
        """Where the perturbation of d parameters of a pair begins: uniform over [0, size - d].

        Raises ValueError if d is 0 or larger than the noise.
        """
        cdef uint64_t index
        key, pair = whole(key, "key"), whole(pair, "pair")
        iteration, d = whole(iteration, "iteration"), whole(d, "d")
        if not 1 <= d <= self.c.size:
            raise ValueError(f"d must be in [1, {self.c.size}], the noise size, got {d}")
        check(rml_noise_index(&index, &self.c, key, pair, iteration, d))
        return index

    def perturb(self, theta, index, float stdev, plus=None, minus=None, isa=None):
        """theta + stdev * noise[index:] and theta - stdev * noise[index:].

        theta : (D,) float32, C-contiguous, may be read-only
        index : int in [0, size - D]
        plus, minus : (D,) float32, writable, apart from each other and theta; new arrays if None
        Returns (plus, minus). Raises ValueError on an index or array that does not fit.
        """
        check_array("theta", theta, "float32", ("D",))
        cdef const float[::1] theta_d = theta
        cdef size_t d = theta_d.shape[0]
        if not 1 <= d <= self.c.size:
            raise ValueError(f"theta must have 1 to {self.c.size} parameters, the noise size, "
                             f"got {d}")
        index = whole(index, "index")
        if not 0 <= index <= self.c.size - d:
            raise ValueError(f"index must be in [0, {self.c.size - d}], got {index}")
        plus = np.empty(d, np.float32) if plus is None else plus
        minus = np.empty(d, np.float32) if minus is None else minus
        check_array("plus", plus, "float32", (d,), True)
        check_array("minus", minus, "float32", (d,), True)
        check_apart("theta, plus and minus", (theta, plus, minus))
        cdef float[::1] plus_d = plus
        cdef float[::1] minus_d = minus
        cdef uint64_t first = index
        cdef rml_isa set_ = isa_of(isa)
        cdef rml_status status
        with nogil:
            status = rml_noise_perturb(&plus_d[0], &minus_d[0], &theta_d[0], d, &self.c, first,
                                       stdev, set_)
        check(status)
        return plus, minus
