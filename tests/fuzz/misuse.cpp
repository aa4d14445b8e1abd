#include "misuse.hpp"

#include <thread>

#include "mistakes.hpp"

namespace gradnn::fuzz {

namespace {

/// Threads that compile and execute the same at once give the same bits.
std::string check_threads(sample &s) {
    constexpr size_t count = 3;
    std::vector<std::vector<std::vector<std::byte>>> results(count);
    std::vector<std::string> failures(count);
    std::vector<std::thread> threads;
    for (size_t index = 0; index < count; ++index)
        threads.emplace_back([&, index] {
            try {
                for (int round = 0; round < 3; ++round) {
                    const auto compiled = s.the_partition.compile(
                            s.input_tensors(), s.output_tensors(), s.device);
                    std::vector<std::unique_ptr<buffer>> memory;
                    std::vector<tensor> outputs;
                    for (const tensor &like : s.outputs) {
                        const logical_tensor lt = like.get_logical_tensor();
                        memory.push_back(std::make_unique<buffer>(s.device,
                                lt.get_mem_size(), 0, buffer::role::output));
                        outputs.emplace_back(
                                lt, s.device, memory.back()->data());
                    }
                    stream queue(s.device);
                    compiled.execute(queue, s.inputs, outputs);
                    queue.wait();
                    results[index].clear();
                    for (const auto &each : memory)
                        results[index].push_back(each->read_all());
                }
            } catch (const std::exception &failure) {
                failures[index] = failure.what();
            }
        });
    for (std::thread &each : threads)
        each.join();
    for (const std::string &failure : failures)
        if (!failure.empty()) return "a thread threw: " + failure;
    for (const auto &result : results)
        if (result != results[0]) return "threads gave other bits";
    return {};
}

} // namespace

std::string check_misuse(random_source &numbers, const engine &e) {
    sample s(numbers, e);
    if (happens(numbers, 10)) return check_threads(s);
    const mistake &chosen = numbers.pick(mistakes());
    const std::string label = std::string(chosen.name) + " ("
            + to_string(s.the_op.get_kind()) + ")";
    try {
        chosen.make(s, numbers);
    } catch (const error &failure) {
        if (std::string(failure.what()).empty())
            return label + ": an error without a text";
        if (!s.outputs_untouched())
            return label + ": outputs were written before the error";
        return {};
    } catch (const std::exception &failure) {
        return label + ": threw what is no gradnn::error: " + failure.what();
    }
    return label + ": no error";
}

} // namespace gradnn::fuzz
