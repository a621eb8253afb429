#!python
# cython: embedsignature=True, binding=True
"""Multilayer perceptrons over one flat float32 parameter vector."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t
from rollmill._arrays cimport aligned_bytes, check_apart, check_array, whole
from rollmill._isa cimport isa_of
from rollmill._status cimport check
from rollmill.ckernels cimport (RML_POLICY_LAYERS, RML_POLICY_WIDTH, RML_RELU, RML_SAMPLE_MAX,
                                RML_TANH, rml_activation, rml_isa, rml_policy_argmax,
                                rml_policy_eval, rml_policy_eval_members, rml_policy_fill,
                                rml_policy_init, rml_policy_sample, rml_policy_scratch, rml_status,
                                rml_tanh_eval)

cdef dict ACTIVATIONS = {"tanh": RML_TANH, "relu": RML_RELU}


cdef class Network:
    """The shape of a multilayer perceptron.

    widths : sequence of int, inputs, hidden layers, outputs; 2 to 9 numbers in [1, 65536]
    activation : {"tanh", "relu"}, after every layer but the last

    Layout of the parameters: for each layer the weights, (inputs, outputs) in C order, then the
    biases. Raises ValueError on a shape out of range.
    """

    def __cinit__(self, widths, activation="tanh"):
        cdef uint32_t width[9]
        widths = [whole(w, "widths") for w in widths]
        if not 2 <= len(widths) <= RML_POLICY_LAYERS + 1:
            raise ValueError(f"widths must have 2 to {RML_POLICY_LAYERS + 1} numbers, "
                             f"got {len(widths)}")
        for w in widths:
            if not 1 <= w <= RML_POLICY_WIDTH:
                raise ValueError(f"widths must be in [1, {RML_POLICY_WIDTH}], got {w}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be 'tanh' or 'relu', got {activation!r}")
        for i in range(len(widths)):
            width[i] = widths[i]
        check(rml_policy_init(&self.c, len(widths) - 1, width,
                              <rml_activation><int>ACTIVATIONS[activation]))

    @property
    def widths(self):
        """tuple of int, the input's, each layer's."""
        return tuple([self.c.width[i] for i in range(self.c.layers + 1)])

    @property
    def activation(self):
        """str, the hidden layers' activation."""
        return "tanh" if self.c.activation == RML_TANH else "relu"

    @property
    def num_params(self):
        """int, length of the parameter vector."""
        return self.c.d

    def __reduce__(self):
        return Network, (self.widths, self.activation)

    def init(self, key, isa=None):
        """Initial parameters: weights normal with variance 1 / inputs, biases 0.

        Returns (D,) float32.
        """
        theta = np.empty(self.c.d, np.float32)
        cdef float[::1] theta_d = theta
        check(rml_policy_fill(&theta_d[0], &self.c, whole(key, "key"), isa_of(isa)))
        return theta

    def eval(self, theta, x=None, index=None, out=None, isa=None):
        """Outputs for a batch of observations.

        theta : (D,) float32, C-contiguous, may be read-only
        x : (N, inputs) float32, C-contiguous, may be read-only
        index : (N,) int64 in [0, inputs): one-hot rows, instead of x
        out : (N, outputs) float32, writable, apart from theta and x; a new array if None
        Returns out. Raises ValueError on an array or index that does not fit.
        """
        check_array("theta", theta, "float32", (self.c.d,))
        cdef const float[::1] theta_d = theta
        cdef const float[:, ::1] x_no
        cdef const int64_t[::1] index_n
        cdef const float *x_ptr = NULL
        cdef const int64_t *index_ptr = NULL
        cdef size_t n, i, o = self.c.width[0], a = self.c.width[self.c.layers]
        if (x is None) == (index is None):
            raise ValueError("exactly one of x and index must be given")
        if x is not None:
            check_array("x", x, "float32", ("N", o))
            x_no = x
            n = x_no.shape[0]
            if n:
                x_ptr = &x_no[0, 0]
        else:
            check_array("index", index, "int64", ("N",))
            index_n = index
            n = index_n.shape[0]
            for i in range(n):
                if index_n[i] < 0 or <size_t>index_n[i] >= o:
                    raise ValueError(f"index must be in [0, {o - 1}], got {index_n[i]}")
            if n:
                index_ptr = &index_n[0]
        if out is None:
            out = np.empty((n, a), np.float32)
        check_array("out", out, "float32", (n, a), True)
        check_apart("out and theta", (out, theta))
        if x is not None:
            check_apart("out and x", (out, x))
        cdef float[:, ::1] out_na = out
        if n == 0:
            return out
        cdef char[::1] scratch = aligned_bytes(rml_policy_scratch(&self.c) + 64)
        cdef rml_isa set_ = isa_of(isa)
        cdef rml_status status
        with nogil:
            status = rml_policy_eval(&out_na[0, 0], &self.c, &theta_d[0], x_ptr, index_ptr, n,
                                     &scratch[0], set_)
        check(status)
        return out


cdef class Members:
    """Parameter vectors of one network, each with an observation of its own.

    network : Network
    members : int >= 1, M
    one_hot : bool, observations are one-hot rows
    isa : {"base", "v3", "v4", "auto"}, optional

    The arrays are the caller's to fill:
    theta : (M, D) float32, the parameters
    x : (M, inputs) float32, the observations; None if one_hot
    index : (M,) int64 in [0, inputs), the one-hot rows; None unless one_hot
    """

    cdef Network network
    cdef readonly object theta, x, index, out
    cdef float[:, ::1] theta_md, x_mo, out_ma
    cdef int64_t[::1] index_m
    cdef char[::1] scratch
    cdef rml_isa isa

    def __cinit__(self, Network network not None, members, one_hot=False, isa=None):
        members = whole(members, "members")
        if members < 1:
            raise ValueError(f"members must be at least 1, got {members}")
        self.network = network
        self.isa = isa_of(isa)
        self.theta_md = self.theta = np.zeros((members, network.c.d), np.float32)
        self.out_ma = self.out = np.zeros((members, network.c.width[network.c.layers]), np.float32)
        if one_hot:
            self.index_m = self.index = np.zeros(members, np.int64)
        else:
            self.x_mo = self.x = np.zeros((members, network.c.width[0]), np.float32)
        self.scratch = aligned_bytes(rml_policy_scratch(&network.c) + 64)

    def eval(self, rows):
        """Outputs of some members, each of its own parameters for its own observation.

        rows : (K,) int32 in [0, M), K <= M
        Returns (K, outputs) float32 in the order of rows, in memory that the next call rewrites.
        Raises ValueError on an array, a row or an index that does not fit.
        """
        check_array("rows", rows, "int32", ("K",))
        cdef const int32_t[::1] member_k = rows
        cdef size_t i, k = member_k.shape[0], m = self.out_ma.shape[0]
        cdef size_t o = self.network.c.width[0]
        cdef const float *x = NULL
        cdef const int64_t *index = NULL
        cdef rml_status status
        if k > m:
            raise ValueError(f"rows must have at most {m} elements, got {k}")
        for i in range(k):
            if not 0 <= member_k[i] < <int32_t>m:
                raise ValueError(f"rows must be in [0, {m - 1}], got {member_k[i]}")
            if self.index is not None and not 0 <= self.index_m[member_k[i]] < <int64_t>o:
                raise ValueError(f"index must be in [0, {o - 1}], got {self.index_m[member_k[i]]}")
        if k == 0:
            return self.out[:0]
        if self.index is None:
            x = &self.x_mo[0, 0]
        else:
            index = &self.index_m[0]
        with nogil:
            status = rml_policy_eval_members(&self.out_ma[0, 0], &self.network.c,
                                             &self.theta_md[0, 0], x, index, &member_k[0], k,
                                             &self.scratch[0], self.isa)
        check(status)
        return self.out[:k]


def argmax(logits):
    """Index of the first of the largest logits; a NaN is never chosen over a number.

    logits : (A,) float32, A >= 1, C-contiguous, may be read-only
    """
    check_array("logits", logits, "float32", ("A",))
    cdef const float[::1] logit_a = logits
    if logit_a.shape[0] == 0:
        raise ValueError("logits must not be empty")
    return rml_policy_argmax(&logit_a[0], logit_a.shape[0])


def sample(logits, float unit):
    """An action of the softmax over logits, from a uniform draw.

    logits : (A,) float32, 1 <= A <= 1024, C-contiguous, may be read-only
    unit : float in [0, 1), taken as a float32
    """
    check_array("logits", logits, "float32", ("A",))
    cdef const float[::1] logit_a = logits
    if not 1 <= logit_a.shape[0] <= RML_SAMPLE_MAX:
        raise ValueError(f"logits must have 1 to {RML_SAMPLE_MAX} elements, "
                         f"got {logit_a.shape[0]}")
    if not 0 <= unit < 1:
        raise ValueError(f"unit must be in [0, 1), got {unit}")
    return rml_policy_sample(&logit_a[0], logit_a.shape[0], unit)


def tanh(x, isa=None):
    """tanh of each element, as the networks use it; absolute error below 4e-7.

    x : (N,) float32, C-contiguous, may be read-only
    Returns (N,) float32.
    """
    check_array("x", x, "float32", ("N",))
    cdef const float[::1] x_n = x
    cdef rml_isa set_ = isa_of(isa)
    out = np.empty(x_n.shape[0], np.float32)
    cdef float[::1] out_n = out
    if x_n.shape[0]:
        with nogil:
            rml_tanh_eval(&out_n[0], &x_n[0], x_n.shape[0], set_)
    return out
