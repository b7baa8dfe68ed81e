// Problems drawn at random, always the same ones: case n has the n-th pair of lengths and options
// of its own.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "exact.h"
#include "regard/attention.h"

namespace cases {

// SplitMix64: the same numbers with every compiler.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t bits() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    std::int64_t below(std::int64_t end) { return static_cast<std::int64_t>(bits() % end); }
    bool one_in(std::int64_t n) { return below(n) == 0; }
    double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
    float normal() {
        const double radius = std::sqrt(-2 * std::log(uniform()));
        return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
    }
    template <typename Value>
    Value pick(std::initializer_list<Value> values) {
        return values.begin()[below(static_cast<std::int64_t>(values.size()))];
    }

  private:
    std::uint64_t state_;
};

// What is to be seen.
struct Wanted {
    bool lse = false, entropy = false, distance = false;
    bool top_keys = false, top_weights = false, map = false, received = false;
    std::int64_t top = 0, map_rows = 0, map_columns = 0;
    bool max_logit = false;
    std::int64_t spans = 0, contribution = 0;  // how many
};

// A problem, the memory it points into, and what is asked of it.
struct Case {
    std::string name;
    exact::Tensor<float> q, k, v, bias;
    exact::Tensor<std::uint8_t> mask, counted;  // counted is (batch, 1, 1, queries)
    exact::Tensor<std::int64_t> segments;       // (batch, 1, queries, 3)
    exact::Tensor<std::int64_t> chosen;         // (batch, heads, queries, count)
    exact::Tensor<std::int64_t> labels;         // (batch, 1, 1, keys), if spans are wanted
    exact::Array<std::int64_t> lengths;
    exact::Array<float> sinks;
    bool has_bias = false, has_mask = false, has_counted = false;
    bool has_lengths = false, has_sinks = false, has_segments = false, has_chosen = false;
    bool unit_variance = false;  // of q, k, v and bias, with the scale 1/√D

    regard::Problem problem;  // call point() after a change of the memory above
    Wanted wanted;
    exact::Layout output;
    regard::Rectangle rectangle;
    std::int64_t pixel_rows = 1, pixel_columns = 1;

    void point();
};

// A case of these lengths; all else follows from the number.
Case make(std::uint64_t number, std::int64_t queries, std::int64_t keys);

// Lengths around the edges of tiles, blocks and panels. 210 cases in a row have every pair of them
// once.
Case make(std::uint64_t number);

// Without options, contiguous, everything wanted, the queries at the end of the keys.
Case plain(std::uint64_t seed, const regard::Problem& sizes);

regard::Problem sizes(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads,
                      std::int64_t queries, std::int64_t keys, std::int64_t width,
                      std::int64_t value_width);

Case everything_wanted(Case c);

// The same problem with all memory contiguous.
Case contiguous(const Case& c);

// Head h of batch b alone, contiguous.
Case head_alone(const Case& c, std::int64_t b, std::int64_t h);

}  // namespace cases
