#define RML_KERNELS rml_kernels_v3
#include "kernels_body.h"
