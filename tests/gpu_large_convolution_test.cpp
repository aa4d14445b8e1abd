// Convolutions of tensors of more than 2^31 elements on the GPU.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/gpu_large.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

/// Convolutions of each channel for itself, and who computes them: cuDNN is not
/// given tensors of this size.
struct large_convolution {
    std::string kernel;
    const layout &l;
    int64_t images;
    int64_t channels;
    sizes space;
    sizes window;
    data_type type = data_type::bf16;

    convolution_case of(int64_t n) const {
        const sizes ones(window.size(), 1);
        sizes pads;
        for (const int64_t size : window)
            pads.push_back(size / 2);
        return {"large", n, channels, channels, channels, space, window, ones,
                ones, pads, pads};
    }
    int64_t taps() const { return product_of(window); }
    size_t image() const {
        return static_cast<size_t>(channels * product_of(space));
    }
    /// Products of a tap, in an image.
    double products(int64_t tap) const {
        double all = 1;
        for (size_t axis = window.size(); axis-- > 0;) {
            const int64_t position = tap % window[axis];
            tap /= window[axis];
            all *= static_cast<double>(
                    space[axis] - std::abs(position - window[axis] / 2));
        }
        return all;
    }

private:
    static int64_t product_of(const sizes &each) {
        return std::accumulate(
                each.begin(), each.end(), int64_t {1}, std::multiplies());
    }
};

std::vector<large_convolution> large_convolutions() {
    const std::string depthwise
            = kernels_that_begin(engine::kind::gpu, "convolution",
                      "convolution.gpu_depthwise")
            + ",convolution.gpu_sliding";
    const char *const direct = "convolution.gpu_direct";
    const layout &ncx = layouts()[0];
    const layout &nxc = layouts()[1];
    return {{depthwise, ncx, 2055, 1, {1024, 1021}, {1, 1}},
            {depthwise, nxc, 2070, 8, {256, 509}, {1, 1}},
            // By walks along rows, from memory and from shared memory.
            {depthwise, ncx, 2920, 8, {256, 360}, {3, 3}},
            {depthwise, ncx, 2070, 8, {256, 509}, {3, 3}},
            {depthwise, nxc, 2070, 8, {256, 509}, {3, 3}},
            {depthwise, ncx, 2070, 8, {4, 64, 509}, {3, 3, 3}},
            {depthwise, nxc, 2070, 8, {4, 64, 509}, {3, 3, 3}},
            // On tensor cores, in bands; by walks.
            {depthwise, ncx, 9370, 8, {256, 112}, {7, 7}},
            {depthwise, ncx, 32430, 32, {45, 46}, {5, 5}},
            {depthwise, nxc, 2070, 8, {256, 509}, {7, 7}},
            {depthwise, nxc, 1870, 48, {155, 155}, {5, 5}},
            // In lines.
            {depthwise, ncx, 8240, 8, {32, 1021}, {1, 31}},
            {direct, ncx, 2055, 1, {1024, 1021}, {1, 1}},
            {direct, nxc, 2070, 8, {256, 509}, {1, 1}}};
}

// The gradient of every image is that of one.
TEST_F(gpu_large, convolution) {
    std::vector<large_convolution> all_of = large_convolutions();
    // From rows in shared memory.
    all_of.push_back({"convolution.gpu_depthwise_rows_ncx", layouts()[0], 8240,
            8, {32, 1021}, {1, 31}, data_type::f32});
    for (const large_convolution &c : all_of) {
        SCOPED_TRACE(c.kernel + " " + c.l.name + " " + to_string(c.type));
        const forced_kernel forced(c.kernel);
        ASSERT_GT(c.image() * static_cast<size_t>(c.images), size_t {1} << 31);
        const auto element = static_cast<size_t>(detail::size_of(c.type));
        const size_t size = element * c.image();
        const bytes row = random_bits(
                c.type, static_cast<size_t>(c.space.back()) * 8, 25);
        // Of a window's taps one is not zero (in XIO too, as the number of
        // channels has no divisor of the taps'). Two in f32 begins as in bf16.
        const auto taps = static_cast<size_t>(c.taps());
        bytes window(element * taps);
        const bytes two = bf16_twos(1);
        std::copy(two.begin(), two.end(),
                window.begin() + element * (taps / 2) + element - 2);
        const patterned_memory weights(
                window.size() * static_cast<size_t>(c.channels), window);
        const auto backward_data = [&](int64_t n) {
            return convolution_op(
                    op::kind::ConvolutionBackwardData, c.of(n), c.l, c.type);
        };
        const patterned_memory few_in(size, row);
        const patterned_memory few(size, nan_bits());
        run(backward_data(1), {few_in.data(), weights.data()}, few.data());
        bytes wanted(size);
        require(cudaMemcpy(
                wanted.data(), few.data(), size, cudaMemcpyDeviceToHost));
        const size_t all = size * static_cast<size_t>(c.images);
        const patterned_memory in(all, row);
        const patterned_memory out(all, nan_bits());
        run(backward_data(c.images), {in.data(), weights.data()}, out.data());
        EXPECT_EQ(out.first_difference(wanted), -1);
    }
}

// diff_weights of ones is their number, and more by that of the last image,
// where diff_dst holds twos.
TEST_F(gpu_large, convolution_weights) {
    for (const large_convolution &c : large_convolutions()) {
        SCOPED_TRACE(c.kernel + " " + c.l.name);
        const forced_kernel forced(c.kernel);
        const auto images = static_cast<size_t>(c.images);
        const patterned_memory src(2 * c.image() * images, bf16_ones(1));
        const patterned_memory diff_dst(2 * c.image() * images, bf16_ones(1));
        diff_dst.end_with(bf16_twos(c.image()));
        std::vector<float> sums(static_cast<size_t>(c.channels * c.taps()));
        const patterned_memory out(sums.size() * sizeof(float), nan_bits());
        run(convolution_op(op::kind::ConvolutionBackwardWeights, c.of(c.images),
                    c.l, data_type::bf16, {true, true, true, true}),
                {src.data(), diff_dst.data()}, out.data());
        require(cudaMemcpy(sums.data(), out.data(), sums.size() * sizeof(float),
                cudaMemcpyDeviceToHost));
        for (int64_t i = 0; i < c.channels * c.taps(); ++i) {
            const int64_t tap = c.l.weights_format == "XIO" ? i / c.channels
                                                            : i % c.taps();
            const double products = c.products(tap);
            // A float holds the sum, but not each of the partial ones.
            EXPECT_NEAR(sums[static_cast<size_t>(i)],
                    (static_cast<double>(images) + 1) * products,
                    1e-6 * static_cast<double>(images) * products)
                    << "weight " << i;
        }
    }
}

// All of diff_dst is zeros but the last image: the gradient is that of this image
// alone, to the last bit, since sums of whole numbers are exact in whatever order.
TEST_F(gpu_large, convolution_weights_of_16_bits) {
    for (const large_convolution &c : large_convolutions()) {
        SCOPED_TRACE(
                c.kernel + " " + c.l.name + " " + std::to_string(c.taps()));
        const forced_kernel forced(c.kernel);
        const bytes src = bf16_integers(c.image(), 27);
        const bytes diff_dst = bf16_integers(c.image(), 28);
        const auto gradient = [&](int64_t n) {
            const size_t size = src.size() * static_cast<size_t>(n);
            const patterned_memory all_src(size, src);
            const patterned_memory all_dst(size, bytes(2));
            all_dst.end_with(diff_dst);
            bytes result(static_cast<size_t>(2 * c.channels * c.taps()));
            const patterned_memory out(result.size(), nan_bits());
            run(convolution_op(op::kind::ConvolutionBackwardWeights, c.of(n),
                        c.l, data_type::bf16),
                    {all_src.data(), all_dst.data()}, out.data());
            require(cudaMemcpy(result.data(), out.data(), result.size(),
                    cudaMemcpyDeviceToHost));
            return result;
        };
        EXPECT_EQ(gradient(c.images), gradient(1));
    }
}

} // namespace
} // namespace gradnn::test
