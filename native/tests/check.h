// CHECK(condition): what the tests of the core use. A failure is printed and counted; a test's main
// returns check::result().
#pragma once

#include <cstdio>
#include <string>

namespace check {

inline int failures = 0;

// A failure in words, for what no single condition says. After twenty, only the count goes on.
inline void failed(const std::string& what) {
    ++failures;
    if (failures <= 20) std::fprintf(stderr, "does not hold: %s\n", what.c_str());
    if (failures == 21) std::fprintf(stderr, "and more, which are only counted\n");
}

inline void that(bool held, const char* condition, const char* file, int line) {
    if (!held) failed(std::string(condition) + " at " + file + ":" + std::to_string(line));
}

inline int result() {
    if (failures != 0) std::fprintf(stderr, "%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}

}  // namespace check

#define CHECK(...) ::check::that(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
