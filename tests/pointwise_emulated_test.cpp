// convolution.gpu_pointwise on the CPU: its kernels executed (emulated/simt.hpp; what
// tensor cores do by plain loops), under AddressSanitizer, in random problems of all
// directions, against the formula. Needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

namespace gradnn::gpu::pointwise {
alignas(16) uint4 pointwise_shared[16384];
} // namespace gradnn::gpu::pointwise

#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/data.cuh"
#include "gpu/convolution/pointwise/weights.cuh"
#include "gpu/device/constants.hpp"

// Arrays within kernels.
#undef __shared__
#define __shared__ static
#include "gpu/convolution/weights_sum.cuh"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::pointwise;
using gpu::narrow;
using gpu::widen;

/// A tensor's elements, which begin anywhere; around them what no copy may read and
/// nobody writes.
template <typename Type>
class placed {
public:
    placed(const memory &values, random_source &random)
        : offset_(static_cast<size_t>(random.integer(0, 8))),
          all_(values.size() + 2 * offset_, narrow<Type>(sentinel)) {
        for (size_t i = 0; i < values.size(); ++i)
            data()[i] = narrow<Type>(static_cast<float>(values[i]));
    }
    Type *data() { return all_.data() + offset_; }
    std::pair<const void *, const void *> range() {
        return {data(), all_.data() + all_.size() - offset_};
    }
    void take(memory &values) {
        for (size_t i = 0; i < offset_; ++i)
            for (const Type around : {all_[i], all_[all_.size() - 1 - i]})
                ASSERT_EQ(widen(around), sentinel);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<double>(widen(data()[i]));
    }
    /// As the plan does.
    void narrow_accesses(operand &of) {
        while (reinterpret_cast<uintptr_t>(data())
                        % (static_cast<size_t>(of.vector) * sizeof(Type))
                != 0)
            of.vector /= 2;
    }

private:
    static constexpr float sentinel = 77;
    size_t offset_;
    std::vector<Type> all_;
};

void run_blocks(int64_t blocks, int64_t bytes, random_source &random,
        const std::function<void()> &kernel) {
    emulated::shared_memory = reinterpret_cast<char *>(pointwise_shared);
    emulated::shared_bytes = static_cast<size_t>(bytes);
    ASSERT_LE(emulated::shared_bytes, sizeof pointwise_shared);
    emulated::grid_size.x = static_cast<unsigned>(blocks);
    for (int64_t index = 0; index < blocks; ++index) {
        std::memset(pointwise_shared, 0xff, sizeof pointwise_shared);
        emulated::block::run(static_cast<unsigned>(index), 32 * warps,
                random.integer(0, 1) == 1, kernel);
    }
    emulated::grid_size.x = 1;
}

template <int... numbers, typename Body>
void with_kernel(bool planes, int number, const Body &body) {
    gpu::with_chosen(
            [&]<int of_planes, int chosen>() {
                body.template operator()<of_planes != 0, chosen>();
            },
            gpu::one_of<0, 1> {planes ? 1 : 0},
            gpu::one_of<numbers...> {number});
}

template <typename Type>
void by_pointwise(const convolution_problem &p, problem_shape shape,
        random_source &random, std::array<memory, 3> &data) {
    placed<Type> src(data[0], random);
    placed<Type> weights(data[1], random);
    placed<Type> dst(data[2], random);
    placed<Type> &first = shape.first_is_dst ? dst : src;
    placed<Type> &second = shape.first_is_dst ? src : dst;
    first.narrow_accesses(shape.first);
    second.narrow_accesses(shape.second);
    const int64_t blocks = random.integer(1, 3);
    emulated::tensors = {first.range(), second.range()};
    if (p.direction != convolution_direction::backward_weights) {
        with_kernel<1, 2, 4, 8, 16>(shape.planes, products_of(shape),
                [&]<bool planes, int steps>() {
                    run_blocks(
                            blocks, shared_bytes_of(shape, false), random, [&] {
                                data_kernel<Type, planes, steps>(first.data(),
                                        weights.data(), second.data(), shape);
                            });
                });
        second.take(data[shape.first_is_dst ? 0 : 2]);
        return;
    }
    const gpu::partial_weights<int32_t> partial(
            p, parts_of(shape, blocks), false);
    std::vector<float> partials(
            static_cast<size_t>(partial.count * partial.parts), NAN);
    with_kernel<1, 2, 4>(shape.planes, products_of(shape),
            [&]<bool planes, int row_tiles>() {
                run_blocks(partial.parts, shared_bytes_of(shape, true), random,
                        [&] {
                            weights_kernel<Type, planes, row_tiles>(
                                    first.data(), second.data(),
                                    partials.data(), shape);
                        });
            });
    // One block goes over all weights.
    emulated::block::run(0, gpu::weights_sum_threads, false, [&] {
        gpu::convolution_weights_sum_kernel<Type, Type, int32_t>(
                partials.data(), src.data(), dst.data(), weights.data(),
                partial);
    });
    weights.take(data[1]);
}

/// A problem that gpu_pointwise takes if it takes these numbers of channels.
convolution_problem random_pointwise(random_source &random) {
    convolution_problem p;
    p.direction = random.pick(
            std::vector<convolution_direction> {convolution_direction::forward,
                    convolution_direction::backward_data,
                    convolution_direction::backward_weights});
    const auto type
            = random.integer(0, 1) == 0 ? data_type::f16 : data_type::bf16;
    p.src.type = p.dst.type = p.weights.type = type;
    const int64_t few = random.integer(1, random.integer(0, 1) == 0 ? 64 : 20);
    const int64_t many
            = random.integer(1, random.integer(0, 3) == 0 ? 256 : 70);
    const bool turned = random.integer(0, 1) == 1;
    const int64_t i = turned ? few : many;
    const int64_t o = turned ? many : few;
    const int64_t n = random.integer(1, 4);
    p.src.dims = {n, i, random.integer(1, 2), random.integer(1, 12),
            random.integer(1, 20)};
    p.dst.dims = p.src.dims;
    p.dst.dims[1] = o;
    p.weights.dims = {1, o, i, 1, 1, 1};
    p.weights.strides = weights_strides(
            p.weights.dims, static_cast<int>(random.integer(0, 2)));
    const order of = random.integer(0, 1) == 0 ? order::ncx : order::nxc;
    for (auto *const tensor : {&p.src, &p.dst}) {
        tensor->strides = data_strides(tensor->dims, of);
        if (of == order::nxc || random.integer(0, 2) > 0) continue;
        // Gaps between channels and between images.
        const int64_t gap = random.integer(1, 8);
        tensor->strides[1] += gap;
        tensor->strides[0]
                = tensor->dims[1] * tensor->strides[1] + random.integer(0, 3);
    }
    return p;
}

TEST(pointwise, computes_the_problem) {
    const uint64_t seed = test_seed(20261129);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t ran[3] = {};
    for (int round = 0; round < 100; ++round) {
        const convolution_problem p = random_pointwise(random);
        std::string why;
        const auto shape = describe(p, why);
        if (!shape) {
            ASSERT_NE(why.find("takes "), std::string::npos);
            continue;
        }
        const size_t output = gpu::output_of(p.direction);
        ++ran[output];
        // Whole numbers, whose sums f32 holds, are rounded once.
        std::array<memory, 3> found = random_data(p, output, random);
        for (size_t input = 0; input < 3; ++input)
            if (input != output)
                for (double &value : found[input])
                    value = std::round(3 * value);
        std::array<memory, 3> expected = found;
        by_formula(p, output, expected);
        for (double &value : expected[output]) {
            const auto sum = static_cast<float>(value);
            value = static_cast<double>(p.src.type == data_type::f16
                            ? widen(narrow<__half>(sum))
                            : widen(narrow<__nv_bfloat16>(sum)));
        }
        if (p.src.type == data_type::f16)
            by_pointwise<__half>(p, *shape, random, found);
        else
            by_pointwise<__nv_bfloat16>(p, *shape, random, found);
        ASSERT_TRUE(same(found[output], expected[output]))
                << "round " << round << ", output " << output << ", "
                << p.src.dims[1] << " to " << p.dst.dims[1] << ", "
                << (shape->planes ? "planes" : "pixels");
    }
    for (const size_t of_output : ran)
        EXPECT_GT(of_output, 15U);
}

// Sums leave tensor cores in time, and partial sums are few beside the data.
TEST(pointwise, cuts_weights) {
    random_source random(test_seed(20261130));
    for (int round = 0; round < 2000; ++round) {
        convolution_problem p = random_pointwise(random);
        p.direction = convolution_direction::backward_weights;
        std::string why;
        auto shape = describe(p, why);
        if (!shape) continue;
        shape->tiles = random.integer(1, 1 << random.integer(1, 24));
        const int64_t blocks = random.integer(1, 1000);
        const int64_t parts = parts_of(*shape, blocks);
        ASSERT_GE(parts, 1);
        ASSERT_LE(parts, shape->tiles);
        const int shares = warps
                / column_shares_of(shape->second.channels, products_of(*shape));
        ASSERT_GE(shares, 1);
        const int64_t products = gpu::ceil_div(shape->tiles, parts)
                * gpu::ceil_div(weights_positions / product_terms, shares);
        ASSERT_LE(products, 512);
    }
}

} // namespace
} // namespace gradnn::test
