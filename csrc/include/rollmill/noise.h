/* The shared noise: noise[i] for i in [0, size), standard normal float32, a function of the key.
 *
 * Two storages hold the same bits: generated where it is needed, or a table filled once. A
 * perturbation of D parameters is an index in [0, size - D] and a sign. */
#ifndef ROLLMILL_NOISE_H
#define ROLLMILL_NOISE_H

#include "rng.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RML_NOISE_SIZE_MAX ((uint64_t)1 << 32)

typedef struct rml_noise {
  uint64_t key;
  uint64_t size;        /* in [1, 2^32] */
  const float *table_k; /* size floats made by rml_noise_fill, or NULL: generated */
} rml_noise;

/* noise_k[j] = noise[start + j] for j in [0, k), generated. EINVAL past the end of the noise. */
rml_status rml_noise_fill(float *noise_k, size_t k, const rml_noise *noise, uint64_t start,
                          rml_isa isa);

/* The index of a pair's perturbation of d parameters: uniform over [0, size - d], both ends
 * included. EINVAL if d is 0 or larger than size. */
rml_status rml_noise_index(uint64_t *index, const rml_noise *noise, uint64_t key, uint32_t pair,
                           uint32_t iteration, size_t d);

/* plus_d = theta_d + stdev * noise[index + ...], minus_d = theta_d - stdev * noise[index + ...].
 * minus_d may be NULL. No two arrays may overlap. Reads 4*d bytes of table, or makes d normals. */
rml_status rml_noise_perturb(float *RML_RESTRICT plus_d, float *RML_RESTRICT minus_d,
                             const float *theta_d, size_t d, const rml_noise *noise,
                             uint64_t index, float stdev, rml_isa isa);

#ifdef __cplusplus
}
#endif
#endif
