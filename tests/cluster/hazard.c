/* Environments that end or hold up their process at item 3: what the Ray engine has to survive. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <rollmill/env.h>
#include <rollmill/rng.h>

#define EXPORT __attribute__((visibility("default")))

typedef enum hazard { HAZARD_EXIT, HAZARD_ABORT, HAZARD_KILL, HAZARD_HANG } hazard;

static const hazard by_exit = HAZARD_EXIT, by_abort = HAZARD_ABORT, by_kill = HAZARD_KILL,
                    by_hang = HAZARD_HANG;

static rml_status hazard_reset(const rml_env *env, const rml_batch *batch) {
  (void)env;
  float *obs_no = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    obs_no[i] = 0;
  }
  return RML_OK;
}

static void strike(hazard how) {
  volatile int forever = 1;
  switch (how) {
    case HAZARD_EXIT: exit(3);
    case HAZARD_ABORT: abort();
    case HAZARD_KILL: kill(getpid(), SIGKILL); break;
    case HAZARD_HANG:
      while (forever) {
      }
  }
}

static rml_status hazard_step(const rml_env *env, const rml_batch *batch) {
  float *obs_no = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    if (batch->id_n[i] == 3) strike(*(const hazard *)env->context);
    uint32_t draw_4[4];
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_STEP, batch->id_n[i],
                  batch->episode_n[i], batch->elapsed_n[i]);
    obs_no[i] = rml_rng_unit(draw_4[0]);
    batch->reward_n[i] = obs_no[i];
    batch->flags_n[i] = 0;
  }
  return RML_OK;
}

static const double low_1[1] = {0}, high_1[1] = {1};

#define HAZARD(title, how)                                                              \
  static const rml_env title##_env = {                                                  \
      .abi_version = RML_ABI_VERSION, .struct_size = sizeof(rml_env), .name = #title,   \
      .observation = {.kind = RML_BOX, .dtype = RML_FLOAT32, .n = 1, .axes = 1,         \
                      .shape = {1}, .low = low_1, .high = high_1},                      \
      .action = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = 2},                     \
      .max_episode_steps = 20, .state_size = 4, .context = (how),                       \
      .reset = hazard_reset, .step = hazard_step};                                      \
  EXPORT const rml_env *title(void) { return &title##_env; }

HAZARD(hazard_exit, &by_exit)
HAZARD(hazard_abort, &by_abort)
HAZARD(hazard_kill, &by_kill)
HAZARD(hazard_hang, &by_hang)
