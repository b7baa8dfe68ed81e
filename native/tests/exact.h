// Memory for tests: every array has an allocation of its own that ends with its last element, so
// that the address sanitizer sees a read or a write behind it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace exact {

// What memory holds before anything is written to it: a value that no result has.
template <typename Number>
constexpr Number unset() {
    return std::numeric_limits<Number>::has_quiet_NaN ? std::numeric_limits<Number>::quiet_NaN()
                                                      : std::numeric_limits<Number>::min();
}

// `size` elements, all unset. `before` unused ones in front move it off the allocator's alignment.
template <typename Number>
class Array {
  public:
    explicit Array(std::int64_t size = 0, std::int64_t before = 0)
        : memory_(new Number[size + before]), size_(size), before_(before) {
        std::fill_n(memory_.get(), size + before, unset<Number>());
    }
    Number* data() { return memory_.get() + before_; }
    const Number* data() const { return memory_.get() + before_; }
    std::int64_t size() const { return size_; }
    Number& operator[](std::int64_t n) { return data()[n]; }
    const Number& operator[](std::int64_t n) const { return data()[n]; }

  private:
    std::unique_ptr<Number[]> memory_;
    std::int64_t size_, before_;
};

// How four axes lie in memory.
struct Layout {
    std::array<std::int64_t, 4> size{};
    std::array<int, 4> order{0, 1, 2, 3};  // of the axes, from the outermost to the innermost
    std::array<std::int64_t, 4> gap{};     // elements left unused at the end of each stride
    std::array<bool, 4> repeated{};        // stride 0
    std::array<bool, 4> backwards{};       // a negative stride
    std::int64_t before = 0;               // of Array
};

// Four axes with any strides, in an Array that spans exactly what the strides can reach.
template <typename Number>
class Tensor {
  public:
    Tensor() = default;
    explicit Tensor(const Layout& layout) : size_(layout.size) {
        std::int64_t span = 1, first = 0;
        for (int place = 3; place >= 0; --place) {
            const int axis = layout.order[place];
            if (layout.repeated[axis] || size_[axis] == 0) continue;
            const std::int64_t stride = span + layout.gap[axis];
            const std::int64_t reach = stride * (size_[axis] - 1);
            strides_[axis] = layout.backwards[axis] ? -stride : stride;
            if (layout.backwards[axis]) first += reach;
            span += reach;
        }
        if (elements() == 0) span = first = 0;
        memory_ = Array<Number>(span, layout.before);
        first_ = first;
    }

    const std::array<std::int64_t, 4>& size() const { return size_; }
    const std::array<std::int64_t, 4>& strides() const { return strides_; }
    Array<Number>& memory() { return memory_; }
    const Array<Number>& memory() const { return memory_; }
    Number* data() { return memory_.data() + first_; }
    const Number* data() const { return memory_.data() + first_; }
    std::int64_t elements() const { return size_[0] * size_[1] * size_[2] * size_[3]; }

    Number& at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        return data()[b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3]];
    }
    Number at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
        return data()[b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3]];
    }

    // Calls act(element) in the order of the axes; elements that are repeated come more than once.
    template <typename Act>
    void for_each(Act act) {
        for (std::int64_t b = 0; b < size_[0]; ++b)
            for (std::int64_t h = 0; h < size_[1]; ++h)
                for (std::int64_t i = 0; i < size_[2]; ++i)
                    for (std::int64_t j = 0; j < size_[3]; ++j) act(at(b, h, i, j));
    }

    // The elements, contiguous.
    std::vector<Number> flat() const {
        std::vector<Number> out;
        out.reserve(elements());
        const_cast<Tensor*>(this)->for_each([&](Number& element) { out.push_back(element); });
        return out;
    }

    // Whether what no index reaches is still unset.
    bool gaps_are_unset() const {
        std::vector<bool> reached(memory_.size(), false);
        Tensor* self = const_cast<Tensor*>(this);
        self->for_each([&](Number& element) { reached[&element - self->memory_.data()] = true; });
        const Number none = unset<Number>();
        for (std::int64_t n = 0; n < memory_.size(); ++n)
            if (!reached[n] && std::memcmp(&memory_[n], &none, sizeof none) != 0) return false;
        return true;
    }

  private:
    std::array<std::int64_t, 4> size_{}, strides_{};
    Array<Number> memory_;
    std::int64_t first_ = 0;
};

// Equal bit for bit: a NaN equals itself, and 0 is not −0.
template <typename Number>
bool same_bits(const Number* a, const Number* b, std::int64_t size) {
    return size == 0 || std::memcmp(a, b, size * sizeof(Number)) == 0;
}

template <typename Numbers>
bool same_bits(const Numbers& a, const Numbers& b) {
    return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

}  // namespace exact
