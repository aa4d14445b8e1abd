#include "kernel/executable_cache.hpp"

#include <atomic>
#include <iterator>
#include <list>
#include <mutex>
#include <unordered_map>

#include <gradnn/graph.hpp>

#include "base/text.hpp"

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
        return found->second->made;
    }

    std::shared_ptr<const executable> keep(const std::string &key,
            std::shared_ptr<const executable> made, size_t table_bytes,
            size_t owner) {
        std::list<entry> gone;
        const std::lock_guard lock(mutex_);
        const auto found = by_key_.find(key);
        if (found != by_key_.end()) return found->second->made;
        if (capacity_ == 0) return made;
        order_.push_front({key, made, table_bytes, owner});
        by_key_.emplace(key, order_.begin());
        table_bytes_ += table_bytes;
        shrink(gone);
        return made;
    }

    void drop(size_t owner) {
        std::list<entry> gone;
        const std::lock_guard lock(mutex_);
        for (auto each = order_.begin(); each != order_.end();) {
            const auto next = std::next(each);
            if (each->owner == owner) remove(each, gone);
            each = next;
        }
    }

    size_t capacity() {
        const std::lock_guard lock(mutex_);
        return capacity_;
    }

    void set_capacity(size_t capacity) {
        std::list<entry> gone;
        const std::lock_guard lock(mutex_);
        capacity_ = capacity;
        shrink(gone);
    }

private:
    struct entry {
        std::string key;
        std::shared_ptr<const executable> made;
        size_t table_bytes;
        size_t owner;
    };

    // What goes is destroyed by the caller after the lock is released: that may
    // call an allocator of the user's, who may wait for a thread that compiles.
    void remove(std::list<entry>::iterator each, std::list<entry> &gone) {
        by_key_.erase(each->key);
        table_bytes_ -= each->table_bytes;
        gone.splice(gone.end(), order_, each);
    }

    void shrink(std::list<entry> &gone) {
        while (order_.size() > capacity_
                || (table_bytes_ > most_cached_table_bytes
                        && order_.size() > 1))
            remove(std::prev(order_.end()), gone);
    }

    std::mutex mutex_;
    size_t capacity_ = 1024;
    size_t table_bytes_ = 0; ///< of all
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

std::shared_ptr<const executable> keep_cached(const std::string &key,
        std::shared_ptr<const executable> made, size_t table_bytes,
        size_t owner) {
    return cache().keep(key, std::move(made), table_bytes, owner);
}

size_t new_cache_owner() {
    static std::atomic<size_t> last {0};
    return ++last;
}

void drop_cached(size_t owner) noexcept {
    try {
        cache().drop(owner);
    } catch (...) {
        // A mutex that cannot be locked: what is kept stays.
    }
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
