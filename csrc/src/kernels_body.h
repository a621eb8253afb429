/* The compute-bound loops, compiled once an instruction set by kernels_base.c, kernels_v3.c and
 * kernels_v4.c with RML_KERNELS naming the table.
 *
 * Every element goes through the same correctly rounded operations whatever the vector width:
 * vectors only ever run across elements, never along a sum. Vector types are GCC's and clang's
 * generic ones, so each build uses what its target has. */
#include <math.h>
#include <string.h>

#include "kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#define MUL_LOW(a, b) (vuint64)_mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define LANES 8
#define MUL_LOW(a, b) (vuint64)_mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#elif defined(__SSE2__)
#define LANES 4
#define MUL_LOW(a, b) (vuint64)_mm_mul_epu32((__m128i)(a), (__m128i)(b))
#else
#define LANES 4
#define MUL_LOW(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#endif

/* Unaligned, and allowed to alias plain arrays. */
typedef float vfloat __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint64_t vuint64 __attribute__((vector_size(4 * LANES)));
typedef uint32_t vuint32_half __attribute__((vector_size(2 * LANES)));

#define WIDE (LANES / 2) /* 64-bit elements in a vector */
#define BLOCKS (RML_GROUP / 4)

/* log(u) for u in (0, 1]: u = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), and a minimax
 * polynomial for log(1 + f). Relative error below 2e-7 away from u = 1. */
static inline float log_unit(float u) {
  uint32_t bits;
  memcpy(&bits, &u, 4);
  int32_t shifted = (int32_t)(bits - 0x3F3504F3u); /* sqrt(1/2) */
  float e = (float)(shifted >> 23);
  bits = ((uint32_t)shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float m;
  memcpy(&m, &bits, 4);
  float f = m - 1.0f, p = 0x1.645eacp-4f;
  p = p * f - 0x1.2432b8p-3f;
  p = p * f + 0x1.317458p-3f;
  p = p * f - 0x1.53824ap-3f;
  p = p * f + 0x1.98d7f2p-3f;
  p = p * f - 0x1.000382p-2f;
  p = p * f + 0x1.5556d8p-2f;
  float z = f * f;
  return (f - 0.5f * z + z * f * p) + e * 0x1.62e430p-1f;
}

/* sin and cos of (pi/2)*t for t in [-1, 1]. Absolute error below 2e-7. */
static inline float sin_half_turn(float t) {
  float z = t * t, p = 0x1.3e17c8p-13f;
  p = p * z - 0x1.32535ap-8f;
  p = p * z + 0x1.4668f2p-4f;
  p = p * z - 0x1.4abbc4p-1f;
  p = p * z + 0x1.921fb6p+0f;
  return p * t;
}

static inline float cos_half_turn(float t) {
  float z = t * t, p = -0x1.901bd6p-16f;
  p = p * z + 0x1.e12f86p-11f;
  p = p * z - 0x1.55d0b8p-6f;
  p = p * z + 0x1.03c1e6p-2f;
  p = p * z - 0x1.3bd3ccp+0f;
  return p * z + 1.0f;
}

/* Two normals from two draws (Box and Muller; rng.h has the definition). */
static inline void normal_pair(float *cosine, float *sine, uint32_t radius, uint32_t angle) {
  float u = (float)(int32_t)(radius >> 1) * 0x1p-31f + 0x1p-32f;
  float r = sqrtf(-2.0f * log_unit(u));
  float t = (float)(int32_t)(angle << 1) * 0x1p-31f;
  float c = r * cos_half_turn(t);
  uint32_t bits;
  memcpy(&bits, &c, 4);
  bits ^= angle & 0x80000000u;
  memcpy(cosine, &bits, 4);
  *sine = r * sin_half_turn(t);
}

/* WIDE consecutive blocks of Philox4x32-10, each word in the low half of a 64-bit element: that is
 * where the widening multiplication reads it, and what is left in the high half does no harm. */
static inline void philox_vector(uint32_t *w0, uint32_t *w1, uint32_t *w2, uint32_t *w3,
                                 uint64_t key, uint32_t low, uint32_t item, uint32_t iteration,
                                 uint32_t high) {
  const vuint64 zero = {0};
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  vuint64 c0, c1 = zero + item, c2 = zero + iteration, c3 = zero + high;
  for (int l = 0; l < WIDE; l++) c0[l] = low + (uint32_t)l;
  const vuint64 m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    vuint64 p0 = MUL_LOW(c0, m0), p1 = MUL_LOW(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ (zero + k0);
    c2 = (p0 >> 32) ^ c3 ^ (zero + k1);
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  vuint32_half h0 = __builtin_convertvector(c0, vuint32_half);
  vuint32_half h1 = __builtin_convertvector(c1, vuint32_half);
  vuint32_half h2 = __builtin_convertvector(c2, vuint32_half);
  vuint32_half h3 = __builtin_convertvector(c3, vuint32_half);
  memcpy(w0, &h0, sizeof h0);
  memcpy(w1, &h1, sizeof h1);
  memcpy(w2, &h2, sizeof h2);
  memcpy(w3, &h3, sizeof h3);
}

static void normal_groups(float *out, size_t groups, uint64_t key, uint32_t item,
                          uint32_t iteration, uint32_t stream, uint64_t first) {
  for (size_t g = 0; g < groups; g++, out += RML_GROUP) {
    uint64_t block = (first + g) * BLOCKS;
    uint32_t low = (uint32_t)block, high = stream << 24 | (uint32_t)(block >> 32 & 0xFFFFFFu);
    uint32_t w0[BLOCKS], w1[BLOCKS], w2[BLOCKS], w3[BLOCKS];
    for (int l = 0; l < BLOCKS; l += WIDE)
      philox_vector(w0 + l, w1 + l, w2 + l, w3 + l, key, low + (uint32_t)l, item, iteration, high);
    for (int l = 0; l < BLOCKS; l++)
      normal_pair(out + l, out + BLOCKS + l, w0[l], w1[l]);
    for (int l = 0; l < BLOCKS; l++)
      normal_pair(out + 2 * BLOCKS + l, out + 3 * BLOCKS + l, w2[l], w3[l]);
  }
}

/* tanh as a minimax rational of degree 4/4 in x^2 on [0, 9.02], beyond which float32 tanh is 1. The
 * rational is within 4e-8; its roundings make that 4e-7, so that 1 may come out as 1 + 2^-22. */
static void tanh_each(float *y_n, const float *x_n, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float x = x_n[i];
    x = x > 9.02f ? 9.02f : x;
    x = x < -9.02f ? -9.02f : x;
    float z = x * x;
    float p = 1.33190585e-08f, q = 7.76201351e-07f;
    p = p * z + 2.058347e-05f;
    q = q * z + 0.000328309165f;
    p = p * z + 0.0034940338f;
    q = q * z + 0.0258710702f;
    p = p * z + 0.133797173f;
    q = q * z + 0.467130325f;
    p = p * z + 0.999999979f;
    q = q * z + 1.0f;
    y_n[i] = x * p / q;
  }
}

static void add(float *y_n, const float *a_n, const float *b_n, size_t n) {
  for (size_t i = 0; i < n; i++) y_n[i] = a_n[i] + b_n[i];
}

static void relu_each(float *y_n, const float *x_n, size_t n) {
  for (size_t i = 0; i < n; i++) y_n[i] = x_n[i] < 0.0f ? 0.0f : x_n[i];
}

static void perturb(float *restrict plus, float *restrict minus, const float *theta,
                    const float *noise, float scale, size_t n) {
  if (minus)
    for (size_t i = 0; i < n; i++) {
      float step = scale * noise[i];
      plus[i] = theta[i] + step;
      minus[i] = theta[i] - step;
    }
  else
    for (size_t i = 0; i < n; i++) plus[i] = theta[i] + scale * noise[i];
}

/* Eight rows at once: that many streams from memory keep it busy where one or two do not, and
 * asking ahead in software only slowed them. The sum of each column still grows row after row. */
static void weighted_rows(float *restrict sum, const float *const row_8[RML_ROWS],
                          const float weight_8[RML_ROWS], size_t n) {
  size_t c = 0;
  for (; c + LANES <= n; c += LANES) {
    vfloat s = *(const vfloat *)(sum + c);
    for (int k = 0; k < RML_ROWS; k++) s += weight_8[k] * *(const vfloat *)(row_8[k] + c);
    *(vfloat *)(sum + c) = s;
  }
  for (; c < n; c++)
    for (int k = 0; k < RML_ROWS; k++) sum[c] += weight_8[k] * row_8[k][c];
}

/* Columns [0, vectors * LANES) of out, accumulators in registers. `vectors` is a constant at each
 * call, so the loops over v unroll. */
static inline __attribute__((always_inline)) void dense_tile(float *out, const float *x,
                                                             const float *w, const float *b,
                                                             size_t o, size_t a, int vectors) {
  vfloat sum[8];
  for (int v = 0; v < vectors; v++) sum[v] = *(const vfloat *)(b + v * LANES);
  for (size_t i = 0; i < o; i++, w += a) {
    const float xi = x[i];
    for (int v = 0; v < vectors; v++) sum[v] += xi * *(const vfloat *)(w + v * LANES);
  }
  for (int v = 0; v < vectors; v++) *(vfloat *)(out + v * LANES) = sum[v];
}

typedef float vfloat4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Columns [j, j + 4) of two members at once: their chains of dependent additions run side by
 * side. */
static void dense_four(float *const out_2[2], const float *const x_2[2],
                       const float *const w_2[2], const float *const b_2[2], size_t o, size_t a,
                       size_t j) {
  const float *x0 = x_2[0], *x1 = x_2[1], *w0 = w_2[0] + j, *w1 = w_2[1] + j;
  vfloat4 sum0 = *(const vfloat4 *)(b_2[0] + j), sum1 = *(const vfloat4 *)(b_2[1] + j);
  for (size_t i = 0; i < o; i++) {
    sum0 += x0[i] * *(const vfloat4 *)(w0 + i * a);
    sum1 += x1[i] * *(const vfloat4 *)(w1 + i * a);
  }
  *(vfloat4 *)(out_2[0] + j) = sum0;
  *(vfloat4 *)(out_2[1] + j) = sum1;
}

/* The last one to three columns, of two members at once. */
static void dense_tail(float *const out_2[2], const float *const x_2[2],
                       const float *const w_2[2], const float *const b_2[2], size_t o, size_t a,
                       size_t j) {
  for (; j < a; j++) {
    float sum0 = b_2[0][j], sum1 = b_2[1][j];
    for (size_t i = 0; i < o; i++) {
      sum0 += x_2[0][i] * w_2[0][i * a + j];
      sum1 += x_2[1][i] * w_2[1][i * a + j];
    }
    out_2[0][j] = sum0;
    out_2[1][j] = sum1;
  }
}

static void dense(float *const out_2[2], const float *const x_2[2], const float *const w_2[2],
                  const float *const b_2[2], size_t o, size_t a, int members) {
  size_t j = 0;
  for (int m = 0; m < members; m++) {
    const float *x = x_2[m], *w = w_2[m], *b = b_2[m];
    float *out = out_2[m];
    for (j = 0; j + 8 * LANES <= a; j += 8 * LANES) dense_tile(out + j, x, w + j, b + j, o, a, 8);
    if (j + 4 * LANES <= a) {
      dense_tile(out + j, x, w + j, b + j, o, a, 4);
      j += 4 * LANES;
    }
    if (j + 2 * LANES <= a) {
      dense_tile(out + j, x, w + j, b + j, o, a, 2);
      j += 2 * LANES;
    }
    if (j + LANES <= a) {
      dense_tile(out + j, x, w + j, b + j, o, a, 1);
      j += LANES;
    }
  }
  for (; j + 4 <= a; j += 4) dense_four(out_2, x_2, w_2, b_2, o, a, j);
  if (j < a) dense_tail(out_2, x_2, w_2, b_2, o, a, j);
}

const rml_kernels RML_KERNELS = {
    .normal_groups = normal_groups,
    .dense = dense,
    .tanh = tanh_each,
    .relu = relu_each,
    .add = add,
    .perturb = perturb,
    .weighted_rows = weighted_rows,
};
