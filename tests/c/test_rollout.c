/* Work units against episodes stepped one at a time, bit for bit; what drops a pair; what ends a
 * call; what is refused.
 *
 * The environment is a walk on a line with random resets and gusts, whose spaces, dtypes and faults
 * a test chooses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rollmill/maze.h"
#include "rollmill/rollout.h"

enum { KEY = 3, PAIRS = 13, O = 2, LENGTH = RML_STATS_LENGTH(O), CELLS = 8, ACTIONS = 3 };
enum { GUARD = 64, BAD = 5 };

typedef enum fault {
  NONE,
  NAN_REWARD,
  BIG_REWARD, /* each finite, their sum not */
  NAN_OBS,
  LATE_INF_OBS,
  BIG_OBS, /* finite, their squares not */
  FAIL_RESET,
  FAIL_STEP,
  INDEX_BELOW,
  INDEX_ABOVE,
  STRAY_FLAGS, /* bits that mean nothing */
  RAISE_STOP
} fault;

typedef struct world {
  fault wrong; /* in episodes of id BAD */
  int *stop;
  uint32_t *taken_a; /* steps by action, where it is not NULL */
} world;

static void put(void *array, int32_t dtype, size_t i, double value) {
  switch (dtype) {
    case RML_UINT8:
      ((uint8_t *)array)[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
      break;
    case RML_INT32:
      ((int32_t *)array)[i] = (int32_t)value;
      break;
    case RML_INT64:
      ((int64_t *)array)[i] = (int64_t)value;
      break;
    case RML_FLOAT32:
      ((float *)array)[i] = (float)value;
      break;
    default:
      ((double *)array)[i] = value;
  }
}

static int64_t get(const void *array, int32_t dtype, size_t i) {
  if (dtype == RML_UINT8) return ((const uint8_t *)array)[i];
  return dtype == RML_INT32 ? ((const int32_t *)array)[i] : ((const int64_t *)array)[i];
}

static void show(const rml_env *env, const rml_batch *batch, size_t i, uint32_t steps) {
  const rml_space *space = &env->observation;
  const fault wrong = batch->id_n[i] == BAD ? ((const world *)env->context)->wrong : NONE;
  const double *x_n = batch->state, *speed_n = x_n + batch->n;
  if (space->kind == RML_DISCRETE) {
    double cell = floor(x_n[i] + CELLS / 2);
    cell = cell < 0 ? 0 : cell > CELLS - 1 ? CELLS - 1 : cell;
    if (wrong == INDEX_BELOW && steps == 2) cell = -1;
    if (wrong == INDEX_ABOVE && steps == 2) cell = CELLS;
    put(batch->obs_no, space->dtype, i, cell);
    return;
  }
  const double scale = space->dtype == RML_UINT8 ? 20 : 1;
  double x = 100 + scale * x_n[i], speed = scale * speed_n[i];
  if (wrong == NAN_OBS) x = NAN;
  if (wrong == LATE_INF_OBS && steps == 3) speed = -INFINITY;
  if (wrong == BIG_OBS) x = steps % 2 ? 1e200 : -1e200;
  put(batch->obs_no, space->dtype, O * i, x);
  put(batch->obs_no, space->dtype, O * i + 1, speed);
}

static rml_status walk_reset(const rml_env *env, const rml_batch *batch) {
  const world *w = env->context;
  double *x_n = batch->state, *speed_n = x_n + batch->n;
  for (size_t i = batch->begin; i < batch->end; i++) {
    uint32_t draw_4[4];
    CHECK(batch->elapsed_n[i] == 0 && !batch->action_na && !batch->reward_n && !batch->flags_n);
    if (w->wrong == FAIL_RESET && batch->id_n[i] == BAD) return RML_EENV;
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_RESET, batch->id_n[i],
                  batch->episode_n[i], 0);
    x_n[i] = 4.0 * rml_rng_unit(draw_4[0]) - 2.0;
    speed_n[i] = rml_rng_unit(draw_4[1]) - 0.5;
    show(env, batch, i, 0);
  }
  return RML_OK;
}

static rml_status walk_step(const rml_env *env, const rml_batch *batch) {
  const world *w = env->context;
  double *x_n = batch->state, *speed_n = x_n + batch->n;
  for (size_t i = batch->begin; i < batch->end; i++) {
    const fault wrong = batch->id_n[i] == BAD ? w->wrong : NONE;
    const int64_t action = get(batch->action_na, env->action.dtype, i);
    uint32_t draw_4[4];
    CHECK(action >= 0 && action < ACTIONS);
    if (w->taken_a) w->taken_a[action]++;
    if (wrong == FAIL_STEP && batch->elapsed_n[i] == 2) return RML_EENV;
    if (wrong == RAISE_STOP) *w->stop = 1;
    rml_rng_block(draw_4, batch->key_n[i], RML_STREAM_ENV_STEP, batch->id_n[i],
                  batch->episode_n[i], batch->elapsed_n[i]);
    const double push = 0.2 * (double)(action - 1), gust = 0.3 * rml_rng_unit(draw_4[0]) - 0.15;
    speed_n[i] = 0.9 * speed_n[i] + push + gust;
    x_n[i] += speed_n[i];
    show(env, batch, i, batch->elapsed_n[i] + 1);
    batch->reward_n[i] = 1.0 - 0.1 * x_n[i] * x_n[i];
    if (wrong == NAN_REWARD) batch->reward_n[i] = NAN;
    if (wrong == BIG_REWARD) batch->reward_n[i] = 1.7e308;
    batch->flags_n[i] = fabs(x_n[i]) > 3 ? RML_TERMINATED : 0;
    if (wrong == STRAY_FLAGS) batch->flags_n[i] |= 0x80;
  }
  return RML_OK;
}

typedef struct bench {
  world world;
  rml_env env;
  rml_policy policy;
  rml_noise noise;
  rml_rollout rollout;
  float *theta_d;
  rml_pair pair_p[PAIRS + 1];
  double stats_us[PAIRS + 1][LENGTH], mean_o[O], scale_o[O];
  rml_episode episode_e[PAIRS + 1];
  size_t done;
  int stop;
} bench;

static const rml_space box = {
    .kind = RML_BOX, .dtype = RML_FLOAT32, .n = O, .axes = 1, .shape = {O}};
static const rml_space cells = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = CELLS};

static void set_up(bench *b, rml_space observation, fault wrong) {
  memset(b, 0, sizeof *b);
  b->world = (world){.wrong = wrong, .stop = &b->stop};
  b->env = (rml_env){.abi_version = RML_ABI_VERSION,
                     .struct_size = sizeof(rml_env),
                     .name = "walk",
                     .observation = observation,
                     .action = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = ACTIONS},
                     .max_episode_steps = 40,
                     .state_size = 2 * sizeof(double),
                     .context = &b->world,
                     .reset = walk_reset,
                     .step = walk_step};
  const uint32_t width_3[3] = {(uint32_t)observation.n, 17, ACTIONS};
  CHECK(rml_policy_init(&b->policy, 2, width_3, RML_TANH) == RML_OK);
  b->noise = (rml_noise){.key = KEY, .size = 100000};
  b->theta_d = malloc(b->policy.d * sizeof(float));
  CHECK(b->theta_d && rml_policy_fill(b->theta_d, &b->policy, KEY, RML_ISA_AUTO) == RML_OK);
  b->rollout = (rml_rollout){.env = &b->env,
                             .policy = &b->policy,
                             .noise = &b->noise,
                             .stop = &b->stop,
                             .key = KEY,
                             .gamma = 0.9,
                             .noise_stdev = 0.5f,
                             .iteration = 4,
                             .filter = observation.kind == RML_BOX};
  if (observation.kind == RML_BOX) { /* a frozen filter near the truth */
    b->mean_o[0] = 99.5;
    b->scale_o[0] = 0.6;
    b->scale_o[1] = 2;
    b->rollout.mean_o = b->mean_o;
    b->rollout.scale_o = b->scale_o;
  }
}

/* Calls, with marks behind everything that the call may write. */
static rml_status eval_pairs(bench *b, uint32_t first, size_t p, size_t unit_pairs) {
  const size_t bytes = rml_rollout_scratch(&b->rollout);
  const size_t units = (p + unit_pairs - 1) / unit_pairs;
  unsigned char *scratch = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
  float *before_d = malloc(b->policy.d * sizeof(float));
  CHECK(bytes && scratch && before_d && p <= PAIRS);
  memcpy(before_d, b->theta_d, b->policy.d * sizeof(float));
  memset(scratch, 0xA5, bytes + GUARD);
  memset(b->pair_p, 0xA5, sizeof b->pair_p);
  memset(b->stats_us, 0xA5, sizeof b->stats_us);
  const rml_status status = rml_rollout_eval_pairs(b->pair_p, *b->stats_us, &b->done, &b->rollout,
                                                   b->theta_d, first, p, unit_pairs, scratch);
  for (size_t i = 0; i < GUARD; i++) CHECK(scratch[bytes + i] == 0xA5);
  for (unsigned char *at = (unsigned char *)(b->pair_p + p);
       at < (unsigned char *)(b->pair_p + PAIRS + 1); at++)
    CHECK(*at == 0xA5);
  for (unsigned char *at = (unsigned char *)b->stats_us[b->rollout.filter ? units : 0];
       at < (unsigned char *)b->stats_us[PAIRS + 1]; at++)
    CHECK(*at == 0xA5);
  CHECK(memcmp(before_d, b->theta_d, b->policy.d * sizeof(float)) == 0);
  free(before_d);
  free(scratch);
  return status;
}

/* One episode on a batch of one, by the public functions. Statistics of what the policy saw join
 * stats, NULL: none. */
static rml_episode one_episode(const bench *b, const float *theta_d, uint64_t key, uint32_t id,
                               int sample, double *stats) {
  const rml_env *env = &b->env;
  double state_2[2] = {0}, obs_4[4] = {0}, reward = 0, discount = 1;
  uint64_t action = 0;
  uint8_t flags = 0;
  uint32_t t = 0;
  rml_episode episode = {.episode = id};
  rml_batch batch = {.n = 1,
                     .end = 1,
                     .key_n = &key,
                     .id_n = &id,
                     .episode_n = &b->rollout.iteration,
                     .elapsed_n = &t,
                     .state = state_2,
                     .obs_no = obs_4};
  float *scratch = aligned_alloc(64, rml_policy_scratch(&b->policy) + 64);
  CHECK(scratch && env->reset(env, &batch) == RML_OK);
  batch.action_na = &action;
  batch.reward_n = &reward;
  batch.flags_n = &flags;
  while (!flags) {
    float x_o[CELLS], logit_a[4];
    double raw_o[O];
    int64_t index = 0;
    const int one_hot = env->observation.kind == RML_DISCRETE;
    if (one_hot)
      index = get(obs_4, env->observation.dtype, 0);
    else
      for (int i = 0; i < O; i++) {
        raw_o[i] = env->observation.dtype == RML_UINT8     ? ((uint8_t *)obs_4)[i]
                   : env->observation.dtype == RML_FLOAT32 ? (double)((float *)obs_4)[i]
                                                           : obs_4[i];
        x_o[i] = (float)(b->rollout.mean_o ? (raw_o[i] - b->mean_o[i]) * b->scale_o[i] : raw_o[i]);
      }
    if (stats) rml_stats_push(stats, raw_o, O);
    CHECK(rml_policy_eval(logit_a, &b->policy, theta_d, one_hot ? NULL : x_o,
                          one_hot ? &index : NULL, 1, scratch, RML_ISA_BASE) == RML_OK);
    uint32_t draw_4[4];
    rml_rng_block(draw_4, key, RML_STREAM_ACTION, id, b->rollout.iteration, t / 4);
    put(&action, env->action.dtype, 0,
        sample ? rml_policy_sample(logit_a, (size_t)env->action.n, rml_rng_unit(draw_4[t % 4]))
               : rml_policy_argmax(logit_a, (size_t)env->action.n));
    CHECK(env->step(env, &batch) == RML_OK);
    flags &= RML_TERMINATED | RML_TRUNCATED;
    episode.return_sum += reward;
    episode.fitness += discount * reward;
    discount *= b->rollout.gamma;
    t++;
    if (t == env->max_episode_steps || t == b->rollout.max_episode_steps) flags |= RML_TRUNCATED;
  }
  episode.length = t;
  episode.flags = flags;
  free(scratch);
  return episode;
}

/* The whole answer again, pair after pair and sign after sign; pair BAD is skipped where the world
 * has a fault, and must be marked `marked`. */
static void check_pairs(const bench *b, uint32_t first, size_t p, size_t unit_pairs,
                        rml_status marked) {
  float *theta_2[2] = {malloc(b->policy.d * sizeof(float)), malloc(b->policy.d * sizeof(float))};
  double unit[LENGTH];
  CHECK(theta_2[0] && theta_2[1]);
  for (size_t i = 0; i < p; i++) {
    const rml_pair *pair = b->pair_p + i;
    const uint32_t id = first + (uint32_t)i;
    uint64_t index;
    if (i % unit_pairs == 0) memset(unit, 0, sizeof unit);
    CHECK(pair->pair == id);
    CHECK(rml_noise_index(&index, &b->noise, KEY, id, b->rollout.iteration, b->policy.d) == RML_OK);
    CHECK(pair->noise_index == index);
    CHECK(rml_noise_perturb(theta_2[0], theta_2[1], b->theta_d, b->policy.d, &b->noise, index,
                            b->rollout.noise_stdev, RML_ISA_BASE) == RML_OK);
    if (id == BAD && marked) {
      CHECK(pair->status == marked);
    } else {
      CHECK(pair->status == RML_OK);
      for (int m = 0; m < 2; m++) {
        double stats[LENGTH] = {0};
        const rml_episode want = one_episode(b, theta_2[m], KEY, id, b->rollout.sample,
                                             b->rollout.filter ? stats : NULL);
        CHECK(pair->return_2[m] == want.return_sum && pair->fitness_2[m] == want.fitness);
        CHECK(pair->length_2[m] == want.length);
        if (b->rollout.filter) {
          CHECK(stats[0] == want.length);
          rml_stats_merge(unit, stats, O);
        }
      }
    }
    if (b->rollout.filter && (i + 1 == p || (i + 1) % unit_pairs == 0))
      CHECK(memcmp(unit, b->stats_us[i / unit_pairs], sizeof unit) == 0);
  }
  free(theta_2[0]);
  free(theta_2[1]);
}

static void units_equal_episodes_one_at_a_time(void) {
  static const int32_t box_3[3] = {RML_FLOAT32, RML_FLOAT64, RML_UINT8};
  static const int32_t integer_3[3] = {RML_INT64, RML_INT32, RML_UINT8};
  static const rml_isa isa_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};
  static const size_t unit_4[4] = {1, 3, 8, PAIRS};
  for (int discrete = 0; discrete < 2; discrete++)
    for (int dtype = 0; dtype < 3; dtype++)
      for (int sample = 0; sample < 2; sample++)
        for (int k = 0; k < 4; k++) {
          bench b;
          rml_space space = discrete ? cells : box;
          space.dtype = discrete ? integer_3[dtype] : box_3[dtype];
          set_up(&b, space, NONE);
          b.env.action.dtype = integer_3[(dtype + k) % 3];
          b.rollout.sample = sample;
          b.rollout.isa = isa_3[k % 3];
          if (k == 1) b.rollout.mean_o = b.rollout.scale_o = NULL;
          if (k == 2) b.rollout.filter = 0;
          const uint32_t first = k == 3 ? 100000 : 2;
          CHECK(eval_pairs(&b, first, PAIRS, unit_4[k]) == RML_OK);
          CHECK(b.done == (PAIRS + unit_4[k] - 1) / unit_4[k]);
          check_pairs(&b, first, PAIRS, unit_4[k], RML_OK);
          free(b.theta_d);
        }
}

/* A table, any split into calls and any other unit size give the same pairs. */
static void pairs_do_not_depend_on_their_call(void) {
  bench whole, part;
  set_up(&whole, box, NONE);
  set_up(&part, box, NONE);
  CHECK(eval_pairs(&whole, 0, PAIRS, 8) == RML_OK);
  float *table_k = malloc(part.noise.size * sizeof(float));
  CHECK(table_k);
  CHECK(rml_noise_fill(table_k, part.noise.size, &part.noise, 0, RML_ISA_AUTO) == RML_OK);
  part.noise.table_k = table_k;
  for (uint32_t i = 0; i < PAIRS; i++) {
    CHECK(eval_pairs(&part, i, 1, 5) == RML_OK && part.done == 1);
    CHECK(memcmp(part.pair_p, whole.pair_p + i, sizeof *part.pair_p) == 0);
  }
  part.rollout.iteration++;
  CHECK(eval_pairs(&part, 0, PAIRS, 8) == RML_OK);
  for (int i = 0; i < PAIRS; i++) {
    CHECK(part.pair_p[i].noise_index != whole.pair_p[i].noise_index);
    CHECK(part.pair_p[i].return_2[0] != whole.pair_p[i].return_2[0]);
  }
  CHECK(eval_pairs(&part, 0, 0, 8) == RML_OK && part.done == 0);
  free(table_k);
  free(whole.theta_d);
  free(part.theta_d);
}

/* With next to no noise both signs are one policy, so they see one world; pairs see others. */
static void both_signs_share_their_random_numbers(void) {
  for (int sample = 0; sample < 2; sample++) {
    bench b;
    set_up(&b, box, NONE);
    b.rollout.noise_stdev = 1e-30f;
    b.rollout.sample = sample;
    CHECK(eval_pairs(&b, 0, PAIRS, 8) == RML_OK);
    for (int i = 0; i < PAIRS; i++) {
      CHECK(b.pair_p[i].return_2[0] == b.pair_p[i].return_2[1]);
      CHECK(b.pair_p[i].length_2[0] == b.pair_p[i].length_2[1]);
      for (int j = 0; j < i; j++) CHECK(b.pair_p[i].return_2[0] != b.pair_p[j].return_2[0]);
    }
    free(b.theta_d);
  }
}

static void a_bad_pair_is_marked_and_left_out(void) {
  static const struct {
    fault wrong;
    rml_status status;
    int discrete, dtype;
  } case_9[9] = {
      {NAN_REWARD, RML_ENONFINITE, 0, RML_FLOAT32}, {BIG_REWARD, RML_ENONFINITE, 1, RML_INT64},
      {NAN_OBS, RML_ENONFINITE, 0, RML_FLOAT32},    {LATE_INF_OBS, RML_ENONFINITE, 0, RML_FLOAT64},
      {BIG_OBS, RML_ENONFINITE, 0, RML_FLOAT64},    {FAIL_RESET, RML_EENV, 0, RML_FLOAT32},
      {FAIL_STEP, RML_EENV, 1, RML_INT32},          {INDEX_BELOW, RML_EENV, 1, RML_INT32},
      {INDEX_ABOVE, RML_EENV, 1, RML_UINT8},
  };
  for (int c = 0; c < 9; c++)
    for (int gather = 0; gather < 2; gather++) {
      bench b;
      rml_space space = case_9[c].discrete ? cells : box;
      space.dtype = case_9[c].dtype;
      set_up(&b, space, case_9[c].wrong);
      b.rollout.filter = gather && !case_9[c].discrete;
      CHECK(eval_pairs(&b, 0, PAIRS, 4) == RML_OK && b.done == 4);
      /* Squares that overflow only matter where they are gathered. */
      check_pairs(&b, 0, PAIRS, 4,
                  case_9[c].wrong == BIG_OBS && !gather ? RML_OK : case_9[c].status);
      free(b.theta_d);
    }
}

static void flags_that_mean_nothing_end_nothing(void) {
  bench b;
  set_up(&b, box, STRAY_FLAGS);
  CHECK(eval_pairs(&b, 0, PAIRS, 8) == RML_OK);
  check_pairs(&b, 0, PAIRS, 8, RML_OK);
  CHECK(b.pair_p[BAD].length_2[0] > 1);
  free(b.theta_d);
}

static void the_stop_flag_keeps_whole_units(void) {
  bench b, whole;
  set_up(&whole, box, NONE);
  CHECK(eval_pairs(&whole, 0, PAIRS, 2) == RML_OK);
  set_up(&b, box, RAISE_STOP);
  CHECK(eval_pairs(&b, 0, PAIRS, 2) == RML_EINTERRUPTED && b.done == BAD / 2);
  CHECK(memcmp(b.pair_p, whole.pair_p, 2 * b.done * sizeof *b.pair_p) == 0);
  CHECK(memcmp(b.stats_us, whole.stats_us, b.done * sizeof *b.stats_us) == 0);
  CHECK(eval_pairs(&b, 0, PAIRS, 2) == RML_EINTERRUPTED && b.done == 0);
  b.rollout.stop = NULL;
  CHECK(eval_pairs(&b, 0, PAIRS, 2) == RML_OK && b.done == 7);
  free(b.theta_d);
  free(whole.theta_d);
}

static void eval_episodes(bench *b, uint32_t first, size_t e, rml_status want, size_t done) {
  const size_t bytes = rml_rollout_scratch(&b->rollout);
  void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
  CHECK(scratch && e <= PAIRS);
  memset(b->episode_e, 0xA5, sizeof b->episode_e);
  CHECK(rml_rollout_eval_episodes(b->episode_e, &b->done, &b->rollout, b->theta_d, first, e,
                                  scratch) == want);
  CHECK(b->done == done);
  for (unsigned char *at = (unsigned char *)(b->episode_e + e);
       at < (unsigned char *)(b->episode_e + PAIRS + 1); at++)
    CHECK(*at == 0xA5);
  free(scratch);
}

static void evaluation_takes_the_largest_without_noise(void) {
  for (int discrete = 0; discrete < 2; discrete++)
    for (int cap = 0; cap < 2; cap++) {
      bench b;
      set_up(&b, discrete ? cells : box, NONE);
      b.rollout.sample = 1; /* of no effect here */
      b.rollout.key = rml_rng_derive(KEY, 1);
      b.rollout.max_episode_steps = cap ? 6 : 0;
      eval_episodes(&b, 50, PAIRS, RML_OK, PAIRS);
      int truncated = 0;
      for (uint32_t i = 0; i < PAIRS; i++) {
        const rml_episode want =
            one_episode(&b, b.theta_d, b.rollout.key, 50 + i, 0, NULL);
        CHECK(memcmp(&want, b.episode_e + i, sizeof want) == 0);
        truncated += want.flags == RML_TRUNCATED;
      }
      CHECK(!cap || truncated > 0);
      free(b.theta_d);
    }
  bench b;
  set_up(&b, cells, INDEX_ABOVE);
  eval_episodes(&b, 0, PAIRS, RML_OK, PAIRS);
  for (int i = 0; i < PAIRS; i++) CHECK(b.episode_e[i].status == (i == BAD ? RML_EENV : RML_OK));
  free(b.theta_d);
  set_up(&b, box, RAISE_STOP);
  eval_episodes(&b, 3, PAIRS, RML_EINTERRUPTED, BAD - 3);
  free(b.theta_d);
}

/* The environment's limit and the engine's cap: the smaller one, for each episode by itself. */
static void caps_truncate_each_episode(void) {
  static const uint32_t cap_5[5] = {0, 1, 7, 30, 1000};
  for (int k = 0; k < 5; k++) {
    bench b;
    set_up(&b, box, NONE);
    b.rollout.max_episode_steps = cap_5[k];
    b.env.max_episode_steps = 20;
    const uint32_t limit = cap_5[k] && cap_5[k] < 20 ? cap_5[k] : 20;
    CHECK(eval_pairs(&b, 0, PAIRS, 8) == RML_OK);
    check_pairs(&b, 0, PAIRS, 8, RML_OK);
    int capped = 0;
    for (int i = 0; i < 2 * PAIRS; i++) {
      CHECK(b.pair_p[i / 2].length_2[i % 2] <= limit);
      capped += b.pair_p[i / 2].length_2[i % 2] == limit;
    }
    CHECK(capped > 0);
    free(b.theta_d);
  }
}

/* On the maze: theta that goes down at the left and right below finds the goal in 8 steps. */
static void the_maze_is_walked(void) {
  rml_maze maze;
  bench b;
  rml_space grid = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = 25};
  set_up(&b, grid, NONE);
  CHECK(rml_maze_init(&maze, &b.env, 5, 5, 0, 24, 100) == RML_OK);
  CHECK(rml_policy_init(&b.policy, 1, (const uint32_t[2]){25, 4}, RML_TANH) == RML_OK);
  free(b.theta_d);
  b.theta_d = calloc(b.policy.d, sizeof(float));
  CHECK(b.theta_d);
  for (int cell = 20; cell < 25; cell++) b.theta_d[4 * cell + RML_MAZE_RIGHT] = 1;
  eval_episodes(&b, 0, 2, RML_OK, 2);
  double discount = 1;
  for (int t = 0; t < 7; t++) discount *= 0.9;
  for (int i = 0; i < 2; i++)
    CHECK(b.episode_e[i].length == 8 && b.episode_e[i].flags == RML_TERMINATED &&
          b.episode_e[i].return_sum == 1 && b.episode_e[i].fitness == discount);
  b.rollout.max_episode_steps = 7; /* one short */
  eval_episodes(&b, 0, 1, RML_OK, 1);
  CHECK(b.episode_e[0].length == 7 && b.episode_e[0].flags == RML_TRUNCATED);
  CHECK(b.episode_e[0].return_sum == 0);
  free(b.theta_d);
}

static rml_status never_the_first(const rml_env *env, const rml_batch *batch, uint8_t *mask_na) {
  (void)env;
  for (size_t i = batch->begin; i < batch->end; i++)
    for (int a = 0; a < ACTIONS; a++) mask_na[i * ACTIONS + (size_t)a] = a != 0;
  return RML_OK;
}

static rml_status none_at_all(const rml_env *env, const rml_batch *batch, uint8_t *mask_na) {
  (void)env;
  memset(mask_na + batch->begin * ACTIONS, 0, (batch->end - batch->begin) * ACTIONS);
  return RML_OK;
}

static void actions_that_are_not_allowed_are_not_taken(void) {
  for (int sample = 0; sample < 2; sample++) {
    bench b;
    uint32_t taken_a[ACTIONS] = {0};
    set_up(&b, box, NONE);
    b.rollout.sample = sample;
    b.world.taken_a = taken_a;
    CHECK(eval_pairs(&b, 0, PAIRS, 1) == RML_OK);
    CHECK(taken_a[0] > 0); /* it is taken where it is allowed */
    memset(taken_a, 0, sizeof taken_a);
    b.env.mask = never_the_first;
    CHECK(eval_pairs(&b, 0, PAIRS, 1) == RML_OK);
    CHECK(taken_a[0] == 0 && taken_a[1] + taken_a[2] > 0);
    for (int i = 0; i < PAIRS; i++) CHECK(b.pair_p[i].status == RML_OK);
    b.env.mask = none_at_all;
    CHECK(eval_pairs(&b, 0, 1, 1) == RML_OK);
    CHECK(b.pair_p[0].status == RML_EENV);
    free(b.theta_d);
  }
}

/* The last action that push_step saw of each sign, and how many steps it took. */
typedef struct pushes {
  double bound_2[2], seen_2[2][60][2];
  uint32_t steps_2[2];
} pushes;

static rml_status push_reset(const rml_env *env, const rml_batch *batch) {
  for (size_t i = batch->begin; i < batch->end; i++) {
    put(batch->obs_no, env->observation.dtype, O * i, 1);
    put(batch->obs_no, env->observation.dtype, O * i + 1, 0.5);
  }
  return RML_OK;
}

static rml_status push_step(const rml_env *env, const rml_batch *batch) {
  pushes *p = *(pushes **)env->context;
  for (size_t i = batch->begin; i < batch->end; i++) {
    const uint32_t t = batch->elapsed_n[i];
    for (int a = 0; a < 2; a++)
      p->seen_2[i][t][a] = env->action.dtype == RML_FLOAT32
                               ? ((const float *)batch->action_na)[2 * i + a]
                               : ((const double *)batch->action_na)[2 * i + a];
    p->steps_2[i] = t + 1;
    put(batch->obs_no, env->observation.dtype, O * i, 1);
    put(batch->obs_no, env->observation.dtype, O * i + 1, 0.5);
    batch->reward_n[i] = 3;
    batch->flags_n[i] = 0;
  }
  return RML_OK;
}

static void box_actions_are_the_outputs_clipped_with_noise_while_training(void) {
  for (int dtype = RML_FLOAT32; dtype <= RML_FLOAT64; dtype++) {
    bench b;
    pushes seen = {0}, *where = &seen;
    double low_2[2] = {-0.1, -1e9}, high_2[2] = {0.05, 1e9};
    set_up(&b, box, NONE);
    free(b.theta_d);
    b.env.action = (rml_space){.kind = RML_BOX, .dtype = dtype, .n = 2, .axes = 1, .shape = {2}};
    b.env.action.low = low_2;
    b.env.action.high = high_2;
    b.env.context = &where;
    b.env.reset = push_reset;
    b.env.step = push_step;
    const uint32_t width_2[2] = {O, 2};
    CHECK(rml_policy_init(&b.policy, 1, width_2, RML_TANH) == RML_OK);
    float theta_d[6] = {0.25f, 0.5f, 2, -1, 0.125f, 0.0625f}; /* weights by input, then biases */
    const float x_o[O] = {1, 0.5f};
    float out_2[2];
    b.theta_d = theta_d;
    b.rollout.mean_o = b.rollout.scale_o = NULL;
    CHECK(rml_policy_eval(out_2, &b.policy, theta_d, x_o, NULL, 1, NULL, RML_ISA_AUTO) == RML_OK);
    eval_episodes(&b, 0, 1, RML_OK, 1);
    CHECK(seen.steps_2[0] == 40 && b.episode_e[0].flags == RML_TRUNCATED);
    CHECK(out_2[0] > 0.05f && seen.seen_2[0][39][0] == (dtype == RML_FLOAT32 ? 0.05f : 0.05));
    CHECK(seen.seen_2[0][39][1] == out_2[1]); /* within its bounds: the output itself */

    /* Training: the stream ACTION_NOISE, two numbers a step, the same for both signs. */
    b.rollout.action_noise_stdev = 0.5f;
    b.rollout.noise_stdev = 1e-30f; /* both members are theta */
    b.rollout.reward_offset = 1;
    b.rollout.gamma = 1;
    b.rollout.filter = 0;
    CHECK(eval_pairs(&b, 3, 1, 1) == RML_OK);
    float noise_k[80];
    CHECK(rml_normal_fill(noise_k, 80, b.rollout.key, RML_STREAM_ACTION_NOISE, 3,
                          b.rollout.iteration, 0, RML_ISA_BASE) == RML_OK);
    for (int sign = 0; sign < 2; sign++)
      for (int t = 0; t < 40; t++)
        CHECK(seen.seen_2[sign][t][1] == (double)(out_2[1] + 0.5f * noise_k[2 * t + 1]));
    CHECK(b.pair_p[0].return_2[0] == 120 && b.pair_p[0].fitness_2[0] == 80);
    eval_episodes(&b, 0, 1, RML_OK, 1); /* evaluation: neither noise nor offset */
    CHECK(seen.seen_2[0][7][1] == out_2[1] && b.episode_e[0].fitness == 120);
    low_2[1] = 0.07; /* above the output, which is 0.0625 */
    eval_episodes(&b, 0, 1, RML_OK, 1);
    CHECK(seen.seen_2[0][3][1] == (dtype == RML_FLOAT32 ? 0.07f : 0.07));
    theta_d[1] = NAN;
    CHECK(eval_pairs(&b, 0, 1, 1) == RML_OK);
    CHECK(b.pair_p[0].status == RML_ENONFINITE);
  }
}

static void refused(bench *b, const char *word) {
  const char *why = NULL;
  CHECK(rml_rollout_check(&b->rollout, &why) != RML_OK && why && strstr(why, word));
  CHECK(rml_rollout_check(&b->rollout, NULL) != RML_OK && rml_rollout_scratch(&b->rollout) == 0);
  CHECK(rml_rollout_eval_pairs(b->pair_p, *b->stats_us, &b->done, &b->rollout, b->theta_d, 0, 1, 1,
                               NULL) != RML_OK);
  CHECK(rml_rollout_eval_episodes(b->episode_e, &b->done, &b->rollout, b->theta_d, 0, 1, NULL) !=
        RML_OK);
  CHECK(b->done == 0 && b->pair_p[0].pair == 77 && b->episode_e[0].length == 77);
  free(b->theta_d);
}

static void refused_rollouts_say_why(void) {
  bench b;
#define REFUSED(word, change)                             \
  do {                                                    \
    set_up(&b, box, NONE);                                \
    b.pair_p[0].pair = 77;                                \
    b.episode_e[0].length = 77;                           \
    CHECK(rml_rollout_check(&b.rollout, NULL) == RML_OK); \
    change;                                               \
    refused(&b, word);                                    \
  } while (0)
  REFUSED("abi", b.env.abi_version++);
  REFUSED("float32 or float64", (b.env.action = box, b.env.action.dtype = RML_UINT8));
  REFUSED("action_noise_stdev", b.rollout.action_noise_stdev = -1);
  REFUSED("action_noise_stdev", b.rollout.action_noise_stdev = NAN);
  REFUSED("reward_offset", b.rollout.reward_offset = INFINITY);
  REFUSED("1024", b.env.action.n = RML_SAMPLE_MAX + 1);
  REFUSED("inputs", b.policy.width[0] = 3);
  REFUSED("outputs", b.policy.width[2] = 4);
  REFUSED("noise size", b.noise.size = b.policy.d - 1);
  REFUSED("noise size", b.noise.size = RML_NOISE_SIZE_MAX + 1);
  REFUSED("gamma", b.rollout.gamma = 1.01);
  REFUSED("gamma", b.rollout.gamma = -0.01);
  REFUSED("gamma", b.rollout.gamma = NAN);
  REFUSED("noise_stdev", b.rollout.noise_stdev = 0);
  REFUSED("noise_stdev", b.rollout.noise_stdev = -1);
  REFUSED("noise_stdev", b.rollout.noise_stdev = NAN);
  REFUSED("noise_stdev", b.rollout.noise_stdev = INFINITY);
  REFUSED("mean and scale", b.rollout.mean_o = NULL);
  REFUSED("mean and scale", b.rollout.scale_o = NULL);
  set_up(&b, box, NONE);
  b.done = 9;
  b.pair_p[0].pair = 77;
  CHECK(rml_rollout_eval_pairs(b.pair_p, *b.stats_us, &b.done, &b.rollout, b.theta_d, 0, 1, 0,
                               NULL) == RML_EINVAL);
  CHECK(rml_rollout_eval_pairs(b.pair_p, *b.stats_us, &b.done, &b.rollout, b.theta_d, UINT32_MAX,
                               1, 1, NULL) == RML_EINVAL);
  CHECK(rml_rollout_eval_pairs(b.pair_p, NULL, &b.done, &b.rollout, b.theta_d, 0, 1, 1, NULL) ==
        RML_EINVAL);
  CHECK(rml_rollout_eval_episodes(b.episode_e, &b.done, &b.rollout, b.theta_d, 9, UINT32_MAX,
                                  NULL) == RML_EINVAL);
  CHECK(b.done == 0 && b.pair_p[0].pair == 77);
  free(b.theta_d);
}

int main(void) {
  units_equal_episodes_one_at_a_time();
  pairs_do_not_depend_on_their_call();
  both_signs_share_their_random_numbers();
  a_bad_pair_is_marked_and_left_out();
  flags_that_mean_nothing_end_nothing();
  the_stop_flag_keeps_whole_units();
  evaluation_takes_the_largest_without_noise();
  caps_truncate_each_episode();
  actions_that_are_not_allowed_are_not_taken();
  box_actions_are_the_outputs_clipped_with_noise_while_training();
  the_maze_is_walked();
  refused_rollouts_say_why();
  return 0;
}
