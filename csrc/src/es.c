#include "rollmill/es.h"

#include <string.h>

#include "kernels.h"

/* An integer whose order is that of the values; -0 is 0. */
static uint64_t sort_key(double value) {
  uint64_t bits;
  value += 0.0;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ (((uint64_t)0 - (bits >> 63)) | (uint64_t)1 << 63);
}

/* Sorts order[0, n) by value, a byte of the key at a time, the lowest first; bytes that all keys
 * share are passed over. spare holds n words. */
static void sort(uint32_t *order, uint32_t *spare, const double *value, size_t n) {
  uint32_t count[8][256] = {{0}};
  uint32_t *from = order, *to = spare;
  for (size_t i = 0; i < n; i++) {
    uint64_t key = sort_key(value[i]);
    for (int byte = 0; byte < 8; byte++) count[byte][key >> 8 * byte & 255]++;
  }
  for (int byte = 0; byte < 8; byte++) {
    uint32_t *place = count[byte], before = 0;
    if (place[sort_key(value[0]) >> 8 * byte & 255] == n) continue;
    for (int digit = 0; digit < 256; digit++) {
      uint32_t here = place[digit];
      place[digit] = before;
      before += here;
    }
    for (size_t i = 0; i < n; i++)
      to[place[sort_key(value[from[i]]) >> 8 * byte & 255]++] = from[i];
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != order) memcpy(order, from, n * sizeof *order);
}

rml_status rml_es_rank(float *rank_n, const double *value_n, size_t n, uint32_t *order_n) {
  if (n > UINT32_MAX) return RML_EINVAL;
  for (size_t i = 0; i < n; i++)
    if (value_n[i] != value_n[i]) return RML_ENONFINITE;
  for (size_t i = 0; i < n; i++) order_n[i] = (uint32_t)i;
  if (n) sort(order_n, order_n + n, value_n, n);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && value_n[order_n[end]] == value_n[order_n[i]];) end++;
    double mean = 0.5 * (double)(i + end - 1);
    float rank = n > 1 ? (float)(mean / (double)(n - 1) - 0.5) : 0.0f;
    for (size_t k = i; k < end; k++) rank_n[order_n[k]] = rank;
  }
  return RML_OK;
}

/* Levels of the tree over the blocks of p pairs, a partial sum each. */
static size_t levels(size_t p) {
  size_t blocks = (p + RML_ES_BLOCK - 1) / RML_ES_BLOCK, n = 1;
  while (blocks >>= 1) n++;
  return n;
}

size_t rml_es_scratch(size_t p) {
  return (levels(p) + 1 + RML_ROWS) * RML_ES_TILE * sizeof(float);
}

/* What the sum of one tile needs to know. */
typedef struct tile {
  const rml_noise *noise;
  const uint64_t *index_p;
  const float *weight_p;
  size_t first, n; /* columns [first, first + n) */
  const rml_blas *blas;
  float *made; /* [RML_ROWS][RML_ES_TILE]: noise, where there is no table */
  rml_isa isa;
} tile;

static const float *row(const tile *t, size_t pair, float *made) {
  uint64_t start = t->index_p[pair] + t->first;
  if (t->noise->table_k) return t->noise->table_k + start;
  rml_noise_fill(made, t->n, t->noise, start, t->isa);
  return made;
}

/* block += the rows of pairs [first, last), by our kernel. */
static void add_rows(const tile *t, float *block, size_t first, size_t last) {
  const rml_kernels *kernels = rml_kernels_get(t->isa);
  for (size_t k = first; k < last; k += RML_ROWS) {
    const float *row_8[RML_ROWS];
    float weight_8[RML_ROWS] = {0}, any = 0.0f;
    for (size_t i = 0; i < RML_ROWS && k + i < last; i++) {
      weight_8[i] = t->weight_p[k + i];
      any = weight_8[i] != 0.0f ? 1.0f : any;
    }
    if (any == 0.0f) continue;
    for (size_t i = 0; i < RML_ROWS; i++) /* past the end: a row again, with weight 0 */
      row_8[i] = k + i < last ? row(t, k + i, t->made + i * RML_ES_TILE) : row_8[i - 1];
    kernels->weighted_rows(block, row_8, weight_8, t->n);
  }
}

/* block += the rows of pairs [first, last), by BLAS. */
static void add_rows_blas(const tile *t, float *block, size_t first, size_t last) {
  int n = (int)t->n, one = 1;
  for (size_t k = first; k < last; k++) {
    float weight = t->weight_p[k];
    if (weight == 0.0f) continue;
    float *x = (float *)row(t, k, t->made); /* BLAS only reads it */
    t->blas->saxpy(&n, &weight, x, &one, block, &one);
  }
}

rml_status rml_es_noise_sum(float *sum_d, size_t begin, size_t end, size_t d,
                            const rml_noise *noise, const uint64_t *index_p, const float *weight_p,
                            size_t p, const rml_blas *blas, void *scratch, rml_isa isa) {
  if (begin % RML_ES_TILE || begin > end || end > d || noise->size > RML_NOISE_SIZE_MAX ||
      d > noise->size)
    return RML_EINVAL;
  for (size_t k = 0; k < p; k++)
    if (index_p[k] > noise->size - d) return RML_EINVAL;
  const rml_kernels *kernels = rml_kernels_get(isa);
  float *partial = scratch; /* [levels][RML_ES_TILE] */
  float *block = partial + levels(p) * RML_ES_TILE;
  tile t = {.noise = noise,
            .index_p = index_p,
            .weight_p = weight_p,
            .blas = blas,
            .made = block + RML_ES_TILE,
            .isa = isa};
  for (t.first = begin; t.first < end; t.first += RML_ES_TILE) {
    t.n = end - t.first < RML_ES_TILE ? end - t.first : RML_ES_TILE;
    float *sum = sum_d + t.first;
    size_t bytes = t.n * sizeof(float), blocks = 0;
    for (size_t first = 0; first < p; first += RML_ES_BLOCK, blocks++) {
      size_t last = first + RML_ES_BLOCK < p ? first + RML_ES_BLOCK : p, level = 0;
      memset(block, 0, bytes);
      (blas ? add_rows_blas : add_rows)(&t, block, first, last);
      for (; blocks >> level & 1; level++)
        kernels->add(block, partial + level * RML_ES_TILE, block, t.n);
      memcpy(partial + level * RML_ES_TILE, block, bytes);
    }
    int any = 0;
    memset(sum, 0, bytes);
    for (size_t level = 0; blocks >> level; level++) {
      if (!(blocks >> level & 1)) continue;
      if (any)
        kernels->add(sum, partial + level * RML_ES_TILE, sum, t.n);
      else
        memcpy(sum, partial + level * RML_ES_TILE, bytes);
      any = 1;
    }
  }
  return RML_OK;
}
