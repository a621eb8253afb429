#include "rollmill/env.h"

size_t rml_dtype_size(int32_t dtype) {
  switch (dtype) {
    case RML_UINT8: return 1;
    case RML_INT32: return 4;
    case RML_INT64: return 8;
    case RML_FLOAT32: return 4;
    case RML_FLOAT64: return 8;
    default: return 0;
  }
}

size_t rml_space_size(const rml_space *space) {
  size_t element = rml_dtype_size(space->dtype);
  return space->kind == RML_BOX ? element * (size_t)space->n : element;
}

/* One sentence a fault and a space. */
typedef struct space_faults {
  const char *kind, *count, *dtype, *discrete_count, *axes, *shape, *bounds;
} space_faults;

static const space_faults observation_faults = {
    "observation.kind must be RML_DISCRETE or RML_BOX",
    "observation.n must be at least 1 and below 2^31",
    "observation.dtype must be an integer for RML_DISCRETE, a float or uint8 for RML_BOX",
    "observation.n has more values than observation.dtype can hold",
    "observation.axes must be 0 to RML_SPACE_AXES",
    "observation.shape must be positive with the product observation.n",
    "observation.low and observation.high must both be given or both be NULL, with low <= high",
};

static const space_faults action_faults = {
    "action.kind must be RML_DISCRETE or RML_BOX",
    "action.n must be at least 1 and below 2^31",
    "action.dtype must be an integer for RML_DISCRETE, a float or uint8 for RML_BOX",
    "action.n has more values than action.dtype can hold",
    "action.axes must be 0 to RML_SPACE_AXES",
    "action.shape must be positive with the product action.n",
    "action.low and action.high must both be given or both be NULL, with low <= high",
};

/* NULL, or the sentence that says what is wrong. */
static const char *space_fault(const rml_space *space, const space_faults *fault) {
  if (space->kind != RML_DISCRETE && space->kind != RML_BOX) return fault->kind;
  if (space->n < 1 || space->n > INT32_MAX) return fault->count;
  if (space->kind == RML_DISCRETE) {
    if (space->dtype != RML_UINT8 && space->dtype != RML_INT32 && space->dtype != RML_INT64)
      return fault->dtype;
    if (space->dtype == RML_UINT8 && space->n > 256) return fault->discrete_count;
    return NULL;
  }
  if (space->dtype != RML_UINT8 && space->dtype != RML_FLOAT32 && space->dtype != RML_FLOAT64)
    return fault->dtype;
  if (space->axes < 0 || space->axes > RML_SPACE_AXES) return fault->axes;
  int64_t product = 1;
  for (int32_t axis = 0; axis < space->axes; axis++) {
    if (space->shape[axis] < 1 || space->shape[axis] > space->n / product) return fault->shape;
    product *= space->shape[axis];
  }
  if (product != space->n) return fault->shape;
  if (!space->low != !space->high) return fault->bounds;
  for (int64_t i = 0; space->low && i < space->n; i++)
    if (!(space->low[i] <= space->high[i])) return fault->bounds; /* refuses NaN too */
  return NULL;
}

static const char *env_fault(const rml_env *env) {
  if (!env->name || !env->name[0]) return "name must be a text that is not empty";
  const char *fault = space_fault(&env->observation, &observation_faults);
  if (!fault) fault = space_fault(&env->action, &action_faults);
  if (fault) return fault;
  if (env->reserved) return "reserved must be 0";
  if (env->state_size > INT32_MAX) return "state_size must be below 2^31 bytes";
  if (!env->reset) return "reset must not be NULL";
  if (!env->step) return "step must not be NULL";
  if (!env->save != !env->load) return "save and load must both be given or both be NULL";
  return NULL;
}

rml_status rml_env_check(const rml_env *env, const char **why) {
  const char *fault = NULL;
  rml_status status = RML_OK;
  if (!env) {
    fault = "the environment is NULL";
    status = RML_EINVAL;
  } else if (env->abi_version != RML_ABI_VERSION) { /* nothing beyond it has a known place */
    fault = "abi_version differs from this library's RML_ABI_VERSION";
    status = RML_EABI;
  } else if (env->struct_size != sizeof(rml_env)) {
    fault = "struct_size differs from this library's sizeof(rml_env)";
    status = RML_EABI;
  } else if ((fault = env_fault(env)) != NULL) {
    status = RML_EINVAL;
  }
  if (why) *why = fault;
  return status;
}
