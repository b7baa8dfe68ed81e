// Asks the processor, at run time, for the instruction sets that the core is built for.
#include "regard/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard {
namespace {

#if defined(__x86_64__)
// Conversion of float16, which not every compiler's builtin knows.
bool has_f16c() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// Linux keeps the tiles of a process only if it has asked for them.
bool detect_amx() noexcept {
#if defined(__x86_64__) && defined(__linux__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kSaved = 1u << 27;  // of leaf 1: the system saves registers by XSAVE
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSaved) == 0) return false;
    constexpr unsigned kTiles = 1u << 24, kTilesOfBFloat16 = 1u << 22, kBFloat16 = 1u << 5;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    if ((d & kTiles) == 0 || (d & kTilesOfBFloat16) == 0) return false;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kBFloat16) == 0) return false;
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kState = 3u << 17;  // the tiles and their shape
    if ((low & kState) != kState) return false;
    constexpr long kAskFor = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
#else
    return false;
#endif
}

InstructionSet detect() noexcept {
#if defined(__aarch64__)
    return InstructionSet::neon;  // every 64-bit Arm processor has it
#elif defined(__x86_64__) && defined(__GNUC__)
    // The builtin answers for the operating system too: it reads XCR0, so a set whose registers
    // are not saved on a task switch counts as missing.
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return InstructionSet::avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
        return InstructionSet::avx2;
    }
    return InstructionSet::portable;
#else
    return InstructionSet::portable;
#endif
}

}  // namespace

InstructionSet instruction_set() noexcept {
    static const InstructionSet detected = detect();
    return detected;
}

bool has_amx() noexcept {
    static const bool detected = detect_amx();
    return detected;
}

const char* name(InstructionSet set) noexcept {
    switch (set) {
        case InstructionSet::avx512: return "avx512";
        case InstructionSet::avx2: return "avx2";
        case InstructionSet::neon: return "neon";
        case InstructionSet::portable: break;
    }
    return "portable";
}

const char* version() noexcept { return REGARD_VERSION; }

}  // namespace regard
