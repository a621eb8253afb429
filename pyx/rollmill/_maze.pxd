# The maze and its environment in one piece of memory.
from rollmill.ckernels cimport rml_env, rml_maze


cdef class MazeStorage:
    cdef rml_maze maze
    cdef rml_env env
