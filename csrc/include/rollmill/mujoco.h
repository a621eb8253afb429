/* Gymnasium's MuJoCo tasks as environments.
 *
 * The library is whichever libmujoco the process has loaded: its functions and its arrays come as
 * addresses, taken at run time, so that nothing here knows its headers or the layout of its
 * structs. An environment's state is a row of mj_getState and one number more; an mjData is
 * borrowed for the length of a call, so that as many as there are threads do for any number of
 * environments. */
#ifndef ROLLMILL_MUJOCO_H
#define ROLLMILL_MUJOCO_H

#include "env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rml_mujoco_task {
  RML_MUJOCO_SWIMMER,
  RML_MUJOCO_HALF_CHEETAH,
  RML_MUJOCO_HOPPER,
  RML_MUJOCO_WALKER2D,
  RML_MUJOCO_ANT,
  RML_MUJOCO_HUMANOID,
  RML_MUJOCO_HUMANOID_STANDUP,
  RML_MUJOCO_REACHER,
  RML_MUJOCO_PUSHER,
  RML_MUJOCO_PENDULUM,
  RML_MUJOCO_DOUBLE_PENDULUM,
  RML_MUJOCO_TASKS
} rml_mujoco_task;

/* Arrays of an mjData that tasks read or write, all of doubles. */
typedef enum rml_mujoco_array {
  RML_MUJOCO_QPOS,
  RML_MUJOCO_QVEL,
  RML_MUJOCO_CTRL,
  RML_MUJOCO_XPOS,      /* 3 a body */
  RML_MUJOCO_XIPOS,     /* 3 a body */
  RML_MUJOCO_SITE_XPOS, /* 3 a site */
  RML_MUJOCO_CINERT,
  RML_MUJOCO_CVEL,
  RML_MUJOCO_QFRC_ACTUATOR,
  RML_MUJOCO_QFRC_CONSTRAINT,
  RML_MUJOCO_CFRC_EXT, /* that of mj_rnePostConstraint after a step, 0 after a reset */
  RML_MUJOCO_ARRAYS
} rml_mujoco_array;

/* One mjData and its arrays. */
typedef struct rml_mujoco_data {
  void *data;
  double *array_a[RML_MUJOCO_ARRAYS];
  uint32_t taken; /* 0 at first; then this library's own */
} rml_mujoco_data;

/* A model, its library's functions and as many mjData of it as may be stepped at once. Shared by
 * any number of environments and threads; a call that finds all of them taken waits for one. */
typedef struct rml_simulator {
  const void *model;
  void (*step)(const void *model, void *data);            /* mj_step */
  void (*forward)(const void *model, void *data);         /* mj_forward */
  void (*reset)(const void *model, void *data);           /* mj_resetData */
  void (*post_constraint)(const void *model, void *data); /* mj_rnePostConstraint */
  void (*get_state)(const void *model, const void *data, double *state, int signature);
  void (*set_state)(const void *model, void *data, const double *state, int signature);
  int signature;                     /* mjSTATE_INTEGRATION */
  size_t state_length;               /* mj_stateSize(model, signature), in doubles */
  size_t size_a[RML_MUJOCO_ARRAYS];  /* doubles in each array */
  rml_mujoco_data *data_k;
  size_t k;
} rml_simulator;

typedef enum rml_mujoco_map {
  RML_MUJOCO_COPY,
  RML_MUJOCO_CLIP,      /* into [low, high] */
  RML_MUJOCO_COS,
  RML_MUJOCO_SIN,
  RML_MUJOCO_DIFFERENCE /* less the elements from `minus` on */
} rml_mujoco_map;

/* Elements [first, first + count) of an array, as they enter an observation. */
typedef struct rml_mujoco_segment {
  int32_t array, map;
  size_t first, count, minus;
  double low, high;
} rml_mujoco_segment;

#define RML_MUJOCO_SEGMENTS 8
#define RML_MUJOCO_BODIES 3

/* What a task is made of. Names are those of Gymnasium's arguments; what a task does not have is
 * not read. */
typedef struct rml_mujoco {
  rml_simulator *simulator;
  const char *name;
  int32_t task;    /* rml_mujoco_task */
  int32_t version; /* 4 or 5 */
  uint32_t max_episode_steps;
  uint32_t frame_skip;
  rml_mujoco_segment segment_k[RML_MUJOCO_SEGMENTS]; /* the observation */
  size_t segments;
  const double *init_qpos, *init_qvel;
  const double *action_low, *action_high;
  const double *body_mass; /* HUMANOID: one a body */
  double total_mass;       /* HUMANOID */
  double timestep, dt;     /* of mj_step and of a step */
  /* ANT: main body. REACHER: fingertip, target. PUSHER: object, tips_arm, goal. */
  size_t body_3[RML_MUJOCO_BODIES];
  double forward_reward_weight, ctrl_cost_weight, contact_cost_weight, healthy_reward;
  double reward_near_weight, reward_dist_weight; /* ctrl_cost_weight: their control weight too */
  double healthy_z_2[2], healthy_angle_2[2], healthy_state_2[2];
  double contact_force_2[2], contact_cost_2[2];
  double reset_noise_scale;
  int32_t terminate_when_unhealthy;
  int32_t contact_cost; /* ANT, HUMANOID: the reward has the term */
  /* Set by init. */
  int32_t needs_forces; /* cfrc_ext is read */
  double two;           /* 2, where no compiler sees it */
} rml_mujoco;

/* Checks what the caller has filled in, and fills env, which points into mujoco; mujoco, its
 * simulator and all they point to must outlive it. Observations are BOX float64, actions BOX
 * float32 within the bounds given, handed on as they are (the model clamps). EINVAL, with *why
 * (may be NULL) a constant sentence, if the task cannot run on the model.
 *
 * A reset calls mj_resetData, sets qpos and qvel and calls mj_forward, as Gymnasium does. Their
 * noise has Gymnasium's distributions and not its numbers: of stream RML_STREAM_ENV_RESET, uniform
 * number j is made of words 2*(j%2) and 2*(j%2)+1 of block 2^32 + j/2, as (w0>>5)*2^26 + (w1>>6)
 * over 2^53, for qpos first, then qvel, then the goals of REACHER and PUSHER as long as they are
 * refused; normals are float32, numbers 0 .. of rml_normal_fill.
 *
 * All arithmetic of rewards follows NumPy: control costs of actions in float32, sums pairwise. */
rml_status rml_mujoco_init(rml_mujoco *mujoco, rml_env *env, const char **why);

/* Starts environment `begin` of a batch at qpos and qvel, as a reset does whose noise gave these:
 * writes its state and its observation. EINVAL if env is not of rml_mujoco_init. */
rml_status rml_mujoco_place(const rml_env *env, const rml_batch *batch, const double *qpos,
                            const double *qvel);

/* Where environment `begin` of a batch is. EINVAL as above. */
rml_status rml_mujoco_read(double *qpos, double *qvel, const rml_env *env, const rml_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
