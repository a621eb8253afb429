#!python
# cython: embedsignature=True, binding=True
"""Gymnasium's MuJoCo tasks in C, over addresses of an installed MuJoCo."""

from collections import namedtuple

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from rollmill._arrays cimport check_array, whole
from rollmill._env cimport NativeEnv
from rollmill._status cimport check
from rollmill._vector cimport Vector
from rollmill.ckernels cimport (RML_MUJOCO_ANT, RML_MUJOCO_ARRAYS, RML_MUJOCO_BODIES,
                                RML_MUJOCO_CFRC_EXT, RML_MUJOCO_CINERT, RML_MUJOCO_CLIP,
                                RML_MUJOCO_COPY, RML_MUJOCO_COS, RML_MUJOCO_CTRL, RML_MUJOCO_CVEL,
                                RML_MUJOCO_DIFFERENCE, RML_MUJOCO_DOUBLE_PENDULUM,
                                RML_MUJOCO_HALF_CHEETAH, RML_MUJOCO_HOPPER, RML_MUJOCO_HUMANOID,
                                RML_MUJOCO_HUMANOID_STANDUP, RML_MUJOCO_PENDULUM,
                                RML_MUJOCO_PUSHER, RML_MUJOCO_QFRC_ACTUATOR,
                                RML_MUJOCO_QFRC_CONSTRAINT, RML_MUJOCO_QPOS, RML_MUJOCO_QVEL,
                                RML_MUJOCO_REACHER, RML_MUJOCO_SEGMENTS, RML_MUJOCO_SIN,
                                RML_MUJOCO_SITE_XPOS, RML_MUJOCO_SWIMMER, RML_MUJOCO_WALKER2D,
                                RML_MUJOCO_XIPOS, RML_MUJOCO_XPOS, RML_OK, rml_batch,
                                rml_mujoco_data, rml_mujoco_init, rml_mujoco_place,
                                rml_mujoco_read, rml_status)

ctypedef void (*simulate)(const void *model, void *data) noexcept nogil
ctypedef void (*state_get)(const void *model, const void *data, double *state,
                           int signature) noexcept nogil
ctypedef void (*state_set)(const void *model, void *data, const double *state,
                           int signature) noexcept nogil

# Attributes of an mjData that tasks use.
ARRAYS = {
    "qpos": int(RML_MUJOCO_QPOS),
    "qvel": int(RML_MUJOCO_QVEL),
    "ctrl": int(RML_MUJOCO_CTRL),
    "xpos": int(RML_MUJOCO_XPOS),
    "xipos": int(RML_MUJOCO_XIPOS),
    "site_xpos": int(RML_MUJOCO_SITE_XPOS),
    "cinert": int(RML_MUJOCO_CINERT),
    "cvel": int(RML_MUJOCO_CVEL),
    "qfrc_actuator": int(RML_MUJOCO_QFRC_ACTUATOR),
    "qfrc_constraint": int(RML_MUJOCO_QFRC_CONSTRAINT),
    "cfrc_ext": int(RML_MUJOCO_CFRC_EXT),
}
FUNCTIONS = ("mj_step", "mj_forward", "mj_resetData", "mj_rnePostConstraint", "mj_getState",
             "mj_setState")
TASKS = {
    "swimmer": int(RML_MUJOCO_SWIMMER),
    "half_cheetah": int(RML_MUJOCO_HALF_CHEETAH),
    "hopper": int(RML_MUJOCO_HOPPER),
    "walker2d": int(RML_MUJOCO_WALKER2D),
    "ant": int(RML_MUJOCO_ANT),
    "humanoid": int(RML_MUJOCO_HUMANOID),
    "humanoid_standup": int(RML_MUJOCO_HUMANOID_STANDUP),
    "reacher": int(RML_MUJOCO_REACHER),
    "pusher": int(RML_MUJOCO_PUSHER),
    "pendulum": int(RML_MUJOCO_PENDULUM),
    "double_pendulum": int(RML_MUJOCO_DOUBLE_PENDULUM),
}
MAPS = {
    "copy": int(RML_MUJOCO_COPY),
    "clip": int(RML_MUJOCO_CLIP),
    "cos": int(RML_MUJOCO_COS),
    "sin": int(RML_MUJOCO_SIN),
    "difference": int(RML_MUJOCO_DIFFERENCE),
}

Segment = namedtuple("Segment", ["array", "first", "length", "map", "minus", "low", "high"],
                     defaults=["copy", 0, 0.0, 0.0])
Segment.__doc__ = """Elements of an array, as they enter an observation.

array : str in ARRAYS
first, length : int
map : str in MAPS
minus : int, "difference": first element of what is taken away
low, high : float, "clip": the bounds
"""


cdef double *doubles(str name, object array, size_t size) except? NULL:
    """Where an array of a library lies; NULL for one of no elements."""
    if (not isinstance(array, np.ndarray) or array.dtype != np.float64
            or not array.flags.c_contiguous):
        raise ValueError(f"{name} must be a C-contiguous float64 array, got {array!r}")
    if <size_t>array.size != size:
        raise ValueError(f"{name} must have {size} elements, got {array.size}")
    return <double *><size_t>array.ctypes.data if size else NULL


cdef class Simulator:
    """A MuJoCo model, its library and the data in which it is stepped.

    library : object that holds the library's code
    functions : dict of FUNCTIONS to the addresses of these functions
    model : mujoco.MjModel
    datas : sequence of mujoco.MjData of the model, at least 1, that nobody else uses from now on
    signature : int, mjSTATE_INTEGRATION
    state_length : int, mj_stateSize(model, signature)

    Any number of environments may share it, in any number of threads: a call takes one of the
    datas and waits for one while all are taken. Wrong addresses crash the process.
    """

    def __cinit__(self, library, functions, model, datas, signature, state_length):
        cdef rml_mujoco_data *data
        cdef size_t k, size
        cdef dict sizes
        cdef tuple found = tuple([whole(functions[name], name) for name in FUNCTIONS])
        self.owners = (library, model, tuple(datas))
        if not self.owners[2]:
            raise ValueError("datas must not be empty")
        sizes = {name: getattr(self.owners[2][0], name).size for name in ARRAYS}
        self.simulator.model = <const void *><size_t>model._address
        self.simulator.step = <simulate><size_t>found[0]
        self.simulator.forward = <simulate><size_t>found[1]
        self.simulator.reset = <simulate><size_t>found[2]
        self.simulator.post_constraint = <simulate><size_t>found[3]
        self.simulator.get_state = <state_get><size_t>found[4]
        self.simulator.set_state = <state_set><size_t>found[5]
        self.simulator.signature = whole(signature, "signature")
        self.simulator.state_length = whole(state_length, "state_length")
        for name, a in ARRAYS.items():
            self.simulator.size_a[<size_t>a] = sizes[name]
        size = len(self.owners[2])
        self.simulator.data_k = <rml_mujoco_data *>calloc(size, sizeof(rml_mujoco_data))
        if self.simulator.data_k == NULL:
            raise MemoryError()
        self.simulator.k = size
        for k in range(size):
            data = self.simulator.data_k + k
            owner = self.owners[2][k]
            data.data = <void *><size_t>owner._address
            for name, a in ARRAYS.items():
                data.array_a[<size_t>a] = doubles(name, getattr(owner, name), sizes[name])

    def __dealloc__(self):
        free(self.simulator.data_k)

    @property
    def sizes(self):
        """dict of ARRAYS to int, elements of each."""
        return {name: self.simulator.size_a[<size_t>a] for name, a in ARRAYS.items()}

    @property
    def datas(self):
        """int, how many calls may step at once."""
        return self.simulator.k

    def __reduce__(self):
        raise TypeError("a Simulator holds C pointers and does not pickle")


cdef class MujocoStorage:
    """Owns the C structs of one task and all that they point to."""


cdef int set_pair(double *pair_2, object values) except -1:
    pair_2[0], pair_2[1] = values
    return 0


def environment(Simulator simulator not None, str name not None, *, str task not None, version,
                max_episode_steps, frame_skip, observation, init_qpos, init_qvel, action_low,
                action_high, body_mass, double timestep, bodies=(), parameters=None):
    """The environment of a task.

    name : str, the environment's name
    task : str in TASKS
    version : int, 4 or 5
    max_episode_steps : int, steps after which an episode is truncated; 0 is never
    frame_skip : int, at least 1: calls of mj_step in a step
    observation : sequence of Segment, 1 to 8
    init_qpos, init_qvel : float64 arrays as long as qpos and qvel
    action_low, action_high : float64 arrays as long as ctrl
    body_mass : float64, one a body
    timestep : float, seconds of an mj_step
    bodies : up to 3 int, the bodies that the task names
    parameters : dict of the other fields of the C struct rml_mujoco to bool, float or a pair of
        float; 0 where it lacks one

    Returns a NativeEnv. Raises ValueError if the task cannot run on the model.
    """
    cdef MujocoStorage storage = MujocoStorage()
    cdef dict sizes = simulator.sizes, given = dict(parameters or {})
    cdef const char *why = NULL
    cdef size_t k
    if len(observation) > RML_MUJOCO_SEGMENTS:
        raise ValueError(f"observation must have at most {RML_MUJOCO_SEGMENTS} parts, "
                         f"got {len(observation)}")
    if len(bodies) > RML_MUJOCO_BODIES:
        raise ValueError(f"bodies must be at most {RML_MUJOCO_BODIES}, got {len(bodies)}")
    text = name.encode()
    arrays = tuple([np.array(array, np.float64, order="C")
                    for array in (init_qpos, init_qvel, action_low, action_high, body_mass)])
    storage.simulator = simulator
    storage.owners = (text, arrays)
    storage.mujoco.simulator = &simulator.simulator
    storage.mujoco.name = <const char *>text
    storage.mujoco.task = TASKS[task]
    storage.mujoco.version = whole(version, "version")
    storage.mujoco.max_episode_steps = whole(max_episode_steps, "max_episode_steps")
    storage.mujoco.frame_skip = whole(frame_skip, "frame_skip")
    for k in range(len(observation)):
        segment = observation[k]
        storage.mujoco.segment_k[k].array = ARRAYS[segment.array]
        storage.mujoco.segment_k[k].map = MAPS[segment.map]
        storage.mujoco.segment_k[k].first = whole(segment.first, "first")
        storage.mujoco.segment_k[k].count = whole(segment.length, "length")
        storage.mujoco.segment_k[k].minus = whole(segment.minus, "minus")
        storage.mujoco.segment_k[k].low = segment.low
        storage.mujoco.segment_k[k].high = segment.high
    storage.mujoco.segments = len(observation)
    storage.mujoco.init_qpos = doubles("init_qpos", arrays[0], sizes["qpos"])
    storage.mujoco.init_qvel = doubles("init_qvel", arrays[1], sizes["qvel"])
    storage.mujoco.action_low = doubles("action_low", arrays[2], sizes["ctrl"])
    storage.mujoco.action_high = doubles("action_high", arrays[3], sizes["ctrl"])
    storage.mujoco.body_mass = doubles("body_mass", arrays[4], sizes["xipos"] // 3)
    storage.mujoco.total_mass = arrays[4].sum()
    storage.mujoco.timestep = timestep
    storage.mujoco.dt = timestep * <double>storage.mujoco.frame_skip
    for k in range(len(bodies)):
        storage.mujoco.body_3[k] = whole(bodies[k], "bodies")
    storage.mujoco.forward_reward_weight = given.pop("forward_reward_weight", 0.0)
    storage.mujoco.ctrl_cost_weight = given.pop("ctrl_cost_weight", 0.0)
    storage.mujoco.contact_cost_weight = given.pop("contact_cost_weight", 0.0)
    storage.mujoco.healthy_reward = given.pop("healthy_reward", 0.0)
    storage.mujoco.reward_near_weight = given.pop("reward_near_weight", 0.0)
    storage.mujoco.reward_dist_weight = given.pop("reward_dist_weight", 0.0)
    storage.mujoco.reset_noise_scale = given.pop("reset_noise_scale", 0.0)
    storage.mujoco.terminate_when_unhealthy = <int32_t>bool(
        given.pop("terminate_when_unhealthy", False))
    storage.mujoco.contact_cost = <int32_t>bool(given.pop("contact_cost", False))
    set_pair(storage.mujoco.healthy_z_2, given.pop("healthy_z", (0, 0)))
    set_pair(storage.mujoco.healthy_angle_2, given.pop("healthy_angle", (0, 0)))
    set_pair(storage.mujoco.healthy_state_2, given.pop("healthy_state", (0, 0)))
    set_pair(storage.mujoco.contact_force_2, given.pop("contact_force", (0, 0)))
    set_pair(storage.mujoco.contact_cost_2, given.pop("contact_cost_range", (0, 0)))
    if given:
        raise ValueError(f"unknown parameters {sorted(given)}")
    if rml_mujoco_init(&storage.mujoco, &storage.env, &why) != RML_OK:
        raise ValueError(f"{name}: {why.decode()}")
    return NativeEnv.wrap(&storage.env, storage)


cdef Simulator simulator_of(Vector vector, size_t i, rml_batch *batch):
    if (not isinstance(vector.env.owner, MujocoStorage)
            or vector.env.ptr != &(<MujocoStorage>vector.env.owner).env):
        raise ValueError(f"{vector.env.name} is not a MuJoCo environment")
    if not i < vector.vector.n:
        raise IndexError(f"i must be in [0, {vector.vector.n}), got {i}")
    if not vector.begun:
        raise RuntimeError("the environments must be reset first")
    batch.n = vector.vector.n
    batch.begin = i
    batch.end = i + 1
    batch.mask_n = NULL
    batch.key_n = vector.vector.key_n
    batch.id_n = vector.vector.id_n
    batch.episode_n = vector.vector.episode_n
    batch.elapsed_n = vector.vector.elapsed_n
    batch.state = vector.vector.state
    batch.action_na = NULL
    batch.obs_no = NULL
    batch.reward_n = NULL
    batch.flags_n = NULL
    return (<MujocoStorage>vector.env.owner).simulator


def place(Vector vector not None, i, qpos, qvel):
    """Put environment i of a vector where a reset with other noise would have put it.

    qpos, qvel : float64 arrays as long as the model's

    The count of its steps and its return go on. Returns its observation, (O,) float64. Raises
    IndexError on an i outside [0, N), RuntimeError before the first reset, ValueError on arrays of
    another shape or dtype or an environment that is not MuJoCo's.
    """
    cdef rml_batch batch
    cdef rml_status status
    cdef dict sizes = simulator_of(vector, whole(i, "i"), &batch).sizes
    check_array("qpos", qpos, "float64", (sizes["qpos"],))
    check_array("qvel", qvel, "float64", (sizes["qvel"],))
    obs = np.zeros(vector.obs_shape, np.float64)
    cdef double *qpos_q = <double *><size_t>qpos.ctypes.data
    cdef double *qvel_v = <double *><size_t>qvel.ctypes.data
    batch.obs_no = <void *><size_t>obs.ctypes.data
    with nogil:
        status = rml_mujoco_place(vector.vector.env, &batch, qpos_q, qvel_v)
    check(status, vector.env.name)
    return obs[i].copy()


def read(Vector vector not None, i):
    """Where environment i of a vector is.

    Returns (qpos, qvel), float64 arrays. Raises as `place`.
    """
    cdef rml_batch batch
    cdef rml_status status
    cdef dict sizes = simulator_of(vector, whole(i, "i"), &batch).sizes
    qpos, qvel = np.empty(sizes["qpos"]), np.empty(sizes["qvel"])
    cdef double *qpos_q = <double *><size_t>qpos.ctypes.data
    cdef double *qvel_v = <double *><size_t>qvel.ctypes.data
    with nogil:
        status = rml_mujoco_read(qpos_q, qvel_v, vector.vector.env, &batch)
    check(status, vector.env.name)
    return qpos, qvel


# The struct's places and this module's names are one list.
assert len(ARRAYS) == RML_MUJOCO_ARRAYS
