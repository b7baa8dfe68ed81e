// The Python module regard._native: hands calls over to the core. No arithmetic.
#include <nanobind/nanobind.h>

#include "regard/cpu.h"

NB_MODULE(_native, module) {
    module.doc() = "The native part of regard.";

    module.def("version", &regard::version,
               "The version of the package that the native part was built for.");
    module.def(
        "instruction_set", [] { return regard::name(regard::instruction_set()); },
        "The instruction set in use here: \"avx512\", \"avx2\", \"neon\" or \"portable\".");
}
