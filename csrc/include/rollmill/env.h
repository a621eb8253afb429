/* The environment ABI: what a simulator in C gives so that every engine can run it.
 *
 * An environment is a const rml_env. Its functions work on a range of environments whose state
 * and outputs lie in buffers that the engine allocates; all that an episode depends on is the key,
 * the environment's id, the episode and the actions, so equal calls give equal bits whoever makes
 * them. They hold no other state and may be called from several threads on different batches. */
#ifndef ROLLMILL_ENV_H
#define ROLLMILL_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rml_dtype {
  RML_UINT8 = 1,
  RML_INT32 = 2,
  RML_INT64 = 3,
  RML_FLOAT32 = 4,
  RML_FLOAT64 = 5
} rml_dtype;

typedef enum rml_space_kind { RML_DISCRETE = 1, RML_BOX = 2 } rml_space_kind;

#define RML_SPACE_AXES 4

typedef struct rml_space {
  int32_t kind;                   /* rml_space_kind */
  int32_t dtype;                  /* rml_dtype: integers for DISCRETE, floats or uint8 for BOX */
  int64_t n;                      /* DISCRETE: values 0 .. n-1; BOX: elements in all */
  int32_t axes;                   /* BOX: 0 .. RML_SPACE_AXES */
  int64_t shape[RML_SPACE_AXES];  /* BOX: its product is n */
  const double *low, *high;       /* BOX: n bounds each; NULL is unbounded */
} rml_space;

/* What a step tells beside the reward. Both may be set in one step. */
enum { RML_TERMINATED = 1, RML_TRUNCATED = 2 };

/* One call on environments [begin, end) of n. Field f of a struct-of-arrays state may begin at
 * state + n * (bytes of the fields before it): n, not end - begin, is the stride. */
typedef struct rml_batch {
  size_t n, begin, end;
  const uint8_t *mask_n;       /* NULL, or: leave environment i alone where mask_n[i] is 0 */
  const uint64_t *key_n;       /* key of every random number */
  const uint32_t *id_n;        /* item of the environment's streams */
  const uint32_t *episode_n;   /* episode of the environment's streams */
  const uint32_t *elapsed_n;   /* steps taken in this episode before this call; 0 in reset */
  void *state;                 /* n * state_size bytes, aligned to 64 */
  const void *action_na;       /* n actions of the action space's dtype; NULL in reset */
  void *obs_no;                /* n observations of the observation space's dtype, written */
  double *reward_n;            /* written by step; NULL in reset */
  uint8_t *flags_n;            /* written by step: RML_TERMINATED | RML_TRUNCATED; NULL in reset */
} rml_batch;

typedef struct rml_env rml_env;
struct rml_env {
  uint32_t abi_version; /* RML_ABI_VERSION of the header that the environment was built with */
  uint32_t struct_size; /* sizeof(rml_env) there */
  const char *name;
  rml_space observation, action;
  uint32_t max_episode_steps; /* the engine truncates there, beside what step says; 0: never */
  uint32_t reserved;          /* 0 */
  size_t state_size;          /* bytes of state an environment */
  const void *context;        /* parameters and layouts that all environments share */
  /* Start an episode: write state and obs_no. */
  rml_status (*reset)(const rml_env *env, const rml_batch *batch);
  /* Act: write state, obs_no, reward_n, flags_n. The caller has checked DISCRETE actions. */
  rml_status (*step)(const rml_env *env, const rml_batch *batch);
  /* Optional, NULL if absent. */
  /* mask_na[i*A + a] = 1 where action a of DISCRETE(A) is allowed in environment i, else 0: a
   * policy takes no action that is not. obs_no holds the last observation; action_na, reward_n
   * and flags_n are not to be read. */
  rml_status (*mask)(const rml_env *env, const rml_batch *batch, uint8_t *mask_na);
  /* Text picture of environment `begin`: up to `size` bytes with a final 0; *length gets the
   * bytes that the whole picture takes with its final 0. */
  rml_status (*render)(const rml_env *env, const rml_batch *batch, char *text, size_t size,
                       size_t *length);
  /* Environment `begin` to and from state_size bytes. */
  rml_status (*save)(const rml_env *env, const rml_batch *batch, void *bytes);
  rml_status (*load)(const rml_env *env, const rml_batch *batch, const void *bytes);
};

/* A shared library or extension gives an environment by a function of this type. */
typedef const rml_env *(*rml_env_factory)(void);

/* RML_OK if an engine can run the environment. Otherwise EABI or EINVAL, and *why, if not NULL,
 * points to a constant sentence that names the field. */
rml_status rml_env_check(const rml_env *env, const char **why);

/* Bytes of one element of a dtype; 0 for a number that is none. */
size_t rml_dtype_size(int32_t dtype);

/* Bytes of one observation or action of a space. */
size_t rml_space_size(const rml_space *space);

#ifdef __cplusplus
}
#endif
#endif
