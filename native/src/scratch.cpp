// One growing block of memory a thread; large ones are given back after the call.
#include "scratch.h"

#include <new>

namespace regard {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallest = std::size_t{1} << 18;
constexpr std::size_t kKept = std::size_t{1} << 23;  // bytes a thread holds on to between calls

}  // namespace

Scratch::~Scratch() {
    for (const Chunk& chunk : chunks_) ::operator delete(chunk.data, std::align_val_t{kAlignment});
}

void* Scratch::bytes(std::size_t size) {
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (chunks_.empty() || used_ + size > chunks_.back().size) {
        const std::size_t whole = size > kSmallest ? size : kSmallest;
        chunks_.push_back({nullptr, 0});  // first, so that nothing is lost if there is no room
        auto* data = static_cast<std::byte*>(
            ::operator new(whole, std::align_val_t{kAlignment}, std::nothrow));
        if (data == nullptr) {
            chunks_.pop_back();
            throw std::bad_alloc();
        }
        chunks_.back() = {data, whole};
        used_ = 0;
    }
    void* piece = chunks_.back().data + used_;
    used_ += size;
    return piece;
}

void Scratch::back_to(Place place) noexcept {
    while (chunks_.size() > place.chunks) {
        ::operator delete(chunks_.back().data, std::align_val_t{kAlignment});
        chunks_.pop_back();
    }
    used_ = place.used;
}

void Scratch::reset() noexcept {
    used_ = 0;
    if (chunks_.size() == 1 && chunks_.back().size <= kKept) return;
    std::size_t total = 0;
    for (const Chunk& chunk : chunks_) {
        total += chunk.size;
        ::operator delete(chunk.data, std::align_val_t{kAlignment});
    }
    chunks_.clear();
    if (total == 0 || total > kKept) return;
    // One chunk as large as all of them were together serves the next call in one piece.
    auto* data =
        static_cast<std::byte*>(::operator new(total, std::align_val_t{kAlignment}, std::nothrow));
    if (data != nullptr) chunks_.push_back({data, total});  // has room: it held at least one
}

namespace {

thread_local Scratch kept;
thread_local bool lent = false;

}  // namespace

Borrowed::Borrowed() noexcept : lent_(lent), nested_(lent), scratch(nested_ ? own_ : kept) {
    lent_ = true;
    scratch.reset();
}

Borrowed::~Borrowed() { lent_ = nested_; }

}  // namespace regard
