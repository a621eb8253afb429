#!python
# cython: embedsignature=True, binding=True
"""Environments in C, as Python objects that keep them alive."""

from collections import namedtuple

import numpy as np

cimport cython
from cpython.pycapsule cimport (PyCapsule_GetContext, PyCapsule_GetPointer, PyCapsule_IsValid,
                                PyCapsule_New, PyCapsule_SetContext)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from rollmill._arrays cimport whole
from rollmill.ckernels cimport (RML_ABI_VERSION, RML_BOX, RML_EABI, RML_FLOAT32, RML_FLOAT64,
                                RML_INT32, RML_INT64, RML_OK, RML_UINT8, rml_env, rml_env_check,
                                rml_env_factory, rml_space, rml_status)

cdef extern from *:
    """
    #include <dlfcn.h>
    #ifdef __GLIBC__
    #include <link.h>
    #endif

    /* Whether an address lies in a symbol that is data. 0 if nothing is known of it. */
    static int address_is_data(void *address) {
    #if defined(__GLIBC__) && defined(_GNU_SOURCE)
        Dl_info info;
        const ElfW(Sym) *symbol = NULL;
        void *entry = NULL;
        if (!dladdr1(address, &info, &entry, RTLD_DL_SYMENT) || !entry)
            return 0;
        symbol = (const ElfW(Sym) *)entry;
        return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
    #else
        (void)address;
        return 0;
    #endif
    }
    """
    int address_is_data(void *address)

cdef const char *CAPSULE_NAME = "rollmill.rml_env"

cdef dict DTYPES = {
    RML_UINT8: np.dtype(np.uint8),
    RML_INT32: np.dtype(np.int32),
    RML_INT64: np.dtype(np.int64),
    RML_FLOAT32: np.dtype(np.float32),
    RML_FLOAT64: np.dtype(np.float64),
}

SpaceSpec = namedtuple("SpaceSpec", ["kind", "dtype", "n", "shape", "low", "high"])
SpaceSpec.__doc__ = """What an environment declares of its observations or actions.

kind : str, "discrete" or "box"
dtype : numpy.dtype
n : int, values of a discrete space, elements of a box
shape : tuple of int, () for a discrete space
low, high : (*shape) float64, or None where a box is unbounded or the space is discrete
"""


cdef object bounds(const double *bound, int64_t n, tuple shape):
    if bound == NULL:
        return None
    return np.array([bound[i] for i in range(n)]).reshape(shape)


cdef object space_spec(const rml_space *space):
    cdef tuple shape = ()
    if space.kind == RML_BOX:
        shape = tuple([space.shape[axis] for axis in range(space.axes)])
    return SpaceSpec(
        "box" if space.kind == RML_BOX else "discrete",
        DTYPES[space.dtype],
        space.n,
        shape,
        bounds(space.low, space.n, shape) if space.kind == RML_BOX else None,
        bounds(space.high, space.n, shape) if space.kind == RML_BOX else None,
    )


cdef void release_owner(object capsule) noexcept:
    Py_DECREF(<object>PyCapsule_GetContext(capsule))


# Nobody but `wrap` has it: a NativeEnv without a pointer must not come to be.
cdef object MADE = object()


@cython.final
cdef class NativeEnv:
    """An environment in C behind the rml_env interface, and the object that keeps it alive.

    Made by a function such as `rollmill.envs.native_env`, by `from_capsule` or `from_address`.
    It holds no episode: `rollmill._vector.Vector` and the rollouts do. It does not pickle; a
    `rollmill.envs.EnvSpec` builds it again in another process.
    """

    def __cinit__(self, made=None):
        if made is not MADE:
            raise TypeError("a NativeEnv comes from rollmill.envs.native_env, "
                            "NativeEnv.from_capsule or NativeEnv.from_address")

    @staticmethod
    cdef NativeEnv wrap(const rml_env *ptr, object owner):
        cdef const char *why = NULL
        cdef rml_status status = rml_env_check(ptr, &why)
        cdef NativeEnv env
        if status != RML_OK:
            text = f"not an environment that this rollmill can run: {why.decode()}"
            if status == RML_EABI:
                text += (f" (got abi_version {ptr.abi_version} and struct_size {ptr.struct_size}, "
                         f"wanted {RML_ABI_VERSION} and {sizeof(rml_env)}: compile it again)")
            raise ValueError(text)
        env = NativeEnv.__new__(NativeEnv, MADE)
        env.ptr = ptr
        env.owner = owner
        return env

    @staticmethod
    def from_capsule(capsule):
        """The environment in a PyCapsule named "rollmill.rml_env", which stays referenced.

        Raises TypeError if it is no such capsule, ValueError if the environment is refused.
        """
        if not PyCapsule_IsValid(capsule, CAPSULE_NAME):
            raise TypeError(f"capsule must be a PyCapsule named {CAPSULE_NAME.decode()!r}, "
                            f"got {capsule!r}")
        return NativeEnv.wrap(<const rml_env *>PyCapsule_GetPointer(capsule, CAPSULE_NAME), capsule)

    @staticmethod
    def from_address(address, owner):
        """The environment that the factory function at an address returns.

        address : int, where a function of the C type rml_env_factory lies
        owner : object that holds the function's code, such as a ctypes.CDLL

        The address is called: another function than such a one crashes the process.
        Raises ValueError if the environment is refused or the address is known to be data.
        """
        cdef size_t place = whole(address, "address")
        cdef rml_env_factory factory = <rml_env_factory>place
        cdef const rml_env *ptr
        if factory == NULL:
            raise ValueError("address must be that of a rml_env_factory, got 0")
        if address_is_data(<void *>place):
            raise ValueError("not an environment that this rollmill can run: the address "
                             f"{place:#x} is data, no function")
        with nogil:
            ptr = factory()
        return NativeEnv.wrap(ptr, owner)

    def capsule(self):
        """A new PyCapsule named "rollmill.rml_env" that keeps this object alive."""
        capsule = PyCapsule_New(<void *>self.ptr, CAPSULE_NAME, release_owner)
        PyCapsule_SetContext(capsule, <void *>self)
        Py_INCREF(self)
        return capsule

    @property
    def name(self):
        """str: the environment's own name."""
        return self.ptr.name.decode("utf-8", "replace")

    @property
    def observation_space_spec(self):
        """SpaceSpec of the observations."""
        return space_spec(&self.ptr.observation)

    @property
    def action_space_spec(self):
        """SpaceSpec of the actions."""
        return space_spec(&self.ptr.action)

    @property
    def max_episode_steps(self):
        """int, steps after which an episode is truncated; 0 is never."""
        return self.ptr.max_episode_steps

    @property
    def state_size(self):
        """int, bytes of state an environment."""
        return self.ptr.state_size

    def __repr__(self):
        return f"<NativeEnv {self.name!r}>"

    def __reduce__(self):
        raise TypeError("a NativeEnv holds a C pointer and does not pickle: send the "
                        "rollmill.envs.EnvSpec that builds it")
