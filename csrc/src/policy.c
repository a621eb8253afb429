#include "rollmill/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "forward.h"
#include "rollmill/rng.h"

rml_status rml_policy_init(rml_policy *policy, uint32_t layers, const uint32_t *width,
                           rml_activation activation) {
  if (layers < 1 || layers > RML_POLICY_LAYERS) return RML_EINVAL;
  if (activation != RML_TANH && activation != RML_RELU) return RML_EINVAL;
  size_t d = 0;
  for (uint32_t l = 0; l <= layers; l++) {
    if (width[l] < 1 || width[l] > RML_POLICY_WIDTH) return RML_EINVAL;
    if (l) d += ((size_t)width[l - 1] + 1) * width[l];
  }
  *policy = (rml_policy){.layers = layers, .activation = activation, .d = d};
  memcpy(policy->width, width, (layers + 1) * sizeof *width);
  return RML_OK;
}

rml_status rml_policy_fill(float *theta_d, const rml_policy *policy, uint64_t key, rml_isa isa) {
  for (uint32_t l = 0; l < policy->layers; l++) {
    size_t in = policy->width[l], out = policy->width[l + 1], n = in * out;
    rml_status status = rml_normal_fill(theta_d, n, key, RML_STREAM_INIT, l, 0, 0, isa);
    if (status) return status;
    float scale = 1.0f / sqrtf((float)in);
    for (size_t i = 0; i < n; i++) theta_d[i] *= scale;
    memset(theta_d + n, 0, out * sizeof(float));
    theta_d += n + out;
  }
  return RML_OK;
}

/* Floats in each of the four buffers of the scratch: room for the widest hidden layer. */
static size_t buffer(const rml_policy *policy) {
  size_t widest = 0;
  for (uint32_t l = 1; l < policy->layers; l++)
    if (policy->width[l] > widest) widest = policy->width[l];
  return (widest + 15) / 16 * 16;
}

size_t rml_policy_scratch(const rml_policy *policy) { return 4 * buffer(policy) * sizeof(float); }

void rml_policy_forward(float *const out_2[2], const rml_policy *policy,
                        const float *const theta_2[2], const float *const x_2[2],
                        const int64_t *index_2, int members, void *scratch,
                        const rml_kernels *kernels) {
  const size_t step = buffer(policy);
  const float *theta[2] = {theta_2[0], theta_2[members - 1]};
  const float *x[2] = {x_2[0], x_2[members - 1]};
  for (uint32_t l = 0; l < policy->layers; l++) {
    const size_t in = policy->width[l], out = policy->width[l + 1];
    const int last = l + 1 == policy->layers;
    const float *bias[2];
    float *y[2];
    for (int m = 0; m < 2; m++) {
      int k = m < members ? m : 0;
      bias[m] = theta[m] + in * out;
      y[m] = last ? out_2[k] : (float *)scratch + (2 * (l & 1) + (size_t)k) * step;
    }
    if (l || !index_2)
      kernels->dense(y, x, theta, bias, in, out, members);
    else /* one-hot: the products with zeros are left out */
      for (int m = 0; m < members; m++) {
        const float *row = theta[m] + (size_t)index_2[m] * out;
        kernels->add(y[m], bias[m], row, out);
      }
    for (int m = 0; m < members && !last; m++)
      (policy->activation == RML_TANH ? kernels->tanh : kernels->relu)(y[m], y[m], out);
    for (int m = 0; m < 2; m++) {
      x[m] = y[m];
      theta[m] = bias[m] + out;
    }
  }
}

rml_status rml_policy_eval(float *out_na, const rml_policy *policy, const float *theta_d,
                           const float *x_no, const int64_t *index_n, size_t n, void *scratch,
                           rml_isa isa) {
  if (!x_no == !index_n) return RML_EINVAL;
  const rml_kernels *kernels = rml_kernels_get(isa);
  const size_t o = policy->width[0], a = policy->width[policy->layers];
  const float *theta_2[2] = {theta_d, theta_d};
  for (size_t i = 0; i < n; i += 2) {
    int members = n - i < 2 ? 1 : 2;
    size_t j = i + (size_t)members - 1;
    float *out_2[2] = {out_na + i * a, out_na + j * a};
    const float *x_2[2] = {x_no ? x_no + i * o : NULL, x_no ? x_no + j * o : NULL};
    rml_policy_forward(out_2, policy, theta_2, x_2, index_n ? index_n + i : NULL, members, scratch,
                       kernels);
  }
  return RML_OK;
}

rml_status rml_policy_eval_members(float *out_ka, const rml_policy *policy, const float *theta_md,
                                   const float *x_mo, const int64_t *index_m,
                                   const int32_t *member_k, size_t k, void *scratch, rml_isa isa) {
  if (!x_mo == !index_m) return RML_EINVAL;
  const rml_kernels *kernels = rml_kernels_get(isa);
  const size_t o = policy->width[0], a = policy->width[policy->layers], d = policy->d;
  for (size_t i = 0; i < k; i += 2) {
    const int members = k - i < 2 ? 1 : 2;
    const size_t j = i + (size_t)members - 1;
    const size_t p = (size_t)member_k[i], q = (size_t)member_k[j];
    float *out_2[2] = {out_ka + i * a, out_ka + j * a};
    const float *theta_2[2] = {theta_md + p * d, theta_md + q * d};
    const float *x_2[2] = {x_mo ? x_mo + p * o : NULL, x_mo ? x_mo + q * o : NULL};
    int64_t index_2[2] = {0};
    if (index_m) index_2[0] = index_m[p], index_2[1] = index_m[q];
    rml_policy_forward(out_2, policy, theta_2, x_2, index_m ? index_2 : NULL, members, scratch,
                       kernels);
  }
  return RML_OK;
}

uint32_t rml_policy_argmax(const float *logit_a, size_t n) {
  uint32_t best = 0;
  for (size_t i = 1; i < n; i++) {
    float a = logit_a[i], b = logit_a[best];
    best = a > b || (b != b && a == a) ? (uint32_t)i : best;
  }
  return best;
}

/* exp(x) for x <= 0: 2^k * exp(r), |r| <= log(2)/2, minimax polynomial for exp(r). Relative error
 * below 2e-7; 0 below -87 and for NaN. */
static inline float exp_negative(float value) {
  float x = value >= -87.0f ? value : -87.0f;
  int32_t k = (int32_t)(x * 0x1.715476p+0f - 0.5f);
  float r = x - (float)k * 0x1.62ep-1f - (float)k * 0x1.0bfbe8p-15f;
  float p = 0x1.6a2352p-10f;
  p = p * r + 0x1.123a6cp-7f;
  p = p * r + 0x1.5558f4p-5f;
  p = p * r + 0x1.555490p-3f;
  p = p * r + 0x1.fffffcp-2f;
  uint32_t bits = (uint32_t)(k + 127) << 23;
  float power;
  memcpy(&power, &bits, 4);
  return value >= -87.0f ? (1.0f + (r + r * r * p)) * power : 0.0f;
}

uint32_t rml_policy_sample(const float *logit_a, size_t n, float unit) {
  float weight[RML_SAMPLE_MAX], most = -INFINITY, total = 0.0f, sum = 0.0f;
  assert(n <= RML_SAMPLE_MAX);
  for (size_t i = 0; i < n; i++) most = logit_a[i] > most ? logit_a[i] : most;
  uint32_t last = 0, chosen = 0;
  for (size_t i = 0; i < n; i++) /* inf - inf is no 0 */
    weight[i] = exp_negative(logit_a[i] == most ? 0.0f : logit_a[i] - most);
  for (size_t i = 0; i < n; i++) {
    total += weight[i];
    last = weight[i] > 0.0f ? (uint32_t)i : last;
  }
  float level = unit * total;
  for (size_t i = 0; i + 1 < n; i++) {
    sum += weight[i];
    chosen += level >= sum;
  }
  return chosen < last ? chosen : last;
}

void rml_tanh_eval(float *y_n, const float *x_n, size_t n, rml_isa isa) {
  rml_kernels_get(isa)->tanh(y_n, x_n, n);
}
