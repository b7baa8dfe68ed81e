// One layer of a decoder, of the kind that Llama has, for few new tokens:
//
//     h = x + O(attention(Q n, K n, V n)) with n = norm(x), queries and keys turned
//     y = h + Out(silu(Gate m) · In m) with m = norm(h)
//
// It calls the other functions of the core one after the other, and gives their bits.
#pragma once

#include "regard/attention.h"
#include "regard/linear.h"
#include "regard/tokens.h"

namespace regard {

// All numbers are of one type.
struct Layer {
    Type type = Type::float32;
    std::int64_t batch = 0, tokens = 0, width = 0, hidden = 0;
    std::int64_t heads = 0, kv_heads = 0, head_width = 0;
    const void* x = nullptr;        // (batch, tokens, width), contiguous
    void* y = nullptr;              // the same
    const void* norms[2] = {};      // (width), contiguous
    float eps[2] = {};              // of the norms
    Map q, k, v, o, in, gate, out;  // without y
    std::int64_t turned = 0;        // numbers of a head that are turned
    bool halves = true;             // as in Turn
    Rows cosine, sine;              // (batch, heads, tokens, turned)
    RowsOut keys, values;           // (batch, kv_heads, n_keys, head_width), the new ones last:
    std::int64_t n_keys = 0;        // those are written
    float scale = 1;
};

void layer(const Layer& call, int threads);

}  // namespace regard
