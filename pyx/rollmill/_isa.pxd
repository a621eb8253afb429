# Which build of the kernels runs.
from rollmill.ckernels cimport rml_isa

cdef rml_isa isa_of(object name) except *
