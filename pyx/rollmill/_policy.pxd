# The network for other bindings.
from rollmill.ckernels cimport rml_policy


cdef class Network:
    cdef rml_policy c
