// Which build of the kernel serves a call: the best that this processor can run.
#include <atomic>
#include <cstring>

#include "kernel.h"
#include "regard/cpu.h"
#include "threads.h"

namespace regard {
namespace {

// From the best to the least; AVX-512 processors use what there is for them.
const Kernel* const kKernels[] = {
#if defined(REGARD_AVX2)
    &avx2::kernel,
#endif
#if defined(REGARD_ARM)
    &neon::kernel,
#endif
    &portable::kernel,
#if defined(REGARD_WIDE)
    &wide::kernel,
#endif
};

bool can_run(const Kernel& kernel) {
    if (std::strcmp(kernel.name, "avx2") != 0) return true;
    return instruction_set() == InstructionSet::avx2 || instruction_set() == InstructionSet::avx512;
}

const Kernel* best() {
    for (const Kernel* kernel : kKernels) {
        if (can_run(*kernel)) return kernel;
    }
    return &portable::kernel;
}

std::atomic<const Kernel*>& in_use() {
    static std::atomic<const Kernel*> kernel{best()};
    return kernel;
}

const Kernel& kernel() { return *in_use().load(std::memory_order_relaxed); }

}  // namespace

const char* kernel_name() noexcept { return kernel().name; }

bool use_kernel(const char* name) noexcept {
    if (name == nullptr) {
        in_use() = best();
        return true;
    }
    for (const Kernel* one : kKernels) {
        if (std::strcmp(one->name, name) == 0 && can_run(*one)) {
            in_use() = one;
            return true;
        }
    }
    return false;
}

void attention(const Problem& problem, const RowsOut& output, const Seen& seen, int threads) {
    const Calling calling;
    kernel().attention(problem, output, seen, threads);
}

void attention_backward(const Problem& problem, const Attended& attended,
                        const Gradients& gradients, int threads) {
    const Calling calling;
    kernel().attention_backward(problem, attended, gradients, threads);
}

void weights(const Problem& problem, const float* lse, const Rectangle& rectangle, float* out,
             int threads) {
    const Calling calling;
    kernel().weights(problem, lse, rectangle, out, threads);
}

void pooled(const Problem& problem, const float* lse, const Rectangle& rectangle,
            std::int64_t pixel_rows, std::int64_t pixel_columns, Reduce reduce, float* out,
            int threads) {
    const Calling calling;
    kernel().pooled(problem, lse, rectangle, pixel_rows, pixel_columns, reduce, out, threads);
}

void kept(const Dropout& dropout, std::int64_t b, std::int64_t heads, const Rectangle& rectangle,
          float* out, int threads) {
    const Calling calling;
    kernel().kept(dropout, b, heads, rectangle, out, threads);
}

void linear(const Linear& map, int threads) {
    const Calling calling;
    kernel().linear(map, threads);
}

void multiply(const Product<float>& product, int threads) {
    const Calling calling;
    kernel().multiply_floats(product, threads);
}

void multiply(const Product<double>& product, int threads) {
    const Calling calling;
    kernel().multiply_doubles(product, threads);
}

double measure_peak(double seconds) { return kernel().measure_peak(seconds); }

}  // namespace regard
