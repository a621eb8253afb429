/* Versions of the library and of its binary interface. */
#ifndef ROLLMILL_VERSION_H
#define ROLLMILL_VERSION_H

#define RML_VERSION "0.1.0"

/* Raised whenever a public struct or the meaning of a field changes. */
#define RML_ABI_VERSION 1u

#endif
