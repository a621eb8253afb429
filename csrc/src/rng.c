#include "rollmill/rng.h"

#include <string.h>

#include "kernels.h"

rml_status rml_normal_fill(float *normal_k, size_t k, uint64_t key, rml_stream stream,
                           uint32_t item, uint32_t iteration, uint64_t start, rml_isa isa) {
  const uint64_t limit = (uint64_t)1 << 58; /* 2^56 blocks of four */
  if ((uint32_t)stream > 255 || start > limit || k > limit - start) return RML_EINVAL;
  const rml_kernels *kernels = rml_kernels_get(isa);
  float group[RML_GROUP];
  uint64_t g = start / RML_GROUP;
  size_t skip = (size_t)(start % RML_GROUP);
  if (skip && k) {
    size_t n = RML_GROUP - skip < k ? RML_GROUP - skip : k;
    kernels->normal_groups(group, 1, key, item, iteration, (uint32_t)stream, g++);
    memcpy(normal_k, group + skip, n * sizeof(float));
    normal_k += n;
    k -= n;
  }
  size_t whole = k / RML_GROUP, rest = k % RML_GROUP;
  kernels->normal_groups(normal_k, whole, key, item, iteration, (uint32_t)stream, g);
  if (rest) {
    kernels->normal_groups(group, 1, key, item, iteration, (uint32_t)stream, g + whole);
    memcpy(normal_k + whole * RML_GROUP, group, rest * sizeof(float));
  }
  return RML_OK;
}
