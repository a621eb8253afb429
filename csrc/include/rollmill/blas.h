/* The BLAS routines that kernels call, handed in as a table: no BLAS is linked. */
#ifndef ROLLMILL_BLAS_H
#define ROLLMILL_BLAS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Fortran calling convention with 32-bit integers, as in scipy.linalg.cython_blas. */
typedef struct rml_blas {
  void (*saxpy)(int *n, float *a, float *x, int *incx, float *y, int *incy);
} rml_blas;

/* A small table in portable C: y += a*x with one rounding for the product and one for the sum, so
 * its results are the same on every processor. */
const rml_blas *rml_blas_reference(void);

#ifdef __cplusplus
}
#endif
#endif
