#!python
# cython: embedsignature=True, binding=True
"""Optimisers over a flat vector; each step minimises."""

from libc.stdint cimport uint64_t
from rollmill._status cimport check
from rollmill.ckernels cimport rml_optim_adam, rml_optim_sgd, rml_status


def adam_step(float[::1] theta not None, float[::1] m not None, float[::1] v not None,
              const float[::1] gradient not None, uint64_t t, double stepsize, double beta1=0.9,
              double beta2=0.999, double epsilon=1e-8):
    """One step of Adam (Kingma and Ba, 2015), in place.

    theta, m, v : (D,) float32, writable, not overlapping
    gradient : (D,) float32, may be read-only
    t : int >= 1, number of this step
    beta1, beta2 : float in [0, 1)
    epsilon : float > 0
    Raises ValueError on a shape or number out of range.
    """
    cdef size_t d = theta.shape[0]
    cdef rml_status status
    if not (m.shape[0] == v.shape[0] == gradient.shape[0] == theta.shape[0]):
        raise ValueError(f"theta, m, v and gradient must have one shape, got ({theta.shape[0]},), "
                         f"({m.shape[0]},), ({v.shape[0]},), ({gradient.shape[0]},)")
    if t < 1:
        raise ValueError(f"t must be at least 1, got {t}")
    if d == 0:
        return
    with nogil:
        status = rml_optim_adam(&theta[0], &m[0], &v[0], &gradient[0], d, t, stepsize, beta1,
                                beta2, epsilon)
    check(status, f"stepsize {stepsize}, beta1 {beta1}, beta2 {beta2}, epsilon {epsilon}")


def sgd_step(float[::1] theta not None, float[::1] v not None, const float[::1] gradient not None,
             double stepsize, double momentum=0.0):
    """One step of SGD, in place: v = momentum*v + (1 - momentum)*gradient; theta -= stepsize*v.

    theta, v : (D,) float32, writable, not overlapping
    gradient : (D,) float32, may be read-only
    momentum : float in [0, 1)
    Raises ValueError on a shape or number out of range.
    """
    cdef size_t d = theta.shape[0]
    cdef rml_status status
    if not (v.shape[0] == gradient.shape[0] == theta.shape[0]):
        raise ValueError(f"theta, v and gradient must have one shape, got ({theta.shape[0]},), "
                         f"({v.shape[0]},), ({gradient.shape[0]},)")
    if d == 0:
        return
    with nogil:
        status = rml_optim_sgd(&theta[0], &v[0], &gradient[0], d, stepsize, momentum)
    check(status, f"stepsize {stepsize}, momentum {momentum}")
