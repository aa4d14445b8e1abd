// Tasks, threads and workspaces of gradnn's own convolution kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/parallel.hpp"
#include "base/whole_numbers.hpp"

namespace gradnn::cpu {

/// Products that are added up one after the other in f32 at most: as many as keep
/// the error of sums of terms of any sign below 2e-6, 1.8e-8 times the square root
/// of their number.
constexpr int64_t longest_f32_sum = int64_t {12} << 10;

using detail::ceil_divide;
using detail::round_up;

/// Hands out parts of a workspace, each at a multiple of 64 bytes. Made at
/// nullptr, it counts bytes.
class workspace_cursor {
public:
    explicit workspace_cursor(std::byte *start) : next_(start) {}
    std::byte *take(int64_t bytes) {
        std::byte *taken = next_ == nullptr ? nullptr : next_ + taken_;
        taken_ += round_up(bytes, 64);
        return taken;
    }
    int64_t taken() const { return taken_; }

private:
    std::byte *next_;
    int64_t taken_ = 0;
};

/// Runs task(slot, number) for all numbers below `tasks` on at most `slots`
/// threads, each with a slot of its own. Which thread runs which task is left
/// to chance.
template <typename Task>
void run_tasks(int64_t tasks, int64_t slots, const Task &task) {
    std::atomic<int64_t> next {0};
    detail::parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
            for (int64_t number;
                    (number = next.fetch_add(1, std::memory_order_relaxed))
                    < tasks;)
                task(slot, number);
    });
}

} // namespace gradnn::cpu
