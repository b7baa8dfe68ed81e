// What the processor we run on can do, which build of the kernel it gets, and which version of the
// core this is.
#pragma once

namespace regard {

// The instruction sets the core is built for, from the most to the least specific.
enum class InstructionSet {
    avx512,    // AVX-512 F, BW, DQ and VL
    avx2,      // AVX2, FMA and F16C
    neon,      // 64-bit Arm
    portable,  // whatever the compiler makes of plain C++
};

// The best of them that both this processor and its operating system support. The same for the
// life of the process.
InstructionSet instruction_set() noexcept;

// Whether the processor multiplies tiles of bfloat16 (AMX, with AVX512_BF16), and the operating
// system lets this process use them: it is asked once, when first somebody wants to know.
bool has_amx() noexcept;

// "avx512", "avx2", "neon" or "portable". Never null.
const char* name(InstructionSet set) noexcept;

// The build of the kernel in use: "amx" (which is "avx512" but for bfloat16), "avx512", "avx2",
// "neon" or "portable". Never null. Which it is decides on the last bits of a result: a sum over
// wider vectors is another sum.
const char* kernel_name() noexcept;

// Build `n` of those that this processor can run, the best first; null behind the last.
const char* kernel_name(int n) noexcept;

// Use the build of this name from now on, the best for null. False, and no change, if there is none
// or this processor cannot run it. For tests and comparisons.
bool use_kernel(const char* name) noexcept;

// The version of the package that the core was built for, such as "0.1.0". Never null.
const char* version() noexcept;

}  // namespace regard
