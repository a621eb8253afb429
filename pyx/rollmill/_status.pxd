# From statuses to Python exceptions.
from rollmill.ckernels cimport rml_status

cdef int check(rml_status status, str where=*) except -1
