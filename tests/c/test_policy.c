/* Networks against a plain triple loop, bit for bit; tanh and exp against the C library's in double
 * precision; choices of actions against hand values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rollmill/policy.h"
#include "rollmill/rng.h"

#define KEY 7u
enum { GUARD = 64 };

static const rml_isa isa_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};

/* `bytes` aligned to 64 with GUARD marked ones behind. */
static void *with_guard(size_t bytes) {
  char *base = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
  CHECK(base);
  memset(base, 0xA5, bytes + GUARD);
  return base;
}

static void free_guarded(void *base, size_t bytes) {
  for (size_t i = 0; i < GUARD; i++) CHECK(((unsigned char *)base)[bytes + i] == 0xA5);
  free(base);
}

static void shapes_are_checked_and_counted(void) {
  rml_policy policy = {.layers = 99};
  const uint32_t width_9[9] = {25, 64, 64, 4, 1, 1, 1, 1, RML_POLICY_WIDTH};
  CHECK(rml_policy_init(&policy, 0, width_9, RML_TANH) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 9, width_9, RML_TANH) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 2, width_9, (rml_activation)0) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 2, width_9, (rml_activation)3) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 1, (const uint32_t[2]){0, 1}, RML_TANH) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 1, (const uint32_t[2]){1, 0}, RML_TANH) == RML_EINVAL);
  CHECK(rml_policy_init(&policy, 1, (const uint32_t[2]){1, RML_POLICY_WIDTH + 1}, RML_TANH) ==
        RML_EINVAL);
  CHECK(policy.layers == 99);
  CHECK(rml_policy_init(&policy, 3, width_9, RML_TANH) == RML_OK);
  CHECK(policy.d == 25 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4);
  CHECK(rml_policy_init(&policy, 8, width_9, RML_RELU) == RML_OK && policy.layers == 8);
  CHECK(rml_policy_scratch(&policy) >= 4 * 64 * sizeof(float));
}

static void first_parameters_are_scaled_normals_and_zero_biases(void) {
  enum { IN = 9, HIDDEN = 5, OUT = 3, D = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT };
  rml_policy policy;
  float theta_d[D], normal_k[IN * HIDDEN];
  CHECK(rml_policy_init(&policy, 2, (const uint32_t[3]){IN, HIDDEN, OUT}, RML_TANH) == RML_OK);
  CHECK(policy.d == D && rml_policy_fill(theta_d, &policy, KEY, RML_ISA_AUTO) == RML_OK);
  const float *layer = theta_d;
  for (uint32_t l = 0; l < 2; l++) {
    const size_t n = (size_t)policy.width[l] * policy.width[l + 1];
    const float scale = 1.0f / sqrtf((float)policy.width[l]);
    CHECK(rml_normal_fill(normal_k, n, KEY, RML_STREAM_INIT, l, 0, 0, RML_ISA_BASE) == RML_OK);
    for (size_t i = 0; i < n; i++) CHECK(layer[i] == normal_k[i] * scale);
    for (size_t i = 0; i < policy.width[l + 1]; i++) CHECK(layer[n + i] == 0.0f);
    layer += n + policy.width[l + 1];
  }
}

/* out_a for one row, by the definition: the bias, then the products in order of the inputs. */
static void plain_forward(float *out_a, const rml_policy *policy, const float *theta_d,
                          const float *x_o) {
  static float a_w[RML_POLICY_WIDTH], b_w[RML_POLICY_WIDTH];
  memcpy(a_w, x_o, policy->width[0] * sizeof(float));
  for (uint32_t l = 0; l < policy->layers; l++) {
    const size_t in = policy->width[l], out = policy->width[l + 1];
    const float *bias = theta_d + in * out;
    for (size_t j = 0; j < out; j++) {
      float sum = bias[j];
      for (size_t i = 0; i < in; i++) sum += a_w[i] * theta_d[i * out + j];
      b_w[j] = sum;
    }
    theta_d = bias + out;
    for (size_t j = 0; j < out && l + 1 < policy->layers; j++)
      if (policy->activation == RML_RELU)
        b_w[j] = b_w[j] < 0.0f ? 0.0f : b_w[j];
      else
        rml_tanh_eval(b_w + j, b_w + j, 1, RML_ISA_BASE);
    memcpy(a_w, b_w, out * sizeof(float));
  }
  memcpy(out_a, a_w, policy->width[policy->layers] * sizeof(float));
}

static void check_network(uint32_t layers, const uint32_t *width, rml_activation activation) {
  enum { ROWS = 5 };
  rml_policy policy;
  CHECK(rml_policy_init(&policy, layers, width, activation) == RML_OK);
  const size_t o = width[0], a = width[layers], bytes = ROWS * a * sizeof(float);
  /* Exactly as long as promised, so that a sanitizer sees a read past the last bias. */
  float *theta_d = malloc(policy.d * sizeof(float)), *x_no = malloc(ROWS * o * sizeof(float));
  float *want_na = malloc(bytes), *hot_no = calloc(ROWS * o, sizeof(float));
  int64_t index_n[ROWS];
  CHECK(theta_d && x_no && want_na && hot_no);
  CHECK(rml_normal_fill(theta_d, policy.d, KEY, RML_STREAM_INIT, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  CHECK(rml_normal_fill(x_no, ROWS * o, KEY, RML_STREAM_REPLAY, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  for (size_t i = 0; i < ROWS; i++) {
    plain_forward(want_na + i * a, &policy, theta_d, x_no + i * o);
    index_n[i] = (int64_t)(i * 7 % o);
    hot_no[i * o + (size_t)index_n[i]] = 1.0f;
  }
  const size_t scratch_bytes = rml_policy_scratch(&policy);
  for (int b = 0; b < 3; b++)
    for (size_t n = 0; n <= ROWS; n++) {
      void *scratch = with_guard(scratch_bytes);
      float *out_na = with_guard(n * a * sizeof(float));
      CHECK(rml_policy_eval(out_na, &policy, theta_d, x_no, NULL, n, scratch, isa_3[b]) == RML_OK);
      CHECK(memcmp(out_na, want_na, n * a * sizeof(float)) == 0);
      CHECK(rml_policy_eval(out_na, &policy, theta_d, NULL, index_n, n, scratch, isa_3[b]) ==
            RML_OK);
      for (size_t i = 0; i < n; i++) { /* a look-up leaves out the products with 0 */
        float row_a[128];
        plain_forward(row_a, &policy, theta_d, hot_no + i * o);
        for (size_t j = 0; j < a; j++) CHECK(out_na[i * a + j] == row_a[j]);
      }
      free_guarded(out_na, n * a * sizeof(float));
      free_guarded(scratch, scratch_bytes);
    }
  free(hot_no);
  free(want_na);
  free(x_no);
  free(theta_d);
}

/* Members with parameters of their own, in any order and number, give what each gives alone. */
static void members_equal_each_alone(void) {
  enum { M = 5, O = 7, A = 3 };
  static const int32_t rows_5[M] = {4, 0, 3, 1, 2};
  rml_policy policy;
  CHECK(rml_policy_init(&policy, 2, (const uint32_t[3]){O, 19, A}, RML_TANH) == RML_OK);
  float *theta_md = malloc(M * policy.d * sizeof(float)), x_mo[M * O];
  CHECK(theta_md);
  CHECK(rml_normal_fill(theta_md, M * policy.d, KEY, RML_STREAM_INIT, 0, 0, 0, RML_ISA_AUTO) ==
        RML_OK);
  CHECK(rml_normal_fill(x_mo, M * O, KEY, RML_STREAM_REPLAY, 0, 0, 0, RML_ISA_AUTO) == RML_OK);
  const int64_t index_m[M] = {6, 0, 3, 3, 1};
  const size_t scratch_bytes = rml_policy_scratch(&policy);
  for (int b = 0; b < 3; b++)
    for (int hot = 0; hot < 2; hot++)
      for (size_t k = 0; k <= M; k++) {
        void *scratch = with_guard(scratch_bytes);
        float *out_ka = with_guard(k * A * sizeof(float)), want_a[A];
        CHECK(rml_policy_eval_members(out_ka, &policy, theta_md, hot ? NULL : x_mo,
                                      hot ? index_m : NULL, rows_5, k, scratch,
                                      isa_3[b]) == RML_OK);
        for (size_t i = 0; i < k; i++) {
          const size_t m = (size_t)rows_5[i];
          CHECK(rml_policy_eval(want_a, &policy, theta_md + m * policy.d,
                                hot ? NULL : x_mo + m * O, hot ? index_m + m : NULL, 1, scratch,
                                RML_ISA_BASE) == RML_OK);
          CHECK(memcmp(out_ka + i * A, want_a, sizeof want_a) == 0);
        }
        free_guarded(out_ka, k * A * sizeof(float));
        free_guarded(scratch, scratch_bytes);
      }
  CHECK(rml_policy_eval_members(x_mo, &policy, theta_md, NULL, NULL, rows_5, 1, NULL,
                                RML_ISA_AUTO) == RML_EINVAL);
  free(theta_md);
}

static void networks_equal_a_plain_triple_loop(void) {
  static const uint32_t width_9[9] = {1, 2, 3, 4, 5, 17, 31, 64, 65};
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 9; j++) {
      check_network(1, (const uint32_t[2]){width_9[i], width_9[j]}, RML_TANH);
      check_network(3, (const uint32_t[4]){3, width_9[i], width_9[j], 2}, RML_TANH);
      check_network(2, (const uint32_t[3]){width_9[i], width_9[j], 7}, RML_RELU);
    }
  check_network(8, (const uint32_t[9]){5, 4, 3, 2, 1, 2, 3, 4, 5}, RML_TANH);
  check_network(2, (const uint32_t[3]){25, 127, 4}, RML_TANH);
  float out = 3;
  rml_policy policy;
  CHECK(rml_policy_init(&policy, 1, (const uint32_t[2]){1, 1}, RML_TANH) == RML_OK);
  const float one = 1, theta_2[2] = {1, 1};
  const int64_t index = 0;
  CHECK(rml_policy_eval(&out, &policy, theta_2, NULL, NULL, 1, NULL, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_policy_eval(&out, &policy, theta_2, &one, &index, 1, NULL, RML_ISA_AUTO) ==
        RML_EINVAL);
  CHECK(out == 3);
}

/* Every 97th float32 in [-10, 10], in every build. */
static void tanh_keeps_its_bound(void) {
  enum { N = 4096, STRIDE = 97 };
  static float x_n[N], y_n[N], other_n[N];
  const uint32_t last = 0x41200000u; /* 10 */
  double worst = 0;
  float most = 0;
  for (uint32_t from = 0; from <= last; from += N / 2 * STRIDE) {
    size_t n = 0;
    for (uint32_t bits = from; n < N && bits <= last; bits += STRIDE, n += 2) {
      memcpy(x_n + n, &bits, 4);
      x_n[n + 1] = -x_n[n];
    }
    rml_tanh_eval(y_n, x_n, n, RML_ISA_BASE);
    for (int b = 1; b < 3; b++) {
      rml_tanh_eval(other_n, x_n, n, isa_3[b]);
      CHECK(memcmp(y_n, other_n, n * sizeof(float)) == 0);
    }
    for (size_t i = 0; i < n; i += 2) {
      worst = fmax(worst, fabs((double)y_n[i] - tanh((double)x_n[i])));
      most = fmaxf(most, y_n[i]);
      CHECK(y_n[i + 1] == -y_n[i]);
    }
  }
  printf("tanh: largest absolute error %.4g, largest value 1 %+.3g\n", worst, (double)most - 1);
  CHECK(worst < 4e-7);
  x_n[0] = INFINITY;
  x_n[1] = -INFINITY;
  x_n[2] = NAN;
  x_n[3] = -0.0f;
  rml_tanh_eval(x_n, x_n, 4, RML_ISA_AUTO); /* in place */
  CHECK(fabs(x_n[0] - 1.0) < 2e-7 && x_n[1] == -x_n[0] && isnan(x_n[2]));
  CHECK(x_n[3] == 0.0f && signbit(x_n[3]));
  rml_tanh_eval(NULL, NULL, 0, RML_ISA_AUTO);
}

static void the_first_of_the_largest_is_chosen(void) {
  CHECK(rml_policy_argmax((const float[1]){NAN}, 1) == 0);
  CHECK(rml_policy_argmax((const float[4]){1, 3, 3, 2}, 4) == 1);
  CHECK(rml_policy_argmax((const float[3]){NAN, -INFINITY, NAN}, 3) == 1);
  CHECK(rml_policy_argmax((const float[3]){2, NAN, 3}, 3) == 2);
  CHECK(rml_policy_argmax((const float[2]){-0.0f, 0.0f}, 2) == 0);
  CHECK(rml_policy_argmax((const float[2]){-INFINITY, INFINITY}, 2) == 1);
}

/* The unit draw where action 0 gives way to action 1, by bisection over float32. */
static float threshold(const float logit_2[2]) {
  uint32_t low = 0, high = 0x3F800000u; /* 0 takes action 0; 1 would take action 1 */
  while (high - low > 1) {
    const uint32_t mid = low + (high - low) / 2;
    float unit;
    memcpy(&unit, &mid, 4);
    *(rml_policy_sample(logit_2, 2, unit) ? &high : &low) = mid;
  }
  float unit;
  memcpy(&unit, &high, 4);
  return unit;
}

/* P(0) of logits (x, 0) is e^x / (1 + e^x), so the threshold shows the exponential up to four
 * roundings: of the sum, of the product with the draw, and the draw's own spacing (twice 2^-24). */
static void probabilities_are_the_softmax(void) {
  double worst = 0;
  for (float x = 0; x > -87; x -= 0.00371f) {
    const double e = exp((double)x);
    const double seen = (double)threshold((const float[2]){x, 0}) * (1 + e);
    worst = fmax(worst, fabs(seen / e - 1));
  }
  printf("exp: largest relative error %.3g, up to %.3g of it by the method\n", worst, 4 * 0x1p-24);
  CHECK(worst < 2e-7 + 4 * 0x1p-24);
  CHECK(threshold((const float[2]){0, 0}) == 0.5f);
}

static void samples_at_the_edges(void) {
  const float last = 1.0f - 0x1p-24f;
  CHECK(rml_policy_sample((const float[1]){-5}, 1, last) == 0);
  CHECK(rml_policy_sample((const float[4]){0, 0, 0, 0}, 4, 0.0f) == 0);
  CHECK(rml_policy_sample((const float[4]){0, 0, 0, 0}, 4, 0.25f) == 1);
  CHECK(rml_policy_sample((const float[4]){0, 0, 0, 0}, 4, last) == 3);
  /* No action of probability 0: a NaN, or 88 below the largest. */
  CHECK(rml_policy_sample((const float[3]){NAN, 0, NAN}, 3, 0.0f) == 1);
  CHECK(rml_policy_sample((const float[3]){NAN, 0, NAN}, 3, last) == 1);
  CHECK(rml_policy_sample((const float[3]){0, -88, -INFINITY}, 3, last) == 0);
  CHECK(rml_policy_sample((const float[3]){-INFINITY, INFINITY, 3}, 3, 0.0f) == 1);
  CHECK(rml_policy_sample((const float[2]){INFINITY, INFINITY}, 2, 0.5f) == 1);
  CHECK(rml_policy_sample((const float[2]){-INFINITY, -INFINITY}, 2, 0.5f) == 1);
  CHECK(rml_policy_sample((const float[2]){NAN, NAN}, 2, last) == 0);
  float logit_a[RML_SAMPLE_MAX] = {0};
  for (uint32_t i = 0; i < RML_SAMPLE_MAX; i++)
    CHECK(rml_policy_sample(logit_a, RML_SAMPLE_MAX, (float)i / RML_SAMPLE_MAX) == i);
}

int main(void) {
  shapes_are_checked_and_counted();
  first_parameters_are_scaled_normals_and_zero_biases();
  networks_equal_a_plain_triple_loop();
  members_equal_each_alone();
  tanh_keeps_its_bound();
  the_first_of_the_largest_is_chosen();
  probabilities_are_the_softmax();
  samples_at_the_edges();
  return 0;
}
