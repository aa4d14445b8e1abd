// How much work a machine does when several processes with a few threads each
// share it:
//   processes_and_threads SECONDS PROCESSESxTHREADS...
// as in: processes_and_threads 5 1x2 8x1
// Each arrangement's processes execute the gradients of a 3x3 convolution and of
// an upsample, one after the other, for that many seconds at the same time. A
// thread count of 0 is the library's default (OMP_NUM_THREADS). Prints the
// executions a second of all processes together, and the times of one.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradnn/gradnn.hpp>

namespace {

using namespace gradnn;
using dims = logical_tensor::dims;

constexpr int most_times = 20000;

/// What the processes of an arrangement share.
struct shared_state {
    std::atomic<int> ready {0};
    std::atomic<int> executed {0};
    std::array<float, most_times> milliseconds {};
};

op convolution() {
    const auto tensor = [](size_t id, const dims &shape) {
        return logical_tensor(id, logical_tensor::data_type::f32, shape,
                logical_tensor::layout_type::strided);
    };
    const dims data {4, 64, 56, 56};
    const dims weights {64, 64, 3, 3};
    op result(0, op::kind::ConvBackward,
            {tensor(0, data), tensor(1, data), tensor(2, weights)},
            {tensor(3, data), tensor(4, weights)});
    for (const auto name : {op::attr::strides, op::attr::dilations,
                 op::attr::pads_begin, op::attr::pads_end})
        result.set_attr(name, dims {1, 1});
    return result.set_attr(op::attr::data_format, "NCX")
            .set_attr(op::attr::weights_format, "OIX");
}

op upsample() {
    const auto tensor = [](size_t id, const dims &shape) {
        return logical_tensor(id, logical_tensor::data_type::f32, shape,
                logical_tensor::layout_type::strided);
    };
    op result(0, op::kind::InterpolateBackward,
            {tensor(0, {4, 64, 28, 28}), tensor(1, {4, 64, 56, 56})},
            {tensor(2, {4, 64, 28, 28})});
    return result.set_attr(op::attr::mode, "linear")
            .set_attr(op::attr::sizes, dims {56, 56})
            .set_attr(op::attr::data_format, "NCX");
}

/// An op with memory of its own.
class workload {
public:
    workload(const op &the_op, int threads) : cpu_(engine::kind::cpu, 0) {
        compile_settings settings;
        settings.threads = threads;
        compiled_ = partition(the_op, engine::kind::cpu, settings)
                            .compile(the_op.get_inputs(), the_op.get_outputs(),
                                    cpu_);
        stream_ = stream(cpu_);
        const auto bind = [&](const std::vector<logical_tensor> &ports,
                                  std::vector<tensor> &tensors) {
            for (const logical_tensor &lt : ports) {
                const tensor &made = tensors.emplace_back(lt, cpu_);
                auto *const values
                        = static_cast<float *>(made.get_data_handle());
                std::fill_n(values, lt.get_mem_size() / sizeof(float), 0.5F);
            }
        };
        bind(the_op.get_inputs(), inputs_);
        bind(the_op.get_outputs(), outputs_);
    }
    void execute() { compiled_.execute(stream_, inputs_, outputs_); }

private:
    engine cpu_;
    stream stream_;
    compiled_partition compiled_;
    std::vector<tensor> inputs_;
    std::vector<tensor> outputs_;
};

void work(shared_state &shared, int processes, int threads, double seconds) {
    using clock = std::chrono::steady_clock;
    workload first(convolution(), threads);
    workload second(upsample(), threads);
    first.execute();
    second.execute();
    ++shared.ready;
    while (shared.ready < processes)
        usleep(100);
    const auto begin = clock::now();
    const std::chrono::duration<double> time(seconds);
    while (clock::now() - begin < time) {
        const auto start = clock::now();
        first.execute();
        second.execute();
        const std::chrono::duration<float, std::milli> took
                = clock::now() - start;
        const int place = shared.executed++;
        if (place < most_times)
            shared.milliseconds[static_cast<size_t>(place)] = took.count();
    }
}

void measure(int processes, int threads, double seconds) {
    void *const memory = mmap(nullptr, sizeof(shared_state),
            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    auto &shared = *new (memory) shared_state;
    for (int index = 0; index < processes; ++index) {
        const pid_t child = fork();
        if (child < 0) throw std::runtime_error("no process can be made");
        if (child > 0) continue;
        work(shared, processes, threads, seconds);
        _exit(0);
    }
    for (int index = 0; index < processes; ++index) {
        int status = 0;
        wait(&status);
        if (status != 0) throw std::runtime_error("a process failed");
    }
    auto *const times = shared.milliseconds.data();
    const int count = std::min(most_times, shared.executed.load());
    std::sort(times, times + count);
    std::printf("%d x %d threads: %7.1f a second; one takes %.2f ms in the "
                "middle, at most %.2f\n",
            processes, threads, shared.executed / seconds,
            static_cast<double>(times[count / 2]),
            static_cast<double>(times[count - 1]));
    std::fflush(stdout);
    munmap(memory, sizeof(shared_state));
}

} // namespace

int main(int count, char **arguments) {
    if (count < 3) {
        std::fprintf(stderr,
                "usage: processes_and_threads SECONDS PROCESSESxTHREADS...\n");
        return 2;
    }
    try {
        char *end = nullptr;
        const double seconds = std::strtod(arguments[1], &end);
        if (*end != '\0' || !(seconds > 0))
            throw std::invalid_argument(std::string("given \"") + arguments[1]
                    + "\" for the seconds");
        for (int index = 2; index < count; ++index) {
            int processes = 0;
            int threads = 0;
            int read = 0;
            if (std::sscanf(arguments[index], "%dx%d%n", &processes, &threads,
                        &read)
                            != 2
                    || arguments[index][read] != '\0' || processes < 1
                    || threads < 0)
                throw std::invalid_argument(std::string("given \"")
                        + arguments[index]
                        + "\"; PROCESSESxTHREADS is allowed, such as 8x1");
            measure(processes, threads, seconds);
        }
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "processes_and_threads: %s\n", failure.what());
        return 1;
    }
    return 0;
}
