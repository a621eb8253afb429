#include "rollmill/maze.h"

#include <string.h>

#define MAZE_SIDE 4096u

/* State: n rows, then n columns. */
typedef struct maze_state {
  uint16_t *row_n, *column_n;
} maze_state;

static maze_state state_of(const rml_batch *batch) {
  uint16_t *row_n = batch->state;
  return (maze_state){row_n, row_n + batch->n};
}

static rml_status maze_reset(const rml_env *env, const rml_batch *batch) {
  const rml_maze *maze = env->context;
  maze_state state = state_of(batch);
  int64_t *obs_n = batch->obs_no;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    state.row_n[i] = (uint16_t)(maze->start / maze->columns);
    state.column_n[i] = (uint16_t)(maze->start % maze->columns);
    obs_n[i] = maze->start;
  }
  return RML_OK;
}

static rml_status maze_step(const rml_env *env, const rml_batch *batch) {
  const rml_maze *maze = env->context;
  const uint32_t columns = maze->columns, last_row = maze->rows - 1, last_column = columns - 1;
  const int64_t goal = maze->goal;
  maze_state state = state_of(batch);
  uint16_t *RML_RESTRICT row_n = state.row_n, *RML_RESTRICT column_n = state.column_n;
  const int64_t *RML_RESTRICT action_n = batch->action_na;
  int64_t *RML_RESTRICT obs_n = batch->obs_no;
  double *RML_RESTRICT reward_n = batch->reward_n;
  uint8_t *RML_RESTRICT flags_n = batch->flags_n;
  for (size_t i = batch->begin; i < batch->end; i++) {
    if (batch->mask_n && !batch->mask_n[i]) continue;
    const int64_t action = action_n[i];
    uint32_t row = row_n[i], column = column_n[i];
    row += (uint32_t)((action == RML_MAZE_DOWN) & (row < last_row));
    row -= (uint32_t)((action == RML_MAZE_UP) & (row > 0));
    column += (uint32_t)((action == RML_MAZE_RIGHT) & (column < last_column));
    column -= (uint32_t)((action == RML_MAZE_LEFT) & (column > 0));
    const int64_t cell = (int64_t)row * columns + column;
    row_n[i] = (uint16_t)row;
    column_n[i] = (uint16_t)column;
    obs_n[i] = cell;
    reward_n[i] = cell == goal;
    flags_n[i] = cell == goal ? RML_TERMINATED : 0;
  }
  return RML_OK;
}

/* "| " an empty cell, "|G" the goal, "|S" the seeker (also on the goal), "|\n" the end of a row. */
static rml_status maze_render(const rml_env *env, const rml_batch *batch, char *text, size_t size,
                              size_t *length) {
  const rml_maze *maze = env->context;
  maze_state state = state_of(batch);
  const size_t line = 2 * (size_t)maze->columns + 2;
  const size_t whole = line * maze->rows;
  const size_t seeker = state.row_n[batch->begin] * line + 2u * state.column_n[batch->begin] + 1;
  const size_t goal = maze->goal / maze->columns * line + 2 * (maze->goal % maze->columns) + 1;
  *length = whole + 1;
  if (!size) return RML_OK;
  const size_t written = size - 1 < whole ? size - 1 : whole;
  for (size_t k = 0; k < written; k++) {
    char letter = k % line % 2 ? ' ' : '|';
    if (k % line == line - 1) letter = '\n';
    if (k == goal) letter = 'G';
    if (k == seeker) letter = 'S';
    text[k] = letter;
  }
  text[written] = 0;
  return RML_OK;
}

static rml_status maze_save(const rml_env *env, const rml_batch *batch, void *bytes) {
  (void)env;
  maze_state state = state_of(batch);
  const uint16_t place_2[2] = {state.row_n[batch->begin], state.column_n[batch->begin]};
  memcpy(bytes, place_2, sizeof place_2);
  return RML_OK;
}

static rml_status maze_load(const rml_env *env, const rml_batch *batch, const void *bytes) {
  const rml_maze *maze = env->context;
  maze_state state = state_of(batch);
  uint16_t place_2[2];
  memcpy(place_2, bytes, sizeof place_2);
  if (place_2[0] >= maze->rows || place_2[1] >= maze->columns) return RML_EINVAL;
  state.row_n[batch->begin] = place_2[0];
  state.column_n[batch->begin] = place_2[1];
  return RML_OK;
}

rml_status rml_maze_init(rml_maze *maze, rml_env *env, uint32_t rows, uint32_t columns,
                         uint32_t start, uint32_t goal, uint32_t max_episode_steps) {
  if (!maze || !env) return RML_EINVAL;
  if (rows < 1 || rows > MAZE_SIDE || columns < 1 || columns > MAZE_SIDE) return RML_EINVAL;
  const uint32_t cells = rows * columns;
  if (start >= cells || goal >= cells || start == goal) return RML_EINVAL;
  *maze = (rml_maze){.rows = rows, .columns = columns, .start = start, .goal = goal};
  *env = (rml_env){
      .abi_version = RML_ABI_VERSION,
      .struct_size = sizeof(rml_env),
      .name = "rollmill/Maze-v0",
      .observation = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = cells},
      .action = {.kind = RML_DISCRETE, .dtype = RML_INT64, .n = 4},
      .max_episode_steps = max_episode_steps,
      .state_size = 2 * sizeof(uint16_t),
      .context = maze,
      .reset = maze_reset,
      .step = maze_step,
      .render = maze_render,
      .save = maze_save,
      .load = maze_load,
  };
  return RML_OK;
}
