# The shared noise for other bindings.
from libc.stdint cimport uint64_t
from rollmill.ckernels cimport rml_noise


cdef class Noise:
    cdef rml_noise c
    cdef object table  # (size,) float32 or None: keeps c.table_k alive
    cdef const float[::1] table_k
