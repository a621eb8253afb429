#include "rollmill/optim.h"

#include <math.h>

/* base^t for an integer t by squaring: the same bits everywhere, unlike libm's pow. */
static double power(double base, uint64_t t) {
  double result = 1.0;
  for (; t; t >>= 1, base *= base)
    if (t & 1) result *= base;
  return result;
}

static int in_unit(double x) { return x >= 0.0 && x < 1.0; }

rml_status rml_optim_adam(float *restrict theta_d, float *restrict m_d, float *restrict v_d,
                          const float *gradient_d, size_t d, uint64_t t, double stepsize,
                          double beta1, double beta2, double epsilon) {
  return rml_optim_adamw(theta_d, m_d, v_d, gradient_d, d, t, stepsize, beta1, beta2, epsilon, 0.0);
}

rml_status rml_optim_adamw(float *restrict theta_d, float *restrict m_d, float *restrict v_d,
                           const float *gradient_d, size_t d, uint64_t t, double stepsize,
                           double beta1, double beta2, double epsilon, double weight_decay) {
  float small = (float)epsilon; /* 0 would make 0/0 where a gradient is 0 */
  if (t < 1 || !in_unit(beta1) || !in_unit(beta2) || !(small > 0.0f && isfinite(small)))
    return RML_EINVAL;
  float rate = (float)(stepsize * sqrt(1.0 - power(beta2, t)) / (1.0 - power(beta1, t)));
  float keep = (float)(1.0 - stepsize * weight_decay); /* 1 for Adam: a product that is exact */
  if (!isfinite(rate) || !(weight_decay >= 0.0) || !isfinite(keep)) return RML_EINVAL;
  float b1 = (float)beta1, c1 = (float)(1.0 - beta1), b2 = (float)beta2, c2 = (float)(1.0 - beta2);
  for (size_t i = 0; i < d; i++) {
    float g = gradient_d[i];
    m_d[i] = b1 * m_d[i] + c1 * g;
    v_d[i] = b2 * v_d[i] + c2 * (g * g);
    theta_d[i] = keep * theta_d[i] - rate * m_d[i] / (sqrtf(v_d[i]) + small);
  }
  return RML_OK;
}

/* Eight sums side by side, added as a tree: one order, whatever the vectors' width. */
static double length(const float *x_d, size_t d) {
  double sum_8[8] = {0};
  size_t i = 0;
  for (; i + 8 <= d; i += 8)
    for (size_t k = 0; k < 8; k++) sum_8[k] += (double)x_d[i + k] * (double)x_d[i + k];
  for (size_t k = 0; i < d; i++, k++) sum_8[k] += (double)x_d[i] * (double)x_d[i];
  for (size_t half = 4; half; half /= 2)
    for (size_t k = 0; k < half; k++) sum_8[k] += sum_8[k + half];
  return sqrt(sum_8[0]);
}

rml_status rml_optim_clipup(float *restrict theta_d, float *restrict v_d, const float *gradient_d,
                            size_t d, double stepsize, double momentum, double max_speed) {
  if (!isfinite((float)stepsize) || !in_unit(momentum)) return RML_EINVAL;
  if (!(max_speed > 0.0) || !isfinite((float)max_speed)) return RML_EINVAL;
  double norm = length(gradient_d, d);
  float rate = norm > 0.0 ? (float)(stepsize / norm) : 0.0f, keep = (float)momentum;
  if (!isfinite(norm) || !isfinite(rate)) return RML_EINVAL;
  for (size_t i = 0; i < d; i++) v_d[i] = keep * v_d[i] + rate * gradient_d[i];
  double speed = length(v_d, d);
  float clip = speed > max_speed ? (float)(max_speed / speed) : 1.0f;
  for (size_t i = 0; i < d; i++) {
    v_d[i] *= clip;
    theta_d[i] -= v_d[i];
  }
  return RML_OK;
}

rml_status rml_optim_sgd(float *restrict theta_d, float *restrict v_d, const float *gradient_d,
                         size_t d, double stepsize, double momentum) {
  if (!isfinite((float)stepsize) || !in_unit(momentum)) return RML_EINVAL;
  float rate = (float)stepsize, keep = (float)momentum, take = (float)(1.0 - momentum);
  for (size_t i = 0; i < d; i++) {
    v_d[i] = keep * v_d[i] + take * gradient_d[i];
    theta_d[i] -= rate * v_d[i];
  }
  return RML_OK;
}
