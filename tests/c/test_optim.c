/* Optimisers against hand values and the papers' formulas in double precision. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "rollmill/optim.h"

enum { D = 37 };

static void first_adam_step_is_the_stepsize(void) {
  /* m / sqrt(v) of the first step is the gradient's sign, whatever its size. */
  float theta_d[3] = {1, 1, 1}, m_d[3] = {0}, v_d[3] = {0};
  const float gradient_d[3] = {0.1f, -5, 0};
  CHECK(rml_optim_adam(theta_d, m_d, v_d, gradient_d, 3, 1, 0.1, 0.9, 0.999, 1e-8) == RML_OK);
  CHECK(fabs(theta_d[0] - 0.9) < 1e-5 && fabs(theta_d[1] - 1.1) < 1e-6 && theta_d[2] == 1);
  CHECK(fabs(m_d[1] + 0.5) < 1e-6 && fabs(v_d[1] - 0.025) < 1e-8);
}

static void adam_follows_its_paper(void) {
  double theta[D], m[D] = {0}, v[D] = {0};
  float theta_d[D + 1], m_d[D + 1] = {0}, v_d[D + 1] = {0}, gradient_d[D];
  for (int i = 0; i < D; i++) theta[i] = theta_d[i] = 0.1f * (float)(i - 18);
  theta_d[D] = m_d[D] = v_d[D] = 77;
  for (uint64_t t = 1; t <= 200; t++) {
    for (int i = 0; i < D; i++) {
      const float g = gradient_d[i] = sinf((float)t * 0.3f + (float)i);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * (double)g * g;
      theta[i] -= 0.05 * sqrt(1 - pow(0.999, (double)t)) / (1 - pow(0.9, (double)t)) * m[i] /
                  (sqrt(v[i]) + 1e-8);
    }
    CHECK(rml_optim_adam(theta_d, m_d, v_d, gradient_d, D, t, 0.05, 0.9, 0.999, 1e-8) == RML_OK);
  }
  for (int i = 0; i < D; i++)
    CHECK(fabs(theta_d[i] - theta[i]) < 1e-4 && fabs(m_d[i] - m[i]) < 1e-5);
  CHECK(theta_d[D] == 77 && m_d[D] == 77 && v_d[D] == 77);
  /* Far out the bias corrections are 1: nothing overflows. */
  CHECK(rml_optim_adam(theta_d, m_d, v_d, gradient_d, D, UINT64_MAX, 0.05, 0.9, 0.999, 1e-8) ==
        RML_OK);
  for (int i = 0; i < D; i++) CHECK(isfinite(theta_d[i]));
}

static void adamw_decays_beside_the_step(void) {
  /* No gradient: only the decay is left; and Adam is AdamW without it, to the bit. */
  float theta_d[2] = {8, -4}, m_d[2] = {0}, v_d[2] = {0};
  const float zero_d[2] = {0};
  CHECK(rml_optim_adamw(theta_d, m_d, v_d, zero_d, 2, 1, 0.5, 0.9, 0.99, 1e-8, 0.25) == RML_OK);
  CHECK(theta_d[0] == 7 && theta_d[1] == -3.5f);
  float a_d[D], b_d[D], ma_d[D] = {0}, mb_d[D] = {0}, va_d[D] = {0}, vb_d[D] = {0}, g_d[D];
  for (int i = 0; i < D; i++) a_d[i] = b_d[i] = g_d[i] = 0.3f * (float)(i - 11);
  for (uint64_t t = 1; t < 9; t++) {
    CHECK(rml_optim_adam(a_d, ma_d, va_d, g_d, D, t, 0.1, 0.9, 0.99, 1e-8) == RML_OK);
    CHECK(rml_optim_adamw(b_d, mb_d, vb_d, g_d, D, t, 0.1, 0.9, 0.99, 1e-8, 0) == RML_OK);
  }
  CHECK(!memcmp(a_d, b_d, sizeof a_d) && !memcmp(va_d, vb_d, sizeof va_d));
}

static void clipup_normalises_and_clips(void) {
  float theta_d[3] = {1, 2, 77}, v_d[3] = {0, 0, 77};
  const float gradient_d[2] = {3e10f, -4e10f}, zero_d[2] = {0};
  CHECK(rml_optim_clipup(theta_d, v_d, gradient_d, 2, 0.5, 0.5, 0.75) == RML_OK); /* |v| = 0.5 */
  CHECK(fabs(v_d[0] - 0.3) < 1e-6 && fabs(v_d[1] + 0.4) < 1e-6);
  CHECK(fabs(theta_d[0] - 0.7) < 1e-6 && fabs(theta_d[1] - 2.4) < 1e-6);
  CHECK(rml_optim_clipup(theta_d, v_d, gradient_d, 2, 0.625, 0.5, 0.75) == RML_OK); /* 0.875 */
  CHECK(fabs(v_d[0] - 0.45) < 1e-6 && fabs(v_d[1] + 0.6) < 1e-6);
  CHECK(rml_optim_clipup(theta_d, v_d, zero_d, 2, 0.5, 0.5, 0.75) == RML_OK); /* no 0/0 */
  CHECK(fabs(v_d[0] - 0.225) < 1e-6 && theta_d[2] == 77 && v_d[2] == 77);
  const float bad_32[3][2] = {{NAN, 1}, {1, INFINITY}, {1e-45f, 0}}; /* the last: 0.5/1e-45 */
  const float theta = theta_d[0], v = v_d[0];
  for (int i = 0; i < 3; i++)
    CHECK(rml_optim_clipup(theta_d, v_d, bad_32[i], 2, 0.5, 0.5, 0.75) == RML_EINVAL);
  CHECK(rml_optim_clipup(theta_d, v_d, zero_d, 2, 0.5, 0.5, 0) == RML_EINVAL);
  CHECK(rml_optim_clipup(theta_d, v_d, zero_d, 2, 0.5, 0.5, NAN) == RML_EINVAL);
  CHECK(rml_optim_clipup(theta_d, v_d, zero_d, 2, NAN, 0.5, 1) == RML_EINVAL);
  CHECK(rml_optim_clipup(theta_d, v_d, zero_d, 2, 0.5, 1, 1) == RML_EINVAL);
  CHECK(theta_d[0] == theta && v_d[0] == v);
}

static void sgd_averages_its_gradients(void) {
  float theta_d[3] = {1, 2, 77}, v_d[3] = {0, 0.5f, 77};
  const float gradient_d[2] = {2, -1};
  CHECK(rml_optim_sgd(theta_d, v_d, gradient_d, 2, 0.5, 0.75) == RML_OK);
  CHECK(v_d[0] == 0.5f && v_d[1] == 0.125f && theta_d[0] == 0.75f && theta_d[1] == 1.9375f);
  CHECK(rml_optim_sgd(theta_d, v_d, gradient_d, 2, 0.25, 0) == RML_OK); /* plain descent */
  CHECK(v_d[0] == 2 && v_d[1] == -1 && theta_d[0] == 0.25f && theta_d[1] == 2.1875f);
  CHECK(theta_d[2] == 77 && v_d[2] == 77);
}

static void refused_steps_change_nothing(void) {
  float theta = 1, m = 2, v = 3;
  const float g = 4;
  const double bad_7[7] = {-0.1, 1.0, 1.5, NAN, INFINITY, -INFINITY, 2};
  for (int i = 0; i < 7; i++) {
    CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, 0.1, bad_7[i], 0.9, 1e-8) == RML_EINVAL);
    CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, 0.1, 0.9, bad_7[i], 1e-8) == RML_EINVAL);
    CHECK(rml_optim_sgd(&theta, &v, &g, 1, 0.1, bad_7[i]) == RML_EINVAL);
  }
  const double infinite_4[4] = {NAN, INFINITY, -INFINITY, 1e39}; /* also as a float32 */
  for (int i = 0; i < 4; i++) {
    CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, infinite_4[i], 0.9, 0.9, 1e-8) == RML_EINVAL);
    CHECK(rml_optim_sgd(&theta, &v, &g, 1, infinite_4[i], 0) == RML_EINVAL);
    CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, 0.1, 0.9, 0.9, infinite_4[i]) == RML_EINVAL);
  }
  CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, 0.1, 0.9, 0.9, 0) == RML_EINVAL);
  CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 1, 0.1, 0.9, 0.9, 1e-60) == RML_EINVAL);
  CHECK(rml_optim_adam(&theta, &m, &v, &g, 1, 0, 0.1, 0.9, 0.9, 1e-8) == RML_EINVAL);
  CHECK(theta == 1 && m == 2 && v == 3);
}

int main(void) {
  first_adam_step_is_the_stepsize();
  adam_follows_its_paper();
  adamw_decays_beside_the_step();
  clipup_normalises_and_clips();
  sgd_averages_its_gradients();
  refused_steps_change_nothing();
  return 0;
}
