// The Python module regard._native: hands calls over to the core. No arithmetic.
//
// Tensors, options and observations come as they are, and are read by the names of their
// attributes. Here alone it is checked that the core can read them where they lie: a function
// returns False, with nothing done, if one has another type, shape or layout.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <vector>

#include "regard/attention.h"
#include "regard/cpu.h"
#include "regard/linear.h"
#include "regard/multiply.h"
#include "tensors.h"

using namespace nb::literals;

namespace {

constexpr Index kMost = (Index{1} << 31) - 1;  // queries, and keys: the core counts them in 32 bits

const Name kCausal("causal"), kWindow("window"), kMask("mask"), kBias("bias"), kLengths("lengths"),
    kSegments("segments"), kIndices("indices"), kSoftcap("softcap"), kSinks("sinks");
const Name kLse("lse"), kEntropy("entropy"), kDistance("distance"), kTopKeys("top_keys"),
    kTopWeights("top_weights"), kMap("map"), kReceived("received");
const Name kRow("row"), kRowEnd("row_end"), kKey("key"), kKeyEnd("key_end");

// ── what the core is asked ──────────────────────────────────────────────────────────────────────

// A problem, and the lengths that it points to.
template <typename Real>
struct Problem : regard::ProblemOf<Real> {
    std::vector<Index> real;

    using Base = regard::ProblemOf<Real>;
    using Base::batch, Base::heads, Base::kv_heads, Base::queries, Base::keys, Base::width,
        Base::value_width, Base::q, Base::k, Base::v, Base::scale, Base::softcap, Base::position,
        Base::segments, Base::causal, Base::left, Base::right, Base::mask, Base::chosen, Base::bias,
        Base::lengths, Base::sinks, Base::dropout;

    // From (q, k, v, options, scale, position, dropout, seed).
    bool read(const nb::tuple& given) {
        if (given.size() != 8) return false;
        scale = static_cast<Real>(nb::cast<double>(given[4]));
        position = integer(given[5]);
        dropout = {nb::cast<double>(given[6]), nb::cast<std::uint64_t>(given[7])};
        return read_tensors(given[0], given[1], given[2]) && read_options(given[3]);
    }

    bool read_tensors(nb::handle q_given, nb::handle k_given, nb::handle v_given) {
        Tensor of_q, of_k, of_v;
        if (!of_q.read_rows(q_given, q) || !of_k.read_rows(k_given, k) ||
            !of_v.read_rows(v_given, v) || k.type != q.type || v.type != q.type ||
            (q.type == regard::Type::float64) != (sizeof(Real) == sizeof(double))) {
            return false;
        }
        batch = of_q.shape[0];
        heads = of_q.shape[1];
        queries = of_q.shape[2];
        width = of_q.shape[3];
        kv_heads = of_k.shape[1];
        keys = of_k.shape[2];
        value_width = of_v.shape[3];
        return of_k.is({batch, kv_heads, keys, width}) &&
               of_v.is({batch, kv_heads, keys, value_width}) && batch > 0 && heads > 0 &&
               queries > 0 && width > 0 && kv_heads > 0 && keys > 0 && heads % kv_heads == 0 &&
               queries <= kMost && keys <= kMost;
    }

    bool read_options(nb::handle options) {
        causal = get(options, kCausal).ptr() == Py_True;
        if (const nb::object window = get(options, kWindow); !window.is_none()) {
            const nb::object first = window[0], last = window[1];
            left = first.is_none() ? -1 : integer(first);
            right = last.is_none() ? -1 : integer(last);
        }
        if (const nb::object cap = get(options, kSoftcap); !cap.is_none()) {
            softcap = static_cast<Real>(nb::cast<double>(cap));
        }
        if (const nb::object given = get(options, kLengths); !given.is_none()) {
            Tensor x;
            if (!x.read<Index>(given) || !x.is({batch})) return false;
            for (Index b = 0; b < batch; ++b) {
                const Index length = x.numbers<Index>()[b * x.strides[0]];
                real.push_back(std::clamp(length, Index{0}, keys));
            }
            lengths = real.data();
        }
        return read_segments(get(options, kSegments)) && read_chosen(get(options, kIndices)) &&
               read_cells<bool>(get(options, kMask), mask) &&
               read_cells<Real>(get(options, kBias), bias) &&
               read_numbers(get(options, kSinks), {heads}, sinks);
    }

    bool read_segments(nb::handle from) {
        if (from.is_none()) return true;
        Tensor x;
        if (!x.read<Index>(from) || x.ndim != 3 || x.shape[2] != 3 || x.strides[2] != 1) {
            return false;
        }
        segments.data = x.numbers<Index>();
        return read_strides(x, {batch, queries}, segments.strides);
    }

    bool read_chosen(nb::handle from) {
        if (from.is_none()) return true;
        Tensor x;
        if (!x.read<Index>(from) || x.ndim != 4 || (x.strides[3] != 1 && x.shape[3] > 1)) {
            return false;
        }
        chosen.data = x.numbers<Index>();
        chosen.count = x.shape[3];
        return read_strides(x, {batch, heads, queries}, chosen.strides);
    }

    // The strides of the first axes, of which each is so long, or of length 1, for all alike.
    static bool read_strides(const Tensor& x, std::initializer_list<Index> full, Index* to) {
        int axis = 0;
        for (const Index length : full) {
            if (x.shape[axis] != 1 && x.shape[axis] != length) return false;
            to[axis] = x.shape[axis] == 1 ? 0 : x.strides[axis];
            ++axis;
        }
        return true;
    }

    // Cells for (b, h, i, j), whose axes may be of length 1, for all alike.
    template <typename Given, typename Number>
    bool read_cells(nb::handle from, regard::Cells<Number>& to) {
        if (from.is_none()) return true;
        Tensor x;
        if (!x.read<Given>(from) || x.ndim != 4) return false;
        to.data = x.numbers<Number>();
        return read_strides(x, {batch, heads, queries, keys}, to.strides);
    }
};

// From an Observation that is to be filled in, or None; `queries` are those that count, or None.
template <typename Real>
bool read_seen(const Problem<Real>& problem, nb::handle observation, nb::handle queries,
               regard::SeenOf<Real>& seen) {
    if (observation.is_none()) return true;
    const Index b = problem.batch, h = problem.heads, n = problem.queries;
    const auto read = [&](const Name& name, std::initializer_list<Index> shape, auto*& to) {
        return read_numbers(get(observation, name), shape, to);
    };
    Tensor top, map, counted;
    if (const nb::object keys = get(observation, kTopKeys); !keys.is_none()) {
        if (!top.read<Index>(keys) || top.ndim != 4) return false;
        seen.top = top.shape[3];
    }
    if (const nb::object picture = get(observation, kMap); !picture.is_none()) {
        if (!map.read<Real>(picture) || map.ndim != 4) return false;
        seen.map_rows = map.shape[2];
        seen.map_columns = map.shape[3];
    }
    if (!queries.is_none()) {
        if (!counted.read<bool>(queries) || !counted.is({b, n})) return false;
        seen.counted = counted.numbers<std::uint8_t>();
        std::copy(counted.strides, counted.strides + 2, seen.counted_strides);
    }
    return read(kLse, {b, h, n}, seen.lse) && read(kEntropy, {b, h, n}, seen.entropy) &&
           read(kDistance, {b, h, n}, seen.distance) &&
           read(kTopKeys, {b, h, n, seen.top}, seen.top_keys) &&
           read(kTopWeights, {b, h, n, seen.top}, seen.top_weights) &&
           read(kMap, {b, h, seen.map_rows, seen.map_columns}, seen.map) &&
           read(kReceived, {b, h, problem.keys}, seen.received);
}

regard::Rectangle rectangle(nb::handle tile) {
    const Index row = integer(get(tile, kRow)), key = integer(get(tile, kKey));
    return {row, integer(get(tile, kRowEnd)) - row, key, integer(get(tile, kKeyEnd)) - key};
}

template <typename Real>
bool is_inside(const regard::Rectangle& part, const Problem<Real>& problem) {
    return part.row >= 0 && part.rows > 0 && part.row + part.rows <= problem.queries &&
           part.key >= 0 && part.keys > 0 && part.key + part.keys <= problem.keys;
}

// ── calls ───────────────────────────────────────────────────────────────────────────────────────

// Runs a call of the core without the interpreter's lock. Ctrl-C ends it.
template <typename Work>
bool run(Work work) {
    try {
        const nb::gil_scoped_release release;
        work();
    } catch (const regard::Interrupted&) {
        throw nb::python_error();  // set by PyErr_CheckSignals
    }
    return true;
}

bool interrupted() {
    const nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

template <typename Real>
bool attention(const nb::tuple& given, nb::handle out, nb::handle observation, nb::handle queries,
               int threads) {
    Problem<Real> problem;
    regard::RowsOut output;
    regard::SeenOf<Real> seen;
    if (!problem.read(given) ||
        !read_rows(out, problem.q.type,
                   {problem.batch, problem.heads, problem.queries, problem.value_width}, output) ||
        !read_seen(problem, observation, queries, seen)) {
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

bool linear(nb::handle x_given, nb::handle weight_given, nb::handle bias, nb::handle y,
            int threads) {
    Tensor x, weight, result, added;
    regard::Linear map;
    regard::Type types[3];
    if (!x.read_real(x_given, map.type) || !weight.read_real(weight_given, types[0]) ||
        !result.read_real(y, types[1]) || types[0] != map.type || types[1] != map.type ||
        map.type == regard::Type::float64 || x.ndim < 1 || weight.ndim != 2 ||
        result.ndim != x.ndim || !x.is_contiguous() || !result.is_contiguous()) {
        return false;
    }
    const int last = x.ndim - 1;
    map.outputs = weight.shape[0];
    map.inputs = weight.shape[1];
    map.rows = 1;
    for (int axis = 0; axis < last; ++axis) map.rows *= x.shape[axis];
    if (x.shape[last] != map.inputs || result.shape[last] != map.outputs || map.inputs == 0 ||
        map.outputs == 0 || map.rows == 0 || !std::equal(x.shape, x.shape + last, result.shape) ||
        (weight.strides[1] != 1 && map.inputs > 1)) {
        return false;
    }
    if (!bias.is_none()) {
        if (!added.read_real(bias, types[2]) || types[2] != map.type || !added.is({map.outputs}) ||
            !added.is_contiguous()) {
            return false;
        }
        map.bias = added.data;
    }
    map.x = x.data;
    map.x_stride = map.inputs;
    map.weight = weight.data;
    map.weight_stride = weight.strides[0];
    map.y = result.data;
    map.y_stride = map.outputs;
    return run([&] { regard::linear(map, threads); });
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
    module.def("kernel", &regard::kernel_name);
    module.def("use_kernel", &use_kernel, "name"_a.none());
    module.def("measure_peak", &regard::measure_peak, "seconds"_a,
               nb::call_guard<nb::gil_scoped_release>());
    module.def("attention", either(&attention<float>, &attention<double>), "problem"_a, "out"_a,
               "seen"_a.none(), "queries"_a.none(), "threads"_a);
    module.def("attention_backward",
               either(&attention_backward<float>, &attention_backward<double>), "problem"_a,
               "out"_a, "lse"_a, "grad"_a, "dq"_a.none(), "dk"_a.none(), "dv"_a.none(),
               "threads"_a);
    module.def("weights", either(&weights<float>, &weights<double>), "problem"_a, "lse"_a, "tile"_a,
               "out"_a, "threads"_a);
    module.def("pooled", either(&pooled<float>, &pooled<double>), "problem"_a, "lse"_a, "tile"_a,
               "out"_a, "maximum"_a, "threads"_a);
    module.def("kept", &kept, "out"_a, "first"_a, "tile"_a, "dropout"_a, "seed"_a, "threads"_a);
    module.def("linear", &linear, "x"_a, "weight"_a, "bias"_a.none(), "y"_a, "threads"_a);
    module.def("multiply_floats", &multiply<float>, "a"_a, "b"_a, "c"_a, "threads"_a);
    module.def("multiply_doubles", &multiply<double>, "a"_a, "b"_a, "c"_a, "threads"_a);
}
