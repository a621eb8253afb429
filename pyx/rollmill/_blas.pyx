#!python
# cython: embedsignature=True, binding=True
"""BLAS as a table of function pointers: SciPy's own, taken at run time, or a small reference."""

from rollmill.ckernels cimport rml_blas, rml_blas_reference
from scipy.linalg.cython_blas cimport saxpy

cdef rml_blas SCIPY

# Not cast: a SciPy with 64-bit integers in its BLAS must fail to compile, not corrupt memory.
SCIPY.saxpy = saxpy


def table_address(name):
    """Address of an `rml_blas` table, which lives as long as the process.

    name : {"scipy", "reference"}
    Raises ValueError for any other name.
    """
    if name == "scipy":
        return <size_t>&SCIPY
    if name == "reference":
        return <size_t>rml_blas_reference()
    raise ValueError(f"blas must be 'none', 'scipy' or 'reference', got {name!r}")
