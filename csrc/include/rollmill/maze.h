/* The tutorial's maze: an open rectangle of cells, a start, a goal; environments behind rml_env. */
#ifndef ROLLMILL_MAZE_H
#define ROLLMILL_MAZE_H

#include "env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Actions. */
enum { RML_MAZE_DOWN = 0, RML_MAZE_LEFT = 1, RML_MAZE_UP = 2, RML_MAZE_RIGHT = 3 };

/* rows*columns cells, numbered columns*row + column, row 0 on top. */
typedef struct rml_maze {
  uint32_t rows, columns;
  uint32_t start, goal; /* cells; different */
} rml_maze;

/* Fills the caller's maze and environment; env points into maze, which must outlive it.
 * Observation DISCRETE(rows*columns) int64: the cell. Action DISCRETE(4) int64. A move off the
 * grid leaves the seeker where it is. Reward 1 on the step that arrives at the goal, which
 * terminates. max_episode_steps 0: no limit. EINVAL: rows or columns 0 or over 4096, a single
 * cell, a start or goal off the grid or equal. */
rml_status rml_maze_init(rml_maze *maze, rml_env *env, uint32_t rows, uint32_t columns,
                         uint32_t start, uint32_t goal, uint32_t max_episode_steps);

#ifdef __cplusplus
}
#endif
#endif
