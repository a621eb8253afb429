/* Evolution strategies: fitness shaping and the weighted sum of noise. */
#ifndef ROLLMILL_ES_H
#define ROLLMILL_ES_H

#include "blas.h"
#include "noise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rank_n[i] in [-0.5, 0.5]: (ascending rank of value i) / (n - 1) - 0.5, equal values sharing the
 * mean of their ranks; all 0 for n = 1 or where all are equal (Wierstra et al., "Natural evolution
 * strategies", JMLR 15, 2014, with ties averaged). NaN is refused. order_n: 2*n words
 * of scratch. */
rml_status rml_es_rank(float *rank_n, const double *value_n, size_t n, uint32_t *order_n);

/* Columns [begin, end) of sum_p weight_p[p] * noise[index_p[p] + column] go to sum_d[begin, end).
 * Pairs are added in index order within blocks of 64, the blocks' sums by a fixed binary tree over
 * block numbers: siblings at level l are blocks that differ in bit l. A range must begin at a
 * multiple of RML_ES_TILE, so that any split into ranges gives the same bits.
 *
 * blas NULL: our kernel, the same bits on every processor, at the speed of memory. Otherwise each
 * row is a saxpy of the table, which may fuse the product with the sum.
 * Reads 4*p*(end - begin) bytes of a table, or makes as many normals. scratch: rml_es_scratch(p)
 * bytes, aligned to 64. */
#define RML_ES_BLOCK 64
#define RML_ES_TILE 8192
size_t rml_es_scratch(size_t p);
rml_status rml_es_noise_sum(float *sum_d, size_t begin, size_t end, size_t d,
                            const rml_noise *noise, const uint64_t *index_p, const float *weight_p,
                            size_t p, const rml_blas *blas, void *scratch, rml_isa isa);

#ifdef __cplusplus
}
#endif
#endif
