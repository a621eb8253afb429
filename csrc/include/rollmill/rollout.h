/* Work units: mirrored episodes of perturbed policies, and noiseless evaluation episodes. */
#ifndef ROLLMILL_ROLLOUT_H
#define ROLLMILL_ROLLOUT_H

#include "env.h"
#include "noise.h"
#include "policy.h"
#include "stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All that an episode is a function of, beside the parameters and the indices. */
typedef struct rml_rollout {
  const rml_env *env;
  const rml_policy *policy;
  const rml_noise *noise;
  const double *mean_o, *scale_o; /* frozen filter of BOX observations; NULL: none */
  const int *stop;                /* polled each step: non-zero ends the call; may be NULL */
  uint64_t key;                   /* the seed */
  double gamma;                   /* discount of the fitness, in [0, 1] */
  double reward_offset;           /* taken from each reward in the fitness of training episodes */
  float noise_stdev;              /* > 0 */
  float action_noise_stdev;       /* >= 0: normal noise on BOX actions of training episodes */
  uint32_t iteration;
  uint32_t max_episode_steps;     /* truncate there too, beside the environment's own; 0: no */
  int32_t sample;                 /* 0: arg-max, 1: sampled softmax (training episodes) */
  int32_t isa;                    /* rml_isa */
  int32_t filter;                 /* 1: gather statistics of BOX observations */
} rml_rollout;

/* What one pair gives. Element 0 is theta + stdev*noise, element 1 is theta - stdev*noise. */
typedef struct rml_pair {
  uint64_t noise_index;
  double return_2[2];  /* undiscounted */
  double fitness_2[2]; /* discounted by gamma, less reward_offset a step */
  uint32_t length_2[2];
  uint32_t pair;
  int32_t status; /* RML_OK, or why the pair is dropped: RML_ENONFINITE, RML_EENV */
} rml_pair;

typedef struct rml_episode {
  double return_sum, fitness;
  uint32_t length;
  int32_t flags; /* RML_TERMINATED | RML_TRUNCATED */
  int32_t status;
  uint32_t episode;
} rml_episode;

/* Bytes of scratch, aligned to 64, for the functions below; 0 if the rollout is invalid. */
size_t rml_rollout_scratch(const rml_rollout *rollout);

/* RML_OK, or EINVAL with *why (may be NULL) a constant sentence. */
rml_status rml_rollout_check(const rml_rollout *rollout, const char **why);

/* Actions: DISCRETE spaces take the arg-max of the policy's outputs or a sample of their softmax,
 * BOX spaces the outputs themselves, clipped to the bounds. */

/* Evaluates pairs [first_pair, first_pair + p), in units of unit_pairs that begin at first_pair;
 * pair_p gets a record each and stats_us, (units, 1 + 2*o) doubles, each unit's statistics of the
 * observations that its kept pairs saw (NULL unless rollout->filter). Both signs see the same
 * random numbers; the environment's streams are (key, item pair, episode iteration). A pair with
 * a return, an observation or an action that is not finite, or whose environment failed, is
 * marked and its observations left out. *done gets the whole units evaluated: all of them, or with
 * EINTERRUPTED those finished before the stop flag was seen. */
rml_status rml_rollout_eval_pairs(rml_pair *pair_p, double *stats_us, size_t *done,
                                  const rml_rollout *rollout, const float *theta_d,
                                  uint32_t first_pair, size_t p, size_t unit_pairs, void *scratch);

/* Evaluates episodes [first, first + e) of theta without noise, taking the arg-max. rollout->key
 * is a derived key; the streams are (key, item episode, episode iteration). *done as above, in
 * episodes. */
rml_status rml_rollout_eval_episodes(rml_episode *episode_e, size_t *done,
                                     const rml_rollout *rollout, const float *theta_d,
                                     uint32_t first, size_t e, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
