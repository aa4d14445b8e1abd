// Convolutions of tensors of more than 2^31 elements on the GPU, and dense ones of 2 to 10 GB.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/gpu_large.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"
#include "support/test_tensor.hpp"

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
    // Rows of many points.
    all_of.push_back({"convolution.gpu_sliding", layouts()[0], 8240, 8,
            {32, 1021}, {1, 31}, data_type::f32});
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

/// A problem of one spatial axis and one group, with stride 1.
struct large_dense {
    bool of_weights;
    data_type type;
    size_t which_layout; ///< 0 is NCX, 1 NXC
    int64_t n, in, out, src, dst, window;

    /// What dst needs beyond src, half of it in front, as oneDNN's benchdnn pads.
    int64_t pads() const { return dst + window - 1 - src; }
    int64_t pad_begin() const { return pads() / 2; }
    op made() const {
        const convolution_case sizes_of {"large", n, 1, in, out, {src},
                {window}, {1}, {1}, {pad_begin()}, {pads() - pad_begin()}};
        return convolution_op(of_weights ? op::kind::ConvolutionBackwardWeights
                                         : op::kind::ConvolutionBackwardData,
                sizes_of, layouts()[which_layout], type);
    }
};

/// The backward problems of oneDNN's tests/benchdnn/inputs/conv/test_conv_large_gpu.
std::vector<large_dense> large_problems_of_onednn() {
    constexpr data_type f16 = data_type::f16, bf16 = data_type::bf16,
                        f32 = data_type::f32, f64 = data_type::f64;
    constexpr size_t ncx = 0, nxc = 1;
    return {{true, f64, nxc, 2, 2, 2, 86368893, 86368893, 1},
            {false, f32, nxc, 27, 6867, 371593, 6, 6, 1},
            {false, f32, ncx, 1193, 2, 22, 21210, 21209, 2},
            {true, bf16, ncx, 1482, 25, 11, 94550, 94550, 2},
            {true, f32, ncx, 2, 7688, 135342, 3, 3, 1},
            {true, bf16, ncx, 101503, 52, 83, 171, 171, 2},
            {false, f16, nxc, 2, 7302634, 136, 49, 48, 2},
            {true, f64, nxc, 2, 378670, 1011, 1171, 1171, 1},
            {false, f16, nxc, 147101, 1, 568, 13, 13, 1},
            {true, f32, ncx, 4, 42, 223, 1610431, 1610431, 1},
            {true, bf16, nxc, 2653, 581, 10, 2442, 2442, 1},
            {true, f16, nxc, 35, 36, 2080803, 44, 44, 2},
            {true, f16, nxc, 2, 3, 181309, 7471, 7471, 1},
            {false, f16, ncx, 2624, 4, 1387, 661, 660, 2},
            {false, bf16, nxc, 10, 58, 11, 3011534, 3011534, 2},
            {false, bf16, ncx, 48, 42, 16, 506333, 506333, 1},
            {false, f16, nxc, 1131, 196, 2, 10497, 10497, 1},
            {false, f64, ncx, 84, 5546, 3, 2381, 2380, 3},
            {false, f32, ncx, 2432, 258, 431, 1168, 1168, 2},
            {false, f16, nxc, 1795, 17394, 181, 40, 40, 1},
            {false, f64, nxc, 24272, 837, 34, 17, 17, 2},
            {false, f64, ncx, 76516, 1348, 145, 4, 4, 1},
            {true, f16, ncx, 2, 7291, 6, 250399, 250399, 1}};
}

/// Whole numbers of -2 to 2 that repeat, and where the elements of dense tensors lie.
class large_numbers {
public:
    explicit large_numbers(const large_dense &of) : of_(of) {
        random_source random(29);
        for (double &number : numbers_)
            number = static_cast<double>(random.integer(-2, 2));
    }

    bytes pattern() const {
        test_tensor values({0, of_.type, sizes {period}, layout_type::strided},
                shared_engine(engine::kind::cpu), test_tensor::role::input);
        values.store(numbers_);
        return values.element_bytes();
    }
    int64_t weight(int64_t o, int64_t i, int64_t k) const {
        return is_ncx() ? (o * of_.in + i) * of_.window + k
                        : (k * of_.in + i) * of_.out + o;
    }
    int64_t src(int64_t n, int64_t c, int64_t x) const {
        return is_ncx() ? (n * of_.in + c) * of_.src + x
                        : (n * of_.src + x) * of_.in + c;
    }
    int64_t dst(int64_t n, int64_t c, int64_t x) const {
        return is_ncx() ? (n * of_.out + c) * of_.dst + x
                        : (n * of_.dst + x) * of_.out + c;
    }

    /// The sum of `count` products from these elements on, so far apart.
    double products(int64_t one, int64_t step_of_one, int64_t other,
            int64_t step_of_other, int64_t count) const {
        double sum = 0;
        one %= period;
        other %= period;
        for (int64_t i = 0; i < count; ++i) {
            sum += numbers_[static_cast<size_t>(one)]
                    * numbers_[static_cast<size_t>(other)];
            one = (one + step_of_one) % period;
            other = (other + step_of_other) % period;
        }
        return sum;
    }
    double diff_src(int64_t n, int64_t i, int64_t x) const {
        double sum = 0;
        for (int64_t k = 0; k < of_.window; ++k) {
            const int64_t y = x + of_.pad_begin() - k;
            if (y >= 0 && y < of_.dst)
                sum += products(weight(0, i, k), weight(1, 0, 0), dst(n, 0, y),
                        dst(0, 1, 0), of_.out);
        }
        return sum;
    }
    double diff_weight(int64_t o, int64_t i, int64_t k) const {
        const int64_t begin = std::max<int64_t>(0, of_.pad_begin() - k);
        const int64_t end = std::min(of_.dst, of_.src + of_.pad_begin() - k);
        double sum = 0;
        for (int64_t n = 0; n < of_.n && begin < end; ++n)
            sum += products(src(n, i, begin - of_.pad_begin() + k),
                    src(0, 0, 1), dst(n, o, begin), dst(0, 0, 1), end - begin);
        return sum;
    }

private:
    static constexpr int64_t period = 8191;
    bool is_ncx() const { return of_.which_layout == 0; }

    large_dense of_;
    std::vector<double> numbers_ = std::vector<double>(period);
};

/// A dense element of device memory.
double element_of(const patterned_memory &memory, data_type type, int64_t at) {
    test_tensor value({0, type, sizes {1}, layout_type::strided},
            shared_engine(engine::kind::cpu), test_tensor::role::input);
    const auto size = static_cast<size_t>(detail::size_of(type));
    require(cudaMemcpy(value.data(),
            static_cast<const std::byte *>(memory.data())
                    + static_cast<size_t>(at) * size,
            size, cudaMemcpyDeviceToHost));
    return value.load()[0];
}

class large_sums : public gpu_large {
protected:
    static void expect_right(const large_dense &);
};

/// Sums of whole numbers: each element is the sum rounded to its type.
void large_sums::expect_right(const large_dense &c) {
    const op made = c.made();
    SCOPED_TRACE(made.get_name() + " " + to_string(c.type) + " of "
            + std::to_string(c.n) + "x" + std::to_string(c.in) + "x"
            + std::to_string(c.src) + " to " + std::to_string(c.out) + "x"
            + std::to_string(c.dst));
    const large_numbers numbers(c);
    const auto memory_of = [&](const logical_tensor &of, const bytes &with) {
        return patterned_memory(of.get_mem_size(), with);
    };
    const patterned_memory one
            = memory_of(made.get_inputs()[0], numbers.pattern());
    const patterned_memory other
            = memory_of(made.get_inputs()[1], numbers.pattern());
    const patterned_memory result
            = memory_of(made.get_outputs()[0], nan_bits());
    run(made, {one.data(), other.data()}, result.data());
    random_source random(31);
    const double terms = c.of_weights
            ? static_cast<double>(c.n) * static_cast<double>(c.dst)
            : static_cast<double>(c.out) * static_cast<double>(c.window);
    const auto samples = static_cast<int>(std::clamp(2e8 / terms, 2., 64.));
    for (int sample = 0; sample < samples; ++sample) {
        // The last element, then any.
        const auto any = [&](int64_t count) {
            return sample == 0 ? count - 1 : random.integer(0, count - 1);
        };
        const int64_t first = any(c.of_weights ? c.out : c.n);
        const int64_t i = any(c.in);
        const int64_t last = any(c.of_weights ? c.window : c.src);
        const double sum = c.of_weights ? numbers.diff_weight(first, i, last)
                                        : numbers.diff_src(first, i, last);
        const double found = element_of(result, c.type,
                c.of_weights ? numbers.weight(first, i, last)
                             : numbers.src(first, i, last));
        const double half_ulp = c.type == data_type::f64 ? 0x1p-53
                : c.type == data_type::f32               ? 0x1p-24
                : c.type == data_type::bf16              ? 0x1p-8
                                                         : 0x1p-11;
        EXPECT_LE(std::abs(found - sum), half_ulp * std::abs(sum))
                << "at " << first << ", " << i << ", " << last << ": " << found
                << " for " << sum;
    }
}

TEST_F(large_sums, problems_of_onednn) {
    for (const large_dense &c : large_problems_of_onednn())
        expect_right(c);
}

// Tensors of more than 2^31 elements, which cuDNN is given in slices: of images, of
// channels and of positions.
TEST_F(large_sums, slices_for_cudnn) {
    const forced_kernel forced("convolution.cudnn");
    constexpr data_type bf16 = data_type::bf16;
    for (const large_dense &c :
            {large_dense {false, bf16, 0, 9, 160, 16, 1700001, 1700001, 3},
                    large_dense {
                            false, bf16, 0, 1, 160, 16, 15000001, 15000001, 3},
                    large_dense {
                            false, bf16, 1, 1, 160, 16, 15000001, 15000001, 3},
                    large_dense {
                            false, bf16, 0, 1, 16, 160, 15000001, 15000001, 3},
                    large_dense {
                            true, bf16, 0, 1, 160, 16, 15000001, 15000001, 3}})
        expect_right(c);
}

} // namespace
} // namespace gradnn::test
