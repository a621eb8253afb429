/* The policy's forward pass for one or two members at once, as rollouts use it. */
#ifndef ROLLMILL_FORWARD_H
#define ROLLMILL_FORWARD_H

#include "kernels.h"
#include "rollmill/policy.h"

/* out_2[m] = outputs of parameters theta_2[m] for the row x_2[m], or where index_2 is not NULL for
 * the one-hot row index_2[m]; m < members, 1 or 2. */
void rml_policy_forward(float *const out_2[2], const rml_policy *policy,
                        const float *const theta_2[2], const float *const x_2[2],
                        const int64_t *index_2, int members, void *scratch,
                        const rml_kernels *kernels);

#endif
