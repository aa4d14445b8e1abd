#include "cache.hpp"

#include <list>
#include <mutex>
#include <unordered_map>

#include <gradnn/graph.hpp>

#include "executable.hpp"
#include "text.hpp"

namespace gradnn {

namespace detail {

namespace {

class lru_cache {
public:
    std::shared_ptr<const executable> find(const std::string &key) {
        const std::lock_guard lock(mutex_);
        const auto found = by_key_.find(key);
        if (found == by_key_.end()) return nullptr;
        order_.splice(order_.begin(), order_, found->second);
        return found->second->second;
    }

    std::shared_ptr<const executable> keep(
            const std::string &key, std::shared_ptr<const executable> made) {
        const std::lock_guard lock(mutex_);
        const auto found = by_key_.find(key);
        if (found != by_key_.end()) return found->second->second;
        if (capacity_ == 0) return made;
        order_.emplace_front(key, made);
        by_key_.emplace(key, order_.begin());
        shrink();
        return made;
    }

    size_t capacity() {
        const std::lock_guard lock(mutex_);
        return capacity_;
    }

    void set_capacity(size_t capacity) {
        const std::lock_guard lock(mutex_);
        capacity_ = capacity;
        shrink();
    }

private:
    void shrink() {
        while (order_.size() > capacity_) {
            by_key_.erase(order_.back().first);
            order_.pop_back();
        }
    }

    using entry = std::pair<std::string, std::shared_ptr<const executable>>;

    std::mutex mutex_;
    size_t capacity_ = 1024;
    std::list<entry> order_; ///< most recently used first
    std::unordered_map<std::string, std::list<entry>::iterator> by_key_;
};

lru_cache &cache() {
    // Never destroyed: plans may hold objects of libraries that are unloaded
    // before static destructors of this one run.
    static auto *instance = new lru_cache;
    return *instance;
}

} // namespace

std::shared_ptr<const executable> find_cached(const std::string &key) {
    return cache().find(key);
}

std::shared_ptr<const executable> keep_cached(
        const std::string &key, std::shared_ptr<const executable> made) {
    return cache().keep(key, std::move(made));
}

} // namespace detail

int get_compiled_partition_cache_capacity() {
    return static_cast<int>(detail::cache().capacity());
}

void set_compiled_partition_cache_capacity(int capacity) {
    if (capacity < 0)
        throw error(status::invalid_arguments,
                detail::text("compiled partition cache: capacity ", capacity,
                        "; 0 and above are allowed"));
    detail::cache().set_capacity(static_cast<size_t>(capacity));
}

} // namespace gradnn
