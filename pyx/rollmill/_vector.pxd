# A vector of environments with its buffers.
from rollmill._env cimport NativeEnv
from rollmill.ckernels cimport rml_vector


cdef class Vector:
    cdef rml_vector vector
    cdef bint begun                # every environment has an episode
    cdef readonly NativeEnv env
    cdef tuple buffers             # what vector points into
    cdef object key_n, id_n, episode_n, elapsed_n, done_n, return_n
    cdef object obs_dtype, action_dtype
    cdef tuple obs_shape, action_shape, shape
