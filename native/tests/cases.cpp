// How the cases are drawn.
#include "cases.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cases {

void Case::point() {
    const auto rows = [](const exact::Tensor<float>& x) {
        return regard::Rows{x.data(), {x.strides()[0], x.strides()[1], x.strides()[2]}};
    };
    problem.q = rows(q);
    problem.k = rows(k);
    problem.v = rows(v);
    problem.mask = {};
    problem.bias = {};
    if (has_mask) problem.mask.data = mask.data();
    if (has_bias) problem.bias.data = bias.data();
    for (int axis = 0; axis < 4; ++axis) {
        problem.mask.strides[axis] = mask.strides()[axis];
        problem.bias.strides[axis] = bias.strides()[axis];
    }
    problem.segments = {};
    problem.chosen = {};
    if (has_segments) {
        problem.segments = {segments.data(), {segments.strides()[0], segments.strides()[2]}};
    }
    if (has_chosen) {
        const auto& strides = chosen.strides();
        problem.chosen = {chosen.data(), {strides[0], strides[1], strides[2]}, chosen.size()[3]};
    }
    problem.lengths = has_lengths ? lengths.data() : nullptr;
    problem.sinks = has_sinks ? sinks.data() : nullptr;
}

namespace {

// A layout of rows: the last axis stays contiguous.
exact::Layout layout_of_rows(Random& random, std::array<std::int64_t, 4> size, bool may_repeat) {
    exact::Layout layout;
    layout.size = size;
    layout.before = random.below(4);
    if (random.one_in(3)) return layout;
    if (random.one_in(2)) std::swap(layout.order[1], layout.order[2]);
    if (random.one_in(4)) std::swap(layout.order[0], layout.order[random.below(3)]);
    for (int axis = 0; axis < 3; ++axis) {
        if (random.one_in(3)) layout.gap[axis] = 1 + random.below(5);
        layout.backwards[axis] = random.one_in(6);
        layout.repeated[axis] = may_repeat && random.one_in(20);
    }
    return layout;
}

// A layout of cells: any axis may be the contiguous one, or repeated.
exact::Layout layout_of_cells(Random& random, std::array<std::int64_t, 4> size) {
    exact::Layout layout = layout_of_rows(random, size, false);
    if (random.one_in(4)) std::swap(layout.order[3], layout.order[random.below(3)]);
    for (int axis = 0; axis < 4; ++axis) layout.repeated[axis] = random.one_in(3);
    if (random.one_in(6)) layout.gap[3] = 1 + random.below(3);
    layout.backwards[3] = random.one_in(8);
    return layout;
}

// Fills q and k with numbers of one kind, and says which.
const char* fill_scores(Random& random, Case& c) {
    const auto normal = [&](float& x) { x = random.normal(); };
    const auto step = [&](float& x) { x = static_cast<float>(random.below(3) - 1); };
    // Every kind is written anew, not changed in place: an element that is repeated comes more than
    // once.
    c.q.for_each(normal);
    c.k.for_each(normal);
    switch (random.below(12)) {
        case 0:  // logits of hundreds
            c.q.for_each([&](float& x) { x = 100 * random.normal(); });
            return "large";
        case 1: c.q.for_each([&](float& x) { x = 0x1p-10F * random.normal(); }); return "small";
        case 2:  // many equal scores
            c.q.for_each(step);
            c.k.for_each(step);
            return "strides";
        case 3: c.k.for_each([](float& x) { x = 0; }); return "flat";
        case 4: {  // scores that rise along the row, or fall
            const auto& size = c.k.size();
            const float sign = random.one_in(2) ? -1.0F : 1.0F;
            c.q.for_each([&](float& x) { x = 1 + random.normal() / 64; });
            for (std::int64_t b = 0; b < size[0]; ++b)
                for (std::int64_t h = 0; h < size[1]; ++h)
                    for (std::int64_t j = 0; j < size[2]; ++j)
                        for (std::int64_t d = 0; d < size[3]; ++d)
                            c.k.at(b, h, j, d) =
                                sign * 3 * static_cast<float>(j) / static_cast<float>(size[2]);
            return "slope";
        }
        default: c.unit_variance = true; return "normal";
    }
}

void add_options(Random& random, Case& c) {
    regard::Problem& p = c.problem;
    const std::array<std::int64_t, 4> cells = {p.batch, p.heads, p.queries, p.keys};
    const std::int64_t shift = p.keys + 3;
    p.position = random.pick({p.keys - p.queries, p.keys - p.queries, std::int64_t{0},
                              random.below(2 * shift + 1) - shift});
    p.causal = random.one_in(3);
    if (random.one_in(4)) p.left = random.pick<std::int64_t>({0, 1, 5, 40, 200, 2000});
    if (random.one_in(6)) p.right = random.pick<std::int64_t>({0, 1, 5, 40, 200, 2000});
    if (random.one_in(5)) p.softcap = random.pick({0.5F, 5.0F, 30.0F});

    if (random.one_in(4)) {
        c.has_lengths = true;
        c.lengths = exact::Array<std::int64_t>(p.batch);
        for (std::int64_t b = 0; b < p.batch; ++b)
            c.lengths[b] = random.pick({random.below(p.keys + 1), random.below(p.keys + 1), p.keys,
                                        std::int64_t{0}, std::int64_t{1}});
    }
    if (random.one_in(4)) {
        c.has_mask = true;
        c.mask = exact::Tensor<std::uint8_t>(layout_of_cells(random, cells));
        const double share = random.pick({0.02, 0.5, 0.9});
        c.mask.for_each([&](std::uint8_t& x) {
            x = random.uniform() < share ? static_cast<std::uint8_t>(1 + random.below(255)) : 0;
        });
    }
    if (random.one_in(4)) {
        c.has_bias = true;
        c.bias = exact::Tensor<float>(layout_of_cells(random, cells));
        const double masked = random.pick({0.0, 0.0, 0.2, 0.97});
        c.bias.for_each([&](float& x) {
            x = random.uniform() < masked ? -std::numeric_limits<float>::infinity()
                                          : random.normal();
        });
    }
    if (random.one_in(5)) {
        c.has_sinks = true;
        c.sinks = exact::Array<float>(p.heads);
        for (std::int64_t h = 0; h < p.heads; ++h)
            c.sinks[h] = random.pick({2 * random.normal(), 2 * random.normal(), 30.0F,
                                      -std::numeric_limits<float>::infinity()});
    }
}

// Keys of each query's own, some of them beyond what there is, and where it stands.
void add_segments(Random& random, Case& c) {
    const regard::Problem& p = c.problem;
    c.has_segments = true;
    c.segments =
        exact::Tensor<std::int64_t>(layout_of_rows(random, {p.batch, 1, p.queries, 3}, true));
    const std::int64_t longest = random.pick<std::int64_t>({3, 40, 200, 2000});
    for (std::int64_t b = 0; b < p.batch; ++b) {
        std::int64_t first = -random.below(4), end = first + random.below(longest);
        for (std::int64_t i = 0; i < p.queries; ++i) {
            c.segments.at(b, 0, i, 0) = first;
            c.segments.at(b, 0, i, 1) = end;
            c.segments.at(b, 0, i, 2) = first + random.below(longest);
            if (!random.one_in(8)) continue;
            first = end;
            end += random.below(longest);
        }
    }
}

void add_chosen(Random& random, Case& c) {
    const regard::Problem& p = c.problem;
    c.has_chosen = true;
    const std::int64_t count = random.pick<std::int64_t>({1, 7, 50});
    c.chosen = exact::Tensor<std::int64_t>(
        layout_of_rows(random, {p.batch, p.heads, p.queries, count}, true));
    std::vector<std::int64_t> keys(static_cast<std::size_t>(count));
    for (std::int64_t b = 0; b < p.batch; ++b)
        for (std::int64_t h = 0; h < p.heads; ++h)
            for (std::int64_t i = 0; i < p.queries; ++i) {
                for (std::int64_t& key : keys) key = random.below(p.keys + 3) - 1;
                std::sort(keys.begin(), keys.end());
                for (std::int64_t n = 0; n < count; ++n)
                    c.chosen.at(b, h, i, n) = keys[static_cast<std::size_t>(n)];
            }
}

// Spans of keys, up to `most` of them: long ones, short ones, or any label for any key.
void add_labels(Random& random, Case& c, std::int64_t most) {
    const regard::Problem& p = c.problem;
    exact::Layout layout;
    layout.size = {p.batch, 1, 1, p.keys};
    c.labels = exact::Tensor<std::int64_t>(layout);
    c.wanted.spans = most;
    const std::int64_t length = random.pick<std::int64_t>({1, 1, 5, 40, 300});
    std::int64_t label = -1;
    c.labels.for_each([&](std::int64_t& x) {
        if (random.one_in(length)) label = random.below(most + 1) - 1;
        x = label;
    });
}

void want_something(Random& random, Case& c) {
    const regard::Problem& p = c.problem;
    Wanted& w = c.wanted;
    const bool all = random.one_in(3), nothing = !all && random.one_in(6);
    const auto want = [&] { return !nothing && (all || random.one_in(2)); };
    w.lse = want();
    w.entropy = want();
    w.distance = want();
    w.top_keys = want();
    w.top_weights = want();
    w.map = want();
    w.received = want();
    if (w.top_keys || w.top_weights)
        w.top = random.pick<std::int64_t>({1, 3, 8, 8, 9, 21, p.keys + 2});
    if (w.map) {
        w.map_rows = random.pick<std::int64_t>({1, 2, 7, 16, p.queries, p.queries + 3});
        w.map_columns = random.pick<std::int64_t>({1, 3, 13, 64, p.keys, p.keys + 5});
    }
    w.max_logit = want();
    if (want()) w.contribution = random.pick<std::int64_t>({1, 3, 8, 9, 21, p.keys + 2});
    if (want()) add_labels(random, c, random.pick<std::int64_t>({1, 2, 7, 16, 40}));
    if ((w.map || w.received) && random.one_in(2)) {
        c.has_counted = true;
        exact::Layout layout = layout_of_cells(random, {p.batch, 1, 1, p.queries});
        c.counted = exact::Tensor<std::uint8_t>(layout);
        c.counted.for_each([&](std::uint8_t& x) { x = random.one_in(2) ? 1 : 0; });
    }

    regard::Rectangle& r = c.rectangle;
    r.row = random.one_in(2) ? 0 : random.below(p.queries);
    r.key = random.one_in(2) ? 0 : random.below(p.keys);
    r.rows = random.one_in(2) ? p.queries - r.row : random.below(p.queries - r.row + 1);
    r.keys = random.one_in(2) ? p.keys - r.key : random.below(p.keys - r.key + 1);
    c.pixel_rows = random.pick<std::int64_t>({1, 2, 5, 16, r.rows, r.rows + 2});
    c.pixel_columns = random.pick<std::int64_t>({1, 3, 17, 32, r.keys, r.keys + 4});
}

std::string describe(const Case& c, std::uint64_t number, const char* kind) {
    const regard::Problem& p = c.problem;
    const auto text = [](const char* what, std::int64_t value) {
        return std::string(" ") + what + "=" + std::to_string(value);
    };
    std::string out = "case " + std::to_string(number) + " (" + kind;
    out += text("B", p.batch) + text("H", p.heads) + text("Hkv", p.kv_heads);
    out += text("Nq", p.queries) + text("Nk", p.keys);
    out += text("D", p.width) + text("Dv", p.value_width) + text("position", p.position);
    if (p.causal) out += " causal";
    if (p.left >= 0) out += text("left", p.left);
    if (p.right >= 0) out += text("right", p.right);
    if (p.softcap > 0) out += " softcap";
    if (c.has_lengths) out += text("lengths[0]", c.lengths[0]);
    if (c.has_segments) out += " segments";
    if (c.has_chosen) out += text("chosen", c.chosen.size()[3]);
    if (c.has_mask) out += " mask";
    if (c.has_bias) out += " bias";
    if (c.has_sinks) out += " sinks";
    if (c.has_counted) out += " counted";
    if (c.wanted.top > 0) out += text("top", c.wanted.top);
    if (c.wanted.map) out += text("R", c.wanted.map_rows) + text("C", c.wanted.map_columns);
    return out + ")";
}

// Batches [b, b + batches) and heads [h, h + heads) of a tensor, contiguous.
template <typename Number>
exact::Tensor<Number> part_of(const exact::Tensor<Number>& x, std::int64_t b, std::int64_t batches,
                              std::int64_t h, std::int64_t heads) {
    exact::Layout layout;
    layout.size = {batches, heads, x.size()[2], x.size()[3]};
    exact::Tensor<Number> out(layout);
    std::int64_t n = 0;
    for (std::int64_t to_b = 0; to_b < batches; ++to_b)
        for (std::int64_t to_h = 0; to_h < heads; ++to_h)
            for (std::int64_t i = 0; i < layout.size[2]; ++i)
                for (std::int64_t j = 0; j < layout.size[3]; ++j)
                    out.data()[n++] = x.at(b + to_b, h + to_h, i, j);
    return out;
}

// The same problem with all memory contiguous: batches [b, b + batches) and heads [h, h + heads)
// with the key heads that they use, which must be whole groups or one head.
Case part_of(const Case& c, std::int64_t b, std::int64_t batches, std::int64_t h,
             std::int64_t heads) {
    const regard::Problem& p = c.problem;
    const std::int64_t group = p.heads / p.kv_heads;
    const std::int64_t kv_heads = std::max<std::int64_t>(1, heads / group);
    Case out;
    out.name = c.name;
    out.problem = p;
    out.problem.batch = batches;
    out.problem.heads = heads;
    out.problem.kv_heads = kv_heads;
    out.q = part_of(c.q, b, batches, h, heads);
    out.k = part_of(c.k, b, batches, h / group, kv_heads);
    out.v = part_of(c.v, b, batches, h / group, kv_heads);
    out.has_mask = c.has_mask;
    out.has_bias = c.has_bias;
    out.has_counted = c.has_counted;
    out.has_lengths = c.has_lengths;
    out.has_sinks = c.has_sinks;
    if (c.has_mask) out.mask = part_of(c.mask, b, batches, h, heads);
    if (c.has_bias) out.bias = part_of(c.bias, b, batches, h, heads);
    if (c.has_counted) out.counted = part_of(c.counted, b, batches, 0, 1);
    out.has_segments = c.has_segments;
    out.has_chosen = c.has_chosen;
    if (c.has_segments) out.segments = part_of(c.segments, b, batches, 0, 1);
    if (c.has_chosen) out.chosen = part_of(c.chosen, b, batches, h, heads);
    if (c.wanted.spans) out.labels = part_of(c.labels, b, batches, 0, 1);
    if (c.has_lengths) {
        out.lengths = exact::Array<std::int64_t>(batches);
        for (std::int64_t n = 0; n < batches; ++n) out.lengths[n] = c.lengths[b + n];
    }
    if (c.has_sinks) {
        out.sinks = exact::Array<float>(heads);
        for (std::int64_t n = 0; n < heads; ++n) out.sinks[n] = c.sinks[h + n];
    }
    out.unit_variance = c.unit_variance;
    out.wanted = c.wanted;
    out.output.size = {batches, heads, p.queries, p.value_width};
    out.rectangle = c.rectangle;
    out.pixel_rows = c.pixel_rows;
    out.pixel_columns = c.pixel_columns;
    out.point();
    return out;
}

}  // namespace

Case make(std::uint64_t number, std::int64_t queries, std::int64_t keys) {
    Random random(number);
    for (int warm = 0; warm < 3; ++warm) random.bits();
    const auto up_to = [&](std::int64_t most) {
        return 1 + random.below(std::max<std::int64_t>(1, most));
    };

    Case c;
    regard::Problem& p = c.problem;
    p.queries = queries;
    p.keys = keys;
    // Multiplications: long sequences get few columns and heads, so that a case stays quick.
    const std::int64_t budget = random.one_in(8) ? 24'000'000 : 3'000'000;
    std::int64_t work;
    do {
        const auto width = [&] {
            return random.pick<std::int64_t>({1, 3, 7, 8, 16, 17, 32, 64, 67, 128});
        };
        p.width = width();
        p.value_width = random.one_in(2) ? p.width : width();
        work = p.queries * p.keys * (p.width + p.value_width);
    } while (work > budget && p.width + p.value_width > 16);
    const std::int64_t most = 1 + budget / (1 + work);
    p.batch = up_to(std::min<std::int64_t>(3, most));
    p.kv_heads = up_to(std::min<std::int64_t>(3, most / p.batch));
    p.heads = p.kv_heads * up_to(std::min<std::int64_t>(5, most / p.batch / p.kv_heads));

    const auto rows = [&](std::int64_t heads, std::int64_t n, std::int64_t width) {
        return exact::Tensor<float>(layout_of_rows(random, {p.batch, heads, n, width}, true));
    };
    c.q = rows(p.heads, p.queries, p.width);
    c.k = rows(p.kv_heads, p.keys, p.width);
    c.v = rows(p.kv_heads, p.keys, p.value_width);
    c.output = layout_of_rows(random, {p.batch, p.heads, p.queries, p.value_width}, false);
    p.scale = 1 / std::sqrt(static_cast<float>(p.width));
    const char* kind = fill_scores(random, c);
    c.v.for_each([&](float& x) { x = random.normal(); });
    if (random.one_in(6)) {
        p.scale = random.pick({0.3F, -0.5F, 1.0F, 0.0F});
        c.unit_variance = false;
    }
    add_options(random, c);
    if (random.one_in(6)) add_segments(random, c);
    if (random.one_in(8)) add_chosen(random, c);
    want_something(random, c);
    c.name = describe(c, number, kind);
    c.point();
    return c;
}

// 15 and 14 have no common divisor.
Case make(std::uint64_t number) {
    constexpr std::int64_t queries[] = {1, 97, 6, 48, 2, 193, 11, 3, 96, 5, 47, 4, 101, 7, 95};
    constexpr std::int64_t keys[] = {5,  257, 16, 1031, 128, 1,   300,
                                     17, 255, 15, 521,  127, 256, 129};
    return make(number, queries[number % 15], keys[number % 14]);
}

Case plain(std::uint64_t seed, const regard::Problem& sizes) {
    Random random(seed);
    Case c;
    c.problem = sizes;
    const regard::Problem& p = c.problem;
    const auto rows = [&](std::int64_t heads, std::int64_t n, std::int64_t width) {
        exact::Layout layout;
        layout.size = {p.batch, heads, n, width};
        exact::Tensor<float> x(layout);
        x.for_each([&](float& element) { element = random.normal(); });
        return x;
    };
    c.q = rows(p.heads, p.queries, p.width);
    c.k = rows(p.kv_heads, p.keys, p.width);
    c.v = rows(p.kv_heads, p.keys, p.value_width);
    c.output.size = {p.batch, p.heads, p.queries, p.value_width};
    c.problem.scale = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, p.width)));
    c.problem.position = p.keys - p.queries;
    c.wanted = {true, true, true, true, true, true, true, 8, 5, 7, true, 0, 3};
    add_labels(random, c, 5);
    c.rectangle = {0, p.queries, 0, p.keys};
    c.pixel_rows = 3;
    c.pixel_columns = 11;
    c.unit_variance = true;
    c.name = describe(c, seed, "plain");
    c.point();
    return c;
}

regard::Problem sizes(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads,
                      std::int64_t queries, std::int64_t keys, std::int64_t width,
                      std::int64_t value_width) {
    regard::Problem p;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.queries = queries;
    p.keys = keys;
    p.width = width;
    p.value_width = value_width;
    return p;
}

Case everything_wanted(Case c) {
    c.wanted = {true, true, true, true, true, true, true, 9, 5, 13, true, 0, 5};
    Random random(static_cast<std::uint64_t>(c.problem.keys));
    add_labels(random, c, 7);
    return c;
}

Case contiguous(const Case& c) { return part_of(c, 0, c.problem.batch, 0, c.problem.heads); }

Case head_alone(const Case& c, std::int64_t b, std::int64_t h) { return part_of(c, b, 1, h, 1); }

}  // namespace cases
