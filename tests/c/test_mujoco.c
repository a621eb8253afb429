/* Tasks on a toy in place of libmujoco: four joints that the two controls push, three bodies whose
 * places lag one step behind, as MuJoCo's do. */
#include "rollmill/mujoco.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "rollmill/vector.h"

enum { NQ = 4, NV = 4, NU = 2, BODIES = 3, STATE = NQ + NV + NU, N = 6 };

typedef struct toy {
  double qpos[NQ], qvel[NV], ctrl[NU], xpos[3 * BODIES], xipos[3 * BODIES], site_xpos[3];
  double cinert[10 * BODIES], cvel[6 * BODIES], qfrc_actuator[NV], qfrc_constraint[NV];
  double cfrc_ext[6 * BODIES];
  uint32_t busy;
} toy;

static const double qpos0[NQ] = {0.5, 1.25, 0.0, -0.25}, qvel0[NV] = {0};
static const double low[NU] = {-1, -1}, high[NU] = {1, 1}, mass[BODIES] = {0, 1, 3};
static const int model = 7; /* any address */

static void enter(toy *t) { CHECK(!__atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE)); }
static void leave(toy *t) { __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE); }

static void toy_forward(const void *m, void *data) {
  toy *t = data;
  CHECK(m == &model);
  for (int b = 0; b < BODIES; b++)
    for (int j = 0; j < 3; j++) {
      t->xpos[3 * b + j] = b * t->qpos[j];
      t->xipos[3 * b + j] = b * t->qpos[j] + 0.5;
    }
  for (int j = 0; j < 3; j++) t->site_xpos[j] = t->qpos[j];
}

static void toy_step(const void *m, void *data) {
  toy *t = data;
  enter(t);
  toy_forward(m, data);
  for (int i = 0; i < NV; i++) {
    t->qvel[i] += 0.1 * t->ctrl[i % NU];
    t->qpos[i] += 0.01 * t->qvel[i];
    t->qfrc_actuator[i] = t->ctrl[i % NU];
    t->qfrc_constraint[i] = 20.0 * t->qvel[i];
  }
  if (t->qvel[0] > 1e-9) sched_yield(); /* give others a chance to disturb */
  leave(t);
}

static void toy_post(const void *m, void *data) {
  (void)m;
  for (int i = 0; i < 6 * BODIES; i++) ((toy *)data)->cfrc_ext[i] = i * ((toy *)data)->qvel[0];
}

static void toy_reset(const void *m, void *data) {
  CHECK(m == &model);
  memset(data, 0, sizeof(toy));
  memcpy(((toy *)data)->qpos, qpos0, sizeof qpos0);
}

static void toy_get(const void *m, const void *data, double *state, int signature) {
  CHECK(m == &model && signature == 77);
  memcpy(state, data, STATE * sizeof(double));
}

static void toy_set(const void *m, void *data, const double *state, int signature) {
  CHECK(m == &model && signature == 77);
  memcpy(data, state, STATE * sizeof(double));
}

typedef struct bench {
  toy toy_2[2];
  rml_mujoco_data data_2[2];
  rml_simulator simulator;
  rml_mujoco mujoco;
  rml_env env;
} bench;

static void set_up(bench *b, rml_mujoco_task task, int version) {
  memset(b, 0, sizeof *b);
  for (int k = 0; k < 2; k++) {
    toy *t = b->toy_2 + k;
    memset(t, 0x7f, sizeof *t); /* what another environment may have left */
    t->busy = 0;
    b->data_2[k] = (rml_mujoco_data){
        .data = t,
        .array_a = {t->qpos, t->qvel, t->ctrl, t->xpos, t->xipos, t->site_xpos, t->cinert, t->cvel,
                    t->qfrc_actuator, t->qfrc_constraint, t->cfrc_ext}};
  }
  b->simulator = (rml_simulator){
      .model = &model,
      .step = toy_step,
      .forward = toy_forward,
      .reset = toy_reset,
      .post_constraint = toy_post,
      .get_state = toy_get,
      .set_state = toy_set,
      .signature = 77,
      .state_length = STATE,
      .size_a = {NQ, NV, NU, 3 * BODIES, 3 * BODIES, 3, 10 * BODIES, 6 * BODIES, NV, NV,
                 6 * BODIES},
      .data_k = b->data_2,
      .k = 2,
  };
  b->mujoco = (rml_mujoco){
      .simulator = &b->simulator,
      .name = "toy",
      .task = task,
      .version = version,
      .max_episode_steps = 9,
      .frame_skip = 2,
      .segment_k = {{.array = RML_MUJOCO_QPOS, .first = 1, .count = 3},
                    {.array = RML_MUJOCO_QVEL, .map = RML_MUJOCO_CLIP, .count = 4, .low = -0.05,
                     .high = 0.05}},
      .segments = 2,
      .init_qpos = qpos0,
      .init_qvel = qvel0,
      .action_low = low,
      .action_high = high,
      .body_mass = mass,
      .total_mass = 4,
      .timestep = 0.25,
      .dt = 0.5,
      .body_3 = {1, 2, 0},
      .forward_reward_weight = 2,
      .ctrl_cost_weight = 0.5,
      .contact_cost_weight = 0.25,
      .healthy_reward = 16,
      .reward_near_weight = 0.5,
      .reward_dist_weight = 4,
      .healthy_z_2 = {1, 2},
      .healthy_angle_2 = {-1, 1},
      .healthy_state_2 = {-100, 100},
      .contact_force_2 = {-1, 1},
      .contact_cost_2 = {-INFINITY, 10},
      .reset_noise_scale = 0.125,
      .terminate_when_unhealthy = 1,
  };
}

static void start(bench *b) {
  const char *why = "something";
  CHECK(rml_mujoco_init(&b->mujoco, &b->env, &why) == RML_OK && !why);
  CHECK(rml_mujoco_init(&b->mujoco, &b->env, NULL) == RML_OK);
}

/* Room for a batch of N. */
typedef struct room {
  _Alignas(64) double state_ns[N * (STATE + 1)];
  uint64_t key_n[N];
  uint32_t id_n[N], episode_n[N], elapsed_n[N];
  uint8_t mask_n[N], flags_n[N];
  float action_na[N * NU];
  double obs_no[N * 8], reward_n[N];
} room;

static rml_batch batch_of(room *r) {
  return (rml_batch){.n = N, .end = N, .key_n = r->key_n, .id_n = r->id_n,
                     .episode_n = r->episode_n, .elapsed_n = r->elapsed_n, .state = r->state_ns,
                     .action_na = r->action_na, .obs_no = r->obs_no, .reward_n = r->reward_n,
                     .flags_n = r->flags_n};
}

static void fill(room *r) {
  memset(r, 0, sizeof *r);
  for (uint32_t i = 0; i < N; i++) {
    r->key_n[i] = 5 + i / 2;
    r->id_n[i] = i;
    r->episode_n[i] = 3;
    for (int k = 0; k < NU; k++) r->action_na[NU * i + k] = (float)(i + 1) / 8 - (float)k / 2;
  }
}

/* Places environment 0, steps it once, and returns reward and flags in r. */
static void step_from(bench *b, room *r, double q0, double q1, double q2, double v0) {
  fill(r);
  rml_batch batch = batch_of(r);
  const double qpos[NQ] = {q0, q1, q2, 0.25}, qvel[NV] = {v0, 0.25, 0, 0};
  CHECK(rml_mujoco_place(&b->env, &batch, qpos, qvel) == RML_OK);
  batch.end = 1;
  r->action_na[0] = 0.5f;
  r->action_na[1] = 0;
  CHECK(b->env.step(&b->env, &batch) == RML_OK);
}

static void test_what_is_declared(void) {
  bench b;
  set_up(&b, RML_MUJOCO_SWIMMER, 5);
  start(&b);
  CHECK(!strcmp(b.env.name, "toy") && b.env.max_episode_steps == 9);
  CHECK(b.env.state_size == (STATE + 1) * sizeof(double));
  CHECK(b.env.observation.kind == RML_BOX && b.env.observation.dtype == RML_FLOAT64);
  CHECK(b.env.observation.n == 7 && b.env.observation.axes == 1 && !b.env.observation.low);
  CHECK(b.env.action.kind == RML_BOX && b.env.action.dtype == RML_FLOAT32 && b.env.action.n == 2);
  CHECK(b.env.action.low == low && b.env.action.high == high);
}

#define REFUSED(word, change)                                             \
  do {                                                                    \
    bench b;                                                              \
    const char *why = NULL;                                               \
    set_up(&b, RML_MUJOCO_ANT, 5);                                        \
    change;                                                               \
    CHECK(rml_mujoco_init(&b.mujoco, &b.env, &why) == RML_EINVAL);        \
    CHECK(why && strstr(why, word));                                      \
    CHECK(rml_mujoco_init(&b.mujoco, &b.env, NULL) == RML_EINVAL);        \
  } while (0)

static void test_refusals(void) {
  REFUSED("model", b.mujoco.simulator = NULL);
  REFUSED("model", b.simulator.model = NULL);
  REFUSED("function", b.simulator.step = NULL);
  REFUSED("function", b.simulator.post_constraint = NULL);
  REFUSED("function", b.simulator.set_state = NULL);
  REFUSED("state", b.simulator.state_length = 0);
  REFUSED("data", b.simulator.k = 0);
  REFUSED("data", b.data_2[1].data = NULL);
  REFUSED("array", b.data_2[1].array_a[RML_MUJOCO_CFRC_EXT] = NULL);
  REFUSED("task", b.mujoco.task = RML_MUJOCO_TASKS);
  REFUSED("task", b.mujoco.task = -1);
  REFUSED("version", b.mujoco.version = 3);
  REFUSED("frame_skip", b.mujoco.frame_skip = 0);
  REFUSED("timestep", b.mujoco.dt = NAN);
  REFUSED("init_qpos", b.mujoco.init_qvel = NULL);
  REFUSED("bounds", b.mujoco.action_low = NULL);
  REFUSED("masses", (b.mujoco.task = RML_MUJOCO_HUMANOID, b.mujoco.body_mass = NULL));
  REFUSED("1 to 8 parts", b.mujoco.segments = 0);
  REFUSED("1 to 8 parts", b.mujoco.segments = RML_MUJOCO_SEGMENTS + 1);
  REFUSED("joints", b.simulator.size_a[RML_MUJOCO_QPOS] = 2);
  REFUSED("joints", (b.mujoco.task = RML_MUJOCO_PUSHER, b.simulator.size_a[RML_MUJOCO_QVEL] = 3));
  REFUSED("sites", (b.mujoco.task = RML_MUJOCO_DOUBLE_PENDULUM,
                    b.simulator.size_a[RML_MUJOCO_SITE_XPOS] = 0));
  REFUSED("body", b.mujoco.body_3[0] = BODIES);
  REFUSED("actuators", b.simulator.size_a[RML_MUJOCO_CTRL] = 0);
  REFUSED("known array", b.mujoco.segment_k[1].array = RML_MUJOCO_ARRAYS);
  REFUSED("map", b.mujoco.segment_k[1].map = 9);
  REFUSED("outside", b.mujoco.segment_k[0].count = 4);
  REFUSED("outside", b.mujoco.segment_k[0].first = SIZE_MAX);
  REFUSED("outside", (b.mujoco.segment_k[0].map = RML_MUJOCO_DIFFERENCE,
                      b.mujoco.segment_k[0].minus = 2));
  REFUSED("bounds", b.mujoco.segment_k[1].low = 1);
}

static void test_a_step_by_hand(void) {
  bench b;
  room r;
  set_up(&b, RML_MUJOCO_SWIMMER, 5);
  start(&b);
  step_from(&b, &r, 1, 1.5, 0.5, 0);
  /* Two steps of the toy: qvel[0] 0.05 and 0.1, so qpos[0] has moved by 0.0015. */
  const double v1 = 0.1 * 0.5, v2 = v1 + 0.1 * 0.5, x = 1 + 0.01 * v1 + 0.01 * v2;
  CHECK(r.reward_n[0] == 2.0 * ((x - 1) / 0.5) - 0.125 && r.flags_n[0] == 0);
  CHECK(r.obs_no[0] == 1.5 + 0.01 * 0.25 + 0.01 * 0.25); /* qpos[1] */
  CHECK(r.obs_no[3] == 0.05 && r.obs_no[4] == 0.05);     /* qvel, clipped */
  /* The body of ANT lags: it has come as far as one step of the toy, twice over. */
  set_up(&b, RML_MUJOCO_ANT, 5);
  b.mujoco.body_3[0] = 2;
  start(&b);
  step_from(&b, &r, 1, 1.5, 1.5, 0);
  const double lag = 2 * (1 + 0.01 * v1);
  CHECK(r.reward_n[0] == 2.0 * ((lag - 2) / 0.5) + 16 - 0.125 && r.flags_n[0] == 0);
  b.mujoco.contact_cost = 1;
  start(&b);
  step_from(&b, &r, 1, 1.5, 1.5, 0);
  double force = 0; /* forces i * qvel[0] clipped at 1: eight sums side by side, then the rest */
  double part_8[8] = {0};
  for (int i = 0; i < 16; i++) {
    const double f = i * v2 < 1 ? i * v2 : 1;
    part_8[i % 8] += f * f;
  }
  force = ((part_8[0] + part_8[1]) + (part_8[2] + part_8[3])) +
          ((part_8[4] + part_8[5]) + (part_8[6] + part_8[7])) + 1 + 1;
  CHECK(r.reward_n[0] == 2.0 * ((lag - 2) / 0.5) + 16 - (0.125 + 0.25 * force));
}

static void test_health(void) {
  bench b;
  room r;
  for (int version = 4; version <= 5; version++)
    for (int terminate = 0; terminate < 2; terminate++) {
      set_up(&b, RML_MUJOCO_WALKER2D, version);
      b.mujoco.forward_reward_weight = 0;
      b.mujoco.ctrl_cost_weight = 0;
      b.mujoco.terminate_when_unhealthy = terminate;
      start(&b);
      step_from(&b, &r, 0, 1.5, 0, 0);
      CHECK(r.reward_n[0] == 16 && !r.flags_n[0]);
      step_from(&b, &r, 0, 2.5, 0, 0); /* too high */
      CHECK(r.reward_n[0] == (version == 4 && terminate ? 16 : 0));
      CHECK(r.flags_n[0] == (terminate ? RML_TERMINATED : 0));
      step_from(&b, &r, 0, 1.5, NAN, 0);
      CHECK(r.flags_n[0] == (terminate ? RML_TERMINATED : 0));
    }
  set_up(&b, RML_MUJOCO_HOPPER, 5);
  start(&b);
  step_from(&b, &r, 0, 1.5, 0, 99);
  CHECK(!r.flags_n[0]);
  step_from(&b, &r, 0, 1.5, 0, 100); /* a state out of its range */
  CHECK(r.flags_n[0] == RML_TERMINATED);
  set_up(&b, RML_MUJOCO_ANT, 5); /* inclusive, and all must be finite */
  b.mujoco.healthy_z_2[0] = b.mujoco.healthy_z_2[1] = 1.5 + 0.01 * 0.05 + 0.01 * 0.1;
  start(&b);
  step_from(&b, &r, 0, 0, 1.5, 0);
  CHECK(!r.flags_n[0]);
  step_from(&b, &r, INFINITY, 0, 1.5, 0);
  CHECK(r.flags_n[0] == RML_TERMINATED);
  for (int version = 4; version <= 5; version++) {
    set_up(&b, RML_MUJOCO_PENDULUM, version);
    start(&b);
    step_from(&b, &r, 0, 0.125, 0, 0);
    CHECK(!r.flags_n[0] && r.reward_n[0] == 1);
    step_from(&b, &r, 0, 0.25, 0, 0);
    CHECK(r.flags_n[0] == RML_TERMINATED && r.reward_n[0] == (version == 4));
    set_up(&b, RML_MUJOCO_DOUBLE_PENDULUM, version);
    start(&b);
    step_from(&b, &r, 0, 0, 2, 0); /* qvel after: 0.1, 0.25, 0.1; the tip of one step ago */
    const double tip = 0.01 * 0.05, z = 2 + 0.01 * 0.05 - 2;
    const double fast = 0.001 * 0.0625 + 0.005 * (0.1 * 0.1);
    const double wanted = 16 - (0.01 * (tip * tip) + z * z) - fast;
    CHECK(!r.flags_n[0] && fabs(r.reward_n[0] - wanted) < 1e-14);
    step_from(&b, &r, 0, 0, 0.5, 0);
    CHECK(r.flags_n[0] == RML_TERMINATED && (r.reward_n[0] > 10) == (version == 4));
  }
}

static void test_reaching(void) {
  bench b;
  room r;
  for (int version = 4; version <= 5; version++) {
    set_up(&b, RML_MUJOCO_REACHER, version);
    b.mujoco.segment_k[0] = (rml_mujoco_segment){
        .array = RML_MUJOCO_XPOS, .map = RML_MUJOCO_DIFFERENCE, .first = 3, .count = 3, .minus = 6};
    b.mujoco.segment_k[1] =
        (rml_mujoco_segment){.array = RML_MUJOCO_QPOS, .map = RML_MUJOCO_COS, .count = 2};
    b.mujoco.segment_k[2] =
        (rml_mujoco_segment){.array = RML_MUJOCO_QPOS, .map = RML_MUJOCO_SIN, .count = 2};
    b.mujoco.segments = 3;
    start(&b);
    step_from(&b, &r, 3, 4, 0, 0);
    const double *xpos = b.toy_2[0].xpos;
    double far = 0;
    for (int j = 0; j < 3; j++) far += xpos[j + 3] * xpos[j + 3];
    /* v4 pays for where the fingertip was before the step. */
    CHECK(r.reward_n[0] == 4 * -(version == 4 ? 5 : sqrt(far)) - 0.125);
    for (int j = 0; j < 3; j++) CHECK(r.obs_no[j] == xpos[3 + j] - xpos[6 + j]);
    CHECK(r.obs_no[3] == cos(b.toy_2[0].qpos[0]) && r.obs_no[6] == sin(b.toy_2[0].qpos[1]));
  }
  set_up(&b, RML_MUJOCO_PUSHER, 5);
  start(&b);
  step_from(&b, &r, 3, 4, 0, 0);
  const double *xpos = b.toy_2[0].xpos;
  double far = 0;
  for (int j = 0; j < 3; j++) far += xpos[j + 3] * xpos[j + 3];
  CHECK(r.reward_n[0] == -sqrt(far) * 4 + -0.125 - sqrt(far) * 0.5); /* bodies 1, 2 and 0 */
}

/* What a reset draws is a function of key, id and episode; its bounds are the task's. */
static void test_resets(void) {
  bench b;
  room r, again;
  double mean_4[4] = {0}, square = 0;
  set_up(&b, RML_MUJOCO_SWIMMER, 5);
  start(&b);
  fill(&r);
  rml_batch batch = batch_of(&r);
  CHECK(b.env.reset(&b.env, &batch) == RML_OK);
  for (int i = 1; i < N; i++) CHECK(r.state_ns[0] != r.state_ns[i * (STATE + 1)]);
  fill(&again);
  batch = batch_of(&again);
  for (size_t i = N; i-- > 0;) { /* alone, in another order */
    batch.begin = i;
    batch.end = i + 1;
    CHECK(b.env.reset(&b.env, &batch) == RML_OK);
  }
  CHECK(!memcmp(r.state_ns, again.state_ns, sizeof r.state_ns));
  CHECK(!memcmp(r.obs_no, again.obs_no, sizeof r.obs_no));
  const double first = r.state_ns[0];
  batch.begin = 0;
  batch.end = 1;
  for (int change = 0; change < 3; change++) {
    fill(&again);
    if (change == 0) again.key_n[0]++;
    if (change == 1) again.id_n[0]++;
    if (change == 2) again.episode_n[0]++;
    CHECK(b.env.reset(&b.env, &batch) == RML_OK && again.state_ns[0] != first);
  }
  for (uint32_t e = 0; e < 4000; e++) {
    again.episode_n[0] = e;
    b.env.reset(&b.env, &batch);
    for (int q = 0; q < NQ; q++) {
      const double d = again.state_ns[q] - qpos0[q];
      CHECK(d >= -0.125 && d < 0.125 && fabs(again.state_ns[NQ + q]) <= 0.125);
      mean_4[q] += d / 4000;
      square += d * d / 16000;
    }
  }
  for (int q = 0; q < NQ; q++) CHECK(fabs(mean_4[q]) < 0.006); /* five standard errors */
  CHECK(fabs(square / (0.125 * 0.125 / 3) - 1) < 0.05);
  set_up(&b, RML_MUJOCO_HALF_CHEETAH, 5); /* normal speeds */
  start(&b);
  double fourth = square = 0;
  for (uint32_t e = 0; e < 4000; e++) {
    again.episode_n[0] = e;
    b.env.reset(&b.env, &batch);
    for (int v = 0; v < NV; v++) {
      const double z = again.state_ns[NQ + v] / 0.125;
      square += z * z / 16000;
      fourth += z * z * z * z / 16000;
    }
  }
  CHECK(fabs(square - 1) < 0.06 && fabs(fourth - 3) < 0.6);
  set_up(&b, RML_MUJOCO_REACHER, 5);
  start(&b);
  for (uint32_t e = 0; e < 1000; e++) {
    again.episode_n[0] = e;
    b.env.reset(&b.env, &batch);
    const double *row = again.state_ns;
    CHECK(hypot(row[2], row[3]) < 0.2 && fabs(row[0] - 0.5) <= 0.1 && fabs(row[4]) <= 0.005);
    CHECK(row[6] == 0 && row[7] == 0);
  }
  set_up(&b, RML_MUJOCO_PUSHER, 5);
  start(&b);
  for (uint32_t e = 0; e < 1000; e++) {
    again.episode_n[0] = e;
    b.env.reset(&b.env, &batch);
    const double *row = again.state_ns;
    CHECK(hypot(row[0], row[1]) > 0.17 && row[0] <= 0 && row[0] >= -0.3 && fabs(row[1]) <= 0.2);
    CHECK(row[2] == 0 && row[3] == 0 && row[4] == 0 && row[7] == 0);
  }
}

static void run(bench *b, room *r, int steps) {
  rml_batch batch = batch_of(r);
  CHECK(b->env.reset(&b->env, &batch) == RML_OK);
  for (int t = 0; t < steps; t++) {
    for (int k = 0; k < N * NU; k++) r->action_na[k] = (float)((t * 7 + k * 3) % 11) / 11 - 0.4f;
    CHECK(b->env.step(&b->env, &batch) == RML_OK);
  }
}

static void test_masks_and_saved_states(void) {
  bench b;
  room r, s;
  double bytes[STATE + 1];
  set_up(&b, RML_MUJOCO_HUMANOID, 5);
  b.mujoco.contact_cost = 1;
  start(&b);
  fill(&r);
  run(&b, &r, 3);
  s = r;
  rml_batch batch = batch_of(&s);
  batch.mask_n = s.mask_n;
  s.mask_n[1] = s.mask_n[4] = 1;
  CHECK(b.env.step(&b.env, &batch) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    const size_t row = i * (STATE + 1);
    const int same = !memcmp(s.state_ns + row, r.state_ns + row, sizeof bytes);
    CHECK(same == !s.mask_n[i] && (s.reward_n[i] == r.reward_n[i]) == !s.mask_n[i]);
  }
  /* Environment 4, saved before that step, goes the same way from place 0. */
  batch = batch_of(&r);
  batch.begin = 4;
  CHECK(b.env.save(&b.env, &batch, bytes) == RML_OK);
  batch.begin = 0;
  batch.end = 1;
  CHECK(b.env.load(&b.env, &batch, bytes) == RML_OK);
  memcpy(r.action_na, s.action_na + 4 * NU, NU * sizeof(float));
  CHECK(b.env.step(&b.env, &batch) == RML_OK);
  CHECK(!memcmp(r.state_ns, s.state_ns + 4 * (STATE + 1), sizeof bytes));
  CHECK(r.reward_n[0] == s.reward_n[4]);
}

static void test_places(void) {
  bench b;
  room r;
  double qpos[NQ], qvel[NV];
  set_up(&b, RML_MUJOCO_SWIMMER, 5);
  start(&b);
  fill(&r);
  run(&b, &r, 2);
  rml_batch batch = batch_of(&r);
  batch.begin = 3;
  CHECK(rml_mujoco_read(qpos, qvel, &b.env, &batch) == RML_OK);
  CHECK(!memcmp(qpos, r.state_ns + 3 * (STATE + 1), sizeof qpos));
  qpos[2] = 0.75;
  CHECK(rml_mujoco_place(&b.env, &batch, qpos, qvel) == RML_OK);
  CHECK(r.obs_no[3 * 7 + 1] == 0.75 && r.state_ns[3 * (STATE + 1) + 2] == 0.75);
  rml_env other = b.env;
  other.step = other.reset;
  CHECK(rml_mujoco_place(&other, &batch, qpos, qvel) == RML_EINVAL);
  CHECK(rml_mujoco_read(qpos, qvel, &other, &batch) == RML_EINVAL);
  CHECK(rml_mujoco_place(NULL, &batch, qpos, qvel) == RML_EINVAL);
}

typedef struct job {
  bench *b;
  room room;
} job;

static void *work(void *argument) {
  job *j = argument;
  run(j->b, &j->room, 200);
  return NULL;
}

/* Four threads over one or two data: each waits its turn, and nobody's numbers change. */
static void test_threads(void) {
  static job job_4[4];
  bench b;
  room alone;
  set_up(&b, RML_MUJOCO_HUMANOID, 5);
  start(&b);
  for (size_t k = 1; k <= 2; k++) {
    b.simulator.k = k;
    pthread_t thread_4[4];
    for (int j = 0; j < 4; j++) {
      job_4[j].b = &b;
      fill(&job_4[j].room);
      CHECK(!pthread_create(thread_4 + j, NULL, work, job_4 + j));
    }
    for (int j = 0; j < 4; j++) CHECK(!pthread_join(thread_4[j], NULL));
    fill(&alone);
    run(&b, &alone, 200);
    for (int j = 0; j < 4; j++) {
      CHECK(!memcmp(job_4[j].room.state_ns, alone.state_ns, sizeof alone.state_ns));
      CHECK(!memcmp(job_4[j].room.reward_n, alone.reward_n, sizeof alone.reward_n));
    }
    CHECK(!b.data_2[0].taken && !b.data_2[1].taken);
  }
}

/* Actions of a vector that are not finite are refused before anything is touched. */
static void test_a_vector_refuses_nan(void) {
  bench b;
  room r, before;
  uint8_t done_n[N] = {0}, mask_n[N];
  double return_n[N];
  size_t bad = 0;
  set_up(&b, RML_MUJOCO_WALKER2D, 5);
  start(&b);
  fill(&r);
  rml_vector vector = {.env = &b.env, .n = N, .autoreset = RML_AUTORESET_NEXT_STEP,
                       .state = r.state_ns, .key_n = r.key_n, .id_n = r.id_n,
                       .episode_n = r.episode_n, .elapsed_n = r.elapsed_n, .done_n = done_n,
                       .mask_n = mask_n, .return_n = return_n};
  CHECK(rml_vector_reset(&vector, NULL, NULL, r.obs_no) == RML_OK);
  const float wrong_3[3] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++) {
    r.action_na[2 * 4 + 1] = wrong_3[k];
    before = r;
    CHECK(rml_vector_step(&vector, r.action_na, r.obs_no, r.reward_n, r.flags_n, NULL, NULL, NULL,
                          &bad) == RML_EACTION);
    CHECK(bad == 4 && !memcmp(&r, &before, sizeof r));
  }
  done_n[4] = 1; /* its action does not count: it resets */
  CHECK(rml_vector_step(&vector, r.action_na, r.obs_no, r.reward_n, r.flags_n, NULL, NULL, NULL,
                        &bad) == RML_OK);
  CHECK(bad == N && r.episode_n[4] == before.episode_n[4] + 1);
  r.action_na[2 * 4 + 1] = 3.4e38f; /* out of the bounds, which are the model's affair */
  CHECK(rml_vector_step(&vector, r.action_na, r.obs_no, r.reward_n, r.flags_n, NULL, NULL, NULL,
                        &bad) == RML_OK);
}

int main(void) {
  test_what_is_declared();
  test_refusals();
  test_a_step_by_hand();
  test_health();
  test_reaching();
  test_resets();
  test_masks_and_saved_states();
  test_places();
  test_threads();
  test_a_vector_refuses_nan();
  return 0;
}
