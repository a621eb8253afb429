#!python
# cython: embedsignature=True, binding=True
"""Work units in C: mirrored episodes of perturbed policies, and evaluation episodes."""

import numpy as np

from libc.stdint cimport int32_t, uint32_t
from rollmill._arrays cimport aligned_bytes, check_array, whole
from rollmill._env cimport NativeEnv
from rollmill._isa cimport isa_of
from rollmill._noise cimport Noise
from rollmill._policy cimport Network
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_BOX, RML_EINTERRUPTED, RML_OK, rml_episode, rml_pair,
                                rml_rng_derive, rml_rollout, rml_rollout_check,
                                rml_rollout_eval_episodes, rml_rollout_eval_pairs,
                                rml_rollout_scratch, rml_stats_freeze, rml_status)

#: A pair's record. Element 0 of return, fitness and length is theta + noise, 1 is theta - noise;
#: status is 0, or the negative rml_status for which the pair is dropped.
PAIR_DTYPE = np.dtype([("noise_index", "u8"), ("return", "f8", 2), ("fitness", "f8", 2),
                       ("length", "u4", 2), ("pair", "u4"), ("status", "i4")])
#: An evaluation episode's record; flags holds TERMINATED | TRUNCATED.
EPISODE_DTYPE = np.dtype([("return", "f8"), ("fitness", "f8"), ("length", "u4"), ("flags", "i4"),
                          ("status", "i4"), ("episode", "u4")])
assert PAIR_DTYPE.itemsize == sizeof(rml_pair)
assert EPISODE_DTYPE.itemsize == sizeof(rml_episode)

TERMINATED = 1
TRUNCATED = 2


cdef int check_finite(str name, object array) except -1:
    finite = np.isfinite(array)
    if not finite.all():
        raise ValueError(f"{name} must be finite, got {array[finite.argmin()]} at "
                         f"{finite.argmin()}")
    return 0


cdef class Rollout:
    """Evaluates units of one environment and policy. Safe to call from several threads.

    env : NativeEnv
    policy : Network, whose inputs and outputs fit the environment
    key : int in [0, 2**64)
    noise_size : int in [parameters, 2**32]
    table : (noise_size,) float32, optional, may be read-only
    gamma : float in [0, 1], discount of the fitness
    reward_offset : float, taken from each reward in the fitness of training episodes
    action_noise_stdev : float >= 0, normal noise on Box actions of training episodes
    sample_actions : bool, training episodes sample from the softmax
    gather_stats : bool, gather statistics of Box observations
    isa : {"base", "v3", "v4", "auto"}, optional

    Raises ValueError naming what does not fit.
    """

    cdef NativeEnv env
    cdef Network policy
    cdef readonly Noise noise
    cdef rml_rollout c
    cdef size_t scratch_size

    def __cinit__(self, NativeEnv env not None, Network policy not None, *, key, noise_size,
                  table=None, double gamma=1.0, double reward_offset=0.0,
                  float action_noise_stdev=0.0, sample_actions=False,
                  gather_stats=False, isa=None):
        cdef const char *why = NULL
        key, noise_size = whole(key, "key"), whole(noise_size, "noise_size")
        if noise_size < policy.c.d:
            raise ValueError(f"noise_size must be at least {policy.c.d}, the number of "
                             f"parameters, got {noise_size}")
        self.env = env
        self.policy = policy
        self.noise = Noise(key, noise_size, table)
        self.c.env = env.ptr
        self.c.policy = &policy.c
        self.c.noise = &self.noise.c
        self.c.key = key
        self.c.gamma = gamma
        self.c.reward_offset = reward_offset
        self.c.action_noise_stdev = action_noise_stdev
        self.c.noise_stdev = 1.0
        self.c.sample = bool(sample_actions)
        self.c.filter = bool(gather_stats) and env.ptr.observation.kind == RML_BOX
        self.c.isa = isa_of(isa)
        if rml_rollout_check(&self.c, &why) != RML_OK:
            raise ValueError(f"{env.name}: {why.decode()}")
        self.scratch_size = rml_rollout_scratch(&self.c)

    cdef rml_rollout task(self, theta, iteration, double noise_stdev, max_episode_steps,
                          stop) except *:
        cdef rml_rollout c = self.c
        check_array("theta", theta, "float32", (self.policy.c.d,))
        check_finite("theta", theta)
        check_array("stop", stop, "int32", (1,))
        cdef const int32_t[::1] flag = stop
        if not 0 < <float>noise_stdev < float("inf"):
            raise ValueError(f"noise_stdev must be positive and finite, got {noise_stdev}")
        c.iteration = whole(iteration, "iteration")
        c.noise_stdev = noise_stdev
        c.max_episode_steps = whole(max_episode_steps, "max_episode_steps")
        c.stop = <const int *>&flag[0]  # the caller holds stop
        return c

    cdef object freeze(self, rml_rollout *c, stats):
        """Point c to the frozen filter; returns what keeps it alive."""
        cdef size_t o = self.env.ptr.observation.n
        cdef const double[::1] block
        cdef double[:, ::1] frozen
        if stats is None:
            return None
        if self.env.ptr.observation.kind != RML_BOX:
            raise ValueError("stats must be None: the environment's observations are Discrete")
        check_array("stats", stats, "float64", (1 + 2 * o,))
        check_finite("stats", stats)
        block = stats
        result = np.empty((2, o))
        frozen = result
        rml_stats_freeze(&frozen[0, 0], &frozen[1, 0], &block[0], o)
        c.mean_o = &frozen[0, 0]
        c.scale_o = &frozen[1, 0]
        return result

    def eval_units(self, theta, iteration, double noise_stdev, max_episode_steps, stats,
                   first_unit, units, unit_pairs, stop, pairs=0):
        """Evaluate units [first_unit, first_unit + units) without the interpreter.

        theta : (D,) float32, C-contiguous, finite, may be read-only
        noise_stdev : float > 0
        max_episode_steps : int, a cap beside the environment's own; 0 is none
        stats : (1 + 2*O,) float64 or None, the frozen observation statistics, finite
        first_unit : int >= 0
        units, unit_pairs : int >= 1; pairs are numbered below 2**32 - 1
        stop : (1,) int32, polled at each step; once not 0 the call ends
        pairs : int, pairs of all units together, so that the last one may be shorter; 0: no bound
        Returns (done, pairs, stats): whole units done, their pairs as PAIR_DTYPE, and
        (done, 1 + 2*O) float64 or None.
        """
        cdef rml_rollout c = self.task(theta, iteration, noise_stdev, max_episode_steps, stop)
        cdef size_t done = 0, length = 1 + 2 * self.env.ptr.observation.n
        first_unit, units = whole(first_unit, "first_unit"), whole(units, "units")
        unit_pairs, pairs = whole(unit_pairs, "unit_pairs"), whole(pairs, "pairs")
        if units < 1 or unit_pairs < 1 or first_unit < 0:
            raise ValueError("units and unit_pairs must be at least 1 and first_unit at least 0, "
                             f"got {units}, {unit_pairs} and {first_unit}")
        if (first_unit + units) * unit_pairs > 0xFFFFFFFF:
            raise ValueError("(first_unit + units) * unit_pairs must be below 2**32, "
                             f"got {(first_unit + units) * unit_pairs}")
        if pairs and not (first_unit + units - 1) * unit_pairs < pairs:
            raise ValueError(f"pairs must be 0 or more than {(first_unit + units - 1) * unit_pairs}"
                             f", the pairs before the last unit, got {pairs}")
        last = (first_unit + units) * unit_pairs
        cdef size_t p = (min(last, pairs) if pairs else last) - first_unit * unit_pairs
        cdef size_t each = unit_pairs
        cdef const float[::1] theta_d = theta
        keep = self.freeze(&c, stats)
        records = np.empty(p, PAIR_DTYPE)
        gathered = np.empty((units, length)) if c.filter else None
        cdef char[::1] pairs_p = records.view(np.int8)
        cdef double[:, ::1] gathered_us = gathered
        cdef double *stats_us = &gathered_us[0, 0] if c.filter else NULL
        cdef char[::1] scratch = aligned_bytes(self.scratch_size)
        cdef uint32_t first_pair = first_unit * unit_pairs
        cdef rml_status status
        with nogil:
            status = rml_rollout_eval_pairs(<rml_pair *>&pairs_p[0], stats_us, &done, &c,
                                            &theta_d[0], first_pair, p, each, &scratch[0])
        if status != RML_EINTERRUPTED:
            check(status)
        del keep
        return done, records[:done * unit_pairs], None if gathered is None else gathered[:done]

    def eval_episodes(self, theta, iteration, max_episode_steps, stats, kind, first, episodes,
                      stop):
        """Evaluate episodes [first, first + episodes) of theta without noise, by arg-max.

        kind : int, whose derived key the episodes use
        first, episodes : int >= 0; episodes are numbered below 2**32 - 1
        Returns the finished ones, EPISODE_DTYPE. The other arguments are as in `eval_units`.
        """
        cdef rml_rollout c = self.task(theta, iteration, 1.0, max_episode_steps, stop)
        cdef size_t done = 0
        cdef uint32_t derived = whole(kind, "kind")
        first, episodes = whole(first, "first"), whole(episodes, "episodes")
        if first < 0 or episodes < 0 or first + episodes > 0xFFFFFFFF:
            raise ValueError("first and episodes must be at least 0 and first + episodes below "
                             f"2**32, got {first} and {episodes}")
        cdef uint32_t first_id = first
        cdef size_t e = episodes
        cdef const float[::1] theta_d = theta
        keep = self.freeze(&c, stats)
        records = np.empty(episodes, EPISODE_DTYPE)
        if e == 0:
            return records
        c.key = rml_rng_derive(c.key, derived)
        cdef char[::1] records_e = records.view(np.int8)
        cdef char[::1] scratch = aligned_bytes(self.scratch_size)
        cdef rml_status status
        with nogil:
            status = rml_rollout_eval_episodes(<rml_episode *>&records_e[0], &done, &c,
                                               &theta_d[0], first_id, e, &scratch[0])
        if status != RML_EINTERRUPTED:
            check(status)
        del keep
        return records[:done]
