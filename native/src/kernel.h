// The entry points of one build of the kernel.
#pragma once

#include "regard/attention.h"
#include "regard/linear.h"
#include "regard/multiply.h"

namespace regard {

struct Kernel {
    const char* name;
    void (*attention)(const Problem&, const RowsOut&, const Seen&, int threads);
    void (*attention_backward)(const Problem&, const Attended&, const Gradients&, int threads);
    void (*weights)(const Problem&, const float* lse, const Rectangle&, float* out, int threads);
    void (*pooled)(const Problem&, const float* lse, const Rectangle&, std::int64_t pixel_rows,
                   std::int64_t pixel_columns, Reduce, float* out, int threads);
    void (*kept)(const Dropout&, std::int64_t b, std::int64_t heads, const Rectangle&, float* out,
                 int threads);
    double (*measure_peak)(double seconds);
    void (*linear)(const Linear&, int threads);
    void (*multiply_floats)(const Product<float>&, int threads);
    void (*multiply_doubles)(const Product<double>&, int threads);
};

// Which of them there are depends on the processor that the core is built for.
namespace portable {
extern const Kernel kernel;
}
namespace avx2 {
extern const Kernel kernel;
}
namespace neon {
extern const Kernel kernel;
}
namespace wide {
extern const Kernel kernel;
}

}  // namespace regard
