/* Status codes: every function that can fail returns one. */
#ifndef ROLLMILL_STATUS_H
#define ROLLMILL_STATUS_H

#ifdef __cplusplus
#define RML_RESTRICT __restrict
extern "C" {
#else
#define RML_RESTRICT restrict
#endif

typedef enum rml_status {
  RML_OK = 0,
  RML_EINVAL = -1,       /* an argument is out of its documented range; nothing was written */
  RML_ENOMEM = -2,       /* a buffer handed in is too small */
  RML_EABI = -3,         /* a struct of another ABI version or size */
  RML_EACTION = -4,      /* an action outside the action space; no environment was touched */
  RML_EENV = -5,         /* an environment's reset or step failed */
  RML_EINTERRUPTED = -6, /* the caller's stop flag was raised */
  RML_ENONFINITE = -7    /* a return or an observation is NaN or infinite */
} rml_status;

/* One short English sentence for a status; never NULL. */
const char *rml_status_text(rml_status status);

#ifdef __cplusplus
}
#endif
#endif
