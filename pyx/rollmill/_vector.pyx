#!python
# cython: embedsignature=True, binding=True
"""Vectors of C environments with automatic resets."""

import numpy as np

from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release,
                             PyObject_GetBuffer)
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from rollmill._arrays cimport whole
from rollmill._env cimport NativeEnv
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_AUTORESET_DISABLED, RML_AUTORESET_NEXT_STEP,
                                RML_AUTORESET_SAME_STEP, RML_DISCRETE, RML_EACTION, RML_EENV,
                                RML_EINVAL, RML_TERMINATED, RML_TRUNCATED, rml_batch, rml_status,
                                rml_vector_reset, rml_vector_step)

NEXT_STEP = int(RML_AUTORESET_NEXT_STEP)
SAME_STEP = int(RML_AUTORESET_SAME_STEP)
DISABLED = int(RML_AUTORESET_DISABLED)
TERMINATED = int(RML_TERMINATED)
TRUNCATED = int(RML_TRUNCATED)

cdef object BOOL = np.dtype(np.bool_)
cdef object UINT8 = np.dtype(np.uint8)
cdef object UINT32 = np.dtype(np.uint32)
cdef object UINT64 = np.dtype(np.uint64)
cdef object FLOAT64 = np.dtype(np.float64)


cdef object aligned(size_t count, object dtype):
    """Zeros at an address that 64 divides."""
    size = count * dtype.itemsize
    raw = np.zeros(size + 64, UINT8)
    begin = -raw.ctypes.data % 64
    return raw[begin:begin + size].view(dtype)


cdef uint8_t *address(object array):
    return <uint8_t *><size_t>array.ctypes.data


cdef str kind_of(object array):
    if isinstance(array, np.ndarray):
        return f"{array.dtype} of shape {array.shape}"
    return type(array).__name__


cdef int check_array(str name, object array, object dtype, tuple shape) except -1:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        raise ValueError(f"{name} must be a {dtype} array of shape {shape}, got {kind_of(array)}")
    return 0


# Buffers that a call holds, released whatever happens. One that is written overlaps no other.
cdef class Held:
    cdef Py_buffer view_8[8]
    cdef bint write_8[8]
    cdef list names
    cdef int count

    def __cinit__(self):
        self.names = []

    cdef void *hold(self, str name, object array, object dtype, tuple shape,
                    bint write=True) except? NULL:
        cdef int k
        cdef const char *begin
        cdef const char *other
        check_array(name, array, dtype, shape)
        if not array.flags.aligned:
            raise ValueError(f"{name} must be aligned to {dtype.alignment} bytes")
        flags = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE if write else PyBUF_C_CONTIGUOUS
        try:
            PyObject_GetBuffer(array, &self.view_8[self.count], flags)
        except (BufferError, ValueError) as error:
            wanted = "C-contiguous and writable" if write else "C-contiguous"
            raise ValueError(f"{name} must be {wanted}: {error}") from None
        self.write_8[self.count] = write
        self.names.append(name)
        self.count += 1
        begin = <const char *>self.view_8[self.count - 1].buf
        for k in range(self.count - 1):
            other = <const char *>self.view_8[k].buf
            if ((write or self.write_8[k]) and begin < other + self.view_8[k].len
                    and other < begin + self.view_8[self.count - 1].len):
                raise ValueError(f"{name} must not overlap {self.names[k]}")
        return self.view_8[self.count - 1].buf

    def __dealloc__(self):
        for k in range(self.count):
            PyBuffer_Release(&self.view_8[k])


cdef class Vector:
    """n copies of a C environment that step together, without the interpreter.

    env : NativeEnv
    n : int in [1, 2^31), environments
    autoreset : int, NEXT_STEP, SAME_STEP or DISABLED of this module
    ids : (N,) uint32, items of the environments' random streams; all 0 if None

    One thread at a time may call a vector's methods. A step that fails inside the environment
    leaves the vector in need of a full reset with keys.
    """

    def __cinit__(self, NativeEnv env not None, n, autoreset=NEXT_STEP, ids=None):
        cdef size_t count
        n, autoreset = whole(n, "n"), whole(autoreset, "autoreset")
        if not 1 <= n < 2**31:
            raise ValueError(f"n must be in [1, 2^31), got {n}")
        if autoreset not in (NEXT_STEP, SAME_STEP, DISABLED):
            raise ValueError(f"autoreset must be NEXT_STEP, SAME_STEP or DISABLED, got {autoreset}")
        count = n
        self.env = env
        self.shape = (n,)
        if ids is not None:
            check_array("ids", ids, UINT32, self.shape)
        observation, action = env.observation_space_spec, env.action_space_spec
        self.obs_dtype, self.obs_shape = observation.dtype, (n, *observation.shape)
        self.action_dtype, self.action_shape = action.dtype, (n, *action.shape)
        self.key_n = aligned(count, UINT64)
        self.id_n = aligned(count, UINT32)
        self.episode_n = aligned(count, UINT32)
        self.elapsed_n = aligned(count, UINT32)
        self.done_n = aligned(count, UINT8)
        self.return_n = aligned(count, FLOAT64)
        state, mask_n = aligned(count * env.ptr.state_size, UINT8), aligned(count, UINT8)
        self.buffers = (state, mask_n)
        if ids is not None:
            self.id_n[:] = ids
        self.vector.env = env.ptr
        self.vector.n = count
        self.vector.autoreset = autoreset
        self.vector.state = address(state)
        self.vector.key_n = <uint64_t *>address(self.key_n)
        self.vector.id_n = <uint32_t *>address(self.id_n)
        self.vector.episode_n = <uint32_t *>address(self.episode_n)
        self.vector.elapsed_n = <uint32_t *>address(self.elapsed_n)
        self.vector.done_n = address(self.done_n)
        self.vector.mask_n = address(mask_n)
        self.vector.return_n = <double *>address(self.return_n)

    def reset_into(self, obs, *, keys=None, fresh=None, mask=None):
        """Start episodes and write their first observations.

        obs : (N, ...) of the observation space's dtype, C-contiguous, written where mask is True
        keys : (N,) uint64, keys of the random streams, read where fresh is True; or None
        fresh : (N,) bool, environments that get their key and start at episode 0; all if None
            and keys are given. The others keep their key and go on to their next episode.
        mask : (N,) bool, environments to reset; all if None

        Raises ValueError on an argument of another shape or dtype, RuntimeError if the
        environment fails or if a first reset does not give every environment its key. A
        refused call changes nothing.
        """
        cdef Held held = Held()
        cdef rml_status status
        cdef void *obs_no = held.hold("obs", obs, self.obs_dtype, self.obs_shape)
        cdef const uint8_t *mask_n = NULL
        cdef const uint8_t *fresh_n = NULL
        if mask is not None:
            mask_n = <const uint8_t *>held.hold("mask", mask, BOOL, self.shape, False)
        if keys is not None:
            check_array("keys", keys, UINT64, self.shape)
            if fresh is None:
                seeded = np.ones(self.shape, BOOL)
            else:
                check_array("fresh", fresh, BOOL, self.shape)
                seeded = fresh.copy()
            if mask is not None:
                seeded &= mask
        elif fresh is not None:
            raise ValueError("fresh needs keys")
        else:
            seeded = np.zeros(self.shape, BOOL)
        if not self.begun and not seeded.all():
            raise RuntimeError("the first reset must give a key to each environment")
        fresh_n = <const uint8_t *>held.hold("fresh", seeded, BOOL, self.shape, False)
        if keys is not None:
            self.key_n[seeded] = keys[seeded]
            self.episode_n[seeded] = 0
        with nogil:
            status = rml_vector_reset(&self.vector, mask_n, fresh_n, obs_no)
        self.begun = status != RML_EENV
        check(status, self.env.name)

    def reset(self, *, keys=None, fresh=None, mask=None):
        """As reset_into, with the observations in a new array, zeros where mask is False."""
        obs = np.zeros(self.obs_shape, self.obs_dtype)
        self.reset_into(obs, keys=keys, fresh=fresh, mask=mask)
        return obs

    def step_into(self, actions, obs, reward, flags, final=None, end_return=None,
                  end_length=None):
        """Step every environment and write what comes of it.

        actions : (N, ...) of the action space's dtype, C-contiguous, may be read-only
        obs : (N, ...) of the observation space's dtype, written
        reward : (N,) float64, written
        flags : (N,) uint8, written: 0, TERMINATED, TRUNCATED or both
        final : as obs, the last observation of each episode that ended, under SAME_STEP; or None
        end_return : (N,) float64, undiscounted return of each episode that ended; or None
        end_length : (N,) uint32, steps of each episode that ended; or None

        All are C-contiguous and do not overlap. `final`, `end_return` and `end_length` are left
        alone where no episode ended.
        Raises ValueError on an action that is outside a discrete space or not finite, or an
        array of another shape or dtype, RuntimeError if an environment has to be reset first or
        fails. A refused call changes nothing.
        """
        cdef Held held = Held()
        cdef rml_status status
        cdef size_t bad = 0
        cdef void *final_no = NULL
        cdef double *end_return_n = NULL
        cdef uint32_t *end_length_n = NULL
        if not self.begun:
            raise RuntimeError("the environments must be reset before they step")
        cdef const void *action_na = held.hold("actions", actions, self.action_dtype,
                                               self.action_shape, False)
        cdef void *obs_no = held.hold("obs", obs, self.obs_dtype, self.obs_shape)
        cdef double *reward_n = <double *>held.hold("reward", reward, FLOAT64, self.shape)
        cdef uint8_t *flags_n = <uint8_t *>held.hold("flags", flags, UINT8, self.shape)
        if final is not None:
            final_no = held.hold("final", final, self.obs_dtype, self.obs_shape)
        if end_return is not None:
            end_return_n = <double *>held.hold("end_return", end_return, FLOAT64, self.shape)
        if end_length is not None:
            end_length_n = <uint32_t *>held.hold("end_length", end_length, UINT32, self.shape)
        with nogil:
            status = rml_vector_step(&self.vector, action_na, obs_no, reward_n, flags_n, final_no,
                                     end_return_n, end_length_n, &bad)
        if status == RML_EACTION:
            wanted = (f"in [0, {self.vector.env.action.n - 1}]"
                      if self.vector.env.action.kind == RML_DISCRETE else "finite")
            raise ValueError(f"actions[{bad}] must be {wanted}, got {actions[bad].tolist()}")
        if status == RML_EINVAL and bad < self.vector.n:
            raise RuntimeError(f"environment {bad} has finished: reset it before it steps")
        if status == RML_EENV:
            self.begun = False
        check(status, self.env.name)

    def step(self, actions):
        """As step_into, with new arrays.

        actions : (N, ...) of the action space's dtype, C-contiguous, may be read-only

        Returns (obs, reward, flags, final); final is None unless the mode is SAME_STEP, and zeros
        where no episode ended.
        """
        obs = np.empty(self.obs_shape, self.obs_dtype)
        reward = np.empty(self.shape, FLOAT64)
        flags = np.empty(self.shape, UINT8)
        final = None
        if self.vector.autoreset == RML_AUTORESET_SAME_STEP:
            final = np.zeros(self.obs_shape, self.obs_dtype)
        self.step_into(actions, obs, reward, flags, final)
        return obs, reward, flags, final

    def render(self, i):
        """Text picture of environment i.

        Raises IndexError on an i outside [0, N), RuntimeError before the first reset,
        NotImplementedError if the environment draws nothing.
        """
        cdef rml_batch batch
        cdef size_t length = 0
        i = whole(i, "i")
        if not 0 <= i < self.vector.n:
            raise IndexError(f"i must be in [0, {self.vector.n}), got {i}")
        if not self.begun:
            raise RuntimeError("the environments must be reset before they are drawn")
        if self.vector.env.render == NULL:
            raise NotImplementedError(f"{self.env.name} has no text picture")
        batch.n = self.vector.n
        batch.begin = i
        batch.end = batch.begin + 1
        batch.mask_n = NULL
        batch.key_n = self.vector.key_n
        batch.id_n = self.vector.id_n
        batch.episode_n = self.vector.episode_n
        batch.elapsed_n = self.vector.elapsed_n
        batch.state = self.vector.state
        batch.action_na = NULL
        batch.obs_no = NULL
        batch.reward_n = NULL
        batch.flags_n = NULL
        check(self.vector.env.render(self.vector.env, &batch, NULL, 0, &length), self.env.name)
        text = bytearray(length)
        cdef char[::1] text_k = text
        check(self.vector.env.render(self.vector.env, &batch, &text_k[0], length, &length),
              self.env.name)
        return text.rstrip(b"\0").decode("utf-8", "replace")

    @property
    def n(self):
        """int, environments."""
        return self.vector.n

    @property
    def autoreset(self):
        """int, NEXT_STEP, SAME_STEP or DISABLED."""
        return self.vector.autoreset

    @property
    def begun(self):
        """bool, whether every environment has an episode."""
        return self.begun

    @property
    def keys(self):
        """(N,) uint64, a copy: the keys of the random streams."""
        return self.key_n.copy()

    @property
    def episodes(self):
        """(N,) uint32, a copy: the episode of each environment."""
        return self.episode_n.copy()

    @property
    def elapsed(self):
        """(N,) uint32, a copy: steps taken in the running episode."""
        return self.elapsed_n.copy()

    @property
    def done(self):
        """(N,) bool, a copy: whether the episode is over and no reset has followed."""
        return self.done_n.astype(BOOL)

    @property
    def returns(self):
        """(N,) float64, a copy: the undiscounted return of the running episode."""
        return self.return_n.copy()

    def __reduce__(self):
        raise TypeError("a Vector holds C pointers and does not pickle")
