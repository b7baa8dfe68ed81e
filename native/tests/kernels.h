// Runs a test on every build of the kernel that this processor can run.
#pragma once

#include <string>

#include "check.h"
#include "regard/cpu.h"

namespace kernels {

// Calls act(name) with each kernel in use; afterwards the best one is in use again.
template <typename Act>
void for_each(Act act) {
    int tried = 0;
    for (const char* name : {"avx512", "avx2", "neon", "portable", "wide"}) {
        if (!regard::use_kernel(name)) continue;
        CHECK(std::string(regard::kernel_name()) == name);
        act(std::string(name));
        ++tried;
    }
    CHECK(tried > 0);
    CHECK(regard::use_kernel(nullptr));
}

}  // namespace kernels
