/* Which build of the compute-bound loops to run. All builds give the same bits. */
#ifndef ROLLMILL_ISA_H
#define ROLLMILL_ISA_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rml_isa {
  RML_ISA_AUTO = 0, /* the widest that this processor runs */
  RML_ISA_BASE = 1, /* what the compiler's default target has */
  RML_ISA_V3 = 3,   /* x86-64-v3: AVX2 */
  RML_ISA_V4 = 4    /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
} rml_isa;

/* The build that `isa` leads to here: never AUTO; BASE where the processor or this build of the
 * library lacks the one asked for. */
rml_isa rml_isa_resolve(rml_isa isa);

#ifdef __cplusplus
}
#endif
#endif
