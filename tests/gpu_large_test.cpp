// Tensors of more than 2^31 elements on the GPU, without convolutions.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "support/gpu_large.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

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

/// By kernels that are compiled for the problem, and by the library's own.
class gpu_large_interpolation : public gpu_large,
                                public testing::WithParamInterface<bool> {
protected:
    void SetUp() override {
        gpu_large::SetUp();
        if (const char *set = std::getenv(variable)) before_ = set;
        setenv(variable, GetParam() ? "1" : "0", 1);
    }
    void TearDown() override {
        if (before_)
            setenv(variable, before_->c_str(), 1);
        else
            unsetenv(variable);
    }

private:
    static constexpr const char *variable = "GRADNN_SPECIALISE";
    std::optional<std::string> before_;
};

INSTANTIATE_TEST_SUITE_P(
        large, gpu_large_interpolation, testing::Bool(), [](const auto &info) {
            return info.param ? "compiled_for_it" : "of_the_library";
        });

TEST_P(gpu_large_interpolation, of_many_images) {
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const char *mode : {"linear", "nearest"}) {
            SCOPED_TRACE(l.name + " " + mode);
            // 2^31 + 2^20 elements in, a quarter of them out.
            check_many_images(l, mode, 2049, 1, {513, 512}, {1026, 1024});
        }
}

TEST_P(gpu_large_interpolation, of_many_channels) {
    for (const char *mode : {"linear", "nearest"}) {
        SCOPED_TRACE(mode);
        // 2^31 + 2^20 elements in.
        check_many_images(layouts()[1], mode, 2049, 8, {129, 256}, {258, 512});
        // 3 channels of 16 bits cannot be copied as words.
        check_many_images(layouts()[1], mode, 2742, 3, {256, 256}, {511, 512});
    }
}

TEST_P(gpu_large_interpolation, of_many_volumes) {
    for (const char *mode : {"linear", "nearest"}) {
        SCOPED_TRACE(mode);
        check_many_images(
                layouts()[0], mode, 2049, 1, {64, 33, 64}, {128, 66, 128});
        check_many_images(
                layouts()[1], mode, 2049, 8, {32, 33, 32}, {64, 33, 64});
    }
}

TEST_P(gpu_large_interpolation, of_small_planes_and_wide_ratios) {
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
TEST_P(gpu_large_interpolation, of_one_image) {
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

} // namespace
} // namespace gradnn::test
