/* Drift: a small stochastic environment, written as a user of the installed headers would.
 *
 * A cart drifts on a line in a wind that is constant for an episode and a field whose strength
 * wanders about 1000. Pushes (0 left, 1 none, 2 right) are as strong as the field. Each step pays
 * 1 - x*x/9, so that a policy that pushes against position and speed earns the most; the episode
 * terminates where |x| > 3 and is truncated after 60 steps. Every random number comes from rng.h,
 * named by (key, id, episode, steps), so that equal calls give equal bits.
 *
 *   cc -O2 -fPIC -shared -std=c11 -ffp-contract=off -I<rollmill.get_include()> drift.c -o drift.so
 *
 * The other factories misbehave in one way each, for tests. */
#include <math.h>
#include <signal.h>
#include <stdint.h>

#include <rollmill/env.h>
#include <rollmill/rng.h>

#define EXPORT __attribute__((visibility("default")))

/* What is wrong with a variant; the environment's context points to one. */
typedef enum fault {
  FAULT_NONE,
  FAULT_NAN,
  FAULT_SLOW,
  FAULT_SLOW_NAN,
  FAULT_FAIL,
  FAULT_CRASH,
  FAULT_BROKEN
} fault;

static const fault fault_none = FAULT_NONE, fault_nan = FAULT_NAN, fault_slow = FAULT_SLOW,
                   fault_slow_nan = FAULT_SLOW_NAN,
                   fault_fail = FAULT_FAIL, fault_crash = FAULT_CRASH,
                   fault_broken = FAULT_BROKEN;

enum { NAN_ID = 5, BAD_ID = 3, OBS = 4 };

/* State: arrays of n, one after another. */
typedef struct drift_state {
  float *x_n, *speed_n, *field_n, *wind_n;
} drift_state;

static drift_state state_of(const rml_batch *batch) {
  float *x_n = batch->state;
  const size_t n = batch->n;
  return (drift_state){x_n, x_n + n, x_n + 2 * n, x_n + 3 * n};
}

static void observe(float *obs_o, const drift_state *state, size_t i) {
  obs_o[0] = state->x_n[i];
  obs_o[1] = state->speed_n[i];
  obs_o[2] = state->field_n[i];
  obs_o[3] = state->wind_n[i];
}

/* A draw as a number in [-1, 1). */
static float signed_unit(uint32_t draw) { return 2.0f * rml_rng_unit(draw) - 1.0f; }

static rml_status drift_reset(const rml_env *env, const rml_batch *batch) {
  if (*(const fault *)env->context == FAULT_BROKEN) return RML_EENV;
  drift_state state = state_of(batch);
  float *obs_no = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    uint32_t draw_4[4];
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_RESET, batch->id_n[i],
                  batch->episode_n[i], 0);
    state.x_n[i] = signed_unit(draw_4[0]);
    state.speed_n[i] = 0.1f * signed_unit(draw_4[1]);
    state.field_n[i] = 1000.0f + 200.0f * signed_unit(draw_4[2]);
    state.wind_n[i] = signed_unit(draw_4[3]);
    observe(obs_no + OBS * i, &state, i);
  }
  return RML_OK;
}

/* About a millisecond of work, without a clock: a chain of a million dependent steps. */
static void burn(uint32_t seed) {
  volatile uint32_t sink;
  uint32_t word = seed | 1;
  for (int k = 0; k < 1000000; k++) word = word * 1664525u + 1013904223u;
  sink = word;
  (void)sink;
}

static rml_status drift_step(const rml_env *env, const rml_batch *batch) {
  const fault wrong = *(const fault *)env->context;
  drift_state state = state_of(batch);
  const int64_t *action_n = batch->action_na;
  float *obs_no = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    if (batch->id_n[i] == BAD_ID && wrong == FAULT_FAIL) return RML_EENV;
    if (batch->id_n[i] == BAD_ID && wrong == FAULT_CRASH) raise(SIGSEGV);
    uint32_t draw_4[4];
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_STEP, batch->id_n[i],
                  batch->episode_n[i], batch->elapsed_n[i]);
    if (wrong == FAULT_SLOW || wrong == FAULT_SLOW_NAN) burn(draw_4[3]);
    const float push = (float)(action_n[i] - 1) * (state.field_n[i] * 0.001f);
    const float gust = signed_unit(draw_4[0]);
    state.speed_n[i] =
        0.9f * state.speed_n[i] + 0.1f * push + 0.05f * state.wind_n[i] + 0.1f * gust;
    state.x_n[i] = 1.02f * state.x_n[i] + state.speed_n[i];
    state.field_n[i] += 5.0f * signed_unit(draw_4[1]);
    const float x = state.x_n[i];
    observe(obs_no + OBS * i, &state, i);
    batch->reward_n[i] = 1.0 - (double)x * (double)x / 9.0;
    if (batch->id_n[i] == NAN_ID && (wrong == FAULT_NAN || wrong == FAULT_SLOW_NAN))
      batch->reward_n[i] = NAN;
    batch->flags_n[i] = x > 3.0f || x < -3.0f ? RML_TERMINATED : 0;
  }
  return RML_OK;
}

static const double low_4[OBS] = {-1e3, -1e3, 0, -1};
static const double high_4[OBS] = {1e3, 1e3, 2e3, 1};

#define DRIFT(title, variant)                                                         \
  {                                                                                   \
    .abi_version = RML_ABI_VERSION, .struct_size = sizeof(rml_env), .name = title,    \
    .observation = {.kind = RML_BOX,                                                  \
                    .dtype = RML_FLOAT32,                                             \
                    .n = OBS,                                                         \
                    .axes = 1,                                                        \
                    .shape = {OBS},                                                   \
                    .low = low_4,                                                     \
                    .high = high_4},                                                  \
    .action = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = 3},                     \
    .max_episode_steps = 60, .state_size = OBS * sizeof(float), .context = (variant), \
    .reset = drift_reset, .step = drift_step                                          \
  }

static const rml_env normal = DRIFT("drift", &fault_none);
static const rml_env with_nan = DRIFT("drift_nan", &fault_nan);
static const rml_env slow = DRIFT("drift_slow", &fault_slow);
static const rml_env slow_nan = DRIFT("drift_slow_nan", &fault_slow_nan);
static const rml_env failing = DRIFT("drift_fail", &fault_fail);
static const rml_env crashing = DRIFT("drift_crash", &fault_crash);
static const rml_env broken = DRIFT("drift_broken", &fault_broken);

EXPORT const rml_env *drift(void) { return &normal; }

/* Episodes of id 5 pay NaN. */
EXPORT const rml_env *drift_nan(void) { return &with_nan; }

/* No reset succeeds. */
EXPORT const rml_env *drift_broken(void) { return &broken; }

/* About a millisecond a step. */
EXPORT const rml_env *drift_slow(void) { return &slow; }

/* Both. */
EXPORT const rml_env *drift_slow_nan(void) { return &slow_nan; }

/* Steps of id 3 return RML_EENV. */
EXPORT const rml_env *drift_fail(void) { return &failing; }

/* Steps of id 3 raise SIGSEGV. */
EXPORT const rml_env *drift_crash(void) { return &crashing; }

/* Environments that no engine runs. */
EXPORT const rml_env *drift_null(void) { return NULL; }

#define BROKEN(factory, change)         \
  EXPORT const rml_env *factory(void) { \
    static rml_env env;                 \
    env = normal;                       \
    env.change;                         \
    return &env;                        \
  }

BROKEN(drift_wrong_abi, abi_version = RML_ABI_VERSION + 1)
BROKEN(drift_wrong_size, struct_size = sizeof(rml_env) - 8)
BROKEN(drift_no_step, step = NULL)
BROKEN(drift_no_actions, action.n = 0)
