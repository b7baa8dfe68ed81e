// The entry points of one build of the kernel.
#pragma once

#include "regard/attention.h"
#include "regard/linear.h"
#include "regard/multiply.h"
#include "regard/tokens.h"

namespace regard {

// Attention, in numbers of one type.
template <typename Real>
struct AttentionOf {
    void (*attention)(const ProblemOf<Real>&, const RowsOut&, const SeenOf<Real>&, int threads);
    void (*attention_backward)(const ProblemOf<Real>&, const AttendedOf<Real>&, const Gradients&,
                               int threads);
    void (*weights)(const ProblemOf<Real>&, const Real* lse, const Rectangle&, Real* out,
                    int threads);
    void (*pooled)(const ProblemOf<Real>&, const Real* lse, const Rectangle&,
                   std::int64_t pixel_rows, std::int64_t pixel_columns, Reduce, Real* out,
                   int threads);
};

// All the rest is in a build for float32.
struct Kernel {
    const char* name;
    AttentionOf<float> attention;
    void (*kept)(const Dropout&, std::int64_t b, std::int64_t heads, const Rectangle&, float* out,
                 int threads);
    double (*measure_peak)(double seconds);
    void (*linear)(const Linear&, int threads);
    void (*multiply_floats)(const Product<float>&, int threads);
    void (*multiply_doubles)(const Product<double>&, int threads);
    void (*rms_norm)(const RmsNorm&, int threads);
    void (*turn)(const Turn&, int threads);
    void (*gated)(const Two&, int threads);
    void (*add)(const Two&, int threads);
};

// Which of them there are depends on the processor that the core is built for.
namespace portable {
extern const Kernel kernel;
}
namespace portable_double {
extern const AttentionOf<double> kernel;
}
namespace avx2 {
extern const Kernel kernel;
}
namespace avx512 {
extern const Kernel kernel;
}
namespace amx {
extern const Kernel kernel;
}
namespace avx2_double {
extern const AttentionOf<double> kernel;
}
namespace avx512_double {
extern const AttentionOf<double> kernel;
}
namespace neon {
extern const Kernel kernel;
}
namespace wide {
extern const Kernel kernel;
}

}  // namespace regard
