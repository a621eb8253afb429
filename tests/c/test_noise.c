/* The shared noise: both storages and all builds give the same bits; indices reach both ends. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rollmill/noise.h"

#define KEY 42u

static const rml_isa isa_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};

static void noise_is_its_stream(void) {
  enum { SIZE = 300 };
  const rml_noise noise = {.key = KEY, .size = SIZE};
  float noise_k[SIZE], stream_k[SIZE], mark = 7;
  CHECK(rml_normal_fill(stream_k, SIZE, KEY, RML_STREAM_NOISE, 0, 0, 0, RML_ISA_BASE) == RML_OK);
  for (int b = 0; b < 3; b++)
    for (size_t start = 0; start <= SIZE; start += 50) {
      CHECK(rml_noise_fill(noise_k, SIZE - start, &noise, start, isa_3[b]) == RML_OK);
      CHECK(memcmp(noise_k, stream_k + start, (SIZE - start) * sizeof(float)) == 0);
    }
  CHECK(rml_noise_fill(&mark, 1, &noise, SIZE, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_fill(&mark, 2, &noise, SIZE - 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_fill(&mark, SIZE_MAX, &noise, 2, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_fill(&mark, 1, &noise, SIZE + 1, RML_ISA_AUTO) == RML_EINVAL);
  const rml_noise empty = {.key = KEY, .size = 0};
  const rml_noise huge = {.key = KEY, .size = RML_NOISE_SIZE_MAX + 1};
  CHECK(rml_noise_fill(&mark, 0, &empty, 0, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_fill(&mark, 1, &huge, 0, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(mark == 7);
}

/* floor(range * draw / 2^64) by long multiplication, two digits of 32 bits each. */
static uint64_t scaled(uint64_t range, uint64_t draw) {
  const uint64_t a = range >> 32, b = range & 0xFFFFFFFFu, c = draw >> 32, d = draw & 0xFFFFFFFFu;
  const uint64_t middle = (b * d >> 32) + (a * d & 0xFFFFFFFFu) + (b * c & 0xFFFFFFFFu);
  return a * c + (a * d >> 32) + (b * c >> 32) + (middle >> 32);
}

static void indices_are_uniform_over_both_ends(void) {
  rml_noise noise = {.key = 1, .size = 100};
  uint64_t index;
  int seen[8] = {0};
  for (uint32_t pair = 0; pair < 4000; pair++) {
    uint32_t draw_4[4];
    CHECK(rml_noise_index(&index, &noise, KEY, pair, 3, 93) == RML_OK);
    rml_rng_block(draw_4, KEY, RML_STREAM_NOISE_INDEX, pair, 3, 0);
    CHECK(index == scaled(8, (uint64_t)draw_4[0] << 32 | draw_4[1]));
    seen[index]++;
  }
  for (int i = 0; i < 8; i++) CHECK(seen[i] > 400 && seen[i] < 600); /* 500, deviation 21 */
  CHECK(rml_noise_index(&index, &noise, KEY, 0, 0, 100) == RML_OK && index == 0);
  noise.size = RML_NOISE_SIZE_MAX;
  for (uint32_t pair = 0; pair < 1000; pair++) {
    uint32_t draw_4[4];
    CHECK(rml_noise_index(&index, &noise, KEY, pair, 0, 1) == RML_OK);
    rml_rng_block(draw_4, KEY, RML_STREAM_NOISE_INDEX, pair, 0, 0);
    CHECK(index == draw_4[0]); /* the range is 2^32 */
    CHECK(rml_noise_index(&index, &noise, KEY, pair, 0, 12345) == RML_OK);
    CHECK(index == scaled(noise.size - 12344, (uint64_t)draw_4[0] << 32 | draw_4[1]));
  }
  index = 99;
  noise.size = 100;
  CHECK(rml_noise_index(&index, &noise, KEY, 0, 0, 0) == RML_EINVAL);
  CHECK(rml_noise_index(&index, &noise, KEY, 0, 0, 101) == RML_EINVAL);
  noise.size = 0;
  CHECK(rml_noise_index(&index, &noise, KEY, 0, 0, 1) == RML_EINVAL);
  CHECK(index == 99);
}

/* Chunks inside the kernel are 2048 long: sizes on either side of it, and any index. */
static void perturbations_are_equal_from_both_storages(void) {
  enum { SIZE = 6000, GUARD = 16, D_MAX = 5000 };
  static const size_t d_12[12] = {1, 7, 8, 9, 63, 64, 65, 1025, 2047, 2048, 2049, D_MAX};
  static const uint64_t index_6[6] = {0, 1, 63, 64, 100, SIZE - D_MAX};
  static float table_k[SIZE], theta_d[D_MAX], plus_d[D_MAX + GUARD], minus_d[D_MAX + GUARD];
  const rml_noise made = {.key = KEY, .size = SIZE};
  const rml_noise table = {.key = KEY, .size = SIZE, .table_k = table_k};
  const float stdev = 0.02f;
  unsigned char guard[GUARD * sizeof(float)];
  memset(guard, 0xA5, sizeof guard);
  CHECK(rml_noise_fill(table_k, SIZE, &made, 0, RML_ISA_AUTO) == RML_OK);
  CHECK(rml_normal_fill(theta_d, D_MAX, KEY, RML_STREAM_INIT, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  for (int both = 0; both < 2; both++)
    for (int b = 0; b < 3; b++)
      for (int s = 0; s < 12; s++)
        for (int k = 0; k < 6; k++)
          for (int stored = 0; stored < 2; stored++) {
            const size_t d = d_12[s];
            memset(plus_d, 0xA5, sizeof plus_d);
            memset(minus_d, 0xA5, sizeof minus_d);
            CHECK(rml_noise_perturb(plus_d, both ? minus_d : NULL, theta_d, d,
                                    stored ? &table : &made, index_6[k], stdev,
                                    isa_3[b]) == RML_OK);
            for (size_t i = 0; i < d; i++) {
              const volatile float step = stdev * table_k[index_6[k] + i]; /* rounded */
              CHECK(plus_d[i] == theta_d[i] + step);
              CHECK(!both || minus_d[i] == theta_d[i] - step);
            }
            CHECK(memcmp(plus_d + d, guard, sizeof guard) == 0);
            CHECK(memcmp(minus_d + (both ? d : 0), guard, sizeof guard) == 0);
          }
}

static void refused_perturbations_write_nothing(void) {
  rml_noise noise = {.key = KEY, .size = 10};
  float theta_d[11] = {0}, plus_d[11] = {5}, minus_d[11] = {6};
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 11, &noise, 0, 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 10, &noise, 1, 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 1, &noise, 10, 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 0, &noise, 0, 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 2, &noise, UINT64_MAX, 1, RML_ISA_AUTO) ==
        RML_EINVAL);
  noise.size = RML_NOISE_SIZE_MAX + 1;
  CHECK(rml_noise_perturb(plus_d, minus_d, theta_d, 1, &noise, 0, 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(plus_d[0] == 5 && minus_d[0] == 6);
}

int main(void) {
  noise_is_its_stream();
  indices_are_uniform_over_both_ends();
  perturbations_are_equal_from_both_storages();
  refused_perturbations_write_nothing();
  return 0;
}
