#!python
# cython: embedsignature=True, binding=True
"""Which build of the compute-bound kernels runs. All give the same bits."""

import os

from rollmill.ckernels cimport (RML_ISA_AUTO, RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4, rml_isa,
                                rml_isa_resolve)

cdef dict BY_NAME = {"auto": RML_ISA_AUTO, "base": RML_ISA_BASE, "v3": RML_ISA_V3,
                     "v4": RML_ISA_V4}
cdef dict NAMES = {RML_ISA_BASE: "base", RML_ISA_V3: "v3", RML_ISA_V4: "v4"}


cdef rml_isa isa_of(object name) except *:
    """The instruction set of a name; None is ROLLMILL_ISA or the widest that runs here."""
    origin = "isa"
    if name is None:
        origin = "ROLLMILL_ISA"
        name = os.environ.get("ROLLMILL_ISA") or "auto"
    if name not in BY_NAME:
        raise ValueError(f"{origin} must be one of base, v3, v4, auto, got {name!r}")
    cdef rml_isa isa = BY_NAME[name]
    cdef rml_isa found = rml_isa_resolve(isa)
    if isa != RML_ISA_AUTO and found != isa:
        raise ValueError(f"{origin} asks for {name!r}, which this processor or build does not "
                         f"run; the widest here is {NAMES[rml_isa_resolve(RML_ISA_AUTO)]!r}")
    return found


def isa_name(isa=None):
    """The instruction set that kernels use.

    isa : {"base", "v3", "v4", "auto"}, optional; None reads ROLLMILL_ISA, else takes the widest
    Returns "base", "v3" or "v4". Raises ValueError for one that does not run here.
    """
    return NAMES[isa_of(isa)]


def available():
    """Names of the instruction sets that run here, the narrowest first."""
    return [name for name, isa in BY_NAME.items()
            if isa != RML_ISA_AUTO and rml_isa_resolve(isa) == isa]
