#include "torch/plans.hpp"

#include "kernel/executable_cache.hpp"

namespace gradnn::torch_kernels {

namespace {

struct counters {
    std::mutex mutex;
    std::deque<counter> list;
};

size_t table_bytes_of(const plan &of) {
    return gradnn_compiled_table_bytes(of.compiled.get());
}

counters &all_counters() {
    static auto *const made = new counters;
    return *made;
}

} // namespace

const counter &counter_of(const std::string &op, const std::string &device,
        const std::string &how) {
    counters &all = all_counters();
    const std::lock_guard lock(all.mutex);
    for (const counter &each : all.list)
        if (each.op == op && each.device == device && each.how == how)
            return each;
    counter &made = all.list.emplace_back();
    made.op = op;
    made.device = device;
    made.how = how;
    return made;
}

void kept_plans::keep(key_words key, std::shared_ptr<const plan> made) {
    std::vector<std::shared_ptr<const plan>> dropped; // freed without the lock
    const std::unique_lock lock(mutex_);
    const auto [place, added] = plans_.try_emplace(
            std::vector<int64_t>(key.begin(), key.end()), std::move(made));
    if (!added) return;
    by_age_.push_back(&place->first);
    table_bytes_ += table_bytes_of(*place->second);
    while (by_age_.size() > capacity
            || (table_bytes_ > detail::most_cached_table_bytes
                    && by_age_.size() > 1)) {
        const auto oldest = plans_.find(*by_age_.front());
        table_bytes_ -= table_bytes_of(*oldest->second);
        dropped.push_back(oldest->second);
        plans_.erase(oldest);
        by_age_.pop_front();
    }
}

void kept_plans::forget() {
    map dropped; // freed without the lock
    const std::unique_lock lock(mutex_);
    dropped.swap(plans_);
    by_age_.clear();
    table_bytes_ = 0;
}

kept_plans &plans() {
    static auto *const made = new kept_plans;
    return *made;
}

} // namespace gradnn::torch_kernels

using namespace gradnn::torch_kernels;

size_t gradnn_torch_count_entries(void) {
    counters &all = all_counters();
    const std::lock_guard lock(all.mutex);
    return all.list.size();
}

int gradnn_torch_get_count(size_t index, gradnn_torch_count *count) {
    counters &all = all_counters();
    const std::lock_guard lock(all.mutex);
    if (!count || index >= all.list.size()) return 0;
    const counter &found = all.list[index];
    *count = {found.op.c_str(), found.device.c_str(), found.how.c_str(),
            found.calls.load(std::memory_order_relaxed)};
    return 1;
}

void gradnn_torch_reset_counts(void) {
    counters &all = all_counters();
    const std::lock_guard lock(all.mutex);
    for (const counter &each : all.list)
        each.calls.store(0, std::memory_order_relaxed);
}

void gradnn_torch_forget(void) {
    plans().forget();
}
