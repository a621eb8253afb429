/* A vector of environments with automatic resets: the engine's half of Gymnasium's VectorEnv. */
#ifndef ROLLMILL_VECTOR_H
#define ROLLMILL_VECTOR_H

#include "env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rml_autoreset {
  RML_AUTORESET_NEXT_STEP = 0, /* a finished environment resets at the next step; its action is
                                  ignored there, reward 0, no flag */
  RML_AUTORESET_SAME_STEP = 1, /* it resets within the step; the last observation goes to final */
  RML_AUTORESET_DISABLED = 2   /* stepping a finished environment is refused */
} rml_autoreset;

/* The caller owns every buffer. */
typedef struct rml_vector {
  const rml_env *env;
  size_t n;
  int32_t autoreset;      /* rml_autoreset */
  int32_t reserved;       /* 0 */
  void *state;            /* n * state_size bytes, aligned to 64 */
  uint64_t *key_n;        /* set by the caller before a reset */
  uint32_t *id_n;
  uint32_t *episode_n;    /* set by the caller before a seeded reset, counted up by later resets */
  uint32_t *elapsed_n;
  uint8_t *done_n;        /* 1 where the episode is over and no reset has followed */
  uint8_t *mask_n;        /* scratch */
  double *return_n;       /* undiscounted return of the running episode */
} rml_vector;

/* Starts an episode where mask_n is NULL or not 0: elapsed, done and return become 0; obs_no is
 * written there alone. An environment that has begun an episode before (fresh_n NULL or 0 there)
 * moves to its next one; where fresh_n is 1 the episode stands as the caller set it. */
rml_status rml_vector_reset(rml_vector *vector, const uint8_t *mask_n, const uint8_t *fresh_n,
                            void *obs_no);

/* Steps all. DISCRETE actions must lie in the space, floats of BOX must be finite (its bounds are
 * the environment's affair). flags_n gets RML_TERMINATED | RML_TRUNCATED with the engine's step
 * limit in it.
 * SAME_STEP writes the last observation of each episode that ended to final_no (may be NULL).
 * end_return_n and end_length_n (may be NULL) are written where an episode ends.
 * EACTION or EINVAL (a finished environment where the mode does not reset it): nothing was
 * touched, and *bad (may be NULL) is the first offending environment, else n. EENV, here and in
 * reset, whatever the environment returned: the vector needs a reset of all its environments. */
rml_status rml_vector_step(rml_vector *vector, const void *action_na, void *obs_no,
                           double *reward_n, uint8_t *flags_n, void *final_no,
                           double *end_return_n, uint32_t *end_length_n, size_t *bad);

#ifdef __cplusplus
}
#endif
#endif
