#include <stdint.h>
#include <string.h>

#include "check.h"
#include "rollmill/maze.h"

#define MAX 16

/* A batch of up to MAX mazes with all its buffers. */
typedef struct bench {
  rml_maze maze;
  rml_env env;
  rml_batch batch;
  _Alignas(64) unsigned char state[MAX * 4];
  int64_t action_n[MAX], obs_n[MAX];
  double reward_n[MAX];
  uint8_t flags_n[MAX];
} bench;

static void set_up(bench *b, size_t n, uint32_t rows, uint32_t columns, uint32_t start,
                   uint32_t goal) {
  memset(b, 0, sizeof *b);
  CHECK(rml_maze_init(&b->maze, &b->env, rows, columns, start, goal, 100) == RML_OK);
  CHECK(rml_env_check(&b->env, NULL) == RML_OK);
  CHECK(b->env.state_size * MAX == sizeof b->state);
  b->batch = (rml_batch){.n = n, .end = n, .state = b->state, .obs_no = b->obs_n};
  CHECK(b->env.reset(&b->env, &b->batch) == RML_OK);
  b->batch.action_na = b->action_n;
  b->batch.reward_n = b->reward_n;
  b->batch.flags_n = b->flags_n;
}

static void act(bench *b, int64_t action) {
  for (size_t i = 0; i < b->batch.n; i++) b->action_n[i] = action;
  CHECK(b->env.step(&b->env, &b->batch) == RML_OK);
}

/* Where an action leads, from the tutorial's rules: (0, 0) on top; 0 down, 1 left, 2 up, 3 right */
static int64_t moved(int64_t cell, int64_t action, int64_t rows, int64_t columns) {
  int64_t row = cell / columns, column = cell % columns;
  if (action == 0 && row + 1 < rows) row++;
  if (action == 1 && column > 0) column--;
  if (action == 2 && row > 0) row--;
  if (action == 3 && column + 1 < columns) column++;
  return row * columns + column;
}

static void test_every_cell_and_action(uint32_t rows, uint32_t columns) {
  const uint32_t cells = rows * columns;
  bench b;
  for (uint32_t start = 0; start < cells; start++)
    for (int64_t action = 0; action < 4; action++) {
      const uint32_t goal = start == cells - 1 ? 0 : cells - 1;
      set_up(&b, 3, rows, columns, start, goal);
      CHECK(b.env.observation.n == cells && b.env.action.n == 4);
      for (size_t i = 0; i < 3; i++) CHECK(b.obs_n[i] == start);
      act(&b, action);
      const int64_t next = moved(start, action, rows, columns);
      for (size_t i = 0; i < 3; i++) {
        CHECK(b.obs_n[i] == next);
        CHECK(b.reward_n[i] == (next == goal ? 1.0 : 0.0));
        CHECK(b.flags_n[i] == (next == goal ? RML_TERMINATED : 0));
      }
    }
}

static void test_shortest_path(void) {
  static const int64_t path_8[8] = {0, 0, 0, 0, 3, 3, 3, 3};
  static const int64_t cell_8[8] = {5, 10, 15, 20, 21, 22, 23, 24};
  bench b;
  set_up(&b, 1, 5, 5, 0, 24);
  for (int t = 0; t < 8; t++) {
    act(&b, path_8[t]);
    CHECK(b.obs_n[0] == cell_8[t]);
    CHECK(b.reward_n[0] == (t == 7 ? 1.0 : 0.0));
    CHECK(b.flags_n[0] == (t == 7 ? RML_TERMINATED : 0));
  }
}

static void test_range_and_mask_leave_the_others_alone(void) {
  bench b;
  set_up(&b, 7, 5, 5, 12, 24);
  const uint8_t mask_n[7] = {1, 1, 0, 1, 0, 1, 1};
  memset(b.obs_n, 0x55, sizeof b.obs_n);
  memset(b.reward_n, 0x55, sizeof b.reward_n);
  memset(b.flags_n, 0x55, sizeof b.flags_n);
  const bench before = b;
  b.batch.begin = 1;
  b.batch.end = 6;
  b.batch.mask_n = mask_n;
  act(&b, RML_MAZE_DOWN);
  for (size_t i = 0; i < 7; i++) {
    if (i >= 1 && i < 6 && mask_n[i]) {
      CHECK(b.obs_n[i] == 17 && b.reward_n[i] == 0.0 && b.flags_n[i] == 0);
    } else {
      CHECK(b.obs_n[i] == before.obs_n[i] && b.flags_n[i] == 0x55);
      CHECK(!memcmp(&b.reward_n[i], &before.reward_n[i], sizeof(double)));
    }
  }
  b.batch.begin = 0; /* a second step tells where each of them stands */
  b.batch.end = 7;
  b.batch.mask_n = NULL;
  act(&b, RML_MAZE_RIGHT);
  for (size_t i = 0; i < 7; i++) CHECK(b.obs_n[i] == (i >= 1 && i < 6 && mask_n[i] ? 18 : 13));
  b.batch.mask_n = mask_n;
  CHECK(b.env.reset(&b.env, &b.batch) == RML_OK);
  for (size_t i = 0; i < 7; i++) CHECK(mask_n[i] ? b.obs_n[i] == 12 : b.obs_n[i] != 12);
}

static void test_render(void) {
  static const char start[] = "|S| | | | |\n| | | | | |\n| | | | | |\n| | | | | |\n| | | | |G|\n";
  bench b;
  char text[100];
  size_t length = 0;
  set_up(&b, 2, 5, 5, 0, 24);
  CHECK(b.env.render(&b.env, &b.batch, text, sizeof text, &length) == RML_OK);
  CHECK(length == sizeof start && !strcmp(text, start));
  memset(text, 'x', sizeof text);
  CHECK(b.env.render(&b.env, &b.batch, text, 4, &length) == RML_OK); /* cut, whole length told */
  CHECK(length == sizeof start && !memcmp(text, "|S|\0x", 5));
  CHECK(b.env.render(&b.env, &b.batch, text, 0, &length) == RML_OK);
  CHECK(length == sizeof start && text[0] == '|');
  set_up(&b, 2, 2, 3, 4, 2);
  b.batch.begin = 1;
  CHECK(b.env.render(&b.env, &b.batch, text, sizeof text, &length) == RML_OK);
  CHECK(!strcmp(text, "| | |G|\n| |S| |\n"));
  b.batch.begin = 0;
  act(&b, RML_MAZE_UP);
  act(&b, RML_MAZE_RIGHT); /* the seeker hides the goal */
  CHECK(b.env.render(&b.env, &b.batch, text, sizeof text, &length) == RML_OK);
  CHECK(!strcmp(text, "| | |S|\n| | | |\n"));
}

static void test_save_and_load(void) {
  unsigned char bytes[4];
  bench b;
  set_up(&b, 2, 5, 5, 0, 24);
  act(&b, RML_MAZE_DOWN);
  CHECK(b.env.save(&b.env, &b.batch, bytes) == RML_OK);
  act(&b, RML_MAZE_RIGHT);
  CHECK(b.obs_n[0] == 6 && b.obs_n[1] == 6);
  CHECK(b.env.load(&b.env, &b.batch, bytes) == RML_OK); /* environment 0 alone goes back */
  act(&b, RML_MAZE_DOWN);
  CHECK(b.obs_n[0] == 10 && b.obs_n[1] == 11);
  memset(bytes, 0xff, sizeof bytes);
  CHECK(b.env.load(&b.env, &b.batch, bytes) == RML_EINVAL);
  act(&b, RML_MAZE_DOWN);
  CHECK(b.obs_n[0] == 15 && b.obs_n[1] == 16);
}

static void test_large(void) {
  bench b;
  set_up(&b, 1, 4096, 4096, 4096u * 4096u - 2, 4096u * 4096u - 1);
  act(&b, RML_MAZE_DOWN);
  CHECK(b.obs_n[0] == 4096 * 4096 - 2 && b.flags_n[0] == 0);
  act(&b, RML_MAZE_RIGHT);
  CHECK(b.obs_n[0] == 4096 * 4096 - 1 && b.flags_n[0] == RML_TERMINATED);
}

static void test_init_refuses(void) {
  rml_maze maze;
  rml_env env;
  memset(&env, 0x55, sizeof env);
  memset(&maze, 0x55, sizeof maze);
  const rml_env before = env;
  CHECK(rml_maze_init(NULL, &env, 5, 5, 0, 24, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, NULL, 5, 5, 0, 24, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 0, 5, 0, 1, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 5, 0, 0, 1, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 1, 1, 0, 0, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 4097, 5, 0, 1, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 5, 4097, 0, 1, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 65536, 65536, 0, 1, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 5, 5, 25, 24, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 5, 5, 0, 25, 0) == RML_EINVAL);
  CHECK(rml_maze_init(&maze, &env, 5, 5, 7, 7, 0) == RML_EINVAL);
  CHECK(!memcmp(&env, &before, sizeof env));
}

int main(void) {
  test_every_cell_and_action(5, 5);
  test_every_cell_and_action(1, 2);
  test_every_cell_and_action(3, 1);
  test_every_cell_and_action(4, 7);
  test_shortest_path();
  test_range_and_mask_leave_the_others_alone();
  test_render();
  test_save_and_load();
  test_large();
  test_init_refuses();
  return 0;
}
