#define RML_KERNELS rml_kernels_v4
#include "kernels_body.h"
