/* Optimisers over a flat vector. Each step minimises: theta moves against the gradient. */
#ifndef ROLLMILL_OPTIM_H
#define ROLLMILL_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adam (Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015), step t >= 1:
 * a = stepsize * sqrt(1 - beta2^t) / (1 - beta1^t); m, v decayed means of g and g^2;
 * theta -= a * m / (sqrt(v) + epsilon). One pass over four arrays. */
rml_status rml_optim_adam(float *RML_RESTRICT theta_d, float *RML_RESTRICT m_d,
                          float *RML_RESTRICT v_d, const float *gradient_d, size_t d,
                          uint64_t t, double stepsize, double beta1, double beta2, double epsilon);

/* Adam with decoupled weight decay (Loshchilov, Hutter, "Decoupled weight decay regularization",
 * ICLR 2019): theta -= stepsize * weight_decay * theta, beside the step of Adam. */
rml_status rml_optim_adamw(float *RML_RESTRICT theta_d, float *RML_RESTRICT m_d,
                           float *RML_RESTRICT v_d, const float *gradient_d, size_t d, uint64_t t,
                           double stepsize, double beta1, double beta2, double epsilon,
                           double weight_decay);

/* ClipUp (Toklu, Liskowski, Srivastava, "ClipUp: a simple and powerful optimizer for
 * distribution-based policy evolution", PPSN 2020): v = momentum*v + stepsize*g/|g|, made shorter
 * to max_speed where it is longer; theta -= v. A gradient of 0 adds nothing. Norms are summed in
 * float64 in one order. */
rml_status rml_optim_clipup(float *RML_RESTRICT theta_d, float *RML_RESTRICT v_d,
                            const float *gradient_d, size_t d, double stepsize, double momentum,
                            double max_speed);

/* SGD with momentum: v = momentum*v + (1 - momentum)*g; theta -= stepsize*v. */
rml_status rml_optim_sgd(float *RML_RESTRICT theta_d, float *RML_RESTRICT v_d,
                         const float *gradient_d, size_t d, double stepsize, double momentum);

#ifdef __cplusplus
}
#endif
#endif
