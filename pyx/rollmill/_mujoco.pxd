# MuJoCo simulators and the environments that run on them.
from rollmill.ckernels cimport rml_env, rml_mujoco, rml_simulator


cdef class Simulator:
    cdef rml_simulator simulator
    cdef tuple owners  # the library, the model, the data


cdef class MujocoStorage:
    cdef rml_mujoco mujoco
    cdef rml_env env
    cdef Simulator simulator
    cdef tuple owners  # what mujoco points into
