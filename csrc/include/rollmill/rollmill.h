/* Everything. */
#ifndef ROLLMILL_ROLLMILL_H
#define ROLLMILL_ROLLMILL_H

#include "blas.h"
#include "env.h"
#include "es.h"
#include "isa.h"
#include "maze.h"
#include "mujoco.h"
#include "noise.h"
#include "optim.h"
#include "policy.h"
#include "rng.h"
#include "rollout.h"
#include "stats.h"
#include "status.h"
#include "vector.h"
#include "version.h"

#endif
