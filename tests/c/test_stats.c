/* Running statistics against two passes in long double; merges of any partition; the filter. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "rollmill/rng.h"
#include "rollmill/stats.h"

enum { N = 1000, O = 3, LENGTH = RML_STATS_LENGTH(O) };

static double x_no[N][O];

/* Spread 1 around 1e4, spread 1e-3 around 0, and a constant. */
static void make_observations(void) {
  static float normal_k[N];
  CHECK(rml_normal_fill(normal_k, N, 5, RML_STREAM_INIT, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    x_no[i][0] = 1e4 + normal_k[i];
    x_no[i][1] = 1e-3 * normal_k[N - 1 - i];
    x_no[i][2] = 0.1;
  }
}

static int near(double got, double want) { return fabs(got - want) <= 1e-12 * fabs(want) + 1e-15; }

static void check_whole(const double stats[LENGTH], size_t n) {
  CHECK(stats[0] == (double)n);
  for (size_t o = 0; o < O; o++) {
    long double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) mean += x_no[i][o];
    mean /= (long double)n;
    for (size_t i = 0; i < n; i++) squares += (x_no[i][o] - mean) * (x_no[i][o] - mean);
    CHECK(near(stats[1 + o], (double)mean));
    CHECK(fabs(stats[1 + O + o] - (double)squares) <= 1e-9 * (double)squares + 1e-20);
  }
}

static void push(double stats[LENGTH], size_t first, size_t last) {
  memset(stats, 0, LENGTH * sizeof(double));
  for (size_t i = first; i < last; i++) rml_stats_push(stats, x_no[i], O);
}

static void pushes_equal_two_passes(void) {
  double stats[LENGTH + 1] = {[LENGTH] = 77};
  push(stats, 0, N);
  check_whole(stats, N);
  CHECK(stats[LENGTH] == 77);
}

static void any_partition_merges_to_the_whole(void) {
  static const size_t step_6[6] = {1, 2, 7, 64, 333, N};
  double whole[LENGTH];
  push(whole, 0, N);
  for (int s = 0; s < 6; s++) {
    double sum[LENGTH] = {0}, part[LENGTH];
    for (size_t first = 0; first < N; first += step_6[s]) {
      push(part, first, first + step_6[s] < N ? first + step_6[s] : N);
      rml_stats_merge(sum, part, O);
    }
    check_whole(sum, N);
    for (size_t i = 0; i < 1 + O; i++) CHECK(near(sum[i], whole[i]));
  }
}

static void empty_blocks_change_nothing(void) {
  double empty[LENGTH] = {0}, zero[LENGTH] = {0}, some[LENGTH], same[LENGTH];
  push(some, 0, 10);
  memcpy(same, some, sizeof some);
  rml_stats_merge(empty, zero, O);
  CHECK(memcmp(empty, zero, sizeof empty) == 0);
  rml_stats_merge(some, empty, O);
  CHECK(memcmp(some, same, sizeof some) == 0);
  rml_stats_merge(empty, some, O);
  CHECK(memcmp(empty, some, sizeof some) == 0);
}

static void the_filter_standardises(void) {
  double stats[LENGTH] = {0}, mean_o[O + 1] = {[O] = 7}, scale_o[O + 1] = {[O] = 7};
  for (size_t n = 0; n < 2; n++) { /* below two observations: the identity */
    push(stats, 0, n);
    rml_stats_freeze(mean_o, scale_o, stats, O);
    for (size_t o = 0; o < O; o++) CHECK(mean_o[o] == 0.0 && scale_o[o] == 1.0);
  }
  push(stats, 0, N);
  rml_stats_freeze(mean_o, scale_o, stats, O);
  CHECK(fabs(scale_o[0] - 1) < 0.1 && fabs(scale_o[1] - 1e3) < 100);
  CHECK(scale_o[2] == 0.0 && near(mean_o[2], 0.1)); /* it has not varied */
  for (size_t o = 0; o < 2; o++) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < N; i++) {
      const double y = (x_no[i][o] - mean_o[o]) * scale_o[o];
      sum += y;
      squares += y * y;
    }
    CHECK(fabs(sum / N) < 1e-9 && fabs(squares / (N - 1) - 1) < 1e-9);
  }
  CHECK(mean_o[O] == 7 && scale_o[O] == 7);
}

int main(void) {
  make_observations();
  pushes_equal_two_passes();
  any_partition_merges_to_the_whole();
  empty_blocks_change_nothing();
  the_filter_standardises();
  return 0;
}
