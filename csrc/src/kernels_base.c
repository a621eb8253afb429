#define RML_KERNELS rml_kernels_base
#include "kernels_body.h"
