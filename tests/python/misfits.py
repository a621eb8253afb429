"""Arrays that a binding must refuse by name."""

import re

import numpy as np
import pytest

SIZES = (0, 1, 7, 8, 9, 1025)


def read_only(array):
    """A read-only copy, as arrays from an object store are."""
    array = array.copy()
    array.flags.writeable = False
    return array


def misfits(good, free, write):
    """Yield (what is wrong, an array), each unlike `good` in one way."""
    yield "None", None
    yield "list", good.tolist()
    yield "dtype", good.astype(np.float64 if good.dtype != np.float64 else np.float32)
    yield "byte order", good.astype(good.dtype.newbyteorder())
    yield "axes", good[None]
    yield "strides", np.repeat(good, 2, axis=-1)[..., ::2]
    if good.ndim == 2:
        yield "order", np.asfortranarray(good)
    bytes_ = np.zeros(good.nbytes + 1, np.uint8)[1:]
    yield "alignment", bytes_.view(good.dtype).reshape(good.shape)
    for axis in range(good.ndim):
        if axis not in free:
            yield "length", np.concatenate([good, good], axis)
    if write:
        yield "read-only", read_only(good)


def check_refused(call, name, good, *, free=(), write=False, optional=False):
    """`call(array)` takes `good`, and refuses what is unlike it with one line that says `name`.

    free : axes whose length may be any
    write : whether it writes into the array
    optional : whether None is allowed
    """
    assert min(good.shape) > 1
    call(good)
    if not write:
        call(read_only(good))
    for wrong, array in misfits(good, free, write):
        if array is None and optional:
            continue
        error = TypeError if array is None or isinstance(array, list) else ValueError
        with pytest.raises(error, match=rf"^{re.escape(name)} must ") as caught:
            call(array)
        assert "\n" not in str(caught.value), wrong


def bits(array):
    """The array's bits, so that NaN and -0 compare too."""
    return np.ascontiguousarray(array).tobytes()
