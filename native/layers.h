// What stands around attention, as Python has it: linear maps, norms, turns, gates, a whole layer.
#pragma once

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "regard/layer.h"
#include "tensors.h"

namespace {

// A contiguous tensor of this type and shape.
bool read_whole(nb::handle from, regard::Type type, std::initializer_list<Index> shape,
                Tensor& to) {
    regard::Type found;
    return to.read_real(from, found) && found == type && to.is(shape) && to.is_contiguous();
}

// The rows of a contiguous tensor of float32, bfloat16 or float16, along its last axis.
bool read_vectors(nb::handle from, Tensor& to, regard::Type& type, Index& rows) {
    if (!to.read_real(from, type) || type == regard::Type::float64 || to.ndim < 1 ||
        to.is_empty() || !to.is_contiguous()) {
        return false;
    }
    rows = std::accumulate(to.shape, to.shape + to.ndim - 1, Index{1}, std::multiplies<>());
    return true;
}

// Room for results: contiguous, of the shape of x but for its last axis.
bool read_room(nb::handle from, const Tensor& x, regard::Type type, Index last, Tensor& to) {
    regard::Type found;
    return to.read_real(from, found) && found == type && to.ndim == x.ndim &&
           std::equal(x.shape, x.shape + x.ndim - 1, to.shape) && to.shape[x.ndim - 1] == last &&
           to.is_contiguous();
}

// A map from (weight, bias or None, …).
bool read_map(const nb::tuple& given, regard::Type type, Index inputs, regard::Map& map) {
    Tensor weight, bias;
    regard::Type found;
    if (given.size() < 2 || !weight.read_real(given[0], found) || found != type ||
        weight.ndim != 2 || weight.is_empty() || weight.shape[1] != inputs ||
        (weight.strides[1] != 1 && inputs > 1)) {
        return false;
    }
    map.outputs = weight.shape[0];
    map.weight = weight.data;
    map.weight_stride = weight.strides[0];
    if (given[1].is_none()) return true;
    if (!read_whole(given[1], type, {map.outputs}, bias)) return false;
    map.bias = bias.data;
    return true;
}

// Maps of the same x, each given as (weight, bias or None, y).
bool linear(nb::handle x_given, const nb::tuple& maps_given, int threads) {
    Tensor x;
    regard::Linear call;
    if (!read_vectors(x_given, x, call.type, call.rows)) return false;
    call.x = x.data;
    call.inputs = call.x_stride = x.shape[x.ndim - 1];
    std::vector<regard::Map> maps(maps_given.size());
    for (std::size_t n = 0; n < maps.size(); ++n) {
        const auto given = nb::cast<nb::tuple>(maps_given[n]);
        regard::Map& map = maps[n];
        Tensor y;
        if (given.size() != 3 || !read_map(given, call.type, call.inputs, map) ||
            !read_room(given[2], x, call.type, map.outputs, y)) {
            return false;
        }
        map.y = y.data;
        map.y_stride = map.outputs;
    }
    call.maps = maps.data();
    call.count = static_cast<Index>(maps.size());
    return run([&] { regard::linear(call, threads); });
}

bool rms_norm(nb::handle x_given, nb::handle weight_given, double eps, nb::handle y_given,
              int threads) {
    Tensor x, weight, y;
    regard::RmsNorm call;
    if (!read_vectors(x_given, x, call.type, call.rows)) return false;
    call.width = x.shape[x.ndim - 1];
    if (!read_whole(weight_given, call.type, {call.width}, weight) ||
        !read_room(y_given, x, call.type, call.width, y)) {
        return false;
    }
    call.x = x.data;
    call.weight = weight.data;
    call.eps = static_cast<float>(eps);
    call.y = y.data;
    return run([&] { regard::rms_norm(call, threads); });
}

// Angles (1 or batch, 1, tokens, turned), for all heads alike.
bool read_angles(nb::handle from, regard::Type type, Index batch, Index tokens, Index& turned,
                 regard::Rows& to) {
    Tensor angles;
    if (!angles.read_rows(from, to) || to.type != type || angles.shape[1] != 1 ||
        angles.shape[2] != tokens || (angles.shape[0] != 1 && angles.shape[0] != batch)) {
        return false;
    }
    turned = angles.shape[3];
    if (angles.shape[0] == 1) to.strides[0] = 0;
    to.strides[1] = 0;
    return turned % 2 == 0;
}

bool turn(nb::handle x_given, nb::handle cosine, nb::handle sine, bool halves, nb::handle y_given,
          int threads) {
    Tensor x;
    regard::Turn call;
    Index of_sine = 0;
    if (!x.read_rows(x_given, call.x) || call.x.type == regard::Type::float64 || x.is_empty()) {
        return false;
    }
    call.batch = x.shape[0];
    call.heads = x.shape[1];
    call.tokens = x.shape[2];
    call.width = x.shape[3];
    call.halves = halves;
    if (!read_rows(y_given, call.x.type, {call.batch, call.heads, call.tokens, call.width},
                   call.y) ||
        !read_angles(cosine, call.x.type, call.batch, call.tokens, call.turned, call.cosine) ||
        !read_angles(sine, call.x.type, call.batch, call.tokens, of_sine, call.sine) ||
        of_sine != call.turned || call.turned > call.width) {
        return false;
    }
    return run([&] { regard::turn(call, threads); });
}

bool gated(nb::handle gate_given, nb::handle hidden_given, nb::handle y_given, int threads) {
    Tensor gate, hidden, y;
    regard::Two call;
    Index rows = 0;
    if (!read_vectors(gate_given, gate, call.type, rows)) return false;
    const Index width = gate.shape[gate.ndim - 1];
    if (!read_room(hidden_given, gate, call.type, width, hidden) ||
        !read_room(y_given, gate, call.type, width, y)) {
        return false;
    }
    call.count = rows * width;
    call.a = gate.data;
    call.b = hidden.data;
    call.y = y.data;
    return run([&] { regard::gated(call, threads); });
}

// Keys, or values, of a cache with room for n of them from the first on.
bool read_cache(nb::handle from, const regard::Layer& call, Index first, regard::RowsOut& to) {
    Tensor room;
    if (!room.read_rows(from, to) || to.type != call.type || first < 0 ||
        !room.is({call.batch, call.kv_heads, room.shape[2], call.head_width}) ||
        first + call.n_keys > room.shape[2]) {
        return false;
    }
    to.data = static_cast<char*>(to.data) + first * to.strides[2] * regard::bytes_of(call.type);
    return true;
}

// From x (B, N, width); norms (weight, eps, weight, eps); maps (weight, bias) of q, k, v, o, in,
// gate, out; angles (cosine, sine, halves) or None; the cache (keys, values, first, how many with
// the new ones); y as x.
bool layer(nb::handle x_given, const nb::tuple& norms, const nb::tuple& maps,
           const std::optional<nb::tuple>& angles, const nb::tuple& cache, Index heads,
           double scale, nb::handle y_given, int threads) {
    Tensor x, y, first_norm, second_norm;
    regard::Layer call;
    Index rows = 0, of_sine = 0;
    if (!read_vectors(x_given, x, call.type, rows) || x.ndim != 3 || norms.size() != 4 ||
        maps.size() != 7 || cache.size() != 4 || heads < 1) {
        return false;
    }
    call.batch = x.shape[0];
    call.tokens = x.shape[1];
    call.width = x.shape[2];
    const auto read = [&](int which, Index inputs, regard::Map& map) {
        return read_map(nb::cast<nb::tuple>(maps[which]), call.type, inputs, map);
    };
    if (!read_room(y_given, x, call.type, call.width, y) ||
        !read_whole(norms[0], call.type, {call.width}, first_norm) ||
        !read_whole(norms[2], call.type, {call.width}, second_norm) ||
        !read(0, call.width, call.q) || !read(1, call.width, call.k) ||
        !read(2, call.width, call.v) || !read(3, call.q.outputs, call.o) ||
        !read(4, call.width, call.in) || !read(5, call.width, call.gate) ||
        !read(6, call.in.outputs, call.out) || call.gate.outputs != call.in.outputs ||
        call.o.outputs != call.width || call.out.outputs != call.width ||
        call.v.outputs != call.k.outputs || call.q.outputs % heads != 0) {
        return false;
    }
    call.hidden = call.in.outputs;
    call.heads = heads;
    call.head_width = call.q.outputs / heads;
    call.kv_heads = call.k.outputs / call.head_width;
    call.n_keys = integer(cache[3]);
    if (call.kv_heads < 1 || call.k.outputs != call.kv_heads * call.head_width ||
        heads % call.kv_heads != 0 || call.n_keys < call.tokens ||
        !read_cache(cache[0], call, integer(cache[2]), call.keys) ||
        !read_cache(cache[1], call, integer(cache[2]), call.values)) {
        return false;
    }
    if (angles) {
        if (angles->size() != 3 ||
            !read_angles((*angles)[0], call.type, call.batch, call.tokens, call.turned,
                         call.cosine) ||
            !read_angles((*angles)[1], call.type, call.batch, call.tokens, of_sine, call.sine) ||
            of_sine != call.turned || call.turned > call.head_width) {
            return false;
        }
        call.halves = nb::cast<bool>((*angles)[2]);
    }
    call.x = x.data;
    call.y = y.data;
    call.norms[0] = first_norm.data;
    call.norms[1] = second_norm.data;
    call.eps[0] = static_cast<float>(nb::cast<double>(norms[1]));
    call.eps[1] = static_cast<float>(nb::cast<double>(norms[3]));
    call.scale = static_cast<float>(scale);
    return run([&] { regard::layer(call, threads); });
}

}  // namespace
