#!python
# cython: embedsignature=True, binding=True
"""From the C library's statuses to Python exceptions."""

from rollmill.ckernels cimport (RML_EABI, RML_EACTION, RML_EENV, RML_EINTERRUPTED, RML_EINVAL,
                                RML_ENOMEM, RML_ENONFINITE, RML_OK, rml_status, rml_status_text)


cdef int check(rml_status status, str where="") except -1:
    if status == RML_OK:
        return 0
    text = rml_status_text(status).decode()
    if where:
        text = f"{where}: {text}"
    if status == RML_ENOMEM:
        raise MemoryError(text)
    if status == RML_EINTERRUPTED:
        raise InterruptedError(text)
    if status == RML_EENV:
        raise RuntimeError(text)
    raise ValueError(text)


STATUS_TEXT = {
    int(s): rml_status_text(s).decode()
    for s in (RML_EINVAL, RML_ENOMEM, RML_EABI, RML_EACTION, RML_EENV, RML_EINTERRUPTED,
              RML_ENONFINITE)
}
