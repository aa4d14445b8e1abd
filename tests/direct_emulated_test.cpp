// convolution.gpu_direct on the CPU: its kernels executed (emulated/simt.hpp), under
// AddressSanitizer, in random problems of all directions, against the formula. Needs no
// GPU.
#include "emulated/simt.hpp"

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/operands.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::gpu::direct {
alignas(16) double direct_shared[2048];
} // namespace gradnn::gpu::direct

// Arrays within kernels.
#undef __shared__
#define __shared__ static
#include "gpu/convolution/weights_sum.cuh"

namespace gradnn::test {
namespace {

namespace direct = gpu::direct;

/// One block goes over all that a grid would.
void run(bool descending, const std::function<void()> &kernel,
        unsigned threads = direct::threads) {
    emulated::block::run(0, threads, descending, kernel);
}

/// Of the weights, by threads of `each` channels.
template <int each, typename Type, typename Index>
std::vector<gpu::sum_of<Type>> partial_sums(const Type *src, const Type *dst,
        const direct::problem_shape<Index> &shape,
        const direct::weights_cut &cut) {
    std::vector<gpu::sum_of<Type>> partials(
            static_cast<size_t>(shape.count * cut.parts), std::nan(""));
    const auto kernel = cut.taps_w <= direct::few_taps
            ? direct::weights_kernel<Type, direct::few_taps, each, Index>
            : direct::weights_kernel<Type, direct::most_taps, each, Index>;
    run(
            cut.parts % 2 == 0,
            [&] { kernel(src, dst, partials.data(), shape, cut); },
            direct::threads / each);
    return partials;
}

template <typename Sum>
bool are_same_bits(const std::vector<Sum> &a, const std::vector<Sum> &b) {
    return a.size() == b.size()
            && std::memcmp(a.data(), b.data(), a.size() * sizeof(Sum)) == 0;
}

/// By indices of a type; `long_sums` of data, else of so many images `together`.
template <typename Type, typename Index>
void run_kernels(const convolution_problem &p, bool long_sums, int together,
        const direct::weights_cut &cut, Type *src, Type *weights, Type *dst) {
    auto shape = direct::shape_of<Index>(p, long_sums ? 1 : together);
    if (cut.parts % 4 == 0) shape.table = 0; // as of long axes
    const bool descending = cut.parts % 2 == 0;
    const auto gather = [&]<bool forward>(const Type *read, Type *written) {
        const auto run_by
                = [&]<template <typename> typename Sum, int images>() {
                      run(descending, [&] {
                          direct::gather_kernel<Type, forward, Sum, images,
                                  Index>(read, weights, written, shape);
                      });
                  };
        if (long_sums)
            run_by.template operator()<gpu::long_sum, 1>();
        else if (together == 1)
            run_by.template operator()<gpu::plain_sum, 1>();
        else if (together == 2)
            run_by.template operator()<gpu::plain_sum, 2>();
        else
            run_by.template operator()<gpu::plain_sum, 4>();
    };
    switch (p.direction) {
        case convolution_direction::forward:
            return gather.template operator()<true>(src, dst);
        case convolution_direction::backward_data:
            return gather.template operator()<false>(dst, src);
        case convolution_direction::backward_weights: break;
    }
    ASSERT_EQ(cut.tap_rows * p.weights.dims[5] * cut.channels, shape.count);
    const auto partials = partial_sums<1>(src, dst, shape, cut);
    if (cut.pairs)
        EXPECT_TRUE(
                are_same_bits(partials, partial_sums<2>(src, dst, shape, cut)));
    run(descending, [&] {
        gpu::convolution_weights_sum_kernel<Type, Type, int32_t>(
                partials.data(), src, dst, weights,
                gpu::partial_weights<int32_t>(p, cut.parts, false));
    });
}

template <typename Type, typename Index>
void by_direct(const convolution_problem &p, bool long_sums, int together,
        const direct::weights_cut &cut, std::array<memory, 3> &data) {
    std::array<std::vector<Type>, 3> tensors;
    for (size_t i = 0; i < 3; ++i)
        tensors[i].assign(data[i].begin(), data[i].end());
    run_kernels<Type, Index>(p, long_sums, together, cut, tensors[0].data(),
            tensors[1].data(), tensors[2].data());
    const size_t output = gpu::output_of(p.direction);
    data[output].assign(tensors[output].begin(), tensors[output].end());
}

constexpr convolution_direction directions[]
        = {convolution_direction::forward, convolution_direction::backward_data,
                convolution_direction::backward_weights};

/// Whole numbers, whose sums f32 holds.
std::array<memory, 3> whole_numbers(
        const convolution_problem &p, size_t output, random_source &random) {
    std::array<memory, 3> data = random_data(p, output, random);
    for (size_t input = 0; input < 3; ++input)
        if (input != output)
            for (double &value : data[input])
                value = std::round(8 * value);
    return data;
}

TEST(direct, computes_the_problem) {
    const uint64_t seed = test_seed(20261128);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t lanes = 0;
    for (int round = 0; round < 80; ++round) {
        convolution_problem p = random_problem(random);
        p.direction = directions[round % 3];
        if (round % 24 == 5) {
            // Each thread has several positions; some channels in all lanes.
            p.src.dims[0] = p.dst.dims[0] = random.integer(200, 600);
            lay_out(p, random);
        } else if (round % 6 == 2) {
            // Taps along W in parts.
            p.weights.dims[5] = random.integer(4, 18);
            lay_out(p, random);
        }
        const size_t output = gpu::output_of(p.direction);
        direct::weights_cut cut = direct::cut_weights(p, 132);
        ASSERT_GE(cut.parts, 1);
        cut.parts = random.integer(1, 4);
        if (random.integer(0, 1) == 0) {
            cut.along = static_cast<int>(random.integer(1, 3));
            cut.run = static_cast<int>(random.integer(1, 5));
        }
        lanes += cut.lanes > 1 ? 1 : 0;
        ASSERT_TRUE(direct::is_small(p));
        std::array<memory, 3> found = whole_numbers(p, output, random);
        std::array<memory, 3> expected = found;
        by_formula(p, output, expected);
        const bool long_sums = round % 4 < 2;
        if (round % 2 == 0)
            by_direct<float, int32_t>(
                    p, long_sums, round % 8 < 4 ? 1 : 4, cut, found);
        else
            by_direct<double, int64_t>(p, long_sums, 1, cut, found);
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
    }
    EXPECT_GT(lanes, 6U);
}

template <typename Type>
void compare_pairs(const convolution_problem &p, const direct::weights_cut &cut,
        const std::array<memory, 3> &data) {
    const auto shape = direct::shape_of<int32_t>(p);
    std::vector<gpu::sum_of<Type>> of_pairs;
    for (const size_t begin : {0U, 1U}) {
        std::vector<Type> src(begin), dst(begin);
        src.insert(src.end(), data[0].begin(), data[0].end());
        dst.insert(dst.end(), data[2].begin(), data[2].end());
        if (begin == 0)
            of_pairs = partial_sums<2>(src.data(), dst.data(), shape, cut);
        EXPECT_TRUE(are_same_bits(of_pairs,
                partial_sums<1>(
                        src.data() + begin, dst.data() + begin, shape, cut)));
    }
}

// Sums that round: as by threads of one channel, which take tensors at odd elements.
TEST(direct, adds_in_one_order_in_pairs_of_channels) {
    random_source random(test_seed(20261201));
    for (int round = 0; round < 30; ++round) {
        convolution_problem p = random_problem(random);
        p.direction = convolution_direction::backward_weights;
        const int64_t channels = 2 * random.integer(1, 40);
        if (round % 5 < 2) p.weights.dims[5] = random.integer(4, 18);
        if (round % 2 == 0)
            p.src.dims[0] = p.dst.dims[0] = random.integer(20, 100);
        p.weights.dims[0] = channels;
        p.weights.dims[1] = p.weights.dims[2] = 1;
        p.weights.strides = weights_strides(p.weights.dims, 0);
        for (auto *const tensor : {&p.src, &p.dst}) {
            // Of a slice, at times.
            tensor->dims[1] = channels + 2 * random.integer(0, 1);
            tensor->strides = data_strides(tensor->dims, order::nxc);
            tensor->dims[1] = channels;
        }
        direct::weights_cut cut = direct::cut_weights(p, 132);
        ASSERT_TRUE(cut.pairs);
        cut.parts = random.integer(1, 4);
        cut.run = static_cast<int>(random.integer(1, 4)); // in many threads
        const std::array<memory, 3> data = random_data(p, 1, random);
        if (round % 3 == 0)
            compare_pairs<float>(p, cut, data);
        else if (round % 3 == 1)
            compare_pairs<__half>(p, cut, data);
        else
            compare_pairs<__nv_bfloat16>(p, cut, data);
        p.src.strides[3] += 1;
        EXPECT_FALSE(direct::cut_weights(p, 132).pairs);
    }
}

// Eight taps whose distances are beyond 32 bits where taps are, but not from one to the next.
TEST(direct, takes_taps_far_apart) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 0);
    constexpr int64_t channels = 512, step = 1 << 20;
    p.direction = convolution_direction::backward_weights;
    p.src.dims = {1, channels, 1, 1, 2};
    p.dst.dims = {1, channels, 1, 1, 7};
    p.weights.dims = {channels, 1, 1, 1, 1, 7};
    p.strides[2] = p.dilations[2] = step;
    p.pads_begin = {0, 0, 6 * step};
    p.src.strides = data_strides(p.src.dims, order::nxc);
    p.dst.strides = data_strides(p.dst.dims, order::nxc);
    p.weights.strides = weights_strides(p.weights.dims, 0);
    ASSERT_TRUE(direct::is_small(p));
    random_source random(test_seed(20261130));
    std::array<memory, 3> found = whole_numbers(p, 1, random);
    std::array<memory, 3> expected = found;
    by_formula(p, 1, expected);
    ASSERT_TRUE(std::ranges::any_of(
            expected[1], [](double sum) { return sum != 0; }));
    by_direct<float, int32_t>(p, false, 1, direct::cut_weights(p, 132), found);
    EXPECT_TRUE(same(found[1], expected[1]));
}

/// Two images of f32, so far from each other that 32 bits do not hold the distance.
class far_images {
public:
    static constexpr int64_t apart = int64_t {1} << 33;

    explicit far_images(int64_t elements)
        : bytes_((static_cast<size_t>(apart + elements)) * sizeof(float)),
          data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
    far_images(const far_images &) = delete;
    far_images &operator=(const far_images &) = delete;
    ~far_images() {
        if (is_there()) munmap(data_, bytes_);
    }
    bool is_there() const { return data_ != MAP_FAILED; }
    float *data() const { return static_cast<float *>(data_); }
    float &at(int64_t place, int64_t of_image) const {
        return data()[place / of_image * apart + place % of_image];
    }

private:
    size_t bytes_;
    void *data_;
};

TEST(direct, takes_offsets_of_64_bits) {
    random_source random(test_seed(20261131));
    for (int round = 0; round < 40; ++round) {
        convolution_problem p = random_problem(random);
        p.direction = directions[round % 3];
        p.src.dims[0] = p.dst.dims[0] = 2;
        const order of = round % 2 == 0 ? order::ncx : order::nxc;
        p.src.strides = data_strides(p.src.dims, of);
        p.dst.strides = data_strides(p.dst.dims, of);
        const size_t output = gpu::output_of(p.direction);
        std::array<memory, 3> found = whole_numbers(p, output, random);
        std::array<memory, 3> expected = found;
        by_formula(p, output, expected);

        const int64_t src_image = p.src.strides[0];
        const int64_t dst_image = p.dst.strides[0];
        const far_images src(src_image);
        const far_images dst(dst_image);
        if (!src.is_there() || !dst.is_there())
            GTEST_SKIP() << "needs 64 GiB of addresses";
        const auto move = [&](bool back) {
            for (const size_t i : {0U, 2U}) {
                const far_images &images = i == 0 ? src : dst;
                const int64_t image = i == 0 ? src_image : dst_image;
                for (size_t n = 0; n < found[i].size(); ++n) {
                    float &far = images.at(static_cast<int64_t>(n), image);
                    if (back)
                        found[i][n] = static_cast<double>(far);
                    else
                        far = static_cast<float>(found[i][n]);
                }
            }
        };
        move(false);
        p.src.strides[0] = p.dst.strides[0] = far_images::apart;
        ASSERT_FALSE(direct::is_small(p));
        direct::weights_cut cut = direct::cut_weights(p, 132);
        cut.parts = random.integer(1, 4);
        std::vector<float> weights(found[1].begin(), found[1].end());
        run_kernels<float, int64_t>(
                p, false, 1, cut, src.data(), weights.data(), dst.data());
        move(true);
        found[1].assign(weights.begin(), weights.end());
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
    }
}

// Where 32 bits do not hold all offsets and counts, of memory that nobody touches here.
TEST(direct, knows_what_32_bits_hold) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 0);
    EXPECT_TRUE(direct::is_small(p));
    p.src.strides[0] = int64_t {1} << 30;
    p.src.dims[0] = p.dst.dims[0] = 2;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.src.strides[3] = 0; // expanded
    p.src.dims[3] = int64_t {1} << 31;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.pads_begin[2] = int64_t {1} << 30;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.dilations[1] = int64_t {1} << 29;
    EXPECT_FALSE(direct::is_small(p));
}

} // namespace
} // namespace gradnn::test
