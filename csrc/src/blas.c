#include "rollmill/blas.h"

static void saxpy(int *n, float *a, float *x, int *incx, float *y, int *incy) {
  for (long i = 0; i < *n; i++) y[i * *incy] += *a * x[i * *incx];
}

static const rml_blas reference = {.saxpy = saxpy};

const rml_blas *rml_blas_reference(void) { return &reference; }
