// Memory that a thread uses again from call to call, so that small calls touch no new pages.
#pragma once

#include <cstddef>
#include <vector>

namespace regard {

// Hands out aligned pieces until reset(), which takes all of them back.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    // `count` numbers, not initialised, aligned to 64 bytes. Throws std::bad_alloc.
    template <typename Number>
    [[gnu::always_inline]] Number* take(std::ptrdiff_t count) {
        return static_cast<Number*>(bytes(static_cast<std::size_t>(count) * sizeof(Number)));
    }

    void reset() noexcept;

    // Take back what was handed out since place() gave this place.
    struct Place {
        std::size_t chunks, used;
    };
    Place place() const noexcept { return {chunks_.size(), used_}; }
    void back_to(Place place) noexcept;

  private:
    struct Chunk {
        std::byte* data;
        std::size_t size;
    };
    void* bytes(std::size_t size);

    std::vector<Chunk> chunks_;  // pieces come from the last one
    std::size_t used_ = 0;       // of the last chunk
};

// The scratch memory of the thread that asks, with nothing handed out, as long as this lives. Asked
// for while it is lent already, it is other memory: in the middle of a call a signal handler may
// make another, on the same thread.
class Borrowed {
  public:
    Borrowed() noexcept;
    ~Borrowed();
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

  private:
    Scratch own_;
    bool& lent_;
    const bool nested_;

  public:
    Scratch& scratch;
};

}  // namespace regard
