/* Random numbers without state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011) over a counter that names what the number is for.
 *
 *   key     64-bit seed
 *   c0      block of four draws (low 32 bits)
 *   c1      item: pair, environment or episode
 *   c2      iteration or episode
 *   c3      stream << 24 | bits 32..55 of the block
 */
#ifndef ROLLMILL_RNG_H
#define ROLLMILL_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a number is for. Both signs of a pair share every stream. */
typedef enum rml_stream {
  RML_STREAM_NOISE = 1,       /* noise[i]: item 0, iteration 0 */
  RML_STREAM_NOISE_INDEX = 2, /* item pair, iteration */
  RML_STREAM_INIT = 3,        /* initial parameters: item layer, iteration 0 */
  RML_STREAM_ENV_RESET = 4,   /* item environment, episode */
  RML_STREAM_ENV_STEP = 5,    /* item environment, episode; blocks named by elapsed steps */
  RML_STREAM_ENV_LAYOUT = 6,  /* item level */
  RML_STREAM_ACTION = 7,      /* sampled actions: item pair, iteration; draw t for step t */
  RML_STREAM_ACTION_NOISE = 8,
  RML_STREAM_EXPLORE = 9,
  RML_STREAM_REPLAY = 10,
  RML_STREAM_EVALUATION = 11 /* derives the keys of evaluation episodes */
} rml_stream;

/* out_4 = Philox4x32-10(key, (c0, c1, c2, c3)). About 30 ns without vectors. */
static inline void rml_philox(uint32_t out_4[4], uint64_t key, uint32_t c0, uint32_t c1,
                              uint32_t c2, uint32_t c3) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out_4[0] = c0;
  out_4[1] = c1;
  out_4[2] = c2;
  out_4[3] = c3;
}

/* The four draws of one block of a stream. */
static inline void rml_rng_block(uint32_t out_4[4], uint64_t key, rml_stream stream, uint32_t item,
                                 uint32_t iteration, uint64_t block) {
  rml_philox(out_4, key, (uint32_t)block, item, iteration,
             (uint32_t)stream << 24 | (uint32_t)(block >> 32 & 0xFFFFFFu));
}

/* A draw as a float32 in [0, 1): its upper 24 bits. */
static inline float rml_rng_unit(uint32_t draw) { return (float)(draw >> 8) * 0x1p-24f; }

/* A draw as an integer in [0, n); the bias is below n / 2^32. */
static inline uint32_t rml_rng_below(uint32_t draw, uint32_t n) {
  return (uint32_t)((uint64_t)draw * n >> 32);
}

/* A key of its own for each (key, kind): evaluation episodes never share numbers with training. */
static inline uint64_t rml_rng_derive(uint64_t key, uint32_t kind) {
  uint32_t draw_4[4];
  rml_rng_block(draw_4, key, RML_STREAM_EVALUATION, 0, 0, kind);
  return (uint64_t)draw_4[1] << 32 | draw_4[0];
}

/* normal_k[j] = draw start + j of the standard normals of (key, stream, item, iteration).
 *
 * Normals come in groups of 64, made of 16 Philox blocks: number 64*g + 16*w + l is made from word
 * w of block 16*g + l. Words 0 and 1 (2 and 3) of a block give two normals by Box and Muller's
 * method (Annals of Mathematical Statistics 29, 1958): u = (w0 >> 1) * 2^-31 + 2^-32,
 * r = sqrt(-2 log u), an angle uniform on the right half circle from the signed w1 << 1, and the
 * sign of the cosine from the highest bit of w1. |normal| <= 6.67.
 * Writes 4*k bytes; a start that no multiple of 64 divides costs up to one group more. */
rml_status rml_normal_fill(float *normal_k, size_t k, uint64_t key, rml_stream stream,
                           uint32_t item, uint32_t iteration, uint64_t start, rml_isa isa);

#ifdef __cplusplus
}
#endif
#endif
