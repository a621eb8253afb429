#!python
# cython: embedsignature=True, binding=True
"""Arrays that callers hand in, checked and named before a view is taken.

A typed view refuses a wrong array too, but without saying which argument it was.
"""

from operator import index as as_index

import numpy as np

cdef dict DTYPES = {name: np.dtype(name)
                    for name in ("int32", "int64", "uint8", "uint32", "uint64", "float32",
                                 "float64")}


cdef str describe(object array):
    if not isinstance(array, np.ndarray):
        return "None" if array is None else type(array).__name__
    return f"{array.dtype} of shape {array.shape}"


cdef int check_array(str name, object array, str dtype, tuple shape, bint write=False) except -1:
    """Refuse what is no C-contiguous array of a dtype and shape, by name.

    shape : an int for each axis, or a str that names an axis of any length
    write : also refuse a read-only array
    Raises TypeError for what is no array, ValueError for one that does not fit.
    """
    cdef bint fits = isinstance(array, np.ndarray)
    if not fits:
        error = TypeError
    else:
        error = ValueError
        fits = array.dtype == DTYPES[dtype] and array.ndim == len(shape)
        for axis in range(len(shape) if fits else 0):
            fits = fits and (isinstance(shape[axis], str) or array.shape[axis] == shape[axis])
    if not fits:
        axes = ", ".join([str(axis) for axis in shape]) + ("," if len(shape) == 1 else "")
        raise error(f"{name} must be a C-contiguous {dtype} array of shape ({axes}), "
                    f"got {describe(array)}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        raise ValueError(f"{name} must be a C-contiguous {dtype} array, got one of strides "
                         f"{array.strides} bytes")
    if write and not flags.writeable:
        raise ValueError(f"{name} must be writable, got a read-only array")
    return 0


cdef int check_apart(str names, tuple arrays) except -1:
    """Refuse C-contiguous arrays that share memory."""
    for i in range(len(arrays)):
        for k in range(i):
            if np.may_share_memory(arrays[i], arrays[k]):
                raise ValueError(f"{names} must not overlap")
    return 0


cdef object whole(object value, str name):
    """value as an int; TypeError that names the argument if it is none, such as a float."""
    if type(value) is int:
        return value
    try:
        return as_index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None


cdef char[::1] aligned_bytes(size_t size):
    """`size` bytes, not cleared, at an address that 64 divides."""
    raw = np.empty(size + 64, np.uint8)
    cdef size_t past = raw.ctypes.data % 64
    return raw[64 - past:64 - past + size].view(np.int8)
