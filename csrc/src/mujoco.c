#include "rollmill/mujoco.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "rollmill/rng.h"

#define UNIFORMS ((uint64_t)1 << 32) /* first block of uniform draws; normals lie below */

/* ---- the mjData ---- */

/* The first one that is free. Those who hold one wait for nothing, so that the wait ends. */
static rml_mujoco_data *borrow(const rml_simulator *simulator) {
  for (;;) {
    for (size_t k = 0; k < simulator->k; k++) {
      rml_mujoco_data *data = simulator->data_k + k;
      if (!__atomic_load_n(&data->taken, __ATOMIC_RELAXED) &&
          !__atomic_exchange_n(&data->taken, 1, __ATOMIC_ACQUIRE))
        return data;
    }
    sched_yield();
  }
}

static void give_back(rml_mujoco_data *data) {
  __atomic_store_n(&data->taken, 0, __ATOMIC_RELEASE);
}

/* ---- arithmetic, in the order of NumPy ---- */

static double clip(double x, double low, double high) {
  return x < low ? low : x > high ? high : x; /* NaN stays */
}

/* np.sum(np.square(np.clip(x, low, high))): eight sums side by side up to 128 elements, halves
 * beyond. */
static double sum_of_squares(const double *x, size_t n, double low, double high) {
  if (n > 128) {
    size_t half = n / 2 - n / 2 % 8;
    return sum_of_squares(x, half, low, high) + sum_of_squares(x + half, n - half, low, high);
  }
  double part_8[8], sum = -0.0;
  size_t i = 0;
  if (n >= 8) {
    for (size_t k = 0; k < 8; k++) part_8[k] = 0.0;
    for (; i < n - n % 8; i += 8)
      for (size_t k = 0; k < 8; k++) {
        const double y = clip(x[i + k], low, high);
        part_8[k] += y * y;
      }
    sum = ((part_8[0] + part_8[1]) + (part_8[2] + part_8[3])) +
          ((part_8[4] + part_8[5]) + (part_8[6] + part_8[7]));
  }
  for (; i < n; i++) {
    const double y = clip(x[i], low, high);
    sum += y * y;
  }
  return sum;
}

/* The same in float32, without bounds. */
static float sum_of_squares_f32(const float *x, size_t n) {
  if (n > 128) {
    size_t half = n / 2 - n / 2 % 8;
    return sum_of_squares_f32(x, half) + sum_of_squares_f32(x + half, n - half);
  }
  float part_8[8], sum = -0.0f;
  size_t i = 0;
  if (n >= 8) {
    for (size_t k = 0; k < 8; k++) part_8[k] = 0.0f;
    for (; i < n - n % 8; i += 8)
      for (size_t k = 0; k < 8; k++) part_8[k] += x[i + k] * x[i + k];
    sum = ((part_8[0] + part_8[1]) + (part_8[2] + part_8[3])) +
          ((part_8[4] + part_8[5]) + (part_8[6] + part_8[7]));
  }
  for (; i < n; i++) sum += x[i] * x[i];
  return sum;
}

/* np.linalg.norm of the way from body b to body a. */
static double distance(const double *xpos, size_t a, size_t b) {
  double sum = 0.0;
  for (size_t j = 0; j < 3; j++) {
    const double d = xpos[3 * a + j] - xpos[3 * b + j];
    sum += d * d;
  }
  return sqrt(sum);
}

static int all_finite(const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return 0;
  return 1;
}

static int all_within(const double *x, size_t n, const double bound_2[2]) {
  for (size_t i = 0; i < n; i++)
    if (!(bound_2[0] < x[i] && x[i] < bound_2[1])) return 0;
  return 1;
}

/* ---- a task ---- */

static void observe(const rml_mujoco *mujoco, const rml_mujoco_data *data, double *obs_o) {
  for (size_t k = 0; k < mujoco->segments; k++) {
    const rml_mujoco_segment *segment = mujoco->segment_k + k;
    const double *array = data->array_a[segment->array], *from = array + segment->first;
    const size_t count = segment->count;
    switch (segment->map) {
      case RML_MUJOCO_COPY: memcpy(obs_o, from, count * sizeof(double)); break;
      case RML_MUJOCO_CLIP:
        for (size_t i = 0; i < count; i++) obs_o[i] = clip(from[i], segment->low, segment->high);
        break;
      case RML_MUJOCO_COS:
        for (size_t i = 0; i < count; i++) obs_o[i] = cos(from[i]);
        break;
      case RML_MUJOCO_SIN:
        for (size_t i = 0; i < count; i++) obs_o[i] = sin(from[i]);
        break;
      default:
        for (size_t i = 0; i < count; i++) obs_o[i] = from[i] - array[segment->minus + i];
    }
    obs_o += count;
  }
}

/* What a step's reward needs of the moment before it: how far along x the task has come, or the
 * distance to the target. Gymnasium reads it from arrays that no one function of the state gives
 * (they lag behind qpos), so it is kept beside the state. */
static double measure(const rml_mujoco *mujoco, const rml_mujoco_data *data) {
  const double *xpos = data->array_a[RML_MUJOCO_XPOS];
  switch (mujoco->task) {
    case RML_MUJOCO_SWIMMER:
    case RML_MUJOCO_HALF_CHEETAH:
    case RML_MUJOCO_HOPPER:
    case RML_MUJOCO_WALKER2D: return data->array_a[RML_MUJOCO_QPOS][0];
    case RML_MUJOCO_ANT: return xpos[3 * mujoco->body_3[0]];
    case RML_MUJOCO_HUMANOID: {
      const double *xipos = data->array_a[RML_MUJOCO_XIPOS];
      const size_t bodies = mujoco->simulator->size_a[RML_MUJOCO_XIPOS] / 3;
      double sum = 0.0;
      for (size_t b = 0; b < bodies; b++) sum += mujoco->body_mass[b] * xipos[3 * b];
      return sum / mujoco->total_mass;
    }
    case RML_MUJOCO_REACHER: return distance(xpos, mujoco->body_3[0], mujoco->body_3[1]);
    default: return 0.0;
  }
}

static int is_healthy(const rml_mujoco *mujoco, const rml_mujoco_data *data) {
  const double *qpos = data->array_a[RML_MUJOCO_QPOS], *qvel = data->array_a[RML_MUJOCO_QVEL];
  const size_t nq = mujoco->simulator->size_a[RML_MUJOCO_QPOS];
  const size_t nv = mujoco->simulator->size_a[RML_MUJOCO_QVEL];
  const double *z_2 = mujoco->healthy_z_2;
  switch (mujoco->task) {
    case RML_MUJOCO_HOPPER:
      if (!all_within(qpos + 2, nq - 2, mujoco->healthy_state_2) ||
          !all_within(qvel, nv, mujoco->healthy_state_2))
        return 0;
      return all_within(qpos + 1, 1, z_2) && all_within(qpos + 2, 1, mujoco->healthy_angle_2);
    case RML_MUJOCO_WALKER2D:
      return all_within(qpos + 1, 1, z_2) && all_within(qpos + 2, 1, mujoco->healthy_angle_2);
    case RML_MUJOCO_ANT:
      return all_finite(qpos, nq) && all_finite(qvel, nv) && z_2[0] <= qpos[2] && qpos[2] <= z_2[1];
    case RML_MUJOCO_HUMANOID: return all_within(qpos + 2, 1, z_2);
    default: return 1;
  }
}

/* The reward of tasks that run along x. */
static double running_reward(const rml_mujoco *mujoco, const rml_mujoco_data *data,
                             const float *action_a, double velocity, int healthy) {
  const size_t *size_a = mujoco->simulator->size_a;
  const double forward = mujoco->forward_reward_weight * velocity;
  double costs;
  if (mujoco->task == RML_MUJOCO_HUMANOID) {
    costs = mujoco->ctrl_cost_weight * sum_of_squares(data->array_a[RML_MUJOCO_CTRL],
                                                      size_a[RML_MUJOCO_CTRL], -INFINITY, INFINITY);
  } else {
    const float squares = sum_of_squares_f32(action_a, size_a[RML_MUJOCO_CTRL]);
    costs = (float)mujoco->ctrl_cost_weight * squares;
  }
  if (mujoco->contact_cost) {
    const int ant = mujoco->task == RML_MUJOCO_ANT;
    const double squares = sum_of_squares(
        data->array_a[RML_MUJOCO_CFRC_EXT], size_a[RML_MUJOCO_CFRC_EXT],
        ant ? mujoco->contact_force_2[0] : -INFINITY, ant ? mujoco->contact_force_2[1] : INFINITY);
    const double cost = mujoco->contact_cost_weight * squares;
    costs += ant ? cost : clip(cost, mujoco->contact_cost_2[0], mujoco->contact_cost_2[1]);
  }
  if (mujoco->task == RML_MUJOCO_SWIMMER || mujoco->task == RML_MUJOCO_HALF_CHEETAH)
    return forward - costs;
  const int rewarded = healthy || (mujoco->version == 4 && mujoco->terminate_when_unhealthy);
  return (forward + (rewarded ? mujoco->healthy_reward : 0.0)) - costs;
}

static double standup_reward(const rml_mujoco *mujoco, const rml_mujoco_data *data) {
  const size_t *size_a = mujoco->simulator->size_a;
  const double up = data->array_a[RML_MUJOCO_QPOS][2] / mujoco->timestep;
  const double control =
      mujoco->ctrl_cost_weight * sum_of_squares(data->array_a[RML_MUJOCO_CTRL],
                                                size_a[RML_MUJOCO_CTRL], -INFINITY, INFINITY);
  const double impact =
      mujoco->contact_cost_weight * sum_of_squares(data->array_a[RML_MUJOCO_CFRC_EXT],
                                                   size_a[RML_MUJOCO_CFRC_EXT], -INFINITY,
                                                   INFINITY);
  return up - control - clip(impact, mujoco->contact_cost_2[0], mujoco->contact_cost_2[1]) + 1.0;
}

static double double_pendulum_reward(const rml_mujoco *mujoco, const rml_mujoco_data *data,
                                     int fallen) {
  const double *tip = data->array_a[RML_MUJOCO_SITE_XPOS];
  const double *qvel = data->array_a[RML_MUJOCO_QVEL];
  /* NumPy's scalars take powers by pow, which is not always the nearest number. */
  const double two = mujoco->two;
  const double away = 0.01 * pow(tip[0], two) + pow(tip[2] - 2.0, two);
  const double fast = 0.001 * pow(qvel[1], two) + 0.005 * pow(qvel[2], two);
  const double alive = mujoco->version == 5 && fallen ? 0.0 : mujoco->healthy_reward;
  return alive - away - fast;
}

static void judge(const rml_mujoco *mujoco, const rml_mujoco_data *data, const float *action_a,
                  double before, double after, double *reward, uint8_t *flags) {
  const size_t *size_a = mujoco->simulator->size_a;
  const double *qpos = data->array_a[RML_MUJOCO_QPOS], *qvel = data->array_a[RML_MUJOCO_QVEL];
  const double *xpos = data->array_a[RML_MUJOCO_XPOS];
  const size_t *body_3 = mujoco->body_3;
  int over = 0;
  switch (mujoco->task) {
    case RML_MUJOCO_HUMANOID_STANDUP: *reward = standup_reward(mujoco, data); break;
    case RML_MUJOCO_REACHER: {
      const double far = mujoco->version == 4 ? before : after;
      const float squares = sum_of_squares_f32(action_a, size_a[RML_MUJOCO_CTRL]);
      const float control = -squares * (float)mujoco->ctrl_cost_weight;
      *reward = -far * mujoco->reward_dist_weight + control;
      break;
    }
    case RML_MUJOCO_PUSHER: {
      const double near = -distance(xpos, body_3[0], body_3[1]) * mujoco->reward_near_weight;
      const double far = -distance(xpos, body_3[0], body_3[2]) * mujoco->reward_dist_weight;
      const float squares = sum_of_squares_f32(action_a, size_a[RML_MUJOCO_CTRL]);
      const float control = -squares * (float)mujoco->ctrl_cost_weight;
      *reward = far + control + near;
      break;
    }
    case RML_MUJOCO_PENDULUM:
      over = !all_finite(qpos, size_a[RML_MUJOCO_QPOS]) ||
             !all_finite(qvel, size_a[RML_MUJOCO_QVEL]) || fabs(qpos[1]) > 0.2;
      *reward = mujoco->version == 5 && over ? 0.0 : 1.0;
      break;
    case RML_MUJOCO_DOUBLE_PENDULUM:
      over = data->array_a[RML_MUJOCO_SITE_XPOS][2] <= 1.0;
      *reward = double_pendulum_reward(mujoco, data, over);
      break;
    default: {
      const int healthy = is_healthy(mujoco, data);
      over = !healthy && mujoco->terminate_when_unhealthy;
      *reward = running_reward(mujoco, data, action_a, (after - before) / mujoco->dt, healthy);
    }
  }
  *flags = over ? RML_TERMINATED : 0;
}

/* ---- resets ---- */

typedef struct draws {
  uint64_t key;
  uint32_t id, episode, used;
  uint32_t word_4[4];
} draws;

static double uniform(draws *d, double low, double high) {
  if (d->used % 2 == 0)
    rml_rng_block(d->word_4, d->key, RML_STREAM_ENV_RESET, d->id, d->episode,
                  UNIFORMS + d->used / 2);
  const uint32_t *word_2 = d->word_4 + 2 * (d->used % 2);
  d->used++;
  const double unit = ((word_2[0] >> 5) * 0x1p26 + (word_2[1] >> 6)) * 0x1p-53;
  return low + (high - low) * unit;
}

static void add_uniforms(double *x, size_t n, draws *d, double scale) {
  for (size_t i = 0; i < n; i++) x[i] += uniform(d, -scale, scale);
}

static void add_normals(double *x, size_t n, const draws *d, double scale) {
  float normal_64[64];
  for (size_t i = 0; i < n; i++) {
    if (i % 64 == 0)
      rml_normal_fill(normal_64, 64, d->key, RML_STREAM_ENV_RESET, d->id, d->episode, i,
                      RML_ISA_BASE);
    x[i] += scale * (double)normal_64[i % 64];
  }
}

static void draw_start(const rml_mujoco *mujoco, const rml_mujoco_data *data, draws d) {
  double *qpos = data->array_a[RML_MUJOCO_QPOS], *qvel = data->array_a[RML_MUJOCO_QVEL];
  const size_t nq = mujoco->simulator->size_a[RML_MUJOCO_QPOS];
  const size_t nv = mujoco->simulator->size_a[RML_MUJOCO_QVEL];
  const double scale = mujoco->reset_noise_scale;
  memcpy(qpos, mujoco->init_qpos, nq * sizeof(double));
  memcpy(qvel, mujoco->init_qvel, nv * sizeof(double));
  switch (mujoco->task) {
    case RML_MUJOCO_REACHER: {
      double *goal = qpos + nq - 2;
      add_uniforms(qpos, nq, &d, 0.1);
      add_uniforms(qvel, nv, &d, 0.005);
      do {
        goal[0] = uniform(&d, -0.2, 0.2);
        goal[1] = uniform(&d, -0.2, 0.2);
      } while (!(sqrt(goal[0] * goal[0] + goal[1] * goal[1]) < 0.2));
      qvel[nv - 2] = qvel[nv - 1] = 0.0;
      break;
    }
    case RML_MUJOCO_PUSHER: {
      double *object = qpos + nq - 4;
      add_uniforms(qvel, nv, &d, 0.005);
      do {
        object[0] = uniform(&d, -0.3, 0.0);
        object[1] = uniform(&d, -0.2, 0.2);
      } while (!(sqrt(object[0] * object[0] + object[1] * object[1]) > 0.17));
      object[2] = object[3] = 0.0; /* the goal */
      for (size_t i = nv - 4; i < nv; i++) qvel[i] = 0.0;
      break;
    }
    case RML_MUJOCO_HALF_CHEETAH:
    case RML_MUJOCO_ANT:
    case RML_MUJOCO_DOUBLE_PENDULUM:
      add_uniforms(qpos, nq, &d, scale);
      add_normals(qvel, nv, &d, scale);
      break;
    default:
      add_uniforms(qpos, nq, &d, scale);
      add_uniforms(qvel, nv, &d, scale);
  }
}

/* ---- the environment ---- */

static double *row_of(const rml_env *env, const rml_batch *batch, size_t i) {
  return (double *)((char *)batch->state + i * env->state_size);
}

/* Writes state and observation of environment i, which is where its qpos and qvel say. */
static void begin(const rml_env *env, const rml_batch *batch, size_t i, rml_mujoco_data *data) {
  const rml_mujoco *mujoco = env->context;
  const rml_simulator *simulator = mujoco->simulator;
  double *row = row_of(env, batch, i);
  simulator->forward(simulator->model, data->data);
  observe(mujoco, data, (double *)batch->obs_no + i * (size_t)env->observation.n);
  simulator->get_state(simulator->model, data->data, row, simulator->signature);
  row[simulator->state_length] = measure(mujoco, data);
}

static rml_status mujoco_reset(const rml_env *env, const rml_batch *batch) {
  const rml_mujoco *mujoco = env->context;
  const rml_simulator *simulator = mujoco->simulator;
  rml_mujoco_data *data = borrow(simulator);
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    simulator->reset(simulator->model, data->data);
    draw_start(mujoco, data,
               (draws){.key = batch->key_n[i], .id = batch->id_n[i],
                       .episode = batch->episode_n[i]});
    begin(env, batch, i, data);
  }
  give_back(data);
  return RML_OK;
}

static rml_status mujoco_step(const rml_env *env, const rml_batch *batch) {
  const rml_mujoco *mujoco = env->context;
  const rml_simulator *simulator = mujoco->simulator;
  const void *model = simulator->model;
  const size_t actions = simulator->size_a[RML_MUJOCO_CTRL], state_length = simulator->state_length;
  rml_mujoco_data *data = borrow(simulator);
  double *ctrl = data->array_a[RML_MUJOCO_CTRL];
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    const float *action_a = (const float *)batch->action_na + i * actions;
    double *row = row_of(env, batch, i);
    const double before = row[state_length];
    simulator->set_state(model, data->data, row, simulator->signature);
    for (size_t k = 0; k < actions; k++) ctrl[k] = action_a[k];
    for (uint32_t k = 0; k < mujoco->frame_skip; k++) simulator->step(model, data->data);
    if (mujoco->needs_forces) simulator->post_constraint(model, data->data);
    observe(mujoco, data, (double *)batch->obs_no + i * (size_t)env->observation.n);
    const double after = measure(mujoco, data);
    judge(mujoco, data, action_a, before, after, batch->reward_n + i, batch->flags_n + i);
    simulator->get_state(model, data->data, row, simulator->signature);
    row[state_length] = after;
  }
  give_back(data);
  return RML_OK;
}

static rml_status mujoco_save(const rml_env *env, const rml_batch *batch, void *bytes) {
  memcpy(bytes, row_of(env, batch, batch->begin), env->state_size);
  return RML_OK;
}

static rml_status mujoco_load(const rml_env *env, const rml_batch *batch, const void *bytes) {
  memcpy(row_of(env, batch, batch->begin), bytes, env->state_size);
  return RML_OK;
}

rml_status rml_mujoco_place(const rml_env *env, const rml_batch *batch, const double *qpos,
                            const double *qvel) {
  if (!env || env->step != mujoco_step) return RML_EINVAL;
  const rml_simulator *simulator = ((const rml_mujoco *)env->context)->simulator;
  rml_mujoco_data *data = borrow(simulator);
  simulator->reset(simulator->model, data->data);
  memcpy(data->array_a[RML_MUJOCO_QPOS], qpos,
         simulator->size_a[RML_MUJOCO_QPOS] * sizeof(double));
  memcpy(data->array_a[RML_MUJOCO_QVEL], qvel,
         simulator->size_a[RML_MUJOCO_QVEL] * sizeof(double));
  begin(env, batch, batch->begin, data);
  give_back(data);
  return RML_OK;
}

rml_status rml_mujoco_read(double *qpos, double *qvel, const rml_env *env, const rml_batch *batch) {
  if (!env || env->step != mujoco_step) return RML_EINVAL;
  const rml_simulator *simulator = ((const rml_mujoco *)env->context)->simulator;
  rml_mujoco_data *data = borrow(simulator);
  simulator->set_state(simulator->model, data->data, row_of(env, batch, batch->begin),
                       simulator->signature);
  memcpy(qpos, data->array_a[RML_MUJOCO_QPOS],
         simulator->size_a[RML_MUJOCO_QPOS] * sizeof(double));
  memcpy(qvel, data->array_a[RML_MUJOCO_QVEL],
         simulator->size_a[RML_MUJOCO_QVEL] * sizeof(double));
  give_back(data);
  return RML_OK;
}

/* ---- checks ---- */

static const char *simulator_fault(const rml_simulator *simulator) {
  if (!simulator || !simulator->model) return "the simulator has no model";
  if (!simulator->step || !simulator->forward || !simulator->reset ||
      !simulator->post_constraint || !simulator->get_state || !simulator->set_state)
    return "the simulator lacks a function";
  if (!simulator->state_length) return "the simulator's state is empty";
  if (!simulator->k || !simulator->data_k) return "the simulator has no data";
  for (size_t k = 0; k < simulator->k; k++) {
    if (!simulator->data_k[k].data) return "the simulator has no data";
    for (int a = 0; a < RML_MUJOCO_ARRAYS; a++)
      if (simulator->size_a[a] && !simulator->data_k[k].array_a[a])
        return "the simulator's data lack an array";
  }
  return NULL;
}

/* What a task reads at fixed places. */
static const char *size_fault(const rml_mujoco *mujoco) {
  static const struct {
    uint8_t nq, nv, bodies, sites;
  } least_t[RML_MUJOCO_TASKS] = {
      [RML_MUJOCO_SWIMMER] = {1, 0, 0, 0},          [RML_MUJOCO_HALF_CHEETAH] = {1, 0, 0, 0},
      [RML_MUJOCO_HOPPER] = {3, 0, 0, 0},           [RML_MUJOCO_WALKER2D] = {3, 0, 0, 0},
      [RML_MUJOCO_ANT] = {3, 0, 1, 0},              [RML_MUJOCO_HUMANOID] = {3, 0, 0, 0},
      [RML_MUJOCO_HUMANOID_STANDUP] = {3, 0, 0, 0}, [RML_MUJOCO_REACHER] = {2, 2, 2, 0},
      [RML_MUJOCO_PUSHER] = {4, 4, 3, 0},           [RML_MUJOCO_PENDULUM] = {2, 0, 0, 0},
      [RML_MUJOCO_DOUBLE_PENDULUM] = {1, 3, 0, 1},
  };
  const size_t *size_a = mujoco->simulator->size_a;
  if (size_a[RML_MUJOCO_QPOS] < least_t[mujoco->task].nq ||
      size_a[RML_MUJOCO_QVEL] < least_t[mujoco->task].nv)
    return "the model has too few joints for the task";
  if (size_a[RML_MUJOCO_SITE_XPOS] < 3u * least_t[mujoco->task].sites)
    return "the model has too few sites for the task";
  for (size_t k = 0; k < least_t[mujoco->task].bodies; k++)
    if (mujoco->body_3[k] >= size_a[RML_MUJOCO_XPOS] / 3)
      return "the model lacks a body of the task";
  if (!size_a[RML_MUJOCO_CTRL]) return "the model has no actuators";
  return NULL;
}

static const char *segment_fault(const rml_mujoco *mujoco, const rml_mujoco_segment *segment) {
  if (segment->array < 0 || segment->array >= RML_MUJOCO_ARRAYS)
    return "an observation is of no known array";
  const size_t size = mujoco->simulator->size_a[segment->array];
  if (segment->map < RML_MUJOCO_COPY || segment->map > RML_MUJOCO_DIFFERENCE)
    return "an observation's map is unknown";
  if (segment->first > size || segment->count > size - segment->first)
    return "an observation lies outside its array";
  if (segment->map == RML_MUJOCO_DIFFERENCE &&
      (segment->minus > size || segment->count > size - segment->minus))
    return "an observation lies outside its array";
  if (segment->map == RML_MUJOCO_CLIP && !(segment->low <= segment->high))
    return "an observation's bounds are not in order";
  return NULL;
}

static const char *task_fault(const rml_mujoco *mujoco) {
  const char *why = simulator_fault(mujoco->simulator);
  if (why) return why;
  if (mujoco->task < 0 || mujoco->task >= RML_MUJOCO_TASKS) return "the task is unknown";
  if (mujoco->version != 4 && mujoco->version != 5) return "the version must be 4 or 5";
  if (mujoco->frame_skip < 1) return "frame_skip must be at least 1";
  if (!(mujoco->timestep > 0 && mujoco->dt > 0)) return "the timestep must be positive";
  why = size_fault(mujoco);
  if (why) return why;
  if (!mujoco->init_qpos || !mujoco->init_qvel) return "init_qpos and init_qvel must be given";
  if (!mujoco->action_low || !mujoco->action_high) return "the action's bounds must be given";
  if (mujoco->task == RML_MUJOCO_HUMANOID && !(mujoco->body_mass && mujoco->total_mass > 0))
    return "the model's masses must be given and positive";
  if (mujoco->segments < 1 || mujoco->segments > RML_MUJOCO_SEGMENTS)
    return "the observation must have 1 to 8 parts";
  for (size_t k = 0; k < mujoco->segments && !why; k++)
    why = segment_fault(mujoco, mujoco->segment_k + k);
  return why;
}

rml_status rml_mujoco_init(rml_mujoco *mujoco, rml_env *env, const char **why) {
  const char *fault = task_fault(mujoco);
  if (why) *why = fault;
  if (fault) return RML_EINVAL;
  size_t o = 0;
  mujoco->two = 2.0;
  mujoco->needs_forces = mujoco->task == RML_MUJOCO_HUMANOID_STANDUP || mujoco->contact_cost;
  for (size_t k = 0; k < mujoco->segments; k++) {
    o += mujoco->segment_k[k].count;
    if (mujoco->segment_k[k].array == RML_MUJOCO_CFRC_EXT) mujoco->needs_forces = 1;
  }
  const size_t a = mujoco->simulator->size_a[RML_MUJOCO_CTRL];
  *env = (rml_env){
      .abi_version = RML_ABI_VERSION,
      .struct_size = sizeof(rml_env),
      .name = mujoco->name,
      .observation = {.kind = RML_BOX, .dtype = RML_FLOAT64, .n = (int64_t)o, .axes = 1,
                      .shape = {(int64_t)o}},
      .action = {.kind = RML_BOX, .dtype = RML_FLOAT32, .n = (int64_t)a, .axes = 1,
                 .shape = {(int64_t)a}, .low = mujoco->action_low, .high = mujoco->action_high},
      .max_episode_steps = mujoco->max_episode_steps,
      .state_size = (mujoco->simulator->state_length + 1) * sizeof(double),
      .context = mujoco,
      .reset = mujoco_reset,
      .step = mujoco_step,
      .save = mujoco_save,
      .load = mujoco_load,
  };
  return rml_env_check(env, why);
}
