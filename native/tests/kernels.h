// Runs a test on every build of the kernel that this processor can run.
#pragma once

#include <string>

#include "check.h"
#include "regard/cpu.h"

namespace kernels {

// Calls act(name) with each kernel in use; afterwards the best one is in use again.
template <typename Act>
void for_each(Act act) {
    for (int n = 0; const char* name = regard::kernel_name(n); ++n) {
        CHECK(regard::use_kernel(name));
        CHECK(std::string(regard::kernel_name()) == name);
        act(std::string(name));
    }
    CHECK(regard::use_kernel(nullptr));
}

}  // namespace kernels
