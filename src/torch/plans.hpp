// Ways to compute calls that were seen before, and how often each was taken.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "c_api/objects.hpp"
#include "torch/gradnn_torch.h"

namespace gradnn::torch_kernels {

/// An entry of the status. Lives as long as the process.
struct counter {
    std::string op;
    std::string device;
    std::string how;
    mutable std::atomic<int64_t> calls {0};

    void count() const { calls.fetch_add(1, std::memory_order_relaxed); }
};

/// The counter of these texts.
const counter &counter_of(const std::string &op, const std::string &device,
        const std::string &how);

/// A tensor that a plan makes.
struct output {
    bool present = false;
    int32_t type = 0; ///< PyTorch's
    int64_t rank = 0;
    std::array<int64_t, GRADNN_MAX_NDIMS> sizes {};
    std::array<int64_t, GRADNN_MAX_NDIMS> strides {};
};

struct plan {
    /// Null: PyTorch's kernel.
    c_api::compiled_reference compiled;
    std::vector<output> outputs;
    int64_t workspace = 0; ///< bytes
    const counter *calls = nullptr; ///< null: not counted
};

/// Any number of threads may use it.
class kept_plans {
public:
    using key_words = std::span<const int64_t>;

    std::shared_ptr<const plan> find(key_words key) const {
        const std::shared_lock lock(mutex_);
        const auto found = plans_.find(key);
        return found == plans_.end() ? nullptr : found->second;
    }
    /// Keeps what is there already.
    void keep(key_words key, std::shared_ptr<const plan> made);
    void forget();

private:
    // Varying shapes must not fill the memory; most plans hold some kilobytes,
    // tables of long axes are bounded by their bytes.
    static constexpr size_t capacity = 4096;

    using map = std::unordered_map<std::vector<int64_t>,
            std::shared_ptr<const plan>, c_api::hash_of_words,
            c_api::same_words>;
    mutable std::shared_mutex mutex_;
    map plans_;
    std::deque<const std::vector<int64_t> *> by_age_; ///< the oldest first
    size_t table_bytes_ = 0; ///< of all
};

/// That of the process; never destroyed, since threads may outlive main.
kept_plans &plans();

} // namespace gradnn::torch_kernels
