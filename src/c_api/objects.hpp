// What stands behind the handles of the C API.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <gradnn/c_api.h>
#include <gradnn/graph.hpp>

#include "compile/executable.hpp"
#include "compile/partition.hpp"
#include "execute/execute.hpp"
#include "kernel/engine_impl.hpp"

struct gradnn_engine {
    gradnn::engine engine;
    /// Tells engines apart that must not share compiled ops.
    int64_t identity() const {
        const auto &impl = *gradnn::detail::access::impl(engine);
        return static_cast<int64_t>(impl.cache_owner * 1024
                + static_cast<size_t>(impl.kind) * 256 + impl.index);
    }
};

struct gradnn_compiled {
    std::shared_ptr<const gradnn::detail::compiled_impl> impl;
    gradnn::engine engine;
    /// For each port of the executable, inputs first: its place among the
    /// inputs or the outputs of the caller.
    std::vector<size_t> places;
    size_t input_count = 0; ///< that execute must be given at least
    size_t output_count = 0;
    gradnn::compiled_partition_info info;
    /// Ids of tensors: inputs count from 0, outputs from here.
    static constexpr size_t first_output_id = 64;

    mutable std::atomic<int> references {1};
    mutable std::atomic<bool> pinned {false}; ///< by a CUDA graph
};

namespace gradnn::c_api {

inline void retain(const gradnn_compiled &compiled) {
    compiled.references.fetch_add(1, std::memory_order_relaxed);
}

inline void release(const gradnn_compiled *compiled) {
    if (compiled
            && compiled->references.fetch_sub(1, std::memory_order_acq_rel)
                    == 1)
        delete compiled;
}

struct releaser {
    void operator()(const gradnn_compiled *compiled) const {
        release(compiled);
    }
};
using compiled_reference = std::unique_ptr<const gradnn_compiled, releaser>;

/// gradnn_execute, on as many pointers as were compiled for; throws.
void execute(const gradnn_compiled &what, void *native_stream,
        const void *const *inputs, void *const *outputs, void *workspace,
        detail::addresses of_data);

using key_words = std::span<const int64_t>;

/// All that compile depends on beside the op, without allocating.
class lookup_key {
public:
    lookup_key(const gradnn_engine &engine,
            std::span<const gradnn_tensor> inputs,
            std::span<const gradnn_tensor> outputs) {
        add(engine.identity());
        add(static_cast<int64_t>(inputs.size()));
        for (const auto &list : {inputs, outputs})
            for (const gradnn_tensor &tensor : list)
                add(tensor);
    }

    key_words words() const { return {words_.data(), count_}; }

    static constexpr size_t max_tensors = 8;

private:
    void add(int64_t word) { words_[count_++] = word; }
    void add(const gradnn_tensor &tensor) {
        add(tensor.data_type);
        add(tensor.layout);
        add(tensor.ndims);
        const bool strided = tensor.layout == gradnn_layout_strided;
        const int32_t ndims = std::clamp(tensor.ndims, 0, GRADNN_MAX_NDIMS);
        for (int32_t axis = 0; axis < ndims; ++axis)
            add(tensor.dims[axis]);
        for (int32_t axis = 0; strided && axis < ndims; ++axis)
            add(tensor.strides[axis]);
    }

    std::array<int64_t, 2 + max_tensors *(3 + 2 * GRADNN_MAX_NDIMS)> words_;
    size_t count_ = 0;
};

struct hash_of_words {
    using is_transparent = void;
    /// In four lanes, since each multiplication waits for the one before it.
    size_t operator()(key_words words) const {
        std::array<uint64_t, 4> lanes {
                words.size(), 0x9e3779b97f4a7c15U, 0x7f4a7c15U, 0x9e3779b9U};
        size_t index = 0;
        for (; index + 4 <= words.size(); index += 4)
            for (size_t lane = 0; lane < 4; ++lane)
                lanes[lane] = mixed(lanes[lane], words[index + lane]);
        for (; index < words.size(); ++index)
            lanes[0] = mixed(lanes[0], words[index]);
        for (size_t lane = 1; lane < 4; ++lane)
            lanes[0] = mixed(lanes[0], static_cast<int64_t>(lanes[lane]));
        return lanes[0];
    }

private:
    static uint64_t mixed(uint64_t hash, int64_t word) {
        hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccdU;
        return hash ^ (hash >> 32);
    }
};

struct same_words {
    using is_transparent = void;
    bool operator()(key_words a, key_words b) const {
        return a.size() == b.size()
                && std::equal(a.begin(), a.end(), b.begin());
    }
};

} // namespace gradnn::c_api

struct gradnn_op {
    gradnn::detail::partition_impl partition;
    /// Of several ops: numbers of the tensors of each one's inputs, then outputs; and
    /// the numbers of what comes from outside and of what nobody inside reads.
    std::vector<std::vector<int32_t>> ports;
    std::vector<int32_t> coming_in, going_out;

    /// What was compiled, with a reference for the caller: a lookup where the
    /// same was compiled before.
    const gradnn_compiled &compile(const gradnn_engine &engine,
            std::span<const gradnn_tensor> inputs,
            std::span<const gradnn_tensor> outputs);

private:
    const gradnn_compiled *find(gradnn::c_api::key_words key);
    void keep(gradnn::c_api::key_words key, const gradnn_compiled &compiled);

    struct kept {
        std::vector<int64_t> key;
        gradnn::c_api::compiled_reference compiled;
    };
    std::mutex mutex;
    std::list<kept> by_use; ///< the latest first
    std::unordered_map<std::vector<int64_t>, std::list<kept>::iterator,
            gradnn::c_api::hash_of_words, gradnn::c_api::same_words>
            by_key;
    size_t table_bytes = 0; ///< of all that is kept
};
