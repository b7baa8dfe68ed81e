// A problem of attention as Python has it: options and observations, read by the names of their
// attributes.
#pragma once

#include <vector>

#include "regard/attention.h"
#include "tensors.h"

namespace {

constexpr Index kMost = (Index{1} << 31) - 1;  // queries, and keys: the core counts them in 32 bits

const Name kCausal("causal"), kWindow("window"), kMask("mask"), kBias("bias"), kLengths("lengths"),
    kSegments("segments"), kIndices("indices"), kSoftcap("softcap"), kSinks("sinks");
const Name kLse("lse"), kEntropy("entropy"), kDistance("distance"), kTopKeys("top_keys"),
    kTopWeights("top_weights"), kMap("map"), kReceived("received"), kMaxLogit("max_logit"),
    kSpans("spans"), kContributionKeys("contribution_keys"), kContribution("contribution");
const Name kRow("row"), kRowEnd("row_end"), kKey("key"), kKeyEnd("key_end");

// A problem, and the lengths that it points to.
template <typename Real>
struct Problem : regard::ProblemOf<Real> {
    std::vector<Index> real;

    using Base = regard::ProblemOf<Real>;
    using Base::batch, Base::heads, Base::kv_heads, Base::queries, Base::keys, Base::width,
        Base::value_width, Base::q, Base::k, Base::v, Base::scale, Base::softcap, Base::position,
        Base::segments, Base::causal, Base::left, Base::right, Base::mask, Base::chosen, Base::bias,
        Base::lengths, Base::sinks, Base::dropout;

    // From (q, k, v, options, scale, position, dropout, seed); the seed may be what was drawn.
    bool read(const nb::tuple& given) {
        if (given.size() != 8) return false;
        scale = static_cast<Real>(nb::cast<double>(given[4]));
        position = integer(given[5]);
        dropout.chance = nb::cast<double>(given[6]);
        return read_tensors(given[0], given[1], given[2]) && read_seed(given[7]) &&
               read_options(given[3]);
    }

    bool read_seed(nb::handle given) {
        if (PyLong_Check(given.ptr())) {
            dropout.seed = nb::cast<std::uint64_t>(given);
            return true;
        }
        Tensor x;
        if (!x.read<std::uint8_t>(given) || x.ndim != 4 || x.shape[3] < keys / 8 + 9 ||
            !x.is({batch, heads, queries, x.shape[3]}) || x.strides[3] != 1) {
            return false;
        }
        dropout.drawn = x.numbers<std::uint8_t>();
        std::copy_n(x.strides, 3, dropout.strides);
        return true;
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

// From an Observation that is to be filled in, or None. `asked` are the tensors of what is to be
// seen, each of them or None: the queries that count (B, Nq), the labels of the keys (B or 1, Nk),
// and the norms that stand for those of the values (B, H, Nk).
template <typename Real>
bool read_seen(const Problem<Real>& problem, nb::handle observation, const nb::tuple& asked,
               regard::SeenOf<Real>& seen) {
    if (observation.is_none()) return true;
    if (asked.size() != 3) return false;
    const Index b = problem.batch, h = problem.heads, n = problem.queries;
    const auto read = [&](const Name& name, std::initializer_list<Index> shape, auto*& to) {
        return read_numbers(get(observation, name), shape, to);
    };
    // The length of the last axis of what is there.
    const auto read_last = [&](const Name& name, auto kind, Index& length) {
        const nb::object given = get(observation, name);
        Tensor x;
        if (given.is_none()) return true;
        if (!x.read<decltype(kind)>(given) || x.ndim != 4) return false;
        length = x.shape[3];
        return true;
    };
    Tensor map, counted, labels, norms;
    if (!read_last(kTopKeys, Index{}, seen.top) || !read_last(kSpans, Real{}, seen.span_count) ||
        !read_last(kContributionKeys, Index{}, seen.contribution)) {
        return false;
    }
    if (const nb::object picture = get(observation, kMap); !picture.is_none()) {
        if (!map.read<Real>(picture) || map.ndim != 4) return false;
        seen.map_rows = map.shape[2];
        seen.map_columns = map.shape[3];
    }
    if (const nb::handle queries = asked[0]; !queries.is_none()) {
        if (!counted.read<bool>(queries) || !counted.is({b, n})) return false;
        seen.counted = counted.numbers<std::uint8_t>();
        std::copy(counted.strides, counted.strides + 2, seen.counted_strides);
    }
    if (const nb::handle given = asked[1]; !given.is_none()) {
        if (!labels.read<Index>(given) || labels.ndim != 2 || labels.shape[1] != problem.keys ||
            (labels.strides[1] != 1 && problem.keys > 1) ||
            !problem.read_strides(labels, {b}, &seen.labels_stride)) {
            return false;
        }
        seen.labels = labels.numbers<Index>();
        for (Index row = 0; row < (seen.labels_stride ? b : 1); ++row) {
            const Index* of = seen.labels + row * seen.labels_stride;
            if (std::any_of(of, of + problem.keys,
                            [&](Index label) { return label < -1 || label >= seen.span_count; })) {
                return false;
            }
        }
    }
    if (const nb::handle given = asked[2]; !given.is_none()) {
        if (!norms.read<Real>(given) || !norms.is({b, h, problem.keys}) || !norms.is_contiguous()) {
            return false;
        }
        seen.norms = norms.numbers<Real>();
    }
    if (seen.span_count && !seen.labels) return false;
    return read(kLse, {b, h, n}, seen.lse) && read(kEntropy, {b, h, n}, seen.entropy) &&
           read(kDistance, {b, h, n}, seen.distance) &&
           read(kMaxLogit, {b, h, n}, seen.max_logit) &&
           read(kTopKeys, {b, h, n, seen.top}, seen.top_keys) &&
           read(kTopWeights, {b, h, n, seen.top}, seen.top_weights) &&
           read(kContributionKeys, {b, h, n, seen.contribution}, seen.contribution_keys) &&
           read(kContribution, {b, h, n, seen.contribution}, seen.contributions) &&
           read(kSpans, {b, h, n, seen.span_count}, seen.spans) &&
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

}  // namespace
