#!python
# cython: embedsignature=True, binding=True
"""Optimisers over a flat vector; each step minimises."""

from libc.stdint cimport uint64_t
from rollmill._arrays cimport check_apart, check_array, whole
from rollmill._status cimport check
from rollmill.ckernels cimport rml_optim_adamw, rml_optim_clipup, rml_optim_sgd, rml_status


def adam_step(theta, m, v, gradient, t, double stepsize, double beta1=0.9, double beta2=0.999,
              double epsilon=1e-8, double weight_decay=0.0):
    """One step of Adam (Kingma and Ba, 2015), in place; AdamW with a decay.

    theta, m, v : (D,) float32, C-contiguous, writable
    gradient : (D,) float32, C-contiguous, may be read-only; no two of the four may overlap
    t : int in [1, 2**64), number of this step
    stepsize : float, finite, also as a float32
    beta1, beta2 : float in [0, 1)
    epsilon : float > 0, finite and not 0 as a float32
    weight_decay : float >= 0: theta -= stepsize*weight_decay*theta, beside the step
    Raises ValueError on an array or number that does not fit.
    """
    check_array("theta", theta, "float32", ("D",), True)
    cdef size_t d = theta.shape[0]
    check_array("m", m, "float32", (d,), True)
    check_array("v", v, "float32", (d,), True)
    check_array("gradient", gradient, "float32", (d,))
    check_apart("theta, m, v and gradient", (theta, m, v, gradient))
    t = whole(t, "t")
    if not 1 <= t < 2**64:
        raise ValueError(f"t must be in [1, 2**64), got {t}")
    cdef float[::1] theta_d = theta
    cdef float[::1] m_d = m
    cdef float[::1] v_d = v
    cdef const float[::1] gradient_d = gradient
    cdef uint64_t number = t
    cdef rml_status status
    if d == 0:
        return
    with nogil:
        status = rml_optim_adamw(&theta_d[0], &m_d[0], &v_d[0], &gradient_d[0], d, number,
                                 stepsize, beta1, beta2, epsilon, weight_decay)
    check(status, f"stepsize {stepsize}, beta1 {beta1}, beta2 {beta2}, epsilon {epsilon}, "
                  f"weight_decay {weight_decay}")


def clipup_step(theta, v, gradient, double stepsize, double max_speed, double momentum=0.9):
    """One step of ClipUp (Toklu, Liskowski, Srivastava, 2020), in place.

    v = momentum*v + stepsize*gradient/|gradient|, cut to the length max_speed; theta -= v.

    theta, v : (D,) float32, C-contiguous, writable
    gradient : (D,) float32, C-contiguous, may be read-only; no two of the three may overlap
    stepsize : float, finite, also as a float32
    max_speed : float > 0, finite, also as a float32
    momentum : float in [0, 1)
    Raises ValueError on an array or number that does not fit, or a gradient that is not finite.
    """
    check_array("theta", theta, "float32", ("D",), True)
    cdef size_t d = theta.shape[0]
    check_array("v", v, "float32", (d,), True)
    check_array("gradient", gradient, "float32", (d,))
    check_apart("theta, v and gradient", (theta, v, gradient))
    cdef float[::1] theta_d = theta
    cdef float[::1] v_d = v
    cdef const float[::1] gradient_d = gradient
    cdef rml_status status
    if d == 0:
        return
    with nogil:
        status = rml_optim_clipup(&theta_d[0], &v_d[0], &gradient_d[0], d, stepsize, momentum,
                                  max_speed)
    check(status, f"stepsize {stepsize}, momentum {momentum}, max_speed {max_speed}, or a "
                  "gradient that is not finite")


def sgd_step(theta, v, gradient, double stepsize, double momentum=0.0):
    """One step of SGD, in place: v = momentum*v + (1 - momentum)*gradient; theta -= stepsize*v.

    theta, v : (D,) float32, C-contiguous, writable
    gradient : (D,) float32, C-contiguous, may be read-only; no two of the three may overlap
    stepsize : float, finite, also as a float32
    momentum : float in [0, 1)
    Raises ValueError on an array or number that does not fit.
    """
    check_array("theta", theta, "float32", ("D",), True)
    cdef size_t d = theta.shape[0]
    check_array("v", v, "float32", (d,), True)
    check_array("gradient", gradient, "float32", (d,))
    check_apart("theta, v and gradient", (theta, v, gradient))
    cdef float[::1] theta_d = theta
    cdef float[::1] v_d = v
    cdef const float[::1] gradient_d = gradient
    cdef rml_status status
    if d == 0:
        return
    with nogil:
        status = rml_optim_sgd(&theta_d[0], &v_d[0], &gradient_d[0], d, stepsize, momentum)
    check(status, f"stepsize {stepsize}, momentum {momentum}")
