/* Policies: a multilayer perceptron over one flat float32 parameter vector.
 *
 * Layout, layer after layer: the weights of layer l, width[l] rows of width[l+1] columns (input
 * major, so that a one-hot observation is a row look-up), then its width[l+1] biases. Each output
 * is the bias plus the products in order of the inputs, every operation rounded once. */
#ifndef ROLLMILL_POLICY_H
#define ROLLMILL_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RML_POLICY_LAYERS 8      /* at most, the output layer included */
#define RML_POLICY_WIDTH 65536   /* at most, per layer */
#define RML_SAMPLE_MAX 1024      /* logits that rml_policy_sample takes */

typedef enum rml_activation { RML_TANH = 1, RML_RELU = 2 } rml_activation;

typedef struct rml_policy {
  uint32_t layers;                       /* 1 (linear) .. RML_POLICY_LAYERS */
  int32_t activation;                    /* after every layer but the last */
  uint32_t width[RML_POLICY_LAYERS + 1]; /* width[0] inputs, width[layers] outputs */
  size_t d;                              /* parameters, set by rml_policy_init */
} rml_policy;

/* Checks and completes: width has layers + 1 entries. */
rml_status rml_policy_init(rml_policy *policy, uint32_t layers, const uint32_t *width,
                           rml_activation activation);

/* Initial parameters: weights normal(0, 1 / inputs of their layer), biases 0; stream INIT. */
rml_status rml_policy_fill(float *theta_d, const rml_policy *policy, uint64_t key, rml_isa isa);

/* Bytes of scratch, aligned to 64, that rml_policy_eval wants. */
size_t rml_policy_scratch(const rml_policy *policy);

/* out_na[i] = the network's outputs for observation i of n. Inputs are rows of width[0] floats
 * (x_no), or where x_no is NULL the one-hot rows that index_n names, each in [0, width[0])
 * (unchecked). About 2*d operations a row. */
rml_status rml_policy_eval(float *out_na, const rml_policy *policy, const float *theta_d,
                           const float *x_no, const int64_t *index_n, size_t n, void *scratch,
                           rml_isa isa);

/* out_ka[i] = the outputs of member member_k[i]'s own parameters theta_md[member] for its own row,
 * x_mo[member] or where x_mo is NULL the one-hot row index_m[member] (unchecked, as the members
 * are). Each row's bits are those of rml_policy_eval. Scratch as there. */
rml_status rml_policy_eval_members(float *out_ka, const rml_policy *policy, const float *theta_md,
                                   const float *x_mo, const int64_t *index_m,
                                   const int32_t *member_k, size_t k, void *scratch, rml_isa isa);

/* The first of the largest of n logits; a NaN is never chosen over a number. */
uint32_t rml_policy_argmax(const float *logit_a, size_t n);

/* An action of the softmax over n <= RML_SAMPLE_MAX logits, from one uniform draw in
 * [0, 1). A NaN logit has probability 0. */
uint32_t rml_policy_sample(const float *logit_a, size_t n, float unit);

/* y_n[i] = tanh(x_n[i]), absolute error below 4e-7. In place allowed. */
void rml_tanh_eval(float *y_n, const float *x_n, size_t n, rml_isa isa);

#ifdef __cplusplus
}
#endif
#endif
