#include "rollmill/rollout.h"

#include <math.h>
#include <string.h>

#include "forward.h"
#include "rollmill/rng.h"

/* Up to two episodes side by side: the two signs of a pair. Side by side because one member's
 * chains of dependent additions then run beside the other's. Pointers lie in the scratch. */
typedef struct worker {
  const rml_rollout *rollout;
  const rml_kernels *kernels;
  rml_batch batch;
  float *member_2[2], *x_2[2], *out_2[2];
  float *noise_a;
  uint8_t *mask_2a;
  void *action;
  double *raw_o, *stats_2[2]; /* an observation in float64; statistics of each sign */
  void *network;
  /* What batch points to. */
  uint64_t key_2[2];
  uint32_t id_2[2], episode_2[2], elapsed_2[2];
  double reward_2[2];
  uint8_t flags_2[2];
} worker;

typedef struct outcome {
  double return_sum, fitness, discount;
  uint32_t length;
  int32_t flags;
  rml_status status;
} outcome;

static size_t round64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static int is_index(const rml_env *env) { return env->observation.kind == RML_DISCRETE; }

rml_status rml_rollout_check(const rml_rollout *r, const char **why) {
  const char *ignored;
  if (!why) why = &ignored;
  rml_status status = rml_env_check(r->env, why);
  if (status) return status;
  *why = NULL;
  const rml_space *action = &r->env->action;
  const int box = action->kind == RML_BOX;
  if (box && action->dtype != RML_FLOAT32 && action->dtype != RML_FLOAT64)
    *why = "a Box of actions must be of float32 or float64";
  else if (!box && action->n > RML_SAMPLE_MAX)
    *why = "action space must have at most 1024 actions";
  else if (r->policy->width[0] != r->env->observation.n)
    *why = "the policy's inputs must equal the observation space's size";
  else if (r->policy->width[r->policy->layers] != r->env->action.n)
    *why = "the policy's outputs must equal the actions, or the elements of a Box";
  else if (r->noise->size < r->policy->d || r->noise->size > RML_NOISE_SIZE_MAX)
    *why = "noise size must be in [parameters, 2^32]";
  else if (!(r->gamma >= 0.0 && r->gamma <= 1.0))
    *why = "gamma must be in [0, 1]";
  else if (!(r->noise_stdev > 0.0f && isfinite(r->noise_stdev)))
    *why = "noise_stdev must be positive and finite";
  else if (!(r->action_noise_stdev >= 0.0f && isfinite(r->action_noise_stdev)))
    *why = "action_noise_stdev must be finite and not negative";
  else if (!isfinite(r->reward_offset))
    *why = "reward_offset must be finite";
  else if (!r->mean_o != !r->scale_o)
    *why = "mean and scale go together";
  return *why ? RML_EINVAL : RML_OK;
}

/* Splits the scratch; with base NULL only its size is found. */
static size_t lay_out(worker *w, const rml_rollout *r, char *base) {
  const size_t o = is_index(r->env) ? 0 : (size_t)r->env->observation.n;
  const size_t a = (size_t)r->env->action.n;
  size_t at = 0;
#define TAKE(field, bytes) (field = base ? (void *)(base + at) : NULL, at += round64(bytes))
  for (int m = 0; m < 2; m++) {
    TAKE(w->member_2[m], r->policy->d * sizeof(float));
    TAKE(w->x_2[m], o * sizeof(float));
    TAKE(w->out_2[m], a * sizeof(float));
    TAKE(w->stats_2[m], RML_STATS_LENGTH(o) * sizeof(double));
  }
  TAKE(w->noise_a, a * sizeof(float));
  TAKE(w->mask_2a, 2 * a);
  TAKE(w->action, 2 * rml_space_size(&r->env->action));
  TAKE(w->raw_o, o * sizeof(double));
  TAKE(w->network, rml_policy_scratch(r->policy));
  TAKE(w->batch.state, 2 * r->env->state_size);
  TAKE(w->batch.obs_no, 2 * rml_space_size(&r->env->observation));
#undef TAKE
  return at;
}

size_t rml_rollout_scratch(const rml_rollout *rollout) {
  worker w;
  return rml_rollout_check(rollout, NULL) ? 0 : lay_out(&w, rollout, NULL);
}

static void set_up(worker *w, const rml_rollout *r, void *scratch) {
  *w = (worker){.rollout = r,
                .kernels = rml_kernels_get((rml_isa)r->isa),
                .key_2 = {r->key, r->key}};
  lay_out(w, r, scratch);
  w->batch.key_n = w->key_2;
  w->batch.id_n = w->id_2;
  w->batch.episode_n = w->episode_2;
  w->batch.elapsed_n = w->elapsed_2;
}

static int64_t read_index(const void *obs, int32_t dtype) {
  switch (dtype) {
    case RML_UINT8:
      return *(const uint8_t *)obs;
    case RML_INT32:
      return *(const int32_t *)obs;
    default:
      return *(const int64_t *)obs;
  }
}

static double read_element(const void *obs, int32_t dtype, size_t i) {
  switch (dtype) {
    case RML_UINT8:
      return ((const uint8_t *)obs)[i];
    case RML_INT32:
      return ((const int32_t *)obs)[i];
    case RML_INT64:
      return (double)((const int64_t *)obs)[i];
    case RML_FLOAT32:
      return ((const float *)obs)[i];
    default:
      return ((const double *)obs)[i];
  }
}

static void write_action(void *action, int32_t dtype, uint32_t value) {
  switch (dtype) {
    case RML_UINT8:
      *(uint8_t *)action = (uint8_t)value;
      break;
    case RML_INT32:
      *(int32_t *)action = (int32_t)value;
      break;
    default:
      *(int64_t *)action = value;
  }
}

static int all_finite(const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return 0;
  return 1;
}

/* Observation m in the buffer, as the policy takes it. EENV for an index out of its space,
 * ENONFINITE for a NaN or an infinity. */
static rml_status observe(worker *w, int m, int64_t *index, int gather) {
  const rml_rollout *r = w->rollout;
  const rml_space *space = &r->env->observation;
  const char *obs = (const char *)w->batch.obs_no + (size_t)m * rml_space_size(space);
  if (is_index(r->env)) {
    *index = read_index(obs, space->dtype);
    return *index >= 0 && *index < space->n ? RML_OK : RML_EENV;
  }
  size_t o = (size_t)space->n;
  for (size_t i = 0; i < o; i++) w->raw_o[i] = read_element(obs, space->dtype, i);
  if (!all_finite(w->raw_o, o)) return RML_ENONFINITE;
  if (gather) rml_stats_push(w->stats_2[m], w->raw_o, o);
  if (r->mean_o)
    for (size_t i = 0; i < o; i++)
      w->x_2[m][i] = (float)((w->raw_o[i] - r->mean_o[i]) * r->scale_o[i]);
  else
    for (size_t i = 0; i < o; i++) w->x_2[m][i] = (float)w->raw_o[i];
  return RML_OK;
}

static int any_nan(const float *x, size_t n) {
  int found = 0;
  for (size_t i = 0; i < n; i++) found |= x[i] != x[i];
  return found;
}

/* Gives actions that the environment does not allow outputs that are never chosen over allowed
 * ones. EENV if it fails, or allows none. */
static rml_status forbid(worker *w, int m) {
  const rml_env *env = w->rollout->env;
  const size_t actions = (size_t)env->action.n;
  const uint8_t *mask_a = w->mask_2a + (size_t)m * actions;
  int allowed = 0;
  w->batch.begin = (size_t)m;
  w->batch.end = (size_t)m + 1;
  if (env->mask(env, &w->batch, w->mask_2a)) return RML_EENV;
  for (size_t a = 0; a < actions; a++) {
    allowed |= mask_a[a];
    if (!mask_a[a]) w->out_2[m][a] = -INFINITY;
  }
  return allowed ? RML_OK : RML_EENV;
}

static uint32_t choose(const worker *w, int m, uint32_t draw_4[4], int sample) {
  const size_t actions = (size_t)w->rollout->env->action.n;
  const uint32_t t = w->elapsed_2[m];
  if (!sample) return rml_policy_argmax(w->out_2[m], actions);
  if (t % 4 == 0)
    rml_rng_block(draw_4, w->key_2[m], RML_STREAM_ACTION, w->id_2[m], w->episode_2[m], t / 4);
  return rml_policy_sample(w->out_2[m], actions, rml_rng_unit(draw_4[t % 4]));
}

/* BOX: the outputs, with action noise while training, clipped to the bounds. ENONFINITE if that is
 * no number that an environment could take. */
static rml_status write_box(worker *w, int m, void *action, int noisy) {
  const rml_space *space = &w->rollout->env->action;
  const size_t n = (size_t)space->n;
  if (noisy)
    rml_normal_fill(w->noise_a, n, w->key_2[m], RML_STREAM_ACTION_NOISE, w->id_2[m],
                    w->episode_2[m], (uint64_t)w->elapsed_2[m] * n, (rml_isa)w->rollout->isa);
  for (size_t i = 0; i < n; i++) {
    float raw = w->out_2[m][i];
    if (noisy) raw += w->rollout->action_noise_stdev * w->noise_a[i];
    double x = raw;
    if (space->low && x < space->low[i]) x = space->low[i];
    if (space->high && x > space->high[i]) x = space->high[i];
    if (space->dtype == RML_FLOAT32)
      ((float *)action)[i] = (float)x;
    else
      ((double *)action)[i] = x;
    if (!isfinite(x)) return RML_ENONFINITE;
  }
  return RML_OK;
}

/* Turns member m's outputs into its action; not OK if there is none that it may take. */
static rml_status act(worker *w, int m, uint32_t draw_4[4], int training) {
  const rml_env *env = w->rollout->env;
  const rml_space *space = &env->action;
  void *action = (char *)w->action + (size_t)m * rml_space_size(space);
  if (any_nan(w->out_2[m], (size_t)space->n)) return RML_ENONFINITE;
  if (space->kind == RML_BOX)
    return write_box(w, m, action, training && w->rollout->action_noise_stdev > 0.0f);
  if (env->mask) {
    rml_status status = forbid(w, m);
    if (status) return status;
  }
  write_action(action, space->dtype, choose(w, m, draw_4, training && w->rollout->sample));
  return RML_OK;
}

/* Steps environments [begin, end) and books what came. */
static void step(worker *w, outcome *result_2, int begin, int end, double offset) {
  const rml_rollout *r = w->rollout;
  w->batch.begin = (size_t)begin;
  w->batch.end = (size_t)end;
  for (int m = begin; m < end; m++) { /* what a careless environment leaves unwritten is 0 */
    w->reward_2[m] = 0.0;
    w->flags_2[m] = 0;
  }
  const int failed = r->env->step(r->env, &w->batch) != RML_OK;
  for (int m = begin; m < end; m++) {
    outcome *result = result_2 + m;
    if (failed) {
      result->status = RML_EENV;
      continue;
    }
    result->return_sum += w->reward_2[m];
    result->fitness += result->discount * (w->reward_2[m] - offset);
    result->discount *= r->gamma;
    uint32_t t = ++w->elapsed_2[m];
    if (t == r->env->max_episode_steps || t == r->max_episode_steps)
      w->flags_2[m] |= RML_TRUNCATED;
    result->flags = w->flags_2[m] & (RML_TERMINATED | RML_TRUNCATED);
  }
}

/* Runs an episode for each of `members` (1 or 2) parameter vectors; id_2 and episode_2 are set.
 * EINTERRUPTED, or OK with each result's own status. */
static rml_status run(worker *w, outcome *result_2, const float *const theta_2[2], int members,
                      int training, int gather) {
  const rml_rollout *r = w->rollout;
  const rml_env *env = r->env;
  const int one_hot = is_index(env);
  int64_t index_2[2] = {0};
  uint32_t draw_24[2][4];
  for (int m = 0; m < members; m++) {
    result_2[m] = (outcome){.discount = 1.0};
    w->elapsed_2[m] = 0;
  }
  w->batch.n = w->batch.end = (size_t)members;
  w->batch.begin = 0;
  w->batch.action_na = NULL;
  w->batch.reward_n = NULL;
  w->batch.flags_n = NULL;
  memset(w->batch.state, 0, 2 * env->state_size);
  memset(w->batch.obs_no, 0, 2 * rml_space_size(&env->observation));
  if (env->reset(env, &w->batch))
    for (int m = 0; m < members; m++) result_2[m].status = RML_EENV;
  w->batch.action_na = w->action;
  w->batch.reward_n = w->reward_2;
  w->batch.flags_n = w->flags_2;
  for (;;) {
    if (r->stop && *(const volatile int *)r->stop) return RML_EINTERRUPTED;
    int begin = members, end = 0; /* who still runs */
    for (int m = 0; m < members; m++) {
      if (result_2[m].flags || result_2[m].status) continue;
      result_2[m].status = observe(w, m, index_2 + m, gather);
      if (result_2[m].status) continue;
      if (m < begin) begin = m;
      end = m + 1;
    }
    if (begin >= end) break;
    rml_policy_forward(w->out_2 + begin, r->policy, theta_2 + begin,
                       (const float *const *)w->x_2 + begin, one_hot ? index_2 + begin : NULL,
                       end - begin, w->network, w->kernels);
    for (int m = begin; m < end; m++) result_2[m].status = act(w, m, draw_24[m], training);
    while (begin < end && result_2[begin].status) begin++;
    while (begin < end && result_2[end - 1].status) end--;
    if (begin < end)
      step(w, result_2, begin, end, training ? r->reward_offset : 0.0);
  }
  for (int m = 0; m < members; m++) {
    outcome *result = result_2 + m;
    result->length = w->elapsed_2[m];
    if (!result->status && !(isfinite(result->return_sum) && isfinite(result->fitness)))
      result->status = RML_ENONFINITE;
  }
  return RML_OK;
}

/* One pair; its kept observations join `unit` (NULL: no filter), those of + before those of -. */
static rml_status run_pair(worker *w, rml_pair *pair, double *unit, const float *theta_d,
                           uint32_t number) {
  const rml_rollout *r = w->rollout;
  const size_t o = (size_t)r->env->observation.n, length = RML_STATS_LENGTH(o);
  outcome result_2[2];
  *pair = (rml_pair){.pair = number};
  rml_noise_index(&pair->noise_index, r->noise, r->key, number, r->iteration, r->policy->d);
  rml_noise_perturb(w->member_2[0], w->member_2[1], theta_d, r->policy->d, r->noise,
                    pair->noise_index, r->noise_stdev, (rml_isa)r->isa);
  for (int m = 0; m < 2; m++) {
    w->id_2[m] = number;
    w->episode_2[m] = r->iteration;
    if (unit) memset(w->stats_2[m], 0, length * sizeof(double));
  }
  rml_status status =
      run(w, result_2, (const float *const *)w->member_2, 2, 1, unit != NULL);
  if (status) return status;
  for (int m = 0; m < 2; m++) {
    pair->return_2[m] = result_2[m].return_sum;
    pair->fitness_2[m] = result_2[m].fitness;
    pair->length_2[m] = result_2[m].length;
    if (unit && !result_2[m].status && !all_finite(w->stats_2[m], length))
      result_2[m].status = RML_ENONFINITE;
    if (!pair->status) pair->status = result_2[m].status;
  }
  for (int m = 0; m < 2 && unit && !pair->status; m++) rml_stats_merge(unit, w->stats_2[m], o);
  return RML_OK;
}

rml_status rml_rollout_eval_pairs(rml_pair *pair_p, double *stats_us, size_t *done,
                                  const rml_rollout *rollout, const float *theta_d,
                                  uint32_t first_pair, size_t p, size_t unit_pairs,
                                  void *scratch) {
  *done = 0;
  rml_status status = rml_rollout_check(rollout, NULL);
  if (status) return status;
  if (unit_pairs == 0 || p > UINT32_MAX - first_pair) return RML_EINVAL;
  int filter = rollout->filter && !is_index(rollout->env);
  if (filter && !stats_us) return RML_EINVAL;
  size_t length = RML_STATS_LENGTH(rollout->env->observation.n);
  worker w;
  set_up(&w, rollout, scratch);
  for (size_t first = 0; first < p; first += unit_pairs, (*done)++) {
    size_t last = first + unit_pairs < p ? first + unit_pairs : p;
    double *unit = filter ? stats_us + *done * length : NULL;
    if (unit) memset(unit, 0, length * sizeof(double));
    for (size_t i = first; i < last; i++) {
      status = run_pair(&w, pair_p + i, unit, theta_d, first_pair + (uint32_t)i);
      if (status) return status;
    }
  }
  return RML_OK;
}

rml_status rml_rollout_eval_episodes(rml_episode *episode_e, size_t *done,
                                     const rml_rollout *rollout, const float *theta_d,
                                     uint32_t first, size_t e, void *scratch) {
  *done = 0;
  rml_status status = rml_rollout_check(rollout, NULL);
  if (status) return status;
  if (e > UINT32_MAX - first) return RML_EINVAL;
  worker w;
  set_up(&w, rollout, scratch);
  const float *theta_2[2] = {theta_d, theta_d};
  for (; *done < e; (*done)++) {
    outcome result;
    w.id_2[0] = first + (uint32_t)*done;
    w.episode_2[0] = rollout->iteration;
    status = run(&w, &result, theta_2, 1, 0, 0);
    if (status) return status;
    episode_e[*done] = (rml_episode){.return_sum = result.return_sum,
                                     .fitness = result.fitness,
                                     .length = result.length,
                                     .flags = result.flags,
                                     .status = result.status,
                                     .episode = w.id_2[0]};
  }
  return RML_OK;
}
