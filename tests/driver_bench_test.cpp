// gradnn bench: what its report holds, and the comparison with an older one.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "support/driver_program.hpp"

namespace {

using namespace gradnn::test;
using json = nlohmann::ordered_json;

class driver_bench : public driver {
protected:
    /// A convolution's three gradients, small.
    std::string conv_backward() const {
        return write("conv.json",
                graph_of("ConvBackward",
                        list_attr("strides", "[1, 1]") + ", "
                                + list_attr("dilations", "[1, 1]") + ", "
                                + list_attr("pads_begin", "[1, 1]") + ", "
                                + list_attr("pads_end", "[1, 1]") + ", "
                                + string_attr("data_format", "NCX") + ", "
                                + string_attr("weights_format", "OIX"),
                        tensor_of(0, "[2, 32, 20, 20]") + ", "
                                + tensor_of(1, "[2, 16, 20, 20]") + ", "
                                + tensor_of(2, "[32, 16, 3, 3]"),
                        tensor_of(3, "[2, 16, 20, 20]") + ", "
                                + tensor_of(4, "[32, 16, 3, 3]") + ", "
                                + tensor_of(5, "[32]")));
    }

    std::string relu() const {
        return write("relu.json",
                graph_of("ReLUBackward", "",
                        tensor_of(0, "[64, 1024]") + ", "
                                + tensor_of(1, "[64, 1024]"),
                        tensor_of(2, "[64, 1024]")));
    }

    json report_of(const std::string &arguments) const {
        const outcome result = gradnn("bench --engine cpu --seconds 0.02 "
                + arguments + " --json " + path("report.json"));
        EXPECT_EQ(result.status, 0) << result.err;
        return json::parse(contents(path("report.json")));
    }
};

constexpr double flops_of_gradient = 2.0 * 2 * 32 * 20 * 20 * 16 * 9;

void expect_consistent(const json &figures) {
    EXPECT_GT(figures.at("time_ms").get<double>(), 0);
    EXPECT_LE(figures.at("time_ms_min"), figures.at("time_ms"));
    EXPECT_LE(figures.at("time_ms"), figures.at("time_ms_max"));
    const auto quartiles = figures.at("time_ms_quartiles");
    ASSERT_EQ(quartiles.size(), 2U);
    EXPECT_LE(figures.at("time_ms_min"), quartiles[0]);
    EXPECT_LE(quartiles[0], figures.at("time_ms"));
    EXPECT_LE(figures.at("time_ms"), quartiles[1]);
    EXPECT_LE(quartiles[1], figures.at("time_ms_max"));
    EXPECT_GE(figures.at("repeats").get<int>(), 3);
    const double seconds = 1e-3 * figures.at("time_ms").get<double>();
    const double moved = figures.at("bytes").get<double>() / seconds / 1e9;
    EXPECT_NEAR(figures.at("gb_per_s").get<double>(), moved, 1e-6 * moved);
    EXPECT_GT(figures.at("limit_gb_per_s").get<double>(), 0);
    const double computed = figures.at("flops").get<double>() / seconds / 1e12;
    EXPECT_NEAR(
            figures.at("tflop_per_s").get<double>(), computed, 1e-6 * computed);
    EXPECT_GE(figures.at("workspace_bytes").get<int64_t>(), 0);
}

void expect_compute_limit(const json &figures) {
    const double limit = figures.at("limit_tflop_per_s").get<double>();
    EXPECT_GT(limit, 0);
    const double share = figures.at("compute_share").get<double>();
    EXPECT_NEAR(share, figures.at("tflop_per_s").get<double>() / limit,
            1e-6 * share);
    // Gross errors alone: other programs may have slowed the limit down, and so
    // do sanitizers, whose build of the FMA loop stands beside oneDNN's code.
    EXPECT_GT(share, 1e-4);
    EXPECT_LT(share, 1000);
    const bool computes = share > figures.at("limit_share").get<double>();
    EXPECT_EQ(figures.at("bound"), computes ? "compute" : "memory");
}

TEST_F(driver_bench, times_every_step) {
    const json report = report_of(conv_backward());
    const json &result = report.at("results").at(0);
    expect_consistent(result);
    expect_compute_limit(result);
    EXPECT_NE(result.at("compute_limit").get<std::string>().find("f32"),
            std::string::npos);
    EXPECT_EQ(result.at("flops"), 2 * flops_of_gradient);
    const json &steps = result.at("steps");
    ASSERT_EQ(steps.size(), 3U);
    EXPECT_EQ(steps[0].at("output"), "diff_src");
    EXPECT_EQ(steps[1].at("output"), "diff_weights");
    EXPECT_EQ(steps[2].at("output"), "diff_bias");
    constexpr int src = 2 * 16 * 20 * 20 * 4;
    constexpr int dst = 2 * src;
    constexpr int weights = 32 * 16 * 9 * 4;
    EXPECT_EQ(steps[0].at("bytes"), dst + weights + src);
    EXPECT_EQ(steps[1].at("bytes"), dst + weights + src);
    EXPECT_EQ(steps[2].at("bytes"), dst + 32 * 4);
    std::string kernels;
    for (const json &step : steps) {
        expect_consistent(step);
        kernels += (kernels.empty() ? "" : "+")
                + step.at("kernel").get<std::string>();
    }
    EXPECT_EQ(result.at("kernel"), kernels);
    for (const int convolution : {0, 1}) {
        EXPECT_EQ(steps[convolution].at("flops"), flops_of_gradient);
        expect_compute_limit(steps[convolution]);
    }
    EXPECT_EQ(steps[2].at("flops"), 0);
    EXPECT_EQ(steps[2].at("bound"), "memory");
    EXPECT_FALSE(steps[2].contains("compute_share"));
}

TEST_F(driver_bench, shows_every_step) {
    const outcome result
            = gradnn("bench --engine cpu --seconds 0.02 " + conv_backward());
    ASSERT_EQ(result.status, 0) << result.err;
    for (const char *piece :
            {"\nconv.json  ConvBackward", "3 steps", "\n             diff_src ",
                    "  diff_weights  ", "  diff_bias ", "FMA loop"})
        EXPECT_NE(result.out.find(piece), std::string::npos) << piece << '\n'
                                                             << result.out;
    EXPECT_EQ(result.out.find(" 0%"), std::string::npos) << result.out;
}

TEST_F(driver_bench, times_every_kernel) {
    const json report = report_of(conv_backward() + " --every-kernel");
    const json &steps = report.at("results").at(0).at("steps");
    for (const json &step : steps) {
        const json &rows = step.at("rows");
        int taken = 0;
        std::set<std::string> kernels;
        for (const json &row : rows) {
            kernels.insert(row.at("kernel").get<std::string>());
            EXPECT_GT(row.at("time_ms").get<double>(), 0) << row;
            EXPECT_LE(row.at("time_ms_min"), row.at("time_ms"));
            if (!row.at("taken").get<bool>()) continue;
            ++taken;
            EXPECT_EQ(row.at("kernel"), step.at("kernel"));
            EXPECT_EQ(row.at("workspace_bytes"), step.at("workspace_bytes"));
        }
        EXPECT_EQ(taken, 1) << rows;
        EXPECT_EQ(kernels.size(), rows.size()) << rows;
    }
    // The GEMM takes every convolution, the depthwise kernel not this one.
    EXPECT_NE(steps[0].at("rows").dump().find("convolution.gemm"),
            std::string::npos);
    EXPECT_EQ(steps[0].at("rows").dump().find("convolution.depthwise"),
            std::string::npos);
    EXPECT_EQ(steps[2].at("rows").size(), 1U);

    const outcome shown = gradnn(
            "bench --engine cpu --seconds 0.02 --every-kernel " + relu());
    EXPECT_NE(shown.out.find("relu.json  diff_src  elementwise.simd  taken"),
            std::string::npos)
            << shown.out;
    const json without = report_of(relu());
    EXPECT_FALSE(without["results"][0]["steps"][0].contains("rows"));
}

TEST_F(driver_bench, one_step_is_the_partition) {
    const json result = report_of(relu()).at("results").at(0);
    expect_consistent(result);
    ASSERT_EQ(result.at("steps").size(), 1U);
    const json &step = result.at("steps")[0];
    EXPECT_EQ(step.at("output"), "diff_src");
    for (const char *key : {"kernel", "backend", "time_ms", "bytes",
                 "limit_gb_per_s", "repeats"})
        EXPECT_EQ(step.at(key), result.at(key)) << key;
    EXPECT_FALSE(result.contains("limit_tflop_per_s"));
}

TEST_F(driver_bench, says_what_memory_is_needed) {
    const json report = report_of(conv_backward() + " " + relu());
    const json &results = report.at("results");
    // diff_dst, src, weights and their gradients.
    constexpr int src = 2 * 16 * 20 * 20 * 4;
    EXPECT_EQ(results.at(0).at("tensor_bytes"),
            2 * src + 2 * src + 2 * 32 * 16 * 9 * 4 + 32 * 4);
    EXPECT_EQ(results.at(1).at("tensor_bytes"), 3 * 64 * 1024 * 4);
    ASSERT_EQ(report.at("memory").size(), 2U);
    for (const size_t index : {0, 1})
        for (const char *key : {"graph", "tensor_bytes", "workspace_bytes"})
            EXPECT_EQ(report["memory"][index].at(key), results[index].at(key));

    // Of several partitions: all tensors, and the largest workspace.
    const json step = report_of(graphs + "segmentation_step.json");
    const json &whole = step.at("memory").at(0);
    int64_t most = 0;
    for (const json &each : step.at("results")) {
        most = std::max(most, each.at("workspace_bytes").get<int64_t>());
        EXPECT_LT(each.at("tensor_bytes"), whole.at("tensor_bytes"));
    }
    EXPECT_EQ(whole.at("workspace_bytes"), most);
}

TEST_F(driver_bench, writes_its_report_to_standard_output) {
    const outcome result
            = gradnn("bench --engine cpu --seconds 0.01 --json - " + relu());
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(json::parse(result.out).at("results").size(), 1U);
    EXPECT_NE(result.err.find("ReLUBackward"), std::string::npos);
    EXPECT_EQ(result.err.find("wrote"), std::string::npos);
    EXPECT_EQ(file_count(), 1U); // no file "-"
}

TEST_F(driver_bench, compares_with_an_older_report) {
    const std::string all = conv_backward() + " " + relu();
    const json report = report_of(all);
    const auto compare = [&](const std::string &old) {
        const outcome result = gradnn("bench --engine cpu --seconds 0.02 " + all
                + " --compare " + write("old.json", old));
        EXPECT_EQ(result.status, 0) << result.err;
        const size_t start = result.out.find("before: " + path("old.json"));
        EXPECT_NE(start, std::string::npos) << result.out;
        return result.out.substr(std::min(start, result.out.size()));
    };
    // Which times count as longer: bench_comparison of driver_parts_test.
    const std::string again = compare(report.dump());
    EXPECT_NE(again.find("  diff_weights "), std::string::npos) << again;
    EXPECT_EQ(again.find("not in the old report"), std::string::npos) << again;

    // Reports of before there were steps and quartiles; another kernel,
    // another machine, another folder.
    json plain = report;
    plain["machine"]["cpu"] = "a 486";
    plain["results"].erase(1);
    json &only = plain["results"][0];
    only.erase("steps");
    only.erase("time_ms_quartiles");
    only["graph"] = "/somewhere/else/conv.json";
    only["kernel"] = "convolution.old";
    const std::string older = compare(plain.dump());
    EXPECT_NE(older.find("kernel was convolution.old"), std::string::npos)
            << older;
    EXPECT_NE(older.find("another machine: a 486"), std::string::npos) << older;
    EXPECT_NE(older.find("not in the old report"), std::string::npos) << older;
    EXPECT_EQ(older.find("diff_weights"), std::string::npos) << older;
}

TEST_F(driver_bench, refuses_what_is_no_report) {
    const std::string start = "bench " + relu() + " --compare ";
    expect_refusal(start + path("none.json"), {"none.json", "cannot be read"});
    expect_refusal(
            start + write("text.json", "no JSON"), {"text.json", "results"});
    expect_refusal(start + write("list.json", "[]"), {"list.json", "results"});
    expect_refusal(start + write("empty.json", R"({"results": [{}]})"),
            {"empty.json: results[0].graph"});
    expect_refusal(start
                    + write("times.json",
                            R"({"results": [{"graph": "relu.json",
                            "engine": "cpu", "ops": ["ReLUBackward"]}]})"),
            {"times.json: results[0].time_ms"});
}

TEST_F(driver_bench, all_fields_are_documented) {
    const json report
            = report_of(conv_backward() + " --latency --every-kernel");
    const std::string page = contents(DOC_DIR "/bench_json.md");
    const auto expect_rows = [&](const json &object) {
        for (const auto &[key, value] : object.items())
            EXPECT_NE(page.find("| `" + key + "` |"), std::string::npos) << key;
    };
    expect_rows(report);
    expect_rows(report["memory"][0]);
    expect_rows(report["results"][0]);
    expect_rows(report["results"][0]["steps"][0]);
    expect_rows(report["results"][0]["steps"][0]["rows"][0]);
    // Of GPUs, and of several ops.
    for (const char *key : {"empty_launch", "time_ms_warm", "host_ms",
                 "replay_us", "launches", "slices"})
        EXPECT_NE(
                page.find("| `" + std::string(key) + "` |"), std::string::npos)
                << key;
}

} // namespace
