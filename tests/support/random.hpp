// Reproducible numbers, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn::test {

/// splitmix64.
class random_source {
public:
    explicit random_source(uint64_t seed) : state_(seed) {}

    uint64_t bits() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
        z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
        return z ^ z >> 31U;
    }
    /// In [-1, 1).
    double value() {
        return static_cast<double>(static_cast<int64_t>(bits() >> 11U))
                * 0x1p-52
                - 1.0;
    }
    /// In [low, high].
    int64_t integer(int64_t low, int64_t high) {
        return low
                + static_cast<int64_t>(
                        bits() % static_cast<uint64_t>(high - low + 1));
    }
    template <typename Type>
    const Type &pick(const std::vector<Type> &from) {
        return from[static_cast<size_t>(
                integer(0, static_cast<int64_t>(from.size()) - 1))];
    }
    std::vector<double> values(size_t count) {
        std::vector<double> result(count);
        for (double &v : result)
            v = value();
        return result;
    }

private:
    uint64_t state_;
};

/// The seed of property tests: GRADNN_TEST_SEED, or `fallback`.
uint64_t test_seed(uint64_t fallback);

/// True where the suite is to be thinned out, as under a sanitizer
/// (GRADNN_TEST_THIN set and not "0").
bool thinned();

} // namespace gradnn::test
