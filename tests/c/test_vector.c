/* The autoreset modes, on an environment whose whole course can be told by hand: action a of
 * DISCRETE(5) ends the episode with the flags a, or fails; each step pays 0.5. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "rollmill/vector.h"

#define N 5
enum { GO = 0, TERMINATE = RML_TERMINATED, TRUNCATE = RML_TRUNCATED, BOTH = 3, FAIL = 4 };

/* obs: 1000 * episode + 10 * id + steps, as far as reset and step are told them. */
static int32_t picture(const rml_batch *batch, size_t i, uint32_t steps) {
  return (int32_t)(1000 * batch->episode_n[i] + 10 * batch->id_n[i] + steps);
}

static rml_status script_reset(const rml_env *env, const rml_batch *batch) {
  (void)env;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    CHECK(batch->elapsed_n[i] == 0);
    ((int32_t *)batch->state)[i] = 0;
    ((int32_t *)batch->obs_no)[i] = picture(batch, i, 0);
  }
  return batch->key_n[0] == 99 ? RML_EINVAL : RML_OK;
}

static rml_status script_step(const rml_env *env, const rml_batch *batch) {
  (void)env;
  int32_t *steps_n = batch->state;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    const uint8_t action = ((const uint8_t *)batch->action_na)[i];
    if (action == FAIL) return RML_EACTION; /* half of the range is stepped: not a refusal */
    CHECK(batch->elapsed_n[i] == (uint32_t)steps_n[i]);
    steps_n[i]++;
    ((int32_t *)batch->obs_no)[i] = picture(batch, i, (uint32_t)steps_n[i]);
    batch->reward_n[i] = 0.5;
    batch->flags_n[i] = action | 0x80; /* other bits do not count */
  }
  return RML_OK;
}

typedef struct bench {
  rml_env env;
  rml_vector vector;
  _Alignas(64) int32_t state_n[N];
  uint64_t key_n[N];
  uint32_t id_n[N], episode_n[N], elapsed_n[N], end_length_n[N];
  uint8_t done_n[N], mask_n[N], flags_n[N];
  double return_n[N], reward_n[N], end_return_n[N];
  int32_t obs_n[N], final_n[N];
  size_t bad;
} bench;

static void set_up(bench *b, rml_autoreset autoreset, uint32_t limit) {
  memset(b, 0, sizeof *b);
  b->env = (rml_env){
      .abi_version = RML_ABI_VERSION,
      .struct_size = sizeof(rml_env),
      .name = "script",
      .observation = {.kind = RML_DISCRETE, .dtype = RML_INT32, .n = 1 << 20},
      .action = {.kind = RML_DISCRETE, .dtype = RML_UINT8, .n = 5},
      .max_episode_steps = limit,
      .state_size = 4,
      .reset = script_reset,
      .step = script_step,
  };
  CHECK(rml_env_check(&b->env, NULL) == RML_OK);
  b->vector = (rml_vector){
      .env = &b->env,
      .n = N,
      .autoreset = autoreset,
      .state = b->state_n,
      .key_n = b->key_n,
      .id_n = b->id_n,
      .episode_n = b->episode_n,
      .elapsed_n = b->elapsed_n,
      .done_n = b->done_n,
      .mask_n = b->mask_n,
      .return_n = b->return_n,
  };
  const uint8_t fresh_n[N] = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < N; i++) b->id_n[i] = (uint32_t)i;
  memset(b->done_n, 1, N);
  CHECK(rml_vector_reset(&b->vector, NULL, fresh_n, b->obs_n) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(b->obs_n[i] == 10 * (int32_t)i && !b->done_n[i]);
}

static rml_status step(bench *b, const uint8_t *action_n) {
  b->bad = 77;
  return rml_vector_step(&b->vector, action_n, b->obs_n, b->reward_n, b->flags_n, b->final_n,
                         b->end_return_n, b->end_length_n, &b->bad);
}

static const uint8_t go_n[N] = {GO, GO, GO, GO, GO};
static const uint8_t mixed_n[N] = {GO, TERMINATE, TRUNCATE, BOTH, GO};

static void test_next_step(void) {
  bench b;
  set_up(&b, RML_AUTORESET_NEXT_STEP, 0);
  CHECK(step(&b, go_n) == RML_OK && b.bad == N);
  CHECK(step(&b, mixed_n) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    CHECK(b.obs_n[i] == 10 * (int32_t)i + 2 && b.reward_n[i] == 0.5);
    CHECK(b.flags_n[i] == mixed_n[i] && b.done_n[i] == (mixed_n[i] != 0));
    CHECK(b.end_length_n[i] == (mixed_n[i] ? 2u : 0u));
    CHECK(b.end_return_n[i] == (mixed_n[i] ? 1.0 : 0.0));
  }
  const uint8_t ignored_n[N] = {GO, 200, FAIL, TERMINATE, GO}; /* even outside the space */
  CHECK(step(&b, ignored_n) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    CHECK(b.obs_n[i] == 10 * (int32_t)i + (mixed_n[i] ? 1000 : 3));
    CHECK(b.reward_n[i] == (mixed_n[i] ? 0.0 : 0.5));
    CHECK(!b.flags_n[i] && !b.done_n[i]);
    CHECK(b.elapsed_n[i] == (mixed_n[i] ? 0u : 3u));
    CHECK(b.return_n[i] == (mixed_n[i] ? 0.0 : 1.5));
  }
  CHECK(step(&b, go_n) == RML_OK);
  for (size_t i = 0; i < N; i++)
    CHECK(b.obs_n[i] == 10 * (int32_t)i + (mixed_n[i] ? 1001 : 4) && b.reward_n[i] == 0.5);
}

static void test_same_step(void) {
  bench b;
  set_up(&b, RML_AUTORESET_SAME_STEP, 0);
  CHECK(step(&b, go_n) == RML_OK);
  CHECK(step(&b, mixed_n) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    CHECK(b.obs_n[i] == 10 * (int32_t)i + (mixed_n[i] ? 1000 : 2));
    CHECK(b.final_n[i] == (mixed_n[i] ? 10 * (int32_t)i + 2 : 0));
    CHECK(b.flags_n[i] == mixed_n[i] && b.reward_n[i] == 0.5 && !b.done_n[i]);
    CHECK(b.end_length_n[i] == (mixed_n[i] ? 2u : 0u));
    CHECK(b.end_return_n[i] == (mixed_n[i] ? 1.0 : 0.0));
    CHECK(b.elapsed_n[i] == (mixed_n[i] ? 0u : 2u));
  }
  CHECK(step(&b, go_n) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(b.obs_n[i] == 10 * (int32_t)i + (mixed_n[i] ? 1001 : 3));
  /* All that may be NULL. */
  CHECK(rml_vector_step(&b.vector, mixed_n, b.obs_n, b.reward_n, b.flags_n, NULL, NULL, NULL,
                        NULL) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(b.obs_n[i] == 10 * (int32_t)i + (mixed_n[i] ? 2000 : 4));
}

/* Nothing but *bad differs after a refused call. */
#define UNTOUCHED(b, call, status, offender) \
  do {                                       \
    bench before = *(b);                     \
    CHECK((call) == (status));               \
    CHECK((b)->bad == (offender));           \
    before.bad = (b)->bad;                   \
    CHECK(!memcmp((b), &before, sizeof before)); \
  } while (0)

static void test_disabled(void) {
  bench b;
  set_up(&b, RML_AUTORESET_DISABLED, 0);
  CHECK(step(&b, mixed_n) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(b.done_n[i] == (mixed_n[i] != 0));
  UNTOUCHED(&b, step(&b, go_n), RML_EINVAL, 1u);
  const uint8_t two_n[N] = {0, 1, 1, 0, 0};
  CHECK(rml_vector_reset(&b.vector, two_n, NULL, b.obs_n) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    CHECK(b.obs_n[i] == 10 * (int32_t)i + (two_n[i] ? 1000 : 1));
    CHECK(b.done_n[i] == (i == 3) && b.episode_n[i] == two_n[i]);
    CHECK(b.elapsed_n[i] == (two_n[i] ? 0u : 1u) && b.return_n[i] == (two_n[i] ? 0.0 : 0.5));
  }
  UNTOUCHED(&b, step(&b, go_n), RML_EINVAL, 3u);
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, b.obs_n) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(b.episode_n[i] == 1u + two_n[i]);
  CHECK(step(&b, go_n) == RML_OK);
}

static void test_limit_truncates_beside_termination(rml_autoreset autoreset) {
  bench b;
  set_up(&b, autoreset, 3);
  CHECK(step(&b, go_n) == RML_OK && step(&b, go_n) == RML_OK);
  for (size_t i = 0; i < N; i++) CHECK(!b.flags_n[i]);
  CHECK(step(&b, mixed_n) == RML_OK);
  for (size_t i = 0; i < N; i++) {
    CHECK(b.flags_n[i] == (mixed_n[i] | RML_TRUNCATED));
    CHECK(b.end_length_n[i] == 3 && b.end_return_n[i] == 1.5);
  }
  if (autoreset == RML_AUTORESET_NEXT_STEP) CHECK(step(&b, go_n) == RML_OK && !b.flags_n[0]);
  if (autoreset == RML_AUTORESET_DISABLED)
    CHECK(rml_vector_reset(&b.vector, NULL, NULL, b.obs_n) == RML_OK);
  for (int t = 0; t < 3; t++) { /* the limit counts anew */
    CHECK(step(&b, go_n) == RML_OK);
    for (size_t i = 0; i < N; i++) CHECK(b.flags_n[i] == (t == 2 ? RML_TRUNCATED : 0));
  }
}

static void test_reset_clears_a_pending_autoreset(void) {
  bench b;
  set_up(&b, RML_AUTORESET_NEXT_STEP, 3);
  CHECK(step(&b, mixed_n) == RML_OK);
  const uint8_t fresh_n[N] = {0, 1, 0, 0, 1};
  b.episode_n[1] = 40;
  b.episode_n[4] = 50;
  CHECK(rml_vector_reset(&b.vector, NULL, fresh_n, b.obs_n) == RML_OK);
  static const uint32_t episode_n[N] = {1, 40, 1, 1, 50};
  for (size_t i = 0; i < N; i++) {
    CHECK(b.episode_n[i] == episode_n[i]);
    CHECK(b.obs_n[i] == (int32_t)(1000 * episode_n[i] + 10 * i));
  }
  for (int t = 1; t <= 3; t++) {
    CHECK(step(&b, go_n) == RML_OK);
    for (size_t i = 0; i < N; i++) {
      CHECK(b.obs_n[i] == (int32_t)(1000 * episode_n[i] + 10 * i) + t);
      CHECK(b.flags_n[i] == (t == 3 ? RML_TRUNCATED : 0));
    }
  }
}

static void test_refuses(void) {
  bench b;
  for (int mode = RML_AUTORESET_NEXT_STEP; mode <= RML_AUTORESET_DISABLED; mode++) {
    set_up(&b, (rml_autoreset)mode, 0);
    uint8_t bad_n[N] = {0, 1, 0, 5, 255};
    UNTOUCHED(&b, step(&b, bad_n), RML_EACTION, 3u);
    UNTOUCHED(&b, step(&b, NULL), RML_EINVAL, (size_t)N);
  }
  b.vector.autoreset = 3;
  UNTOUCHED(&b, step(&b, go_n), RML_EINVAL, (size_t)N);
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, b.obs_n) == RML_EINVAL);
  b.vector.autoreset = 0;
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, NULL) == RML_EINVAL);
  b.vector.state = NULL;
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, b.obs_n) == RML_EINVAL);
  CHECK(rml_vector_reset(NULL, NULL, NULL, b.obs_n) == RML_EINVAL);
  b.vector.n = 0;
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, NULL) == RML_OK);
  CHECK(rml_vector_step(&b.vector, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == RML_OK);
}

static void test_wide_actions(void) {
  bench b;
  static const int64_t below_n[N] = {0, 0, -1, 0, 0};
  static const int64_t above_n[N] = {0, 0, 0, 0, INT64_C(1) << 32};
  static const int32_t narrow_n[N] = {0, INT32_MIN, 0, 0, 0};
  set_up(&b, RML_AUTORESET_NEXT_STEP, 0);
  b.env.action.dtype = RML_INT64;
  UNTOUCHED(&b, step(&b, (const uint8_t *)below_n), RML_EACTION, 2u);
  UNTOUCHED(&b, step(&b, (const uint8_t *)above_n), RML_EACTION, 4u);
  b.env.action.dtype = RML_INT32;
  UNTOUCHED(&b, step(&b, (const uint8_t *)narrow_n), RML_EACTION, 1u);
}

/* An environment's own failure is EENV whatever it says: it may have stepped half of the range. */
static void test_failures_of_the_environment(void) {
  bench b;
  const uint8_t fail_n[N] = {GO, GO, FAIL, GO, GO};
  set_up(&b, RML_AUTORESET_SAME_STEP, 0);
  CHECK(step(&b, fail_n) == RML_EENV);
  b.key_n[0] = 99;
  CHECK(rml_vector_reset(&b.vector, NULL, NULL, b.obs_n) == RML_EENV);
}

int main(void) {
  test_next_step();
  test_same_step();
  test_disabled();
  for (int mode = RML_AUTORESET_NEXT_STEP; mode <= RML_AUTORESET_DISABLED; mode++)
    test_limit_truncates_beside_termination((rml_autoreset)mode);
  test_reset_clears_a_pending_autoreset();
  test_refuses();
  test_wide_actions();
  test_failures_of_the_environment();
  return 0;
}
