#include <math.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "rollmill/env.h"

static rml_status nothing(const rml_env *env, const rml_batch *batch) {
  (void)env;
  (void)batch;
  return RML_OK;
}

static rml_status save(const rml_env *env, const rml_batch *batch, void *bytes) {
  (void)bytes;
  return nothing(env, batch);
}

static rml_env good(void) {
  return (rml_env){
      .abi_version = RML_ABI_VERSION,
      .struct_size = sizeof(rml_env),
      .name = "test",
      .observation = {.kind = RML_BOX, .dtype = RML_FLOAT32, .n = 6, .axes = 2, .shape = {2, 3}},
      .action = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = 3},
      .reset = nothing,
      .step = nothing,
  };
}

/* The check refuses `env` with a sentence that begins with the field's name. */
static void refused(rml_env env, rml_status status, const char *field) {
  const char *why = NULL;
  CHECK(rml_env_check(&env, &why) == status);
  CHECK(why && !strncmp(why, field, strlen(field)));
  CHECK(rml_env_check(&env, NULL) == status);
}

#define REFUSED(status, field, change) \
  do {                                 \
    rml_env env = good();              \
    change;                            \
    refused(env, status, field);       \
  } while (0)

static void test_accepts(void) {
  const char *why = "something";
  rml_env env = good();
  CHECK(rml_env_check(&env, &why) == RML_OK && !why);
  env.state_size = 0;
  env.observation.axes = 0; /* a scalar */
  env.observation.n = 1;
  const double low = -1, high = 1;
  env.observation.low = &low;
  env.observation.high = &high;
  CHECK(rml_env_check(&env, &why) == RML_OK && !why);
  env.action = (rml_space){.kind = RML_DISCRETE, .dtype = RML_UINT8, .n = 256};
  CHECK(rml_env_check(&env, &why) == RML_OK && !why);
}

static void test_refuses(void) {
  const char *why = NULL;
  CHECK(rml_env_check(NULL, &why) == RML_EINVAL && why);
  REFUSED(RML_EABI, "abi_version", env.abi_version++);
  REFUSED(RML_EABI, "struct_size", env.struct_size -= 8);
  REFUSED(RML_EABI, "struct_size", env.struct_size += 8);
  REFUSED(RML_EINVAL, "name", env.name = NULL);
  REFUSED(RML_EINVAL, "name", env.name = "");
  REFUSED(RML_EINVAL, "reserved", env.reserved = 1);
  REFUSED(RML_EINVAL, "state_size", env.state_size = SIZE_MAX);
  REFUSED(RML_EINVAL, "reset", env.reset = NULL);
  REFUSED(RML_EINVAL, "step", env.step = NULL);
  REFUSED(RML_EINVAL, "save and load", env.save = save);
  REFUSED(RML_EINVAL, "observation.kind", env.observation.kind = 0);
  REFUSED(RML_EINVAL, "action.kind", env.action.kind = 3);
  REFUSED(RML_EINVAL, "observation.n", env.observation.n = 0);
  REFUSED(RML_EINVAL, "action.n", env.action.n = 0);
  REFUSED(RML_EINVAL, "action.n", env.action.n = -1);
  REFUSED(RML_EINVAL, "action.n", env.action.n = INT64_MAX);
  REFUSED(RML_EINVAL, "action.n", (env.action.n = 257, env.action.dtype = RML_UINT8));
  REFUSED(RML_EINVAL, "action.dtype", env.action.dtype = RML_FLOAT32);
  REFUSED(RML_EINVAL, "observation.dtype", env.observation.dtype = RML_INT64);
  REFUSED(RML_EINVAL, "observation.dtype", env.observation.dtype = 0);
  REFUSED(RML_EINVAL, "observation.axes", env.observation.axes = RML_SPACE_AXES + 1);
  REFUSED(RML_EINVAL, "observation.axes", env.observation.axes = -1);
  REFUSED(RML_EINVAL, "observation.shape", env.observation.shape[1] = 4);
  REFUSED(RML_EINVAL, "observation.shape", env.observation.shape[1] = 2);
  REFUSED(RML_EINVAL, "observation.shape", env.observation.shape[0] = -2);
  REFUSED(RML_EINVAL, "observation.shape", env.observation.shape[0] = INT64_MAX);
  const double low_6[6] = {0, 0, 0, 0, 0, 1}, high_6[6] = {1, 1, 1, 1, 1, 0};
  const double nan_6[6] = {NAN, 0, 0, 0, 0, 0};
  REFUSED(RML_EINVAL, "observation.low", env.observation.low = low_6);
  REFUSED(RML_EINVAL, "observation.low",
          (env.observation.low = low_6, env.observation.high = high_6));
  REFUSED(RML_EINVAL, "observation.low",
          (env.observation.low = nan_6, env.observation.high = high_6));
}

static void test_sizes(void) {
  CHECK(rml_dtype_size(RML_UINT8) == 1 && rml_dtype_size(RML_INT32) == 4);
  CHECK(rml_dtype_size(RML_INT64) == 8 && rml_dtype_size(RML_FLOAT32) == 4);
  CHECK(rml_dtype_size(RML_FLOAT64) == 8);
  CHECK(!rml_dtype_size(0) && !rml_dtype_size(6) && !rml_dtype_size(-1));
  const rml_env env = good();
  CHECK(rml_space_size(&env.observation) == 24);
  CHECK(rml_space_size(&env.action) == 8);
}

static void test_status_texts_differ(void) {
  for (int a = RML_ENONFINITE; a <= RML_OK; a++) {
    CHECK(strlen(rml_status_text((rml_status)a)) > 5);
    for (int b = RML_ENONFINITE; b < a; b++)
      CHECK(strcmp(rml_status_text((rml_status)a), rml_status_text((rml_status)b)));
  }
  CHECK(!strcmp(rml_status_text((rml_status)-99), "unknown status"));
}

int main(void) {
  test_accepts();
  test_refuses();
  test_sizes();
  test_status_texts_differ();
  return 0;
}
