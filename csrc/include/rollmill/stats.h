/* Running mean and variance of observations, in float64 (Welford; merges by Chan, Golub, LeVeque,
 * "Updating formulae and a pairwise algorithm", 1979).
 *
 * A block of statistics is 1 + 2*o doubles: count, mean_o, m2_o (sum of squared deviations). */
#ifndef ROLLMILL_STATS_H
#define ROLLMILL_STATS_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RML_STATS_LENGTH(o) (1 + 2 * (size_t)(o))

/* Adds one observation. */
void rml_stats_push(double *stats, const double *x_o, size_t o);

/* a = a and b together; the order of merges is the caller's contract. */
void rml_stats_merge(double *a, const double *b, size_t o);

/* What a policy uses: (x - mean) * scale. scale = 1 / std with the n - 1 divisor; 0 where
 * std < 1e-7, since that element has not varied; mean 0 and scale 1 below two observations. */
void rml_stats_freeze(double *mean_o, double *scale_o, const double *stats, size_t o);

#ifdef __cplusplus
}
#endif
#endif
