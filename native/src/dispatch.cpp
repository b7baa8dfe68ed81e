// Which build of the kernel serves a call: the best that this processor can run.
#include <atomic>
#include <cstring>

#include "kernel.h"
#include "regard/cpu.h"
#include "threads.h"

namespace regard {
namespace {

// A build, and the one that serves float64 beside it.
struct Build {
    const Kernel& floats;
    const AttentionOf<double>& doubles;
};

// From the best to the least.
const Build kBuilds[] = {
#if defined(REGARD_AMX_BUILT)
    {amx::kernel, avx512_double::kernel},
#endif
#if defined(REGARD_AVX2)
    {avx512::kernel, avx512_double::kernel},     {avx2::kernel, avx2_double::kernel},
#endif
#if defined(REGARD_ARM)
    {neon::kernel, portable_double::kernel},
#endif
    {portable::kernel, portable_double::kernel},
#if defined(REGARD_WIDE)
    {wide::kernel, portable_double::kernel},
#endif
};

bool can_run(const Kernel& kernel) {
    if (std::strcmp(kernel.name, "amx") == 0) {
        return instruction_set() == InstructionSet::avx512 && has_amx();
    }
    if (std::strcmp(kernel.name, "avx512") == 0) {
        return instruction_set() == InstructionSet::avx512;
    }
    if (std::strcmp(kernel.name, "avx2") != 0) return true;
    return instruction_set() == InstructionSet::avx2 || instruction_set() == InstructionSet::avx512;
}

const Build& best() {
    for (const Build& build : kBuilds) {
        if (can_run(build.floats)) return build;
    }
    return kBuilds[0];
}

std::atomic<const Build*>& in_use() {
    static std::atomic<const Build*> build{&best()};
    return build;
}

const Kernel& kernel() { return in_use().load(std::memory_order_relaxed)->floats; }

template <typename Real>
const AttentionOf<Real>& attention_of() {
    if constexpr (sizeof(Real) == sizeof(double)) {
        return in_use().load(std::memory_order_relaxed)->doubles;
    } else {
        return kernel().attention;
    }
}

}  // namespace

const char* kernel_name() noexcept { return kernel().name; }

const char* kernel_name(int n) noexcept {
    for (const Build& build : kBuilds) {
        if (can_run(build.floats) && n-- == 0) return build.floats.name;
    }
    return nullptr;
}

bool use_kernel(const char* name) noexcept {
    if (name == nullptr) {
        in_use() = &best();
        return true;
    }
    for (const Build& build : kBuilds) {
        if (std::strcmp(build.floats.name, name) == 0 && can_run(build.floats)) {
            in_use() = &build;
            return true;
        }
    }
    return false;
}

template <typename Real>
void attention(const ProblemOf<Real>& problem, const RowsOut& output, const SeenOf<Real>& seen,
               int threads) {
    const Calling calling;
    attention_of<Real>().attention(problem, output, seen, threads);
}

template <typename Real>
void attention_backward(const ProblemOf<Real>& problem, const AttendedOf<Real>& attended,
                        const Gradients& gradients, int threads) {
    const Calling calling;
    attention_of<Real>().attention_backward(problem, attended, gradients, threads);
}

template <typename Real>
void weights(const ProblemOf<Real>& problem, const Real* lse, const Rectangle& rectangle, Real* out,
             int threads) {
    const Calling calling;
    attention_of<Real>().weights(problem, lse, rectangle, out, threads);
}

template <typename Real>
void pooled(const ProblemOf<Real>& problem, const Real* lse, const Rectangle& rectangle,
            std::int64_t pixel_rows, std::int64_t pixel_columns, Reduce reduce, Real* out,
            int threads) {
    const Calling calling;
    attention_of<Real>().pooled(problem, lse, rectangle, pixel_rows, pixel_columns, reduce, out,
                                threads);
}

#define REGARD_FOR(Real)                                                                       \
    template void attention(const ProblemOf<Real>&, const RowsOut&, const SeenOf<Real>&, int); \
    template void attention_backward(const ProblemOf<Real>&, const AttendedOf<Real>&,          \
                                     const Gradients&, int);                                   \
    template void weights(const ProblemOf<Real>&, const Real*, const Rectangle&, Real*, int);  \
    template void pooled(const ProblemOf<Real>&, const Real*, const Rectangle&, std::int64_t,  \
                         std::int64_t, Reduce, Real*, int);
REGARD_FOR(float)
REGARD_FOR(double)

void kept(const Dropout& dropout, std::int64_t b, std::int64_t heads, const Rectangle& rectangle,
          float* out, int threads) {
    const Calling calling;
    kernel().kept(dropout, b, heads, rectangle, out, threads);
}

void linear(const Linear& call, int threads) {
    const Calling calling;
    kernel().linear(call, threads);
}

void multiply(const Product<float>& product, int threads) {
    const Calling calling;
    kernel().multiply_floats(product, threads);
}

void multiply(const Product<double>& product, int threads) {
    const Calling calling;
    kernel().multiply_doubles(product, threads);
}

void rms_norm(const RmsNorm& call, int threads) {
    const Calling calling;
    kernel().rms_norm(call, threads);
}

void turn(const Turn& call, int threads) {
    const Calling calling;
    kernel().turn(call, threads);
}

void gated(const Two& call, int threads) {
    const Calling calling;
    kernel().gated(call, threads);
}

void add(const Two& call, int threads) {
    const Calling calling;
    kernel().add(call, threads);
}

double measure_peak(double seconds) { return kernel().measure_peak(seconds); }

}  // namespace regard
