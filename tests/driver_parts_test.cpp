// Parts of the gradnn program that say and measure things by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

#include "driver/bench_compare.hpp"
#include "driver/compute_limit.hpp"
#include "driver/fma_loop.hpp"
#include "driver/forced_rows.hpp"
#include "driver/picture.hpp"
#include "driver/table.hpp"
#include "execute/execute.hpp"
#include "files/nearest.hpp"

namespace gradnn::driver {
namespace {

// Half of the runs take between the two quartiles.
TEST(bench_comparison, marks_what_changes_by_more_than_both_spreads) {
    using json = nlohmann::ordered_json;
    const auto report = [](double time, double low, double high) {
        return json {{"results",
                json::array({{{"graph", "a.json"}, {"engine", "cpu"},
                        {"ops", json::array({"Add"})}, {"kernel", "k"},
                        {"time_ms", time}, {"time_ms_min", low},
                        {"time_ms_max", high},
                        {"time_ms_quartiles", json::array({low, high})},
                        {"steps", json::array()}}})}};
    };
    const auto compared = [](const json &old, const json &now) {
        std::ostringstream out;
        write_bench_comparison(old, "old.json", now, out);
        return out.str();
    };
    const auto has = [](const std::string &text, const char *word) {
        return text.find(std::string(word) + "\n") != std::string::npos;
    };
    const json usual = report(10, 9, 11);
    const std::string slower = compared(usual, report(12.5, 12, 13));
    EXPECT_TRUE(has(slower, "SLOWER")) << slower;
    EXPECT_FALSE(has(slower, "faster")) << slower;
    EXPECT_NE(slower.find("1.25"), std::string::npos) << slower;
    const std::string faster = compared(usual, report(7.5, 7, 8));
    EXPECT_TRUE(has(faster, "faster")) << faster;
    EXPECT_FALSE(has(faster, "SLOWER")) << faster;
    // Within the old one's spread, and within the new one's.
    for (const json &now : {report(11.5, 11, 12), report(15, 10, 20)}) {
        const std::string alike = compared(usual, now);
        EXPECT_FALSE(has(alike, "SLOWER")) << alike;
        EXPECT_FALSE(has(alike, "faster")) << alike;
    }
}

/// The first pixel of an element's square: planes have 192 pixels, gaps 4.
std::vector<int> pixel(const detail::rgb_image &image, int64_t x, int64_t y) {
    const auto at = static_cast<size_t>(3 * (y * image.width + x));
    return {image.pixels.at(at), image.pixels.at(at + 1),
            image.pixels.at(at + 2)};
}

TEST(picture, colours_follow_signs_and_magnitudes) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<int64_t> dims {1, 2, 2, 3};
    const std::vector<double> values {4, -4, 0, 2, nan, 1, 0, 0, 0, 0, 0, -1};
    const auto image = picture_of(dims, values);
    EXPECT_EQ(image.width, 2 * (192 + 4) + 4);
    EXPECT_EQ(image.height, 128 + 2 * 4);
    using rgb = std::vector<int>;
    EXPECT_EQ(pixel(image, 0, 0), (rgb {255, 255, 255})); // beside the planes
    EXPECT_EQ(pixel(image, 4, 4), (rgb {255, 0, 0}));
    EXPECT_EQ(pixel(image, 4 + 63, 4 + 63), (rgb {255, 0, 0}));
    EXPECT_EQ(pixel(image, 4 + 64, 4), (rgb {0, 0, 255}));
    EXPECT_EQ(pixel(image, 4 + 128, 4), (rgb {255, 255, 255}));
    EXPECT_EQ(pixel(image, 4, 4 + 64), (rgb {255, 128, 128}));
    EXPECT_EQ(pixel(image, 4 + 64, 4 + 64), (rgb {128, 128, 128}));
    EXPECT_EQ(pixel(image, 200 + 128, 4 + 64), (rgb {191, 191, 255}));
}

TEST(picture, takes_any_shape) {
    const auto size = [](const std::vector<int64_t> &dims) {
        int64_t count = 1;
        for (const int64_t dim : dims)
            count *= dim;
        const auto image = picture_of(
                dims, std::vector<double>(static_cast<size_t>(count), 1.0));
        return std::pair(image.width, image.height);
    };
    EXPECT_EQ(size({}), std::pair(int64_t {200}, int64_t {200}));
    EXPECT_EQ(size({3}), std::pair(int64_t {200}, int64_t {72}));
    EXPECT_EQ(size({0, 3}), std::pair(int64_t {1}, int64_t {1}));
    EXPECT_EQ(size({40, 1, 1}), std::pair(int64_t {788}, int64_t {788}));
    // One of six rows and columns, of 1000 and 500.
    EXPECT_EQ(size({500, 1000}), std::pair(int64_t {175}, int64_t {92}));
}

TEST(png, pixels_stand_in_the_file_as_they_are) {
    // More rows than one stored block holds.
    detail::rgb_image image(100, 300, 7);
    image.set(99, 299, 1, 2, 3);
    const std::string file = detail::png_contents(image);
    EXPECT_EQ(file.substr(0, 16),
            std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
    const size_t data = file.find("IDAT") + 4;
    ASSERT_EQ(file.substr(data, 2), "\x78\x01");
    std::string rows;
    size_t at = data + 2;
    for (bool last = false; !last;) {
        last = file.at(at) == 1;
        const auto byte = [&](size_t place) {
            return static_cast<size_t>(
                    static_cast<uint8_t>(file.at(at + place)));
        };
        const size_t length = byte(1) + 256 * byte(2);
        EXPECT_EQ(length + byte(3) + 256 * byte(4), 0xffffU);
        rows += file.substr(at + 5, length);
        at += 5 + length;
    }
    ASSERT_EQ(rows.size(), 300U * 301U);
    EXPECT_EQ(rows.substr(0, 4), std::string("\0\7\7\7", 4)); // no filter
    EXPECT_EQ(rows.substr(rows.size() - 3), "\1\2\3");
    EXPECT_EQ(file.substr(file.size() - 8), "IEND\xae\x42\x60\x82");
}

TEST(edit_distance, counts_changes) {
    EXPECT_EQ(detail::edit_distance("", ""), 0U);
    EXPECT_EQ(detail::edit_distance("bench", "bench"), 0U);
    EXPECT_EQ(detail::edit_distance("", "run"), 3U);
    EXPECT_EQ(detail::edit_distance("run", ""), 3U);
    EXPECT_EQ(detail::edit_distance("chek", "check"), 1U); // insertion
    EXPECT_EQ(detail::edit_distance("checck", "check"), 1U); // deletion
    EXPECT_EQ(detail::edit_distance("chack", "check"), 1U); // change
    EXPECT_EQ(detail::edit_distance("bnech", "bench"), 1U); // exchange
    EXPECT_EQ(detail::edit_distance("kitten", "sitting"), 3U);
}

TEST(nearest, is_near) {
    const std::vector<std::string> words
            = {"run", "check", "bench", "info", "support"};
    EXPECT_EQ(detail::nearest("chek", words), "check");
    EXPECT_EQ(detail::nearest("benhc", words), "bench");
    EXPECT_EQ(detail::nearest("supprot", words), "support");
    EXPECT_EQ(detail::nearest("supp", words), "support"); // its beginning
    EXPECT_EQ(detail::nearest("ru", words), "run");
    for (const char *far : {"", "x", "fly", "graph", "r"})
        EXPECT_EQ(detail::nearest(far, words), "") << far;
    EXPECT_EQ(detail::suggestion("chek", words), ", did you mean check?");
    EXPECT_EQ(detail::suggestion("fly", words), "");
    EXPECT_EQ(detail::suggestion("fly", {}), "");
}

TEST(time_text, has_three_digits_in_microseconds) {
    EXPECT_EQ(time_text(0.0123456), "12.3 us");
    EXPECT_EQ(time_text(0.123456), "123 us");
    EXPECT_EQ(time_text(0.00123456), "1.23 us");
    EXPECT_EQ(time_text(0.000123456), "0.123 us");
    EXPECT_EQ(time_text(0.009996), "10.0 us");
    EXPECT_EQ(time_text(0.9994), "999 us");
    EXPECT_EQ(time_text(0.9996), "1.000 ms");
    EXPECT_EQ(time_text(0), "0 us");
}

TEST(time_text, has_four_digits_in_milliseconds) {
    EXPECT_EQ(time_text(1), "1.000 ms");
    EXPECT_EQ(time_text(1.23456), "1.235 ms");
    EXPECT_EQ(time_text(99.996), "100.0 ms");
    EXPECT_EQ(time_text(1234.56), "1235 ms");
    EXPECT_EQ(time_text(123456), "123456 ms");
}

using lt = logical_tensor;

lt tensor_of(size_t id, const lt::dims &dims) {
    return {id, lt::data_type::f32, dims, lt::layout_type::strided};
}

/// A convolution's three gradients, and tensors for them.
class three_gradients : public testing::Test {
protected:
    three_gradients() {
        memory.reserve(9); // tensors keep pointers to them
        inputs = tensors(part.get_input_ports(), true);
        whole = tensors(part.get_output_ports(), false);
        parts = tensors(part.get_output_ports(), false);
        compiled.execute(queue, inputs, whole);
    }

    static op backward() {
        op result(0, op::kind::ConvBackward,
                {tensor_of(0, {2, 8, 6, 6}), tensor_of(1, {2, 4, 6, 6}),
                        tensor_of(2, {8, 4, 3, 3})},
                {tensor_of(3, {2, 4, 6, 6}), tensor_of(4, {8, 4, 3, 3}),
                        tensor_of(5, {8})});
        const std::vector<int64_t> ones = {1, 1};
        result.set_attr(op::attr::strides, ones);
        result.set_attr(op::attr::dilations, ones);
        result.set_attr(op::attr::pads_begin, ones);
        result.set_attr(op::attr::pads_end, ones);
        result.set_attr<std::string>(op::attr::data_format, "NCX");
        result.set_attr<std::string>(op::attr::weights_format, "OIX");
        return result;
    }

    std::vector<tensor> tensors(const std::vector<lt> &ports, bool filled) {
        std::vector<tensor> result;
        for (const lt &port : ports) {
            memory.emplace_back(port.get_mem_size() / sizeof(float), -7.0F);
            for (size_t i = 0; filled && i < memory.back().size(); ++i)
                memory.back()[i] = static_cast<float>(i % 17) - 8;
            result.emplace_back(port, cpu, memory.back().data());
        }
        return result;
    }

    const engine cpu {engine::kind::cpu, 0};
    const partition part {backward(), engine::kind::cpu};
    const compiled_partition compiled = part.compile(
            part.get_input_ports(), part.get_output_ports(), cpu);
    stream queue {cpu};
    /// Of three inputs, three outputs of the whole, three of its parts.
    std::vector<std::vector<float>> memory;
    std::vector<tensor> inputs;
    std::vector<tensor> whole;
    std::vector<tensor> parts;
};

TEST_F(three_gradients, steps_compute_what_the_partition_does) {
    const size_t count = compiled.get_info().steps.size();
    ASSERT_EQ(count, 3U);
    for (size_t step = 0; step < count; ++step) {
        // What later steps compute is untouched.
        for (size_t later = step; later < count; ++later)
            EXPECT_EQ(memory[6 + later].front(), -7.0F);
        detail::execute_step(compiled, step, queue, inputs, parts);
        EXPECT_EQ(memory[6 + step], memory[3 + step]) << step;
    }
    EXPECT_THROW(
            detail::execute_step(compiled, count, queue, inputs, parts), error);
}

TEST_F(three_gradients, every_row_computes_its_step_alone) {
    loaded_graph graph;
    graph.device = cpu;
    graph_step of_graph;
    of_graph.partition = part;
    of_graph.compiled = compiled;
    const auto lists = forced_rows(graph, of_graph);
    const auto steps = compiled.get_info().steps;
    ASSERT_EQ(lists.size(), 3U);
    EXPECT_GT(lists[0].size(), 1U);
    for (size_t step = 0; step < lists.size(); ++step) {
        size_t taken = 0;
        for (const forced_row &row : lists[step]) {
            for (size_t output = 6; output < 9; ++output)
                std::fill(memory[output].begin(), memory[output].end(), -7.0F);
            row.compiled.execute(queue, inputs, parts);
            const auto info = row.compiled.get_info().steps;
            ASSERT_EQ(info.size(), 1U);
            EXPECT_EQ(info[0].kernel, row.kernel);
            EXPECT_EQ(info[0].output, steps[step].output);
            taken += row.kernel == steps[step].kernel ? 1 : 0;
            // The values are small integers: every order of sums is exact.
            for (size_t output = 0; output < 3; ++output) {
                if (output == step)
                    EXPECT_EQ(memory[6 + output], memory[3 + output])
                            << row.kernel;
                else
                    EXPECT_EQ(memory[6 + output].front(), -7.0F) << row.kernel;
            }
        }
        EXPECT_EQ(taken, 1U);
    }
}

TEST(compute_limit, counts_what_the_loop_does) {
    for (const auto type : {lt::data_type::f32, lt::data_type::f64}) {
        const double some = run_fma_loop(type, 100);
        EXPECT_GE(some, 100 * 2);
        EXPECT_EQ(run_fma_loop(type, 300), 3 * some);
    }
    // A vector has no more numbers of twice the size.
    EXPECT_GE(run_fma_loop(lt::data_type::f32, 100),
            run_fma_loop(lt::data_type::f64, 100));
    EXPECT_NE(fma_loop_target(), "");
}

TEST(compute_limit, is_measured_and_named) {
    const engine cpu(engine::kind::cpu, 0);
    for (const auto type : {lt::data_type::f32, lt::data_type::bf16,
                 lt::data_type::f16, lt::data_type::f64}) {
        const compute_limit limit(cpu, type, fpmath_mode::strict);
        EXPECT_GT(limit.tflop_per_s(), 0);
        EXPECT_GT(limit.measure(), 0);
        EXPECT_NE(limit.name(), "");
    }
    const compute_limit f64(cpu, lt::data_type::f64, fpmath_mode::strict);
    EXPECT_TRUE(f64.name().starts_with("f64 FMA loop (")) << f64.name();
}

} // namespace
} // namespace gradnn::driver
