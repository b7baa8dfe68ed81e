// One layer of a decoder for few new tokens: the functions of the core, one after the other.
#include "regard/layer.h"

#include <cstring>

#include "scratch.h"

namespace regard {
namespace {

using Index = std::int64_t;

// (batch, heads, tokens, width) of numbers that lie as (batch, tokens, heads, width).
template <typename Of>
Of by_heads(decltype(Of::data) data, const Layer& call, Index heads) {
    Of rows;
    rows.data = data;
    rows.type = call.type;
    rows.strides[0] = call.tokens * heads * call.head_width;
    rows.strides[1] = call.head_width;
    rows.strides[2] = heads * call.head_width;
    return rows;
}

// The places of the new tokens among keys, or values.
RowsOut new_places(const RowsOut& rows, const Layer& call) {
    RowsOut places = rows;
    places.data = static_cast<char*>(rows.data) +
                  (call.n_keys - call.tokens) * rows.strides[2] * bytes_of(call.type);
    return places;
}

void turn_or_copy(const Layer& call, Index heads, const Rows& from, const RowsOut& to, bool turns,
                  int threads) {
    if (turns && call.turned > 0) {
        Turn asked;
        asked.batch = call.batch;
        asked.heads = heads;
        asked.tokens = call.tokens;
        asked.width = call.head_width;
        asked.turned = call.turned;
        asked.halves = call.halves;
        asked.x = from;
        asked.cosine = call.cosine;
        asked.sine = call.sine;
        asked.y = to;
        return turn(asked, threads);
    }
    const Index bytes = bytes_of(call.type);
    for (Index b = 0; b < call.batch; ++b) {
        for (Index h = 0; h < heads; ++h) {
            for (Index n = 0; n < call.tokens; ++n) {
                const auto at = [&](const auto& rows) {
                    return (b * rows.strides[0] + h * rows.strides[1] + n * rows.strides[2]) *
                           bytes;
                };
                std::memcpy(static_cast<char*>(to.data) + at(to),
                            static_cast<const char*>(from.data) + at(from),
                            static_cast<std::size_t>(call.head_width * bytes));
            }
        }
    }
}

}  // namespace

void layer(const Layer& call, int threads) {
    const Index rows = call.batch * call.tokens;
    Scratch scratch;
    const auto room = [&](Index width) {
        return static_cast<void*>(scratch.take<char>(rows * width * bytes_of(call.type)));
    };
    const auto norm = [&](int which, const void* x, void* y) {
        RmsNorm asked;
        asked.type = call.type;
        asked.rows = rows;
        asked.width = call.width;
        asked.x = x;
        asked.weight = call.norms[which];
        asked.eps = call.eps[which];
        asked.y = y;
        rms_norm(asked, threads);
    };
    const auto project = [&](const void* x, Index inputs, const Map* maps, Index count) {
        Linear asked;
        asked.type = call.type;
        asked.rows = rows;
        asked.inputs = inputs;
        asked.x = x;
        asked.x_stride = inputs;
        asked.maps = maps;
        asked.count = count;
        linear(asked, threads);
    };
    const auto to = [&](const Map& map) {
        Map with = map;
        with.y = room(map.outputs);
        with.y_stride = map.outputs;
        return with;
    };
    const auto two = [&](void (*function)(const Two&, int), const void* a, const void* b, void* y,
                         Index width) { function({call.type, rows * width, a, b, y}, threads); };

    void* normed = room(call.width);
    norm(0, call.x, normed);
    const Map projections[] = {to(call.q), to(call.k), to(call.v)};
    project(normed, call.width, projections, 3);
    void* turned = room(call.q.outputs);
    turn_or_copy(call, call.heads, by_heads<Rows>(projections[0].y, call, call.heads),
                 by_heads<RowsOut>(turned, call, call.heads), true, threads);
    turn_or_copy(call, call.kv_heads, by_heads<Rows>(projections[1].y, call, call.kv_heads),
                 new_places(call.keys, call), true, threads);
    turn_or_copy(call, call.kv_heads, by_heads<Rows>(projections[2].y, call, call.kv_heads),
                 new_places(call.values, call), false, threads);

    ProblemOf<float> problem;
    problem.batch = call.batch;
    problem.heads = call.heads;
    problem.kv_heads = call.kv_heads;
    problem.queries = call.tokens;
    problem.keys = call.n_keys;
    problem.width = problem.value_width = call.head_width;
    problem.q = by_heads<Rows>(turned, call, call.heads);
    const auto readable = [](const RowsOut& rows) {
        return Rows{rows.data, {rows.strides[0], rows.strides[1], rows.strides[2]}, rows.type};
    };
    problem.k = readable(call.keys);
    problem.v = readable(call.values);
    problem.scale = call.scale;
    problem.position = call.n_keys - call.tokens;
    problem.causal = true;
    void* attended = room(call.q.outputs);
    attention<float>(problem, by_heads<RowsOut>(attended, call, call.heads), {}, threads);

    const Map output = to(call.o);
    project(attended, call.q.outputs, &output, 1);
    void* residual = room(call.width);
    two(add, call.x, output.y, residual, call.width);

    norm(1, residual, normed);
    const Map features[] = {to(call.in), to(call.gate)};
    project(normed, call.width, features, 2);
    void* activated = room(call.hidden);
    two(gated, features[1].y, features[0].y, activated, call.hidden);
    Map last = call.out;
    last.y = output.y;
    last.y_stride = call.width;
    project(activated, call.hidden, &last, 1);
    two(add, residual, last.y, call.y, call.width);
}

}  // namespace regard
