#include "rollmill/status.h"

const char *rml_status_text(rml_status status) {
  switch (status) {
    case RML_OK: return "no error";
    case RML_EINVAL: return "an argument is out of its documented range";
    case RML_ENOMEM: return "a buffer is too small";
    case RML_EABI: return "the struct was built for another version of the binary interface";
    case RML_EACTION: return "an action is outside the action space";
    case RML_EENV: return "the environment's reset or step failed";
    case RML_EINTERRUPTED: return "interrupted";
    case RML_ENONFINITE: return "a return or an observation is NaN or infinite";
  }
  return "unknown status";
}
