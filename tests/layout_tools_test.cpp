// Questions about strides, against enumeration: whether a tensor's elements
// share an address, whether two tensors share memory, which strides are dense.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/random.hpp"
#include "tensor/layout.hpp"
#include "tensor/memory_overlap.hpp"

namespace gradnn::test {
namespace {

std::vector<int64_t> offsets_of(const sizes &dims, const sizes &strides) {
    std::vector<int64_t> offsets {0};
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        std::vector<int64_t> next;
        for (const int64_t offset : offsets)
            for (int64_t i = 0; i < dims[axis]; ++i)
                next.push_back(offset + i * strides[axis]);
        offsets = next;
    }
    return offsets;
}

sizes random_list(
        random_source &numbers, size_t rank, int64_t low, int64_t high) {
    sizes result(rank);
    for (int64_t &value : result)
        value = numbers.integer(low, high);
    return result;
}

TEST(elements_overlap, agrees_with_enumeration) {
    random_source numbers(1);
    int overlapping = 0;
    for (int round = 0; round < 3000; ++round) {
        const auto rank = static_cast<size_t>(numbers.integer(0, 4));
        const sizes dims = random_list(numbers, rank, 0, 4);
        const sizes strides = random_list(numbers, rank, 0, 9);
        const auto offsets = offsets_of(dims, strides);
        const std::set<int64_t> distinct(offsets.begin(), offsets.end());
        const bool expected = distinct.size() != offsets.size();
        overlapping += expected ? 1 : 0;
        ASSERT_EQ(detail::elements_overlap(dims, strides), expected)
                << testing::PrintToString(dims) << " "
                << testing::PrintToString(strides);
    }
    EXPECT_GT(overlapping, 300);
    EXPECT_LT(overlapping, 2500);
}

// Never false where memory is shared; true for slices of one tensor only
// where it is.
TEST(memory_overlap, agrees_with_enumeration) {
    random_source numbers(2);
    std::vector<float> memory(4000);
    int shared_count = 0;
    int apart_in_range = 0;
    for (int round = 0; round < 5000; ++round) {
        const auto rank = static_cast<size_t>(numbers.integer(1, 3));
        const sizes whole = random_list(numbers, rank, 1, 6);
        sizes strides = detail::dense_strides(whole);
        const auto slice = [&] {
            sizes dims(rank);
            int64_t offset = 0;
            for (size_t axis = 0; axis < rank; ++axis) {
                dims[axis] = numbers.integer(1, whole[axis]);
                offset += strides[axis]
                        * numbers.integer(0, whole[axis] - dims[axis]);
            }
            return std::pair(dims, offset);
        };
        const auto [a_dims, a_offset] = slice();
        const auto [b_dims, b_offset] = slice();
        const logical_tensor a(0, data_type::f32, a_dims, strides);
        const logical_tensor b(1, data_type::f32, b_dims, strides);
        std::set<int64_t> a_elements;
        for (const int64_t offset : offsets_of(a_dims, strides))
            a_elements.insert(a_offset + offset);
        const auto b_offsets = offsets_of(b_dims, strides);
        const bool expected = std::any_of(b_offsets.begin(), b_offsets.end(),
                [&, base = b_offset](int64_t offset) {
                    return a_elements.contains(base + offset);
                });
        const bool given = detail::memory_overlaps(a, memory.data() + a_offset,
                a.get_mem_size(), b, memory.data() + b_offset,
                b.get_mem_size());
        ASSERT_EQ(given, expected)
                << testing::PrintToString(strides) << " "
                << testing::PrintToString(a_dims) << "+" << a_offset << " "
                << testing::PrintToString(b_dims) << "+" << b_offset;
        shared_count += expected ? 1 : 0;
        const bool ranges_meet = a_offset
                        < b_offset + static_cast<int64_t>(b.get_mem_size() / 4)
                && b_offset
                        < a_offset + static_cast<int64_t>(a.get_mem_size() / 4);
        apart_in_range += ranges_meet && !expected ? 1 : 0;
    }
    EXPECT_GT(shared_count, 500);
    EXPECT_GT(apart_in_range, 100);
}

// Any strides: sharing is never missed.
TEST(memory_overlap, is_never_missed) {
    random_source numbers(3);
    std::vector<float> memory(4000);
    for (int round = 0; round < 5000; ++round) {
        const auto make = [&](size_t id) {
            const auto rank = static_cast<size_t>(numbers.integer(1, 3));
            return logical_tensor(id, data_type::f32,
                    random_list(numbers, rank, 1, 4),
                    random_list(numbers, rank, 0, 12));
        };
        const logical_tensor a = make(0);
        const logical_tensor b = make(1);
        const int64_t a_offset = numbers.integer(0, 40);
        const int64_t b_offset = numbers.integer(0, 40);
        std::set<int64_t> a_elements;
        for (const int64_t offset : offsets_of(a.get_dims(), a.get_strides()))
            a_elements.insert(a_offset + offset);
        const auto b_offsets = offsets_of(b.get_dims(), b.get_strides());
        const bool shared = std::any_of(
                b_offsets.begin(), b_offsets.end(), [&](int64_t offset) {
                    return a_elements.contains(b_offset + offset);
                });
        const bool given = detail::memory_overlaps(a, memory.data() + a_offset,
                a.get_mem_size(), b, memory.data() + b_offset,
                b.get_mem_size());
        ASSERT_TRUE(given || !shared) << "round " << round;
    }
}

// A gradient may be written into the columns of a tensor whose other columns
// are being read.
TEST(memory_overlap, interleaved_slices_are_allowed) {
    const engine e = shared_engine(engine::kind::cpu);
    std::vector<float> memory(3 * 3 * 4, 1.0F);
    const auto column = [&](size_t id) {
        return logical_tensor(id, data_type::f32, sizes {3, 4}, sizes {12, 1});
    };
    const op the_op(
            0, op::kind::Add, {column(0), column(1)}, {column(2)}, "sum");
    const auto at = [&](size_t id, size_t offset) {
        return tensor(column(id), e, memory.data() + offset);
    };
    stream s(e);
    const auto compiled = compile(the_op, e);
    compiled.execute(s, {at(0, 0), at(1, 4)}, {at(2, 8)});
    for (size_t row = 0; row < 3; ++row)
        for (size_t i = 0; i < 12; ++i)
            EXPECT_EQ(memory[row * 12 + i], i < 8 ? 1.0F : 2.0F);
    EXPECT_THROW(compiled.execute(s, {at(0, 0), at(1, 4)}, {at(2, 7)}), error);
}

TEST(dense_strides, of_ordinary_and_empty_tensors) {
    EXPECT_EQ(detail::dense_strides({2, 3, 4}), (sizes {12, 4, 1}));
    EXPECT_EQ(detail::dense_strides({2, 0, 4}), (sizes {4, 4, 1}));
    EXPECT_EQ(detail::dense_strides({}), sizes {});
}

TEST(strides_like, nests_axes_alike_and_densely) {
    // Channels last, with gaps.
    EXPECT_EQ(detail::strides_like({2, 3, 4, 5}, {1000, 1, 100, 10}),
            (sizes {60, 1, 15, 3}));
    EXPECT_EQ(detail::strides_like({2, 3}, {3, 1}), (sizes {3, 1}));
    EXPECT_EQ(detail::strides_like({2, 3}, {1, 2}), (sizes {1, 2}));
    // Broadcast and 1-wide axes tell nothing: still dense, none shared.
    EXPECT_FALSE(detail::elements_overlap(
            {2, 3, 4}, detail::strides_like({2, 3, 4}, {0, 4, 1})));
}

} // namespace
} // namespace gradnn::test
