// The Python module regard._native: hands calls over to the core. No arithmetic.
//
// Tensors, options and observations come as they are, and are read by the names of their
// attributes. Here alone it is checked that the core can read them where they lie: a function
// returns False, with nothing done, if one has another type, shape or layout.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "layers.h"
#include "problem.h"
#include "regard/cpu.h"
#include "regard/multiply.h"

using namespace nb::literals;

namespace {

// ── calls ───────────────────────────────────────────────────────────────────────────────────────

bool interrupted() {
    const nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

template <typename Real>
bool attention(const nb::tuple& given, nb::handle out, nb::handle observation,
               const nb::tuple& asked, int threads) {
    Problem<Real> problem;
    regard::RowsOut output;
    regard::SeenOf<Real> seen;
    if (!problem.read(given) ||
        !read_rows(out, problem.q.type,
                   {problem.batch, problem.heads, problem.queries, problem.value_width}, output) ||
        !read_seen(problem, observation, asked, seen)) {
        return false;
    }
    return run([&] { regard::attention<Real>(problem, output, seen, threads); });
}

template <typename Real>
bool attention_backward(const nb::tuple& given, nb::handle out, nb::handle lse, nb::handle grad,
                        nb::handle dq, nb::handle dk, nb::handle dv, int threads) {
    Problem<Real> p;
    regard::AttendedOf<Real> attended;
    regard::Gradients to;
    const regard::Type& type = p.q.type;
    if (!p.read(given) || p.value_width == 0 || p.softcap != 0 ||
        !read_rows(out, type, {p.batch, p.heads, p.queries, p.value_width}, attended.output) ||
        !read_rows(grad, type, {p.batch, p.heads, p.queries, p.value_width}, attended.gradient) ||
        !read_numbers(lse, {p.batch, p.heads, p.queries}, attended.lse) ||
        !(dq.is_none() || read_rows(dq, type, {p.batch, p.heads, p.queries, p.width}, to.q)) ||
        !(dk.is_none() || read_rows(dk, type, {p.batch, p.kv_heads, p.keys, p.width}, to.k)) ||
        !(dv.is_none() ||
          read_rows(dv, type, {p.batch, p.kv_heads, p.keys, p.value_width}, to.v))) {
        return false;
    }
    return run([&] { regard::attention_backward<Real>(p, attended, to, threads); });
}

template <typename Real>
bool weights(const nb::tuple& given, nb::handle lse, nb::handle tile, nb::handle out, int threads) {
    Problem<Real> p;
    const regard::Rectangle part = rectangle(tile);
    const Real* sums = nullptr;
    Real* to = nullptr;
    if (!p.read(given) || !is_inside(part, p) ||
        !read_numbers(lse, {p.batch, p.heads, p.queries}, sums) ||
        !read_numbers(out, {p.batch, p.heads, part.rows, part.keys}, to)) {
        return false;
    }
    return run([&] { regard::weights<Real>(p, sums, part, to, threads); });
}

template <typename Real>
bool pooled(const nb::tuple& given, nb::handle lse, nb::handle tile, nb::handle out, bool maximum,
            int threads) {
    Problem<Real> p;
    const regard::Rectangle part = rectangle(tile);
    const Real* sums = nullptr;
    Tensor to;
    if (!p.read(given) || !is_inside(part, p) ||
        !read_numbers(lse, {p.batch, p.heads, p.queries}, sums) || !to.read<Real>(out) ||
        to.ndim != 4 || !to.is({p.batch, p.heads, to.shape[2], to.shape[3]}) ||
        !to.is_contiguous()) {
        return false;
    }
    const auto reduce = maximum ? regard::Reduce::maximum : regard::Reduce::mean;
    return run([&] {
        regard::pooled<Real>(p, sums, part, to.shape[2], to.shape[3], reduce, to.numbers<Real>(),
                             threads);
    });
}

void kept(nb::handle out, Index first, nb::handle tile, double dropout, std::uint64_t seed,
          int threads) {
    const regard::Rectangle part = rectangle(tile);
    Tensor to;
    if (!to.read<float>(out) || to.ndim != 4 ||
        !to.is({to.shape[0], to.shape[1], part.rows, part.keys}) || !to.is_contiguous()) {
        throw nb::value_error("kept(): out must be (B, H, rows, keys), contiguous float32");
    }
    run([&] {
        for (Index b = 0; b < to.shape[0]; ++b) {
            regard::kept({dropout, seed}, first + b, to.shape[1], part,
                         to.numbers<float>() + b * to.strides[0], threads);
        }
    });
}

template <typename Number>
bool multiply(nb::handle a_given, nb::handle b_given, nb::handle c_given, int threads) {
    Tensor a, b, c;
    if (!a.read<Number>(a_given) || !b.read<Number>(b_given) || !c.read<Number>(c_given) ||
        a.ndim != 4 || b.ndim != 4 || !b.is({a.shape[0], a.shape[1], a.shape[3], b.shape[3]}) ||
        !c.is({a.shape[0], a.shape[1], a.shape[2], b.shape[3]}) || !c.is_contiguous()) {
        return false;
    }
    regard::Product<Number> product;
    product.batch = a.shape[0];
    product.heads = a.shape[1];
    product.rows = a.shape[2];
    product.inner = a.shape[3];
    product.columns = b.shape[3];
    product.a = a.numbers<Number>();
    product.b = b.numbers<Number>();
    product.c = c.numbers<Number>();
    std::copy(a.strides, a.strides + 4, product.a_strides);
    std::copy(b.strides, b.strides + 4, product.b_strides);
    return run([&] { regard::multiply(product, threads); });
}

nb::list kernels() {
    nb::list names;
    for (int n = 0; const char* name = regard::kernel_name(n); ++n) names.append(name);
    return names;
}

void use_kernel(const std::optional<std::string>& name) {
    if (!regard::use_kernel(name ? name->c_str() : nullptr)) {
        throw nb::value_error(("use_kernel(): no kernel here is called " + *name).c_str());
    }
}

}  // namespace

// A call in float32, or else in float64: what is of the other type is not read.
template <typename... Arguments>
auto either(bool (*floats)(Arguments...), bool (*doubles)(Arguments...)) {
    return [=](Arguments... given) { return floats(given...) || doubles(given...); };
}

NB_MODULE(_native, module) {
    module.doc() = "The native part of regard; _native.pyi says what its functions take.";
    module.attr("MOST") = kMost;

    regard::set_interrupt_check(&interrupted);

    module.def("version", &regard::version);
    module.def("instruction_set", [] { return regard::name(regard::instruction_set()); });
    module.def("kernel", [] { return regard::kernel_name(); });
    module.def("kernels", &kernels);
    module.def("use_kernel", &use_kernel, "name"_a.none());
    module.def("measure_peak", &regard::measure_peak, "seconds"_a,
               nb::call_guard<nb::gil_scoped_release>());
    module.def("attention", either(&attention<float>, &attention<double>), "problem"_a, "out"_a,
               "seen"_a.none(), "asked"_a, "threads"_a);
    module.def("attention_backward",
               either(&attention_backward<float>, &attention_backward<double>), "problem"_a,
               "out"_a, "lse"_a, "grad"_a, "dq"_a.none(), "dk"_a.none(), "dv"_a.none(),
               "threads"_a);
    module.def("weights", either(&weights<float>, &weights<double>), "problem"_a, "lse"_a, "tile"_a,
               "out"_a, "threads"_a);
    module.def("pooled", either(&pooled<float>, &pooled<double>), "problem"_a, "lse"_a, "tile"_a,
               "out"_a, "maximum"_a, "threads"_a);
    module.def("kept", &kept, "out"_a, "first"_a, "tile"_a, "dropout"_a, "seed"_a, "threads"_a);
    module.def("linear", &linear, "x"_a, "maps"_a, "threads"_a);
    module.def("rms_norm", &rms_norm, "x"_a, "weight"_a, "eps"_a, "y"_a, "threads"_a);
    module.def("turn", &turn, "x"_a, "cosine"_a, "sine"_a, "halves"_a, "y"_a, "threads"_a);
    module.def("gated", &gated, "gate"_a, "hidden"_a, "y"_a, "threads"_a);
    module.def("layer", &layer, "x"_a, "norms"_a, "maps"_a, "angles"_a.none(), "cache"_a, "heads"_a,
               "scale"_a, "y"_a, "threads"_a);
    module.def("multiply_floats", &multiply<float>, "a"_a, "b"_a, "c"_a, "threads"_a);
    module.def("multiply_doubles", &multiply<double>, "a"_a, "b"_a, "c"_a, "threads"_a);
}
