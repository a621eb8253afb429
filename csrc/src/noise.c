#include "rollmill/noise.h"

#include "kernels.h"

/* Normals made at a time: 8 KB, which stay in the first-level cache. */
enum { CHUNK = 32 * RML_GROUP };

static int valid(const rml_noise *noise) {
  return noise->size >= 1 && noise->size <= RML_NOISE_SIZE_MAX;
}

/* Asks for n floats of a table before they are needed: a row begins anywhere in memory, where no
 * hardware prefetcher expects it. */
static void fetch(const float *row, size_t n) {
  for (size_t i = 0; i < n; i += 16) __builtin_prefetch(row + i, 0, 3);
}

rml_status rml_noise_fill(float *noise_k, size_t k, const rml_noise *noise, uint64_t start,
                          rml_isa isa) {
  if (!valid(noise) || start > noise->size || k > noise->size - start) return RML_EINVAL;
  return rml_normal_fill(noise_k, k, noise->key, RML_STREAM_NOISE, 0, 0, start, isa);
}

rml_status rml_noise_index(uint64_t *index, const rml_noise *noise, uint64_t key, uint32_t pair,
                           uint32_t iteration, size_t d) {
  if (!valid(noise) || d == 0 || d > noise->size) return RML_EINVAL;
  uint64_t range = noise->size - d + 1; /* at most 2^32 */
  uint32_t draw_4[4];
  rml_rng_block(draw_4, key, RML_STREAM_NOISE_INDEX, pair, iteration, 0);
  /* floor(range * draw / 2^64) for the 64-bit draw, without a 128-bit product. */
  *index = (range * draw_4[0] + (range * draw_4[1] >> 32)) >> 32;
  return RML_OK;
}

rml_status rml_noise_perturb(float *restrict plus_d, float *restrict minus_d, const float *theta_d,
                             size_t d, const rml_noise *noise, uint64_t index, float stdev,
                             rml_isa isa) {
  if (!valid(noise) || d == 0 || d > noise->size || index > noise->size - d) return RML_EINVAL;
  const rml_kernels *kernels = rml_kernels_get(isa);
  if (noise->table_k) {
    const float *row = noise->table_k + index;
    fetch(row, d < CHUNK ? d : CHUNK);
    for (size_t i = 0, n = CHUNK; i < d; i += n) {
      if (n > d - i) n = d - i;
      size_t next = i + n;
      if (next < d) fetch(row + next, d - next < CHUNK ? d - next : CHUNK);
      kernels->perturb(plus_d + i, minus_d ? minus_d + i : NULL, theta_d + i, row + i, stdev, n);
    }
    return RML_OK;
  }
  float chunk[CHUNK];
  size_t n = CHUNK - (size_t)(index % RML_GROUP); /* later chunks begin with a group */
  for (size_t i = 0; i < d; i += n, n = CHUNK) {
    if (n > d - i) n = d - i;
    rml_normal_fill(chunk, n, noise->key, RML_STREAM_NOISE, 0, 0, index + i, isa);
    kernels->perturb(plus_d + i, minus_d ? minus_d + i : NULL, theta_d + i, chunk, stdev, n);
  }
  return RML_OK;
}
