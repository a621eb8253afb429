/* Ranks against hand values and a quadratic-time definition; the weighted sum of noise against a
 * tree built by recursion, for every way to split it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rollmill/es.h"

#define KEY 11u

static const rml_isa isa_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};

static void ranks_share_their_ties(void) {
  static const size_t n_8[8] = {1, 2, 7, 8, 9, 64, 65, 1025};
  static double value_n[1025];
  static float rank_n[1026];
  static uint32_t order_n[2 * 1025 + 1];
  for (int s = 0; s < 8; s++)
    for (uint32_t kinds = 1; kinds < 2000; kinds *= 9) {
      const size_t n = n_8[s];
      for (size_t i = 0; i < n; i++) {
        uint32_t draw_4[4];
        rml_rng_block(draw_4, KEY, RML_STREAM_REPLAY, (uint32_t)i, kinds, 0);
        value_n[i] = (double)rml_rng_below(draw_4[0], kinds) - 5;
      }
      rank_n[n] = 77;
      order_n[2 * n] = 77;
      CHECK(rml_es_rank(rank_n, value_n, n, order_n) == RML_OK);
      CHECK(rank_n[n] == 77 && order_n[2 * n] == 77);
      for (size_t i = 0; i < n; i++) {
        size_t below = 0, equal = 0;
        for (size_t j = 0; j < n; j++) {
          below += value_n[j] < value_n[i];
          equal += value_n[j] == value_n[i];
        }
        const double mean = (double)below + 0.5 * (double)(equal - 1);
        CHECK(rank_n[i] == (n > 1 ? (float)(mean / (double)(n - 1) - 0.5) : 0.0f));
        if (kinds == 1) CHECK(rank_n[i] == 0.0f && !signbit(rank_n[i]));
      }
    }
  const double edge_4[4] = {INFINITY, -INFINITY, INFINITY, 0};
  CHECK(rml_es_rank(rank_n, edge_4, 4, order_n) == RML_OK);
  CHECK(rank_n[0] == rank_n[2] && rank_n[1] == -0.5f && rank_n[0] == (float)(2.5 / 3 - 0.5));
  rank_n[0] = 7;
  CHECK(rml_es_rank(rank_n, (const double[2]){1, NAN}, 2, order_n) == RML_ENONFINITE);
  CHECK(rank_n[0] == 7);
  CHECK(rml_es_rank(NULL, NULL, 0, NULL) == RML_OK);
}

/* Column sums of pairs in blocks [first, first + span), the tree's node of that span. */
static float node(const float *table_k, const uint64_t *index_p, const float *weight_p, size_t p,
                  size_t column, size_t first, size_t span) {
  if (span == 1) {
    float sum = 0;
    for (size_t k = first * RML_ES_BLOCK; k < p && k < (first + 1) * RML_ES_BLOCK; k++)
      sum += weight_p[k] * table_k[index_p[k] + column];
    return sum;
  }
  const float left = node(table_k, index_p, weight_p, p, column, first, span / 2);
  if ((first + span / 2) * RML_ES_BLOCK >= p) return left; /* no right half */
  return left + node(table_k, index_p, weight_p, p, column, first + span / 2, span / 2);
}

enum { D = 2 * RML_ES_TILE + 100, SIZE = D + 5000, P_MAX = 1000, GUARD = 16 };

static float table_k[SIZE], weight_p[P_MAX], sum_d[D + GUARD], want_d[D];
static uint64_t index_p[P_MAX];
static const rml_noise made = {.key = KEY, .size = SIZE};
static const rml_noise table = {.key = KEY, .size = SIZE, .table_k = table_k};

static void make_pairs(void) {
  CHECK(rml_noise_fill(table_k, SIZE, &made, 0, RML_ISA_AUTO) == RML_OK);
  CHECK(rml_normal_fill(weight_p, P_MAX, KEY, RML_STREAM_REPLAY, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  for (uint32_t k = 0; k < P_MAX; k++)
    CHECK(rml_noise_index(index_p + k, &made, KEY, k, 0, D) == RML_OK);
  index_p[0] = 0;
  index_p[1] = SIZE - D;
  for (int k = 16; k < 24; k++) weight_p[k] = 0; /* a group of rows of no weight */
  weight_p[30] = 0;
}

static void sums_follow_the_fixed_tree(void) {
  static const size_t p_10[10] = {0, 1, 7, 63, 64, 65, 127, 129, 200, P_MAX};
  for (int s = 0; s < 10; s++) {
    const size_t p = p_10[s], scratch_bytes = rml_es_scratch(p);
    /* Every column of small sums, one in 61 of the long ones. */
    const size_t stride = p > 8 ? 61 : 1;
    for (size_t c = 0; c < D; c += stride)
      want_d[c] = node(table_k, index_p, weight_p, p, c, 0, 16);
    float *scratch = aligned_alloc(64, scratch_bytes + 64);
    CHECK(scratch);
    for (int b = 0; b < 3; b++)
      for (int stored = b ? 1 : 0; stored < 2; stored++)
        for (int blas = 0; blas < 2; blas++) {
          memset(sum_d, 0xA5, sizeof sum_d);
          memset((char *)scratch + scratch_bytes, 0xA5, 64);
          CHECK(rml_es_noise_sum(sum_d, 0, D, D, stored ? &table : &made, index_p, weight_p, p,
                                 blas ? rml_blas_reference() : NULL, scratch,
                                 isa_3[b]) == RML_OK);
          for (size_t c = 0; c < D; c += stride) CHECK(sum_d[c] == want_d[c]);
          for (size_t i = 0; i < GUARD * sizeof(float); i++)
            CHECK(((unsigned char *)(sum_d + D))[i] == 0xA5);
          for (size_t i = 0; i < 64; i++)
            CHECK(((unsigned char *)scratch)[scratch_bytes + i] == 0xA5);
        }
    free(scratch);
  }
}

/* Any split gives the same bits, and a range writes nothing outside itself. */
static void ranges_are_independent(void) {
  enum { P = 200 };
  static float part_d[D];
  float *scratch = aligned_alloc(64, rml_es_scratch(P));
  CHECK(scratch);
  CHECK(rml_es_noise_sum(sum_d, 0, D, D, &table, index_p, weight_p, P, NULL, scratch,
                         RML_ISA_AUTO) == RML_OK);
  for (size_t begin = 0; begin < D; begin += RML_ES_TILE)
    for (size_t end = begin; end <= D; end += 1023) {
      memset(part_d, 0xA5, sizeof part_d);
      CHECK(rml_es_noise_sum(part_d, begin, end, D, &table, index_p, weight_p, P, NULL, scratch,
                             RML_ISA_AUTO) == RML_OK);
      CHECK(memcmp(part_d + begin, sum_d + begin, (end - begin) * sizeof(float)) == 0);
      for (size_t i = 0; i < sizeof part_d; i++)
        if (i < begin * sizeof(float) || i >= end * sizeof(float))
          CHECK(((unsigned char *)part_d)[i] == 0xA5);
    }
  free(scratch);
}

static rml_status refused(size_t begin, size_t end, size_t d, const rml_noise *noise, size_t p) {
  float *scratch = aligned_alloc(64, rml_es_scratch(p));
  CHECK(scratch);
  sum_d[0] = 5;
  const rml_status status = rml_es_noise_sum(sum_d, begin, end, d, noise, index_p, weight_p, p,
                                             NULL, scratch, RML_ISA_AUTO);
  CHECK(sum_d[0] == 5);
  free(scratch);
  return status;
}

static void refused_sums_write_nothing(void) {
  CHECK(refused(1, D, D, &made, 1) == RML_EINVAL);
  CHECK(refused(RML_ES_TILE, 5, D, &made, 1) == RML_EINVAL);
  CHECK(refused(0, D + 1, D, &made, 1) == RML_EINVAL);
  CHECK(refused(0, 1, SIZE + 1, &made, 1) == RML_EINVAL);
  CHECK(refused(0, 1, D + 1, &made, 2) == RML_EINVAL); /* the last index no longer fits */
  const rml_noise huge = {.key = KEY, .size = RML_NOISE_SIZE_MAX + 1};
  CHECK(refused(0, 1, D, &huge, 1) == RML_EINVAL);
}

int main(void) {
  ranks_share_their_ties();
  make_pairs();
  sums_follow_the_fixed_tree();
  ranges_are_independent();
  refused_sums_write_nothing();
  return 0;
}
