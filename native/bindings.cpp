// The Python module regard._native: hands calls over to the core. No arithmetic.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>

#include "regard/attention.h"
#include "regard/cpu.h"
#include "regard/linear.h"
#include "regard/multiply.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Index = std::int64_t;
using Address = std::uintptr_t;

// The integers of a tuple, as torch gives shapes and strides.
template <int kCount>
struct Integers {
    Index at[kCount];

    explicit Integers(nb::handle given) {
        PyObject* tuple = given.ptr();
        if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != kCount) {
            throw nb::type_error(("expected a tuple of " + std::to_string(kCount)).c_str());
        }
        for (int n = 0; n < kCount; ++n) at[n] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, n));
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
    }
};

template <typename Number>
Number* pointer(Address address) {
    return reinterpret_cast<Number*>(address);
}

regard::Rows rows(Address data, nb::handle strides) {
    const Integers<4> stride(strides);
    return {pointer<const float>(data), {stride.at[0], stride.at[1], stride.at[2]}};
}

regard::RowsOut rows_out(Address data, nb::handle strides) {
    if (data == 0) return {};
    const Integers<4> stride(strides);
    return {pointer<float>(data), {stride.at[0], stride.at[1], stride.at[2]}};
}

// Sizes, q and k of a problem.
regard::Problem problem_of(Address q, nb::handle q_shape, nb::handle q_strides, Address k,
                           nb::handle k_shape, nb::handle k_strides, double scale, bool causal) {
    const Integers<4> queries(q_shape), keys(k_shape);
    regard::Problem problem;
    problem.batch = queries.at[0];
    problem.heads = queries.at[1];
    problem.queries = queries.at[2];
    problem.width = queries.at[3];
    problem.kv_heads = keys.at[1];
    problem.keys = keys.at[2];
    problem.q = rows(q, q_strides);
    problem.k = rows(k, k_strides);
    problem.scale = static_cast<float>(scale);
    problem.causal = causal;
    problem.position = problem.keys - problem.queries;
    return problem;
}

void set_values(regard::Problem& problem, Address v, nb::handle v_shape, nb::handle v_strides) {
    problem.value_width = Integers<4>(v_shape).at[3];
    problem.v = rows(v, v_strides);
}

using Window = std::tuple<Index, Index>;
using Given = std::optional<std::tuple<Address, nb::tuple>>;

template <typename Number>
regard::Cells<Number> cells(const Given& given) {
    if (!given) return {};
    const Integers<4> stride(std::get<1>(*given));
    return {pointer<const Number>(std::get<0>(*given)),
            {stride.at[0], stride.at[1], stride.at[2], stride.at[3]}};
}

void set_options(regard::Problem& problem, Index position, const Window& window, const Given& mask,
                 const Given& bias, Address lengths, double softcap, Address sinks) {
    problem.position = position;
    problem.left = std::get<0>(window);
    problem.right = std::get<1>(window);
    problem.mask = cells<std::uint8_t>(mask);
    problem.bias = cells<float>(bias);
    problem.lengths = pointer<const Index>(lengths);
    problem.softcap = static_cast<float>(softcap);
    problem.sinks = pointer<const float>(sinks);
}

// Runs a call of the core without the interpreter's lock. Ctrl-C ends it.
template <typename Work>
void run(Work work) {
    try {
        const nb::gil_scoped_release release;
        work();
    } catch (const regard::Interrupted&) {
        throw nb::python_error();  // set by PyErr_CheckSignals
    }
}

bool interrupted() {
    const nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

void attention(Address q, nb::handle q_shape, nb::handle q_strides, Address k, nb::handle k_shape,
               nb::handle k_strides, Address v, nb::handle v_shape, nb::handle v_strides,
               Address out, nb::handle out_strides, double scale, bool causal, int threads) {
    regard::Problem problem =
        problem_of(q, q_shape, q_strides, k, k_shape, k_strides, scale, causal);
    set_values(problem, v, v_shape, v_strides);
    const regard::RowsOut output = rows_out(out, out_strides);
    run([&] { regard::attention(problem, output, {}, threads); });
}

void attention_with(Address q, nb::handle q_shape, nb::handle q_strides, Address k,
                    nb::handle k_shape, nb::handle k_strides, Address v, nb::handle v_shape,
                    nb::handle v_strides, Address out, nb::handle out_strides, double scale,
                    bool causal, int threads, Index position, const Window& window,
                    const Given& mask, const Given& bias, Address lengths, double softcap,
                    Address sinks, double dropout, std::uint64_t seed, Address lse, Address entropy,
                    Address distance, const std::optional<std::tuple<Index, Address, Address>>& top,
                    const std::optional<std::tuple<Index, Index, Address>>& map, Address received,
                    const Given& counted) {
    regard::Problem problem =
        problem_of(q, q_shape, q_strides, k, k_shape, k_strides, scale, causal);
    set_values(problem, v, v_shape, v_strides);
    set_options(problem, position, window, mask, bias, lengths, softcap, sinks);
    problem.dropout = {dropout, seed};
    regard::Seen seen;
    seen.lse = pointer<float>(lse);
    seen.entropy = pointer<float>(entropy);
    seen.distance = pointer<float>(distance);
    if (top) {
        seen.top = std::get<0>(*top);
        seen.top_keys = pointer<Index>(std::get<1>(*top));
        seen.top_weights = pointer<float>(std::get<2>(*top));
    }
    if (map) {
        seen.map_rows = std::get<0>(*map);
        seen.map_columns = std::get<1>(*map);
        seen.map = pointer<float>(std::get<2>(*map));
    }
    seen.received = pointer<float>(received);
    if (counted) {
        const Integers<2> stride(std::get<1>(*counted));
        seen.counted = pointer<const std::uint8_t>(std::get<0>(*counted));
        seen.counted_strides[0] = stride.at[0];
        seen.counted_strides[1] = stride.at[1];
    }
    const regard::RowsOut output = rows_out(out, out_strides);
    run([&] { regard::attention(problem, output, seen, threads); });
}

void attention_backward(Address q, nb::handle q_shape, nb::handle q_strides, Address k,
                        nb::handle k_shape, nb::handle k_strides, Address v, nb::handle v_shape,
                        nb::handle v_strides, Address out, nb::handle out_strides, Address lse,
                        Address grad, nb::handle grad_strides, Address dq, nb::handle dq_strides,
                        Address dk, nb::handle dk_strides, Address dv, nb::handle dv_strides,
                        double scale, bool causal, int threads, Index position,
                        const Window& window, const Given& mask, const Given& bias, Address lengths,
                        Address sinks, double dropout, std::uint64_t seed) {
    regard::Problem problem =
        problem_of(q, q_shape, q_strides, k, k_shape, k_strides, scale, causal);
    set_values(problem, v, v_shape, v_strides);
    set_options(problem, position, window, mask, bias, lengths, 0, sinks);
    problem.dropout = {dropout, seed};
    const regard::Attended attended{rows(out, out_strides), pointer<const float>(lse),
                                    rows(grad, grad_strides)};
    const regard::Gradients gradients{rows_out(dq, dq_strides), rows_out(dk, dk_strides),
                                      rows_out(dv, dv_strides)};
    run([&] { regard::attention_backward(problem, attended, gradients, threads); });
}

using Box = std::tuple<Index, Index, Index, Index>;

regard::Rectangle rectangle_of(const Box& box) {
    return {std::get<0>(box), std::get<1>(box), std::get<2>(box), std::get<3>(box)};
}

void weights(Address q, nb::handle q_shape, nb::handle q_strides, Address k, nb::handle k_shape,
             nb::handle k_strides, Address lse, Address out, double scale, bool causal, int threads,
             const Box& rectangle, Index position, const Window& window, const Given& mask,
             const Given& bias, Address lengths, double softcap) {
    regard::Problem problem =
        problem_of(q, q_shape, q_strides, k, k_shape, k_strides, scale, causal);
    set_options(problem, position, window, mask, bias, lengths, softcap, 0);
    run([&] {
        regard::weights(problem, pointer<const float>(lse), rectangle_of(rectangle),
                        pointer<float>(out), threads);
    });
}

void kept(Address out, Index b, Index heads, const Box& rectangle, double dropout,
          std::uint64_t seed, int threads) {
    run([&] {
        regard::kept({dropout, seed}, b, heads, rectangle_of(rectangle), pointer<float>(out),
                     threads);
    });
}

void pooled(Address q, nb::handle q_shape, nb::handle q_strides, Address k, nb::handle k_shape,
            nb::handle k_strides, Address lse, Address out, double scale, bool causal, int threads,
            const Box& rectangle, const std::tuple<Index, Index>& shape, bool maximum,
            Index position, const Window& window, const Given& mask, const Given& bias,
            Address lengths, double softcap) {
    regard::Problem problem =
        problem_of(q, q_shape, q_strides, k, k_shape, k_strides, scale, causal);
    set_options(problem, position, window, mask, bias, lengths, softcap, 0);
    run([&] {
        regard::pooled(problem, pointer<const float>(lse), rectangle_of(rectangle),
                       std::get<0>(shape), std::get<1>(shape),
                       maximum ? regard::Reduce::maximum : regard::Reduce::mean,
                       pointer<float>(out), threads);
    });
}

void linear(Address x, Index x_stride, Address weight, Index weight_stride, Address bias, Address y,
            Index rows, Index inputs, Index outputs, int threads) {
    regard::Linear map;
    map.rows = rows;
    map.inputs = inputs;
    map.outputs = outputs;
    map.x = pointer<const float>(x);
    map.x_stride = x_stride;
    map.weight = pointer<const float>(weight);
    map.weight_stride = weight_stride;
    map.bias = pointer<const float>(bias);
    map.y = pointer<float>(y);
    map.y_stride = outputs;
    run([&] { regard::linear(map, threads); });
}

template <typename Number>
void multiply(Address a, nb::handle a_shape, nb::handle a_strides, Address b, nb::handle b_shape,
              nb::handle b_strides, Address c, int threads) {
    const Integers<4> left(a_shape), right(b_shape), left_strides(a_strides),
        right_strides(b_strides);
    regard::Product<Number> product;
    product.batch = left.at[0];
    product.heads = left.at[1];
    product.rows = left.at[2];
    product.inner = left.at[3];
    product.columns = right.at[3];
    product.a = pointer<const Number>(a);
    product.b = pointer<const Number>(b);
    product.c = pointer<Number>(c);
    for (int axis = 0; axis < 4; ++axis) {
        product.a_strides[axis] = left_strides.at[axis];
        product.b_strides[axis] = right_strides.at[axis];
    }
    run([&] { regard::multiply(product, threads); });
}

void use_kernel(const std::optional<std::string>& name) {
    if (!regard::use_kernel(name ? name->c_str() : nullptr)) {
        throw nb::value_error(("use_kernel(): no kernel here is called " + *name).c_str());
    }
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() =
        "The native part of regard. Arguments are trusted: regard._attention checks them.";

    regard::set_interrupt_check(&interrupted);

    module.def("version", &regard::version,
               "The version of the package that the native part was built for.");
    module.def(
        "instruction_set", [] { return regard::name(regard::instruction_set()); },
        "What the processor has: \"avx512\", \"avx2\", \"neon\" or \"portable\".");
    module.def("kernel", &regard::kernel_name,
               "The build of the kernel in use: \"avx2\" or \"portable\".");
    module.def(
        "use_kernel", &use_kernel, "name"_a.none(),
        "Use the kernel of this name from now on, None for the best; ValueError if it cannot "
        "run.");
    module.def("measure_peak", &regard::measure_peak, "seconds"_a,
               nb::call_guard<nb::gil_scoped_release>(),
               "Floating-point operations a second of one thread that only multiplies and adds.");
    module.def("attention", &attention, "q"_a, "q_shape"_a, "q_strides"_a, "k"_a, "k_shape"_a,
               "k_strides"_a, "v"_a, "v_shape"_a, "v_strides"_a, "out"_a, "out_strides"_a,
               "scale"_a, "causal"_a, "threads"_a,
               "Attention without options, queries at the end of the keys: out (B, H, Nq, Dv).");
    module.def("attention_with", &attention_with, "q"_a, "q_shape"_a, "q_strides"_a, "k"_a,
               "k_shape"_a, "k_strides"_a, "v"_a, "v_shape"_a, "v_strides"_a, "out"_a,
               "out_strides"_a, "scale"_a, "causal"_a, "threads"_a, nb::kw_only(), "position"_a,
               "window"_a = Window(-1, -1), "mask"_a = nb::none(), "bias"_a = nb::none(),
               "lengths"_a = 0, "softcap"_a = 0.0, "sinks"_a = 0, "dropout"_a = 0.0, "seed"_a = 0,
               "lse"_a = 0, "entropy"_a = 0, "distance"_a = 0, "top"_a = nb::none(),
               "map"_a = nb::none(), "received"_a = 0, "counted"_a = nb::none(),
               "Attention with every option, and what is to be seen of it.");
    module.def("attention_backward", &attention_backward, "q"_a, "q_shape"_a, "q_strides"_a, "k"_a,
               "k_shape"_a, "k_strides"_a, "v"_a, "v_shape"_a, "v_strides"_a, "out"_a,
               "out_strides"_a, "lse"_a, "grad"_a, "grad_strides"_a, "dq"_a, "dq_strides"_a, "dk"_a,
               "dk_strides"_a, "dv"_a, "dv_strides"_a, "scale"_a, "causal"_a, "threads"_a,
               nb::kw_only(), "position"_a, "window"_a = Window(-1, -1), "mask"_a = nb::none(),
               "bias"_a = nb::none(), "lengths"_a = 0, "sinks"_a = 0, "dropout"_a = 0.0,
               "seed"_a = 0,
               "The gradients of q, k and v, where their addresses are not 0, from what attention "
               "found and the gradient of out.");
    module.def("weights", &weights, "q"_a, "q_shape"_a, "q_strides"_a, "k"_a, "k_shape"_a,
               "k_strides"_a, "lse"_a, "out"_a, "scale"_a, "causal"_a, "threads"_a, nb::kw_only(),
               "rectangle"_a, "position"_a, "window"_a = Window(-1, -1), "mask"_a = nb::none(),
               "bias"_a = nb::none(), "lengths"_a = 0, "softcap"_a = 0.0,
               "The weights of a rectangle: out (B, H, rows, keys), from lse (B, H, Nq), both "
               "contiguous.");
    module.def("kept", &kept, "out"_a, "b"_a, "heads"_a, "rectangle"_a, "dropout"_a, "seed"_a,
               "threads"_a,
               "What dropout multiplies the weights of a rectangle of sequence b by: out (H, rows, "
               "keys), contiguous.");
    module.def("pooled", &pooled, "q"_a, "q_shape"_a, "q_strides"_a, "k"_a, "k_shape"_a,
               "k_strides"_a, "lse"_a, "out"_a, "scale"_a, "causal"_a, "threads"_a, nb::kw_only(),
               "rectangle"_a, "shape"_a, "maximum"_a, "position"_a, "window"_a = Window(-1, -1),
               "mask"_a = nb::none(), "bias"_a = nb::none(), "lengths"_a = 0, "softcap"_a = 0.0,
               "A picture of a rectangle: out (B, H, *shape), the mean or maximum weight of each "
               "pixel.");
    module.def("linear", &linear, "x"_a, "x_stride"_a, "weight"_a, "weight_stride"_a, "bias"_a,
               "y"_a, "rows"_a, "inputs"_a, "outputs"_a, "threads"_a,
               "y (rows, outputs) = x (rows, inputs) · weightᵀ + bias, y contiguous.");
    const char* product = "c = a · b for pairs of matrices, (B, H, rows, columns), c contiguous.";
    module.def("multiply_floats", &multiply<float>, "a"_a, "a_shape"_a, "a_strides"_a, "b"_a,
               "b_shape"_a, "b_strides"_a, "c"_a, "threads"_a, product);
    module.def("multiply_doubles", &multiply<double>, "a"_a, "a_shape"_a, "a_strides"_a, "b"_a,
               "b_shape"_a, "b_strides"_a, "c"_a, "threads"_a, product);
}
