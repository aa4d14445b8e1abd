// The choice of a kernel by measuring, on a GPU.
#include <algorithm>
#include <chrono>
#include <set>

#include "kernel/plan_cache.hpp"
#include "support/captured_log.hpp"
#include "support/gpu.hpp"
#include "support/plan_file.hpp"

namespace gradnn::test {
namespace {

/// Kernels, and what the log says of each.
struct told_choice {
    std::string kernel;
    size_t measured = 0; ///< kernels of which a time is told
    bool kept = false;
    std::chrono::duration<double, std::milli> spent {};
};

class gpu_autotune : public gpu_fixture {
protected:
    void SetUp() override {
        gpu_fixture::SetUp();
        if (IsSkipped()) return;
        detail::forget_plans();
        set_compiled_partition_cache_capacity(0);
        settings_.autotune = true;
        settings_.plan_cache = file_.path();
    }
    void TearDown() override { set_compiled_partition_cache_capacity(1024); }

    told_choice choose(const op &the_op, compiled_partition &compiled) const {
        const captured_log log(2);
        told_choice told;
        const auto start = std::chrono::steady_clock::now();
        compiled = compile_with(
                the_op, settings_, shared_engine(engine::kind::gpu));
        told.spent = std::chrono::steady_clock::now() - start;
        told.kernel = compiled.get_info().steps.at(0).kernel;
        for (const fields &line : log.lines("dispatch")) {
            const std::string &note = line.at("note");
            told.measured += note.ends_with(" us measured");
            told.kept |= note.starts_with("kept in the plan cache");
        }
        return told;
    }

    plan_file file_;
    compile_settings settings_;
};

std::vector<op> interpolations() {
    std::vector<op> all;
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type : float_types()) {
            all.push_back(interpolation_op({"twice", 8, 32, {28, 28}, {56, 56}},
                    {"linear", "half_pixel"}, l, type));
            all.push_back(
                    interpolation_op({"uneven", 3, 19, {23, 29}, {46, 71}},
                            {"nearest", "half_pixel"}, l, type));
            all.push_back(interpolation_op(
                    {"volume", 2, 24, {9, 10, 12}, {18, 20, 36}},
                    {"linear", "align_corners"}, l, type));
        }
    return all;
}

// Choices may differ from run to run, what they compute does not.
TEST_F(gpu_autotune, is_right_and_measured_once) {
    const engine gpu = shared_engine(engine::kind::gpu);
    std::set<std::string> kernels;
    size_t measured = 0;
    double longest = 0.0;
    for (const op &the_op : interpolations()) {
        SCOPED_TRACE(the_op.get_name());
        compiled_partition compiled;
        const told_choice told = choose(the_op, compiled);
        EXPECT_FALSE(told.kept);
        kernels.insert(told.kernel);
        measured += told.measured > 0;
        EXPECT_NE(told.measured, 1U) << "nothing to compare it with";
        longest = std::max(longest, told.spent.count());
        op_run run(the_op, compiled, gpu, random_inputs(the_op, 91), {});
        run.execute();
        run.expect_right();
        const auto bits = run.all_output_bytes();

        // Another process, with the file.
        detail::forget_plans();
        const told_choice again = choose(the_op, compiled);
        EXPECT_EQ(again.kernel, told.kernel);
        if (told.measured > 0) {
            EXPECT_EQ(again.measured, 0U);
            EXPECT_TRUE(again.kept);
        }
        op_run second(the_op, compiled, gpu, random_inputs(the_op, 91), {});
        second.execute();
        EXPECT_EQ(second.all_output_bytes(), bits);
    }
    EXPECT_EQ(file_.lines().size(), measured);
    EXPECT_GE(measured, 8U);
    RecordProperty("kernels", static_cast<int>(kernels.size()));
    RecordProperty("longest_compile_ms", static_cast<int>(longest));
}

TEST_F(gpu_autotune, leaves_device_and_errors_as_they_were) {
    int before = 0;
    require(cudaGetDevice(&before));
    compiled_partition compiled;
    EXPECT_GE(choose(interpolations().front(), compiled).measured, 2U);
    int after = -1;
    require(cudaGetDevice(&after));
    EXPECT_EQ(after, before);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// Of another stream, by this thread, in the mode that forbids most.
TEST_F(gpu_autotune, leaves_a_capture_alone) {
    const cuda_stream_owner captured;
    compiled_partition compiled;
    // Kernels are loaded, and the device's own memory is made, before.
    EXPECT_GE(choose(interpolations().front(), compiled).measured, 2U);
    detail::forget_plans();
    settings_.plan_cache = "";
    require(cudaStreamBeginCapture(
            captured.get(), cudaStreamCaptureModeGlobal));
    told_choice told;
    EXPECT_NO_THROW(told = choose(interpolations().front(), compiled));
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(captured.get(), &graph), cudaSuccess);
    if (graph != nullptr) require(cudaGraphDestroy(graph));
    EXPECT_GE(told.measured, 2U);
}

} // namespace
} // namespace gradnn::test
