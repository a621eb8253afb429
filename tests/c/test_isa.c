/* Which build runs: a resolved instruction set is one that runs here, and asking for a build gives
 * that build or the base, never another. */
#include "check.h"
#include "rollmill/isa.h"

int main(void) {
  const rml_isa all_3[3] = {RML_ISA_BASE, RML_ISA_V3, RML_ISA_V4};
  CHECK(rml_isa_resolve(RML_ISA_BASE) == RML_ISA_BASE);
  rml_isa widest = RML_ISA_BASE;
  for (int i = 0; i < 3; i++) {
    const rml_isa found = rml_isa_resolve(all_3[i]);
    CHECK(found == all_3[i] || found == RML_ISA_BASE);
    CHECK(rml_isa_resolve(found) == found);
    if (found == all_3[i]) widest = found;
  }
  CHECK(rml_isa_resolve(RML_ISA_AUTO) == widest);
  if (rml_isa_resolve(RML_ISA_V4) == RML_ISA_V4)
    CHECK(rml_isa_resolve(RML_ISA_V3) == RML_ISA_V3);
  /* Numbers that name no build. */
  const int none_4[4] = {-1, 2, 5, 1000};
  for (int i = 0; i < 4; i++) CHECK(rml_isa_resolve((rml_isa)none_4[i]) == RML_ISA_BASE);
  return 0;
}
