# A C environment and what keeps it alive.
cimport cython
from rollmill.ckernels cimport rml_env


@cython.final
cdef class NativeEnv:
    cdef const rml_env *ptr  # never NULL, checked by rml_env_check
    cdef object owner        # holds ptr's memory and code

    @staticmethod
    cdef NativeEnv wrap(const rml_env *ptr, object owner)
