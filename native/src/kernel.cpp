// One build of the kernel: how the work is shared out among threads. Compiled once for each
// instruction set, with REGARD_KERNEL as its name, and once more with REGARD_DOUBLE.
#include "kernel.h"

#include "backward_share.h"
#include "direct.h"
#include "norms.h"
#include "plan.h"
#include "pool.h"
#include "share.h"
#if !defined(REGARD_DOUBLE)
#include "kept.h"
#include "linear.h"
#include "multiply.h"
#include "peak.h"
#include "tokens.h"
#endif

#define REGARD_TEXT_OF(name) #name
#define REGARD_TEXT(name) REGARD_TEXT_OF(name)

namespace regard::REGARD_KERNEL {
namespace {

// Room for K and V of one key head, packed.
Packed make_packed(const Call& call, const Layout& layout, Index b, Index kv_head,
                   Scratch& scratch) {
    const Problem& problem = call.problem;
    Packed packed;
    packed.layout = layout;
    // A piece may end behind its last key, by less than a panel.
    const Index bad = problem.keys + (problem.keys / kChunk + 1) * kPanel;
    packed.bad_k.keys = scratch.take<std::int32_t>(bad);
    packed.bad_v.keys = scratch.take<std::int32_t>(bad);
    packed.values = row_of(problem.v, b, kv_head, 0);
#if defined(REGARD_AMX)
    if (call.tiles) {
        const Index inner = round_up(problem.width, kAmxInner);
        packed.k_tiles = scratch.take<BFloat16>(layout.padded_keys * inner);
        packed.v_tiles = scratch.take<BFloat16>(layout.padded_keys * call.padded_width);
        packed.odd = scratch.take<std::uint8_t>(layout.padded_keys / kPanel);
        packed.keys = static_cast<const BFloat16*>(row_of(problem.k, b, kv_head, 0));
        return packed;
    }
#endif
    packed.k = scratch.take<Real>(layout.padded_keys * problem.width);
    packed.v = scratch.take<Real>(layout.padded_keys * call.padded_width);
    return packed;
}

// The keys of a piece [begin, end).
void pack(const Call& call, Index b, Index kv_head, Index begin, Index end, Packed& packed,
          BadKeys& bad_k, BadKeys& bad_v) {
    const Problem& problem = call.problem;
    const Layout& layout = packed.layout;
#if defined(REGARD_AMX)
    if (call.tiles) {
        const Index inner = round_up(problem.width, kAmxInner);
        each_packed(layout, begin, end, [&](Index first, Index last, Index shift) {
            pack_keys(packed.keys, problem.k.strides[2], first, last, problem.width,
                      packed.k_tiles + (first + shift) * inner,
                      packed.odd + (first + shift) / kPanel, bad_k);
            if (!problem.value_width) return;
            pack_values(static_cast<const BFloat16*>(packed.values), problem.v.strides[2], first,
                        last, problem.value_width, call.padded_width,
                        packed.v_tiles + (first + shift) * call.padded_width, bad_v);
        });
        return;
    }
#endif
    with_numbers(problem.k.type, row_of(problem.k, b, kv_head, 0), [&](const auto* k) {
        each_packed(layout, begin, end, [&](Index first, Index last, Index shift) {
            pack_keys(k, problem.k.strides[2], first, last, problem.width,
                      packed.k + (first + shift) * problem.width, bad_k);
        });
    });
    if (!problem.value_width) return;
    with_numbers(problem.v.type, packed.values, [&](const auto* v) {
        each_packed(layout, begin, end, [&](Index first, Index last, Index shift) {
            pack_values(v, problem.v.strides[2], first, last, problem.value_width,
                        layout.padded_keys, packed.v + shift * kPanel, bad_v);
        });
    });
}

// What each key received, of head h: the picture with one row, and a column for each key.
Picture received_picture(const Call& call, Scratch& scratch) {
    const Problem& problem = call.problem;
    Picture picture;
    picture.rectangle = {0, problem.queries, 0, problem.keys};
    picture.rows = 1;
    picture.columns = problem.keys;
    picture.reduce = Picture::sum;
    picture.out = call.seen.received;
    picture.scales.maxima = call.maxima;
    picture.scales.inverses = call.inverses;
    picture.counted = true;
    picture.pixel_columns = Columns(problem.keys, problem.keys, scratch);
    return picture;
}

// What a second pass sees: nothing but which queries count.
Seen second_look(const Seen& seen) {
    Seen second;
    second.counted = seen.counted;
    second.counted_strides[0] = seen.counted_strides[0];
    second.counted_strides[1] = seen.counted_strides[1];
    return second;
}

// Whether the first pass packs the keys otherwise than the second reads them.
bool received_later(const Call& call) {
#if defined(REGARD_AMX)
    if (call.tiles) return true;
#endif
    return call.problem.segments.data != nullptr;
}

// Every key head is one task: packed, attended to, and looked at again, by one thread.
void forward_by_head(const Call& call, const Plan& plan, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    const Index tasks = problem.batch * problem.kv_heads;
    const Index packs = problem.segments.data ? problem.batch : 0;
    auto* layouts = packs ? shared.take<Layout>(packs) : nullptr;
    for (Index b = 0; b < packs; ++b) {
        layouts[b] = layout_of(call, b, shared);
        // Query heads that share their keys would have to pack a segment each for itself.
        if (call.group == 1) take_turns(layouts[b]);
    }
    share_out(tasks, threads, [&](Index task) {
        const Index b = task / problem.kv_heads, kv_head = task % problem.kv_heads;
        const Index head = kv_head * call.group;
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        const Layout layout = packs ? layouts[b] : layout_of(call, b, scratch);
        Packed packed = make_packed(call, layout, b, kv_head, scratch);
        if (!layout.in_turn) {
            pack(call, b, kv_head, 0, problem.keys, packed, packed.bad_k, packed.bad_v);
        }
        const Segment* held = nullptr;
        const auto use = [&](const Segment* segment) {
            if (!layout.in_turn || !segment || segment == held) return;
            held = segment;
            packed.bad_k.count = packed.bad_v.count = 0;
            pack(call, b, kv_head, segment->first, segment->last, packed, packed.bad_k,
                 packed.bad_v);
        };
        const Maps maps(call, plan, b * problem.heads + head, call.group, scratch);
        Tile tile(call, smaller(kTile, call.group * problem.queries), scratch);
        for (Index piece = 0; piece < plan.pieces(call.group); ++piece) {
            run_piece(call, plan, packed, tile, b, head, piece, maps.rows, use);
        }
        for (Index h = 0; call.seen.map && h < call.group; ++h) maps.finish(call, h);
        if (!call.seen.received || received_later(call)) return;
        const Seen second = second_look(call.seen);
        const Call again{problem, second, {}};
        const Picture picture = received_picture(call, scratch);
        const Scratch::Place place = scratch.place();
        for (Index h = 0; h < call.group; ++h) {
            for (Index n = 0; n < picture.tasks(); ++n) {
                scratch.back_to(place);
                run_picture(again, picture, {packed.k, 0, packed.bad_k}, b, head + h, n, scratch);
            }
        }
    });
}

// K and V of every key head, packed by all threads together.
Packed* pack_all(const Call& call, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    const Index heads = problem.batch * problem.kv_heads;
    const Index pieces = (problem.keys + kChunk - 1) / kChunk;
    auto* packed = shared.take<Packed>(heads);
    for (Index b = 0; b < problem.batch; ++b) {
        const Layout layout = layout_of(call, b, shared);
        for (Index h = 0; h < problem.kv_heads; ++h) {
            packed[b * problem.kv_heads + h] = make_packed(call, layout, b, h, shared);
        }
    }
    auto* bad = shared.take<BadKeys>(heads * pieces * 2);
    share_out(heads * pieces, threads, [&](Index task) {
        const Index head = task / pieces, first = task % pieces * kChunk;
        const Index room = task % pieces * (kChunk + kPanel);
        BadKeys& bad_k = bad[2 * task] = {packed[head].bad_k.keys + room, 0};
        BadKeys& bad_v = bad[2 * task + 1] = {packed[head].bad_v.keys + room, 0};
        pack(call, head / problem.kv_heads, head % problem.kv_heads, first,
             smaller(first + kChunk, problem.keys), packed[head], bad_k, bad_v);
    });
    for (Index task = 0; task < heads * pieces; ++task) {
        for (int which = 0; which < 2; ++which) {
            const BadKeys& found = bad[2 * task + which];
            BadKeys& to = which == 0 ? packed[task / pieces].bad_k : packed[task / pieces].bad_v;
            for (Index n = 0; n < found.count; ++n) to.keys[to.count++] = found.keys[n];
        }
    }
    return packed;
}

// Few heads for many threads: the queries of a head are shared out, too.
void forward_by_span(const Call& call, const Plan& plan, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    Packed* packed = pack_all(call, threads, shared);
    const Index heads = problem.batch * problem.heads;
    const Maps maps(call, plan, 0, heads, shared);
    const Index pieces = plan.pieces(call.group);
    share_out(problem.batch * problem.kv_heads * pieces, threads, [&](Index task) {
        // The last queries of a causal head have the most to do: they go first.
        const Index at = task / pieces, piece = pieces - 1 - task % pieces;
        const Index b = at / problem.kv_heads, head = at % problem.kv_heads * call.group;
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        Tile tile(call, smaller(kTile, call.group * problem.queries), scratch);
        run_piece(call, plan, packed[at], tile, b, head, piece,
                  call.seen.map ? maps.rows + (b * problem.heads + head) * maps.spans : nullptr,
                  [](const Segment*) {});
    });
    if (call.seen.map) share_out(heads, threads, [&](Index head) { maps.finish(call, head); });
    if (!call.seen.received || received_later(call)) return;
    const Seen second = second_look(call.seen);
    const Call again{problem, second, {}};
    const Picture picture = received_picture(call, shared);
    share_out(heads * picture.tasks(), threads, [&](Index task) {
        const Index head = task / picture.tasks();
        const Index b = head / problem.heads, h = head % problem.heads;
        const Packed& keys = packed[b * problem.kv_heads + h / call.group];
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        run_picture(again, picture, {keys.k, 0, keys.bad_k}, b, h, task % picture.tasks(), scratch);
    });
}

// K of the rectangle's keys, of every key head.
PackedKeys* pack_rectangle(const Call& call, const Rectangle& box, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    const Index heads = problem.batch * problem.kv_heads;
    auto* packed = shared.take<PackedKeys>(heads);
    Real* panels = shared.take<Real>(heads * round_up(box.keys, kPanel) * problem.width);
    auto* bad = shared.take<std::int32_t>(heads * box.keys);
    share_out(heads, threads, [&](Index head) {
        const Index b = head / problem.kv_heads, kv_head = head % problem.kv_heads;
        Real* to = panels + head * round_up(box.keys, kPanel) * problem.width;
        BadKeys found{bad + head * box.keys, 0};
        with_numbers(problem.k.type, row_of(problem.k, b, kv_head, 0), [&](const auto* k) {
            pack_keys(k, problem.k.strides[2], box.key, box.key + box.keys, problem.width, to,
                      found);
        });
        packed[head] = {to, box.key, found};
    });
    return packed;
}

void run_pictures(const Call& call, const Picture& picture, int threads) {
    const Problem& problem = call.problem;
    Scratch shared;
    const PackedKeys* packed = pack_rectangle(call, picture.rectangle, threads, shared);
    share_out(problem.batch * problem.heads * picture.tasks(), threads, [&](Index task) {
        const Index head = task / picture.tasks();
        const Index b = head / problem.heads, h = head % problem.heads;
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        run_picture(call, picture, packed[b * problem.kv_heads + h / call.group], b, h,
                    task % picture.tasks(), scratch);
    });
}

// What each key received, where the first pass has not packed the keys as they came.
void look_again(const Call& call, int threads, Scratch& shared) {
    const Seen second = second_look(call.seen);
    run_pictures({call.problem, second, {}}, received_picture(call, shared), threads);
}

// Few queries: tiles of whole heads, parts of the keys.
void forward_direct(const Call& call, const Plan& plan, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    const Index pieces = plan.pieces(call.group);
    const Index tiles = problem.batch * problem.kv_heads * pieces;
    const Index parts = larger(1, (problem.keys + kPart - 1) / kPart);
    const Maps maps(call, plan, 0, problem.batch * problem.heads, shared);
    const auto begin = [&](Tile& tile, Index at) {
        const Index b = at / pieces / problem.kv_heads, kv_head = at / pieces % problem.kv_heads;
        const Index first = at % pieces * plan.heads_in_tile;
        const Index heads = smaller(plan.heads_in_tile, call.group - first);
        tile.rows = 0;
        for (Index n = 0; n < heads; ++n) {
            add_queries(call, tile, b, kv_head * call.group + first + n, 0, problem.queries);
        }
        return kv_head;
    };
    const auto end = [&](Tile& tile) {
        const Index head = tile.b * problem.heads + tile.head[0];
        finish(call, tile, call.seen.map ? maps.rows + head : nullptr);
        end_map_row(call, tile.map_row);
    };
    const Index capacity = smaller(plan.heads_in_tile, call.group) * problem.queries;
    if (parts == 1) {
        share_out(tiles, threads, [&](Index at) {
            Borrowed borrowed;
            Scratch& scratch = borrowed.scratch;
            Tile tile(call, capacity, scratch);
            const Index kv_head = begin(tile, at);
            attend_part(call, tile, kv_head, 0, scratch);
            end(tile);
        });
    } else {
        auto* all_parts = shared.take<Tile>(tiles * parts);
        for (Index n = 0; n < tiles * parts; ++n) {
            const Tile* first = n % parts == 0 ? nullptr : &all_parts[n / parts * parts];
            all_parts[n] = Tile(call, capacity, shared, first);
        }
        share_out(tiles * parts, threads, [&](Index task) {
            Borrowed borrowed;
            Scratch& scratch = borrowed.scratch;
            Tile& tile = all_parts[task];
            const Index kv_head = begin(tile, task / parts);
            attend_part(call, tile, kv_head, task % parts, scratch);
        });
        share_out(tiles, threads, [&](Index at) {
            Tile& tile = all_parts[at * parts];
            for (Index n = 1; n < parts; ++n) merge(call, tile, all_parts[at * parts + n]);
            end(tile);
        });
    }
    for (Index h = 0; call.seen.map && h < problem.batch * problem.heads; ++h) {
        maps.finish(call, h);
    }
    if (call.seen.received) look_again(call, threads, shared);
}

void attention(const Problem& problem, const RowsOut& output, const Seen& seen, int threads) {
    const Index heads = problem.batch * problem.heads;
    if (problem.queries == 0 || problem.keys == 0 || heads == 0) {
        // Nobody looks, or there is nothing to look at.
        for (Index n = 0; seen.map && n < heads * seen.map_rows * seen.map_columns; ++n) {
            seen.map[n] = 0.0f;
        }
        for (Index n = 0; seen.received && n < heads * problem.keys; ++n) seen.received[n] = 0.0f;
        if (problem.queries == 0 || heads == 0) return;
    }
    Scratch shared;
    Seen rest = seen;
    if (problem.keys == 0) rest.map = rest.received = nullptr;
    Call call{problem, rest, output};
    if (rest.contribution) find_log_norms(call, threads, shared);
    if (rest.spans) {
        const Index sequences = rest.labels_stride ? problem.batch : 1;
        auto* labels = shared.take<Labels>(sequences);
        for (Index b = 0; b < sequences; ++b) {
            labels[b] = Labels(rest.labels + b * rest.labels_stride, problem.keys, shared);
        }
        call.labels = labels;
    }
    if (rest.map) call.columns = Columns(problem.keys, seen.map_columns, shared);
    if (rest.received) {
        call.maxima = shared.take<Real>(heads * problem.queries);
        call.inverses = shared.take<Real>(heads * problem.queries);
    }
#if defined(REGARD_AMX)
    const auto is_short = [](const Rows& rows) { return rows.type == Type::bfloat16; };
    call.tiles =
        problem.queries > kFew && is_short(problem.q) && is_short(problem.k) && is_short(problem.v);
#endif
    const Plan plan(problem);
    if (problem.queries <= kFew) {
        forward_direct(call, plan, threads, shared);
    } else if (threads <= 1 || problem.batch * problem.kv_heads >= 4 * threads) {
        forward_by_head(call, plan, threads, shared);
    } else {
        forward_by_span(call, plan, threads, shared);
    }
    if (rest.received && received_later(call) && problem.queries > kFew) {
        look_again(call, threads, shared);
    }
}

void weights(const Problem& problem, const Real* lse, const Rectangle& box, Real* out,
             int threads) {
    if (problem.batch * problem.heads == 0 || box.rows == 0 || box.keys == 0) return;
    const Seen nothing;
    const Call call{problem, nothing, {}};
    Scales scales;
    scales.lse = lse;
    Scratch shared;
    const PackedKeys* packed = pack_rectangle(call, box, threads, shared);
    const Index tiles = (box.rows + kTile - 1) / kTile;
    share_out(problem.batch * problem.heads * tiles, threads, [&](Index task) {
        const Index b = task / tiles / problem.heads, h = task / tiles % problem.heads;
        const Index first = task % tiles * kTile;
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        run_weights(call, box, scales, packed[b * problem.kv_heads + h / call.group], b, h, first,
                    smaller(kTile, box.rows - first), out, scratch);
    });
}

void pooled(const Problem& problem, const Real* lse, const Rectangle& box, Index pixel_rows,
            Index pixel_columns, Reduce reduce, Real* out, int threads) {
    const Index heads = problem.batch * problem.heads;
    if (heads == 0 || box.rows == 0 || box.keys == 0) {
        for (Index n = 0; n < heads * pixel_rows * pixel_columns; ++n) out[n] = 0.0f;
        return;
    }
    const Seen nothing;
    Picture picture;
    picture.rectangle = box;
    picture.rows = pixel_rows;
    picture.columns = pixel_columns;
    picture.reduce = reduce == Reduce::mean ? Picture::mean : Picture::maximum;
    picture.out = out;
    picture.scales.lse = lse;
    Scratch shared;
    picture.pixel_columns = Columns(box.keys, pixel_columns, shared);
    run_pictures({problem, nothing, {}}, picture, threads);
}

}  // namespace

#if defined(REGARD_DOUBLE)
const AttentionOf<double> kernel{attention, attention_backward, weights, pooled};
#else
const Kernel kernel{REGARD_TEXT(REGARD_KERNEL),
                    {attention, attention_backward, weights, pooled},
                    kept,
                    measure_peak,
                    linear,
                    multiply<float>,
                    multiply<double>,
                    rms_norm,
                    turn,
                    gated,
                    add};
#endif

}  // namespace regard::REGARD_KERNEL
