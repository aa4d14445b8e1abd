// The CPU's engine and streams.
#include "cpu/backend.hpp"

#include <chrono>
#include <cstdlib>
#include <new>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "cpu/convolution/onednn/version.hpp"
#include "cpu/kernels.hpp"

namespace gradnn {

namespace cpu {

namespace {

using detail::engine_impl;
using detail::step_clock;
using detail::stream_impl;
using detail::text;
using detail::workspace_alignment;

struct cpu_step_clock final : step_clock {
    using clock = std::chrono::steady_clock;

    void mark() override { marks.push_back(clock::now()); }
    std::vector<double> milliseconds() override {
        std::vector<double> times;
        for (size_t index = 1; index < marks.size(); ++index)
            times.push_back(std::chrono::duration<double, std::milli>(
                    marks[index] - marks[index - 1])
                                    .count());
        return times;
    }

    std::vector<clock::time_point> marks;
};

struct cpu_engine final : engine_impl {
    using engine_impl::engine_impl;

    void *allocate(size_t bytes, stream_impl &) const override {
        return take(bytes, "workspace");
    }
    void deallocate(void *pointer, stream_impl &) const override {
        give_back(pointer);
    }

    void *allocate_tensor(size_t bytes) const override {
        return take(bytes, "a tensor");
    }
    void deallocate_tensor(void *pointer) const noexcept override {
        give_back(pointer);
    }

    std::string check_pointer(const void *) const override { return {}; }

private:
    void *take(size_t bytes, const char *what) const {
        void *pointer = memory.get_host_allocate()
                ? memory.get_host_allocate()(bytes, workspace_alignment)
                : ::operator new (bytes, std::align_val_t {workspace_alignment},
                        std::nothrow);
        if (!pointer)
            throw error(status::out_of_memory,
                    text("the CPU engine's allocator could not give ", bytes,
                            " bytes of ", what));
        return pointer;
    }
    void give_back(void *pointer) const {
        if (memory.get_host_deallocate())
            memory.get_host_deallocate()(pointer);
        else
            ::operator delete (pointer, std::align_val_t {workspace_alignment});
    }
};

/// Execute returns when all is done.
struct cpu_stream final : stream_impl {
    using stream_impl::stream_impl;
    ~cpu_stream() override { release_workspace(); }
    void wait() override {}
    std::unique_ptr<step_clock> make_step_clock(size_t steps) override {
        auto made = std::make_unique<cpu_step_clock>();
        made->marks.reserve(steps + 1);
        return made;
    }
};

std::shared_ptr<const engine_impl> make_engine(
        size_t index, const allocator &alloc) {
    if (index != 0)
        throw error(status::invalid_arguments,
                text("engine: cpu index ", index, "; 0 is allowed"));
    return std::make_shared<cpu_engine>(engine::kind::cpu, index, alloc);
}

std::shared_ptr<stream_impl> make_stream(
        std::shared_ptr<const engine_impl> engine) {
    return std::make_shared<cpu_stream>(std::move(engine));
}

bool run_on_native_stream(std::shared_ptr<const engine_impl> engine, void *,
        const std::function<void(stream_impl &)> &run) {
    cpu_stream stream(std::move(engine));
    run(stream);
    return false;
}

/// One core of an EPYC Zen 4, measured.
detail::kernel_rates rates(detail::data_type type, fpmath_mode) {
    const int64_t bytes = detail::size_of(type);
    return {.products = bytes == 8 ? 2e10
                    : bytes == 4   ? 5e10
                                   : 1e11,
            .bytes = 6e9,
            .sums = bytes == 8 ? 1.5e8 : 3e8,
            .launch = 4e-6,
            .channels = 16};
}

/// Half of the second cache of an EPYC's core; doc/partitions.md has the times.
constexpr size_t cached_bytes = 512 << 10;

} // namespace

constinit const detail::backend backend {engine::kind::cpu, "cpu", true,
        []() noexcept { return size_t {1}; }, [] { return std::string(); },
        make_engine, make_stream, run_on_native_stream, kernels, "oneDNN",
        onednn_version, rates, cached_bytes};

} // namespace cpu

} // namespace gradnn
