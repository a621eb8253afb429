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
  float small = (float)epsilon; /* 0 would make 0/0 where a gradient is 0 */
  if (t < 1 || !in_unit(beta1) || !in_unit(beta2) || !(small > 0.0f && isfinite(small)))
    return RML_EINVAL;
  float rate = (float)(stepsize * sqrt(1.0 - power(beta2, t)) / (1.0 - power(beta1, t)));
  if (!isfinite(rate)) return RML_EINVAL;
  float b1 = (float)beta1, c1 = (float)(1.0 - beta1), b2 = (float)beta2, c2 = (float)(1.0 - beta2);
  for (size_t i = 0; i < d; i++) {
    float g = gradient_d[i];
    m_d[i] = b1 * m_d[i] + c1 * g;
    v_d[i] = b2 * v_d[i] + c2 * (g * g);
    theta_d[i] -= rate * m_d[i] / (sqrtf(v_d[i]) + small);
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
