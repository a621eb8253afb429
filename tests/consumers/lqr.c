/* A linear-quadratic regulator, whose best policy and cost are known in closed form.
 *
 * Position and speed of a mass, pushed by the action: x' = A x + B u with steps of 0.2 s; each step
 * pays -(|x|^2 + 0.1 u^2) / 40. An episode begins in [-1, 1]^2 and is truncated after 60 steps,
 * when the best policy has long been at rest. */
#include <rollmill/env.h>
#include <rollmill/rng.h>

#define EXPORT __attribute__((visibility("default")))

static double signed_unit(uint32_t draw) { return 2.0 * (double)rml_rng_unit(draw) - 1.0; }

static rml_status lqr_reset(const rml_env *env, const rml_batch *batch) {
  (void)env;
  double *x_n2 = batch->state, *obs_n2 = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    uint32_t draw_4[4];
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_RESET, batch->id_n[i],
                  batch->episode_n[i], 0);
    for (size_t k = 0; k < 2; k++) obs_n2[2 * i + k] = x_n2[2 * i + k] = signed_unit(draw_4[k]);
  }
  return RML_OK;
}

static rml_status lqr_step(const rml_env *env, const rml_batch *batch) {
  (void)env;
  double *x_n2 = batch->state, *obs_n2 = batch->obs_no;
  const double *action_n = batch->action_na;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    const double place = x_n2[2 * i], speed = x_n2[2 * i + 1], u = action_n[i];
    batch->reward_n[i] = -(place * place + speed * speed + 0.1 * u * u) / 40.0;
    batch->flags_n[i] = 0;
    obs_n2[2 * i] = x_n2[2 * i] = place + 0.2 * speed;
    obs_n2[2 * i + 1] = x_n2[2 * i + 1] = speed + 0.2 * u;
  }
  return RML_OK;
}

static const rml_env environment = {
    .abi_version = RML_ABI_VERSION,
    .struct_size = sizeof(rml_env),
    .name = "lqr",
    .observation = {.kind = RML_BOX, .dtype = RML_FLOAT64, .n = 2, .axes = 1, .shape = {2}},
    .action = {.kind = RML_BOX, .dtype = RML_FLOAT64, .n = 1, .axes = 1, .shape = {1}},
    .max_episode_steps = 60,
    .state_size = 2 * sizeof(double),
    .reset = lqr_reset,
    .step = lqr_step};

EXPORT const rml_env *lqr(void) { return &environment; }
