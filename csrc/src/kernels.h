/* The compute-bound loops behind the public functions: one table an instruction set. */
#ifndef ROLLMILL_KERNELS_H
#define ROLLMILL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "rollmill/isa.h"

#define RML_GROUP 64 /* normals in a group: 16 blocks of 4 draws */
#define RML_ROWS 8   /* rows that the weighted sum takes at once */

typedef struct rml_kernels {
  /* out[64*i + j] = normal j of group first + i. */
  void (*normal_groups)(float *out, size_t groups, uint64_t key, uint32_t item, uint32_t iteration,
                        uint32_t stream, uint64_t first);
  /* For each of one or two members: out_a = b_a + sum over i of x_o[i] * w_oa[i], in order of i.
   * All pointers must be set; a single member may be given twice. */
  void (*dense)(float *const out_2[2], const float *const x_2[2], const float *const w_2[2],
                const float *const b_2[2], size_t o, size_t a, int members);
  void (*tanh)(float *y_n, const float *x_n, size_t n);
  void (*relu)(float *y_n, const float *x_n, size_t n);
  /* y = a + b; y may be a or b. */
  void (*add)(float *y_n, const float *a_n, const float *b_n, size_t n);
  /* plus = theta + scale*noise, minus = theta - scale*noise. */
  void (*perturb)(float *restrict plus, float *restrict minus, const float *theta,
                  const float *noise, float scale, size_t n);
  /* sum[i] += weight_8[0]*row_8[0][i], then += weight_8[1]*row_8[1][i], ... in this order. */
  void (*weighted_rows)(float *restrict sum, const float *const row_8[RML_ROWS],
                        const float weight_8[RML_ROWS], size_t n);
} rml_kernels;

/* Never NULL. */
const rml_kernels *rml_kernels_get(rml_isa isa);

extern const rml_kernels rml_kernels_base;
#ifdef RML_HAVE_V3
extern const rml_kernels rml_kernels_v3;
#endif
#ifdef RML_HAVE_V4
extern const rml_kernels rml_kernels_v4;
#endif

#endif
