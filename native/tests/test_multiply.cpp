// multiply.h: against a triple loop in long double, and its bits over threads, strides and parts.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

#include "check.h"
#include "exact.h"
#include "kernels.h"
#include "regard/multiply.h"
#include "run.h"

namespace {

using Index = std::int64_t;

template <typename Number>
struct Case {
    Index batch, heads, rows, inner, columns;
    bool a_turned, b_turned;  // laid out with the inner axis of the matrix outside
    exact::Array<Number> a, b;

    Case(Index batch_, Index heads_, Index rows_, Index inner_, Index columns_, bool a_turned_,
         bool b_turned_, unsigned seed)
        : batch(batch_),
          heads(heads_),
          rows(rows_),
          inner(inner_),
          columns(columns_),
          a_turned(a_turned_),
          b_turned(b_turned_),
          a(batch * heads * rows * inner),
          b(batch * heads * inner * columns) {
        std::mt19937 random(seed);
        std::normal_distribution<Number> normal;
        for (Index n = 0; n < a.size(); ++n) a[n] = normal(random);
        for (Index n = 0; n < b.size(); ++n) b[n] = normal(random);
    }

    Index a_at(Index n, Index r, Index i) const {
        return n * rows * inner + (a_turned ? i * rows + r : r * inner + i);
    }
    Index b_at(Index n, Index i, Index c) const {
        return n * inner * columns + (b_turned ? c * inner + i : i * columns + c);
    }
    std::string name() const {
        return std::to_string(batch) + " × " + std::to_string(heads) + " × " +
               std::to_string(rows) + " × " + std::to_string(inner) + " × " +
               std::to_string(columns) + (sizeof(Number) == 4 ? ", float" : ", double");
    }

    // Rows [row, …) and columns [column, …) of all pairs.
    exact::Array<Number> part(Index row, Index some_rows, Index column, Index some_columns,
                              int threads) const {
        regard::Product<Number> product;
        product.batch = batch;
        product.heads = heads;
        product.rows = some_rows;
        product.inner = inner;
        product.columns = some_columns;
        product.a = a.data() + a_at(0, row, 0);
        product.b = b.data() + b_at(0, 0, column);
        const Index a_strides[] = {heads * rows * inner, rows * inner, a_turned ? 1 : inner,
                                   a_turned ? rows : 1};
        const Index b_strides[] = {heads * inner * columns, inner * columns, b_turned ? 1 : columns,
                                   b_turned ? inner : 1};
        for (int axis = 0; axis < 4; ++axis) {
            product.a_strides[axis] = a_strides[axis];
            product.b_strides[axis] = b_strides[axis];
        }
        exact::Array<Number> c(batch * heads * some_rows * some_columns);
        product.c = c.data();
        regard::multiply(product, threads);
        return c;
    }
    exact::Array<Number> all(int threads) const { return part(0, rows, 0, columns, threads); }
};

template <typename Number>
void it_is_the_loop_by_hand(const Case<Number>& c, const std::string& when) {
    const exact::Array<Number> found = c.all(2);
    // Some processors have no more than a double, and compute the rest by hand.
    using Sum = std::conditional_t<sizeof(Number) == 4, double, long double>;
    const Sum step = std::numeric_limits<Number>::epsilon() / 2;
    for (Index n = 0; n < c.batch * c.heads; ++n) {
        for (Index r = 0; r < c.rows; ++r) {
            for (Index column = 0; column < c.columns; ++column) {
                Sum sum = 0, size = 0;
                for (Index i = 0; i < c.inner; ++i) {
                    const Sum term =
                        static_cast<Sum>(c.a[c.a_at(n, r, i)]) * c.b[c.b_at(n, i, column)];
                    sum += term;
                    size += std::fabs(term);
                }
                // A block of 128 is one chain, and the blocks are another: two roundings a term
                // where there is no multiply-add.
                const Sum roundings = 2 * 128 + c.inner / 128 + 2;
                const Number cell = found[(n * c.rows + r) * c.columns + column];
                if (!(std::fabs(cell - sum) <= roundings * step * size)) {
                    check::failed(when + ": wrong at " + std::to_string(r) + ", " +
                                  std::to_string(column));
                    return;
                }
            }
        }
    }
}

template <typename Number>
void its_bits_depend_on_the_two_matrices_alone(const Case<Number>& c, const std::string& when) {
    const exact::Array<Number> one = c.all(1);
    if (!exact::same_bits(one, c.all(2)) || !exact::same_bits(one, c.all(4)))
        check::failed(when + ": other bits on other threads");
    const Index row = c.rows / 3, column = c.columns / 2;
    const Index rows = c.rows - row, columns = c.columns - column;
    const exact::Array<Number> part = c.part(row, rows, column, columns, 2);
    for (Index n = 0; n < c.batch * c.heads; ++n)
        for (Index r = 0; r < rows; ++r)
            if (!exact::same_bits(part.data() + (n * rows + r) * columns,
                                  one.data() + (n * c.rows + row + r) * c.columns + column,
                                  columns))
                check::failed(when + ": other bits in a part");
}

template <typename Number>
void try_all(const std::string& kernel) {
    unsigned seed = 0;
    const auto step = static_cast<unsigned>(36 / run::number_of_problems(36));
    const Index sizes[][5] = {{1, 1, 1, 1, 1},    {2, 3, 5, 7, 11},      {1, 2, 97, 129, 131},
                              {1, 1, 191, 3, 17}, {1, 1, 7, 1021, 257},  {3, 1, 96, 128, 128},
                              {1, 1, 13, 0, 5},   {1, 2, 100, 256, 127}, {2, 2, 0, 3, 5}};
    for (const auto& size : sizes) {
        for (const bool a_turned : {false, true}) {
            for (const bool b_turned : {false, true}) {
                if (seed++ % step) continue;
                const Case<Number> c(size[0], size[1], size[2], size[3], size[4], a_turned,
                                     b_turned, seed);
                it_is_the_loop_by_hand(c, c.name() + ", " + kernel);
                its_bits_depend_on_the_two_matrices_alone(c, c.name() + ", " + kernel);
            }
        }
    }
}

}  // namespace

int main() {
    kernels::for_each([](const std::string& kernel) {
        try_all<float>(kernel);
        try_all<double>(kernel);
    });
    return check::result();
}
