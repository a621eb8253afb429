#include "rollmill/isa.h"

#include "kernels.h"

static int runs(rml_isa isa) {
#ifdef RML_HAVE_V4
  if (isa == RML_ISA_V4)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && runs(RML_ISA_V3);
#endif
#ifdef RML_HAVE_V3
  if (isa == RML_ISA_V3)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
#endif
  return isa == RML_ISA_BASE;
}

rml_isa rml_isa_resolve(rml_isa isa) {
  if (isa == RML_ISA_AUTO) isa = runs(RML_ISA_V4) ? RML_ISA_V4 : RML_ISA_V3;
  return runs(isa) ? isa : RML_ISA_BASE;
}

const rml_kernels *rml_kernels_get(rml_isa isa) {
  switch (rml_isa_resolve(isa)) {
#ifdef RML_HAVE_V4
    case RML_ISA_V4:
      return &rml_kernels_v4;
#endif
#ifdef RML_HAVE_V3
    case RML_ISA_V3:
      return &rml_kernels_v3;
#endif
    default:
      return &rml_kernels_base;
  }
}
