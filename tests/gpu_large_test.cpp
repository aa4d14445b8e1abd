// Tensors of more than 2^31 elements on the GPU.
//
// Their values repeat, so that what comes out is known from a small part of
// it. No period divides 2^31: an index that lost its upper bits would read
// other values, or leave what it should have written.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "support/gpu.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using bytes = std::vector<std::byte>;

/// Device memory that holds a pattern again and again.
class patterned_memory {
public:
    patterned_memory(size_t size, const bytes &pattern)
        : size_(size), memory_(shared_engine(engine::kind::gpu), size) {
        auto *const begin = static_cast<std::byte *>(memory_.data());
        size_t done = std::min(size, pattern.size());
        require(cudaMemcpy(
                begin, pattern.data(), done, cudaMemcpyHostToDevice));
        // Doubled: every copy is a multiple of the pattern long.
        while (done < size) {
            const size_t more = std::min(done, size - done);
            require(cudaMemcpy(
                    begin + done, begin, more, cudaMemcpyDeviceToDevice));
            done += more;
        }
        // Copies within the device are in no order with gradnn's streams.
        require(cudaDeviceSynchronize());
    }

    void *data() const { return memory_.data(); }

    /// Other elements at the end.
    void end_with(const bytes &tail) const {
        require(cudaMemcpy(
                static_cast<std::byte *>(memory_.data()) + size_ - tail.size(),
                tail.data(), tail.size(), cudaMemcpyHostToDevice));
    }

    /// The first element of the memory that does not repeat the pattern, or -1.
    int64_t first_difference(const bytes &pattern) const {
        constexpr size_t most = size_t {1} << 28;
        const size_t repeats = std::max<size_t>(1, most / pattern.size());
        bytes wanted;
        for (size_t i = 0; i < repeats; ++i)
            wanted.insert(wanted.end(), pattern.begin(), pattern.end());
        bytes found(wanted.size());
        for (size_t at = 0; at < size_; at += found.size()) {
            const size_t part = std::min(found.size(), size_ - at);
            require(cudaMemcpy(found.data(),
                    static_cast<const std::byte *>(memory_.data()) + at, part,
                    cudaMemcpyDeviceToHost));
            if (std::memcmp(found.data(), wanted.data(), part) == 0) continue;
            for (size_t i = 0; i < part; ++i)
                if (found[i] != wanted[i]) return static_cast<int64_t>(at + i);
        }
        return -1;
    }

private:
    size_t size_;
    device_memory memory_;
};

class gpu_large : public gpu_fixture {
protected:
    void SetUp() override {
        gpu_fixture::SetUp();
        if (IsSkipped()) return;
        constexpr size_t wanted = size_t {24} << 30;
        size_t available = 0;
        size_t all = 0;
        require(cudaMemGetInfo(&available, &all));
        if (available < wanted)
            GTEST_SKIP() << "wants 24 GiB of device memory; " << available
                         << " bytes are free";
    }

    static engine gpu() { return shared_engine(engine::kind::gpu); }

    /// Runs an op on inputs in device memory. The output begins as NaNs.
    static void run(
            const op &the_op, const std::vector<void *> &inputs, void *output) {
        const compiled_partition compiled = compile(the_op, gpu());
        std::vector<tensor> given;
        for (size_t i = 0; i < inputs.size(); ++i)
            given.emplace_back(the_op.get_inputs()[i], gpu(), inputs[i]);
        const logical_tensor out = compiled.query_logical_tensor(
                the_op.get_outputs()[0].get_id());
        stream s(gpu());
        compiled.execute(s, given, {tensor(out, gpu(), output)});
        s.wait();
    }

    /// The bits of random values of a type, as a small op sees them.
    static bytes random_bits(data_type type, size_t count, uint64_t seed) {
        const logical_tensor lt(0, type, sizes {static_cast<int64_t>(count)},
                layout_type::strided);
        test_tensor values(lt, shared_engine(engine::kind::cpu),
                test_tensor::role::input, 0, true);
        values.store(random_source(seed).values(count));
        return values.element_bytes();
    }

    /// `count` elements of bf16 that are all 1 or all 2.
    static bytes bf16_ones(size_t count) { return bf16(0x3f80, count); }
    static bytes bf16_twos(size_t count) { return bf16(0x4000, count); }
    /// Random whole numbers of -2 to 2.
    static bytes bf16_integers(size_t count, uint64_t seed) {
        constexpr uint16_t integers[] {0xc000, 0xbf80, 0, 0x3f80, 0x4000};
        random_source numbers(seed);
        bytes all(2 * count);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(&all[2 * i], &integers[numbers.integer(0, 4)], 2);
        return all;
    }

    static const bytes &nan_bits() {
        static const bytes nans(size_t {1} << 20, std::byte {0xff});
        return nans;
    }

private:
    static bytes bf16(uint16_t bits, size_t count) {
        bytes all(2 * count);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(&all[2 * i], &bits, 2);
        return all;
    }
};

/// InterpolateBackward of `copies` images one after the other must be what it
/// is of one.
void check_many_images(const layout &l, const std::string &mode, int64_t copies,
        int64_t channels, const sizes &src, const sizes &dst) {
    const engine e = shared_engine(engine::kind::gpu);
    const auto op_of = [&](int64_t n) {
        return interpolation_op({"large", n, channels, src, dst},
                {mode, "half_pixel"}, l, data_type::f16);
    };
    op_run one(op_of(1), e, random_inputs(op_of(1), 21));
    one.execute();
    const bytes image = one.output_bytes(0);
    const bytes diff_dst = one.input_tensor(1).element_bytes();
    const auto count = static_cast<size_t>(copies);
    const patterned_memory in(diff_dst.size() * count, diff_dst);
    const patterned_memory out(
            image.size() * count, bytes(size_t {1} << 20, std::byte {0xff}));
    const op all = op_of(copies);
    const compiled_partition compiled = compile(all, e);
    stream s(e);
    compiled.execute(s,
            {tensor(all.get_inputs()[0], e, nullptr),
                    tensor(all.get_inputs()[1], e, in.data())},
            {tensor(compiled.query_logical_tensor(
                            all.get_outputs()[0].get_id()),
                    e, out.data())});
    s.wait();
    EXPECT_EQ(out.first_difference(image), -1);
}

TEST_F(gpu_large, interpolation_of_many_images) {
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const char *mode : {"linear", "nearest"}) {
            SCOPED_TRACE(l.name + " " + mode);
            // 2^31 + 2^20 elements in, a quarter of them out.
            check_many_images(l, mode, 2049, 1, {513, 512}, {1026, 1024});
        }
}

TEST_F(gpu_large, interpolation_of_many_channels) {
    for (const char *mode : {"linear", "nearest"}) {
        SCOPED_TRACE(mode);
        // 2^31 + 2^20 elements in.
        check_many_images(layouts()[1], mode, 2049, 8, {129, 256}, {258, 512});
        // 3 channels of 16 bits cannot be copied as words.
        check_many_images(layouts()[1], mode, 2742, 3, {256, 256}, {511, 512});
    }
}

TEST_F(gpu_large, interpolation_of_many_volumes) {
    for (const char *mode : {"linear", "nearest"}) {
        SCOPED_TRACE(mode);
        check_many_images(
                layouts()[0], mode, 2049, 1, {64, 33, 64}, {128, 66, 128});
        check_many_images(
                layouts()[1], mode, 2049, 8, {32, 33, 32}, {64, 33, 64});
    }
}

TEST_F(gpu_large, interpolation_of_small_planes_and_wide_ratios) {
    check_many_images(layouts()[0], "linear", 10957, 1000, {7, 7}, {14, 14});
    // 31 taps a column.
    check_many_images(layouts()[1], "linear", 389, 21, {33, 33}, {513, 513});
}

// The same size in another order of memory is a copy that transposes.
TEST_F(gpu_large, transposing_copy) {
    const sizes space {1022, 1026};
    const auto transposed = [&](int64_t n) {
        const op dense = interpolation_op({"same", n, 8, space, space},
                {"linear", "half_pixel"}, layouts()[0], data_type::bf16);
        op result(0, op::kind::InterpolateBackward, dense.get_inputs(),
                {data_tensor(3, data_type::bf16, {n, 8, 1022, 1026},
                        {"nxc", "NCX", "OIX", arrangement::other_order}, true)},
                "transposed");
        result.set_attr(op::attr::mode, std::string("linear"));
        result.set_attr(op::attr::sizes, space);
        result.set_attr(op::attr::data_format, std::string("NCX"));
        return result;
    };
    const size_t image = size_t {8} * 1022 * 1026 * 2;
    const bytes values = random_bits(data_type::bf16, image / 2, 26);
    const patterned_memory one_in(image, values);
    const patterned_memory one(image, nan_bits());
    run(transposed(1), {nullptr, one_in.data()}, one.data());
    bytes wanted(image);
    require(cudaMemcpy(
            wanted.data(), one.data(), image, cudaMemcpyDeviceToHost));
    ASSERT_NE(wanted, values);

    const patterned_memory in(image * 257, values);
    const patterned_memory out(image * 257, nan_bits());
    run(transposed(257), {nullptr, in.data()}, out.data());
    EXPECT_EQ(out.first_difference(wanted), -1);
}

// One image alone has more than 2^31 elements; all of its rows are equal.
TEST_F(gpu_large, interpolation_of_one_image) {
    constexpr int64_t rows = 66000;
    constexpr int64_t columns = 33000;
    const bytes row = random_bits(data_type::f16, columns, 22);
    for (const layout &l : {layouts()[0], layouts()[1]}) {
        SCOPED_TRACE(l.name);
        const op small = interpolation_op(
                {"rows", 1, 1, {1, columns / 2}, {2, columns}},
                {"nearest", "half_pixel"}, l, data_type::f16);
        const patterned_memory two_rows(2 * row.size(), row);
        const patterned_memory expected(row.size() / 2, nan_bits());
        run(small, {nullptr, two_rows.data()}, expected.data());
        bytes wanted(row.size() / 2);
        require(cudaMemcpy(wanted.data(), expected.data(), wanted.size(),
                cudaMemcpyDeviceToHost));

        const patterned_memory in(static_cast<size_t>(rows) * row.size(), row);
        const patterned_memory out(
                static_cast<size_t>(rows / 2) * wanted.size(), nan_bits());
        run(interpolation_op(
                    {"large", 1, 1, {rows / 2, columns / 2}, {rows, columns}},
                    {"nearest", "half_pixel"}, l, data_type::f16),
                {nullptr, in.data()}, out.data());
        EXPECT_EQ(out.first_difference(wanted), -1);
    }
}

TEST_F(gpu_large, elementwise) {
    const plane_case large {"large", {2, 16, 8192, 8200}};
    const size_t count = 2UL * 16 * 8192 * 8200;
    const bytes a = random_bits(data_type::bf16, 8200, 23);
    const bytes b = random_bits(data_type::bf16, 8200, 24);
    for (const op::kind kind : {op::kind::ReLUBackward, op::kind::Add}) {
        SCOPED_TRACE(to_string(kind));
        const op small = plane_op(
                kind, {"row", {1, 1, 1, 8200}}, layouts()[0], data_type::bf16);
        const patterned_memory few_a(a.size(), a);
        const patterned_memory few_b(b.size(), b);
        const patterned_memory few(a.size(), nan_bits());
        run(small, {few_a.data(), few_b.data()}, few.data());
        bytes wanted(a.size());
        require(cudaMemcpy(wanted.data(), few.data(), wanted.size(),
                cudaMemcpyDeviceToHost));

        const patterned_memory all_a(count * 2, a);
        const patterned_memory all_b(count * 2, b);
        const patterned_memory all(count * 2, nan_bits());
        run(plane_op(kind, large, layouts()[0], data_type::bf16),
                {all_a.data(), all_b.data()}, all.data());
        EXPECT_EQ(all.first_difference(wanted), -1);
    }
}

// Sums of ones are exact; 2^19 of them in each of 4100 channels, and twos where
// the elements' numbers exceed 2^31.
TEST_F(gpu_large, bias) {
    constexpr int64_t plane = 512 * 512;
    const plane_case large {"large", {2, 4100, 512, 512}};
    const patterned_memory in(size_t {2} * 4100 * plane * 2, bf16_ones(1));
    const patterned_memory out(4100 * sizeof(float), nan_bits());
    const auto check = [&](const layout &l, const auto &expected) {
        SCOPED_TRACE(l.name);
        run(plane_op(
                    op::kind::BiasAddBackward, large, l, data_type::bf16, true),
                {in.data()}, out.data());
        std::vector<float> sums(4100);
        require(cudaMemcpy(sums.data(), out.data(), sums.size() * sizeof(float),
                cudaMemcpyDeviceToHost));
        for (int64_t c = 0; c < 4100; ++c)
            ASSERT_EQ(sums[static_cast<size_t>(c)], expected(c)) << "of " << c;
    };
    in.end_with(bf16_twos(500 * 4100)); // 500 pixels of all channels
    check(layouts()[1], [](int64_t) { return 2.F * plane + 500; });
    in.end_with(bf16_ones(500 * 4100));
    in.end_with(bf16_twos(size_t {4} * plane)); // the last 4 channels
    check(layouts()[0],
            [](int64_t c) { return (c < 4096 ? 2.F : 3.F) * plane; });
}

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
    const std::string depthwise = kernels_that_begin(
            engine::kind::gpu, "convolution", "convolution.gpu_depthwise");
    const char *const direct = "convolution.gpu_direct";
    const layout &ncx = layouts()[0];
    const layout &nxc = layouts()[1];
    return {{depthwise, ncx, 2055, 1, {1024, 1021}, {1, 1}},
            {depthwise, nxc, 2070, 8, {256, 509}, {1, 1}},
            // On tensor cores, in planes and by walks along H.
            {depthwise, ncx, 2920, 8, {256, 360}, {3, 3}},
            {depthwise, ncx, 2070, 8, {256, 509}, {3, 3}},
            {depthwise, nxc, 2070, 8, {256, 509}, {3, 3}},
            {depthwise, ncx, 2070, 8, {4, 64, 509}, {3, 3, 3}},
            {depthwise, nxc, 2070, 8, {4, 64, 509}, {3, 3, 3}},
            // On tensor cores, in bands and whole planes, and in NXC.
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
