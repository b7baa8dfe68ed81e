// CHECK(condition): what the tests of the core use. A failure is printed and counted; a test's main
// returns check::result().
#pragma once

#include <cstdio>

namespace check {

inline int failures = 0;

inline void that(bool held, const char* condition, const char* file, int line) {
    if (held) return;
    ++failures;
    std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
}

inline int result() { return failures == 0 ? 0 : 1; }

}  // namespace check

#define CHECK(...) ::check::that(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
