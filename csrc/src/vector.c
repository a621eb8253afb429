#include "rollmill/vector.h"

#include <string.h>

static int vector_is_whole(const rml_vector *vector) {
  return vector && vector->env && vector->autoreset >= RML_AUTORESET_NEXT_STEP &&
         vector->autoreset <= RML_AUTORESET_DISABLED &&
         (!vector->n || (vector->state && vector->key_n && vector->id_n && vector->episode_n &&
                         vector->elapsed_n && vector->done_n && vector->mask_n &&
                         vector->return_n));
}

static rml_batch batch_of(const rml_vector *vector, const uint8_t *mask_n, void *obs_no) {
  return (rml_batch){
      .n = vector->n,
      .end = vector->n,
      .mask_n = mask_n,
      .key_n = vector->key_n,
      .id_n = vector->id_n,
      .episode_n = vector->episode_n,
      .elapsed_n = vector->elapsed_n,
      .state = vector->state,
      .obs_no = obs_no,
  };
}

static void begin_episode(rml_vector *vector, size_t i) {
  vector->elapsed_n[i] = 0;
  vector->done_n[i] = 0;
  vector->return_n[i] = 0;
}

/* What an environment returns tells nothing about what it has touched: no EINVAL or EACTION. */
static rml_status env_status(rml_status status) { return status == RML_OK ? RML_OK : RML_EENV; }

rml_status rml_vector_reset(rml_vector *vector, const uint8_t *mask_n, const uint8_t *fresh_n,
                            void *obs_no) {
  if (!vector_is_whole(vector)) return RML_EINVAL;
  if (!vector->n) return RML_OK;
  if (!obs_no) return RML_EINVAL;
  for (size_t i = 0; i < vector->n; i++) {
    if (mask_n && !mask_n[i]) continue;
    begin_episode(vector, i);
    if (!fresh_n || !fresh_n[i]) vector->episode_n[i]++;
  }
  const rml_batch batch = batch_of(vector, mask_n, obs_no);
  return env_status(vector->env->reset(vector->env, &batch));
}

/* The first environment whose action is outside DISCRETE(count); n if there is none. `skip_n`:
 * NULL, or environments whose action does not count. The first loop has no exit, so that it can
 * be vectorised; the second runs once somebody has erred. */
#define DEFINE_FIRST_BAD(type)                                                                     \
  static size_t first_bad_##type(const type *action_n, const uint8_t *skip_n, size_t n,           \
                                 int64_t count) {                                                  \
    unsigned bad = 0;                                                                              \
    for (size_t i = 0; i < n; i++)                                                                 \
      bad |= (unsigned)((uint64_t)(int64_t)action_n[i] >= (uint64_t)count);                        \
    for (size_t i = 0; bad && i < n; i++)                                                          \
      if ((uint64_t)(int64_t)action_n[i] >= (uint64_t)count && !(skip_n && skip_n[i])) return i;   \
    return n;                                                                                      \
  }
DEFINE_FIRST_BAD(uint8_t)
DEFINE_FIRST_BAD(int32_t)
DEFINE_FIRST_BAD(int64_t)

/* The first environment with a NaN or an infinity among its `a` numbers; as above. x - x is 0
 * for finite numbers alone. */
#define DEFINE_FIRST_NOT_FINITE(type)                                                              \
  static size_t first_not_finite_##type(const type *action_na, const uint8_t *skip_n, size_t n,    \
                                        size_t a) {                                                \
    unsigned bad = 0;                                                                              \
    for (size_t k = 0; k < n * a; k++) bad |= (unsigned)!(action_na[k] - action_na[k] == 0);       \
    for (size_t k = 0; bad && k < n * a; k++)                                                      \
      if (!(action_na[k] - action_na[k] == 0) && !(skip_n && skip_n[k / a])) return k / a;         \
    return n;                                                                                      \
  }
DEFINE_FIRST_NOT_FINITE(float)
DEFINE_FIRST_NOT_FINITE(double)

static size_t first_bad(const rml_vector *vector, const void *action_na) {
  const rml_space *space = &vector->env->action;
  const uint8_t *skip_n =
      vector->autoreset == RML_AUTORESET_NEXT_STEP ? vector->done_n : NULL;
  if (space->kind == RML_BOX) {
    const size_t a = (size_t)space->n;
    switch (space->dtype) {
      case RML_FLOAT32: return first_not_finite_float(action_na, skip_n, vector->n, a);
      case RML_FLOAT64: return first_not_finite_double(action_na, skip_n, vector->n, a);
      default: return vector->n;
    }
  }
  switch (space->dtype) {
    case RML_UINT8: return first_bad_uint8_t(action_na, skip_n, vector->n, space->n);
    case RML_INT32: return first_bad_int32_t(action_na, skip_n, vector->n, space->n);
    default: return first_bad_int64_t(action_na, skip_n, vector->n, space->n);
  }
}

rml_status rml_vector_step(rml_vector *vector, const void *action_na, void *obs_no,
                           double *reward_n, uint8_t *flags_n, void *final_no,
                           double *end_return_n, uint32_t *end_length_n, size_t *bad) {
  if (bad) *bad = vector ? vector->n : 0;
  if (!vector_is_whole(vector)) return RML_EINVAL;
  const size_t n = vector->n;
  if (!n) return RML_OK;
  if (!action_na || !obs_no || !reward_n || !flags_n) return RML_EINVAL;
  const rml_env *env = vector->env;
  const int next_step = vector->autoreset == RML_AUTORESET_NEXT_STEP;
  const int same_step = vector->autoreset == RML_AUTORESET_SAME_STEP;
  const uint8_t *over_n = memchr(vector->done_n, 1, n);
  if (over_n && !next_step) {
    if (bad) *bad = (size_t)(over_n - vector->done_n);
    return RML_EINVAL;
  }
  const size_t offender = first_bad(vector, action_na);
  if (offender < n) {
    if (bad) *bad = offender;
    return RML_EACTION;
  }

  /* From here on things are written. mask_n: first who steps, then who resets. */
  uint8_t *mask_n = vector->mask_n;
  for (size_t i = 0; i < n; i++) mask_n[i] = !vector->done_n[i];
  rml_batch batch = batch_of(vector, over_n ? mask_n : NULL, obs_no);
  batch.action_na = action_na;
  batch.reward_n = reward_n;
  batch.flags_n = flags_n;
  rml_status status = env_status(env->step(env, &batch));
  if (status != RML_OK) return status;

  const size_t size = rml_space_size(&env->observation);
  const uint32_t limit = env->max_episode_steps;
  unsigned resets = 0;
  for (size_t i = 0; i < n; i++) {
    if (!mask_n[i]) { /* finished at an earlier step: NEXT_STEP starts its next episode now */
      reward_n[i] = 0;
      flags_n[i] = 0;
      mask_n[i] = 1;
    } else {
      vector->elapsed_n[i]++;
      vector->return_n[i] += reward_n[i];
      flags_n[i] &= RML_TERMINATED | RML_TRUNCATED;
      if (limit && vector->elapsed_n[i] >= limit) flags_n[i] |= RML_TRUNCATED;
      vector->done_n[i] = flags_n[i] != 0;
      mask_n[i] = 0;
      if (!flags_n[i]) continue;
      if (end_return_n) end_return_n[i] = vector->return_n[i];
      if (end_length_n) end_length_n[i] = vector->elapsed_n[i];
      if (!same_step) continue;
      if (final_no) memcpy((char *)final_no + i * size, (const char *)obs_no + i * size, size);
      mask_n[i] = 1;
    }
    begin_episode(vector, i);
    vector->episode_n[i]++;
    resets = 1;
  }
  if (!resets) return RML_OK;
  batch = batch_of(vector, mask_n, obs_no);
  return env_status(env->reset(env, &batch));
}
