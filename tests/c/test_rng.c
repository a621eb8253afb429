/* Philox against published vectors, counters against their layout, normals against Box and Muller
 * in double precision, builds against each other. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "rollmill/rng.h"

#define KEY 0x0123456789ABCDEFu

static const rml_isa isa_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};

static void check_philox(uint64_t key, const uint32_t counter_4[4], const uint32_t want_4[4]) {
  uint32_t got_4[4];
  rml_philox(got_4, key, counter_4[0], counter_4[1], counter_4[2], counter_4[3]);
  CHECK(memcmp(got_4, want_4, sizeof got_4) == 0);
}

/* Random123's kat_vectors for philox4x32 with 10 rounds. */
static void known_answers(void) {
  const uint32_t zero_4[4] = {0}, ones_4[4] = {~0u, ~0u, ~0u, ~0u};
  const uint32_t pi_4[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  check_philox(0, zero_4, (const uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check_philox(~(uint64_t)0, ones_4,
               (const uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check_philox(0x299f31d0a4093822u, pi_4,
               (const uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void counters_name_what_a_draw_is_for(void) {
  uint32_t got_4[4], want_4[4];
  rml_rng_block(got_4, KEY, RML_STREAM_ACTION, 17, 5, 0x00AB1234u | (uint64_t)0x345678 << 32);
  rml_philox(want_4, KEY, 0x00AB1234u, 17, 5, 0x07345678u);
  CHECK(memcmp(got_4, want_4, sizeof got_4) == 0);
  rml_rng_block(got_4, KEY, RML_STREAM_EVALUATION, 0, 0, 3);
  CHECK(rml_rng_derive(KEY, 3) == ((uint64_t)got_4[1] << 32 | got_4[0]));
  CHECK(rml_rng_derive(KEY, 0) != rml_rng_derive(KEY, 1));
}

static void draws_become_numbers_in_their_ranges(void) {
  CHECK(rml_rng_unit(0) == 0.0f && rml_rng_unit(255) == 0.0f && rml_rng_unit(256) == 0x1p-24f);
  CHECK(rml_rng_unit(0x80000000u) == 0.5f && rml_rng_unit(~0u) == 1.0f - 0x1p-24f);
  CHECK(rml_rng_below(0, 7) == 0 && rml_rng_below(~0u, 7) == 6 && rml_rng_below(~0u, 1) == 0);
  CHECK(rml_rng_below(~0u, ~0u) == ~0u - 1 && rml_rng_below(0x80000000u, 10) == 5);
}

/* Normal `number` of a stream from its definition in rng.h. In double precision but for u, which is
 * a float32 where `rounded`. */
static double normal(uint64_t number, uint64_t key, rml_stream stream, uint32_t item,
                     uint32_t iteration, int rounded) {
  const double pi = 3.14159265358979323846;
  const uint64_t group = number / 64;
  const unsigned word = (unsigned)(number % 64 / 16), lane = (unsigned)(number % 16);
  uint32_t draw_4[4];
  rml_rng_block(draw_4, key, stream, item, iteration, 16 * group + lane);
  const uint32_t radius = draw_4[word / 2 * 2], angle = draw_4[word / 2 * 2 + 1];
  const double u = rounded ? (double)((float)(radius >> 1) * 0x1p-31f + 0x1p-32f)
                           : (double)(radius >> 1) * 0x1p-31 + 0x1p-32;
  const double r = sqrt(-2.0 * log(u));
  /* An angle in [-pi/2, pi/2) from the low 31 bits; the highest bit negates the cosine. */
  const double low = (double)(angle & 0x7FFFFFFFu);
  const double phi = pi / 2 * (low >= 0x1p30 ? low - 0x1p31 : low) * 0x1p-30;
  if (word % 2) return r * sin(phi);
  return angle >> 31 ? -r * cos(phi) : r * cos(phi);
}

/* The polynomials keep their bounds; the rounding of u, which matters near 1 where the radius is
 * sqrt(2 (1 - u)), costs at most sqrt(2^-24). */
static void normals_follow_box_and_muller(void) {
  static float x_k[1 << 18];
  const size_t n = sizeof x_k / sizeof *x_k;
  double worst = 0, whole = 0, largest = 0, sum = 0, squares = 0;
  CHECK(rml_normal_fill(x_k, n, KEY, RML_STREAM_INIT, 3, 9, 0, RML_ISA_AUTO) == RML_OK);
  for (size_t i = 0; i < n; i++) {
    worst = fmax(worst, fabs(x_k[i] - normal(i, KEY, RML_STREAM_INIT, 3, 9, 1)));
    whole = fmax(whole, fabs(x_k[i] - normal(i, KEY, RML_STREAM_INIT, 3, 9, 0)));
    largest = fmax(largest, fabs((double)x_k[i]));
    sum += x_k[i];
    squares += (double)x_k[i] * x_k[i];
  }
  printf("normals: largest error %.3g, with the rounding of u %.3g, largest value %.3g\n", worst,
         whole, largest);
  CHECK(worst < 2e-6 && whole < 0x1p-12 && largest <= 6.67);
  CHECK(fabs(sum / (double)n) < 4 / sqrt((double)n));
  CHECK(fabs(squares / (double)n - 1) < 4 * sqrt(2 / (double)n));
}

/* Every size and start, the bytes around the output, and each build. */
static void any_range_of_a_stream_has_its_bits(void) {
  enum { LONG = 1400, GUARD = 8 };
  static const size_t size_9[9] = {0, 1, 7, 8, 9, 63, 64, 65, 1025};
  static const size_t start_8[8] = {0, 1, 15, 16, 63, 64, 65, 200};
  static float all_k[LONG], raw_k[GUARD + LONG + GUARD + 1];
  CHECK(rml_normal_fill(all_k, LONG, KEY, RML_STREAM_NOISE, 1, 2, 0, RML_ISA_BASE) == RML_OK);
  for (int b = 0; b < 3; b++)
    for (int s = 0; s < 9; s++)
      for (int f = 0; f < 8; f++)
        for (size_t shift = 0; shift < 2; shift++) { /* no alignment but a float's is asked for */
          float *x_k = raw_k + GUARD + shift;
          memset(raw_k, 0xA5, sizeof raw_k);
          CHECK(rml_normal_fill(x_k, size_9[s], KEY, RML_STREAM_NOISE, 1, 2, start_8[f],
                                isa_3[b]) == RML_OK);
          CHECK(memcmp(x_k, all_k + start_8[f], size_9[s] * sizeof(float)) == 0);
          for (const unsigned char *at = (const unsigned char *)raw_k;
               at < (const unsigned char *)(raw_k + sizeof raw_k / sizeof *raw_k); at++)
            if (at < (unsigned char *)x_k || at >= (unsigned char *)(x_k + size_9[s]))
              CHECK(*at == 0xA5);
        }
}

/* The block number's upper bits reach the counter: normals past 2^34 are not those of the start. */
static void long_streams_do_not_repeat(void) {
  const uint64_t far_3[3] = {(uint64_t)1 << 34, (uint64_t)1 << 40, ((uint64_t)1 << 58) - 64};
  for (int i = 0; i < 3; i++)
    for (int b = 0; b < 3; b++) {
      float x_k[64];
      CHECK(rml_normal_fill(x_k, 64, KEY, RML_STREAM_NOISE, 0, 0, far_3[i], isa_3[b]) == RML_OK);
      for (unsigned j = 0; j < 64; j++)
        CHECK(fabs(x_k[j] - normal(far_3[i] + j, KEY, RML_STREAM_NOISE, 0, 0, 1)) < 2e-6);
    }
}

static void refused_calls_write_nothing(void) {
  float x_k[4] = {1, 2, 3, 4};
  const uint64_t end = (uint64_t)1 << 58; /* 2^56 blocks of four draws */
  CHECK(rml_normal_fill(x_k, 1, KEY, RML_STREAM_NOISE, 0, 0, end, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_normal_fill(x_k, 2, KEY, RML_STREAM_NOISE, 0, 0, end - 1, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(rml_normal_fill(x_k, SIZE_MAX, KEY, RML_STREAM_NOISE, 0, 0, 9, RML_ISA_AUTO) ==
        RML_EINVAL);
  CHECK(rml_normal_fill(x_k, 1, KEY, RML_STREAM_NOISE, 0, 0, UINT64_MAX, RML_ISA_AUTO) ==
        RML_EINVAL);
  CHECK(rml_normal_fill(x_k, 1, KEY, (rml_stream)256, 0, 0, 0, RML_ISA_AUTO) == RML_EINVAL);
  CHECK(x_k[0] == 1 && x_k[1] == 2 && x_k[2] == 3 && x_k[3] == 4);
  CHECK(rml_normal_fill(NULL, 0, KEY, RML_STREAM_NOISE, 0, 0, end, RML_ISA_AUTO) == RML_OK);
}

int main(void) {
  known_answers();
  counters_name_what_a_draw_is_for();
  draws_become_numbers_in_their_ranges();
  normals_follow_box_and_muller();
  any_range_of_a_stream_has_its_bits();
  long_streams_do_not_repeat();
  refused_calls_write_nothing();
  return 0;
}
