// Tensors of more than 2^31 elements on the GPU.
//
// Their values repeat, so that what comes out is known from a small part of
// it. No period divides 2^31: an index that lost its upper bits would read
// other values, or leave what it should have written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/gpu.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {

using bytes = std::vector<std::byte>;

/// Device memory that holds a pattern again and again.
class patterned_memory {
public:
    patterned_memory(size_t size, const bytes &pattern)
        : size_(size), memory_(shared_engine(engine::kind::gpu), size) {
        auto *const begin = static_cast<std::byte *>(memory_.data());
        size_t done = std::min(size, pattern.size());
        require(cudaMemcpy(
                begin, pattern.data(), done, cudaMemcpyHostToDevice));
        // Doubled: every copy is a multiple of the pattern long.
        while (done < size) {
            const size_t more = std::min(done, size - done);
            require(cudaMemcpy(
                    begin + done, begin, more, cudaMemcpyDeviceToDevice));
            done += more;
        }
        // Copies within the device are in no order with gradnn's streams.
        require(cudaDeviceSynchronize());
    }

    void *data() const { return memory_.data(); }

    /// Other elements at the end.
    void end_with(const bytes &tail) const {
        require(cudaMemcpy(
                static_cast<std::byte *>(memory_.data()) + size_ - tail.size(),
                tail.data(), tail.size(), cudaMemcpyHostToDevice));
    }

    /// The first element of the memory that does not repeat the pattern, or -1.
    int64_t first_difference(const bytes &pattern) const {
        constexpr size_t most = size_t {1} << 28;
        const size_t repeats = std::max<size_t>(1, most / pattern.size());
        bytes wanted;
        for (size_t i = 0; i < repeats; ++i)
            wanted.insert(wanted.end(), pattern.begin(), pattern.end());
        bytes found(wanted.size());
        for (size_t at = 0; at < size_; at += found.size()) {
            const size_t part = std::min(found.size(), size_ - at);
            require(cudaMemcpy(found.data(),
                    static_cast<const std::byte *>(memory_.data()) + at, part,
                    cudaMemcpyDeviceToHost));
            if (std::memcmp(found.data(), wanted.data(), part) == 0) continue;
            for (size_t i = 0; i < part; ++i)
                if (found[i] != wanted[i]) return static_cast<int64_t>(at + i);
        }
        return -1;
    }

private:
    size_t size_;
    device_memory memory_;
};

class gpu_large : public gpu_fixture {
protected:
    void SetUp() override {
        gpu_fixture::SetUp();
        if (IsSkipped()) return;
        constexpr size_t wanted = size_t {24} << 30;
        size_t available = 0;
        size_t all = 0;
        require(cudaMemGetInfo(&available, &all));
        if (available < wanted)
            GTEST_SKIP() << "needs 24 GiB of device memory; " << available
                         << " bytes are free";
    }

    static engine gpu() { return shared_engine(engine::kind::gpu); }

    /// Runs an op on inputs in device memory. The output begins as NaNs.
    static void run(
            const op &the_op, const std::vector<void *> &inputs, void *output) {
        const compiled_partition compiled = compile(the_op, gpu());
        std::vector<tensor> given;
        for (size_t i = 0; i < inputs.size(); ++i)
            given.emplace_back(the_op.get_inputs()[i], gpu(), inputs[i]);
        const logical_tensor out = compiled.query_logical_tensor(
                the_op.get_outputs()[0].get_id());
        stream s(gpu());
        compiled.execute(s, given, {tensor(out, gpu(), output)});
        s.wait();
    }

    /// The bits of random values of a type, as a small op sees them.
    static bytes random_bits(data_type type, size_t count, uint64_t seed) {
        const logical_tensor lt(0, type, sizes {static_cast<int64_t>(count)},
                layout_type::strided);
        test_tensor values(lt, shared_engine(engine::kind::cpu),
                test_tensor::role::input, 0, true);
        values.store(random_source(seed).values(count));
        return values.element_bytes();
    }

    /// `count` elements of bf16 that are all 1 or all 2.
    static bytes bf16_ones(size_t count) { return bf16(0x3f80, count); }
    static bytes bf16_twos(size_t count) { return bf16(0x4000, count); }
    /// Random whole numbers of -2 to 2.
    static bytes bf16_integers(size_t count, uint64_t seed) {
        constexpr uint16_t integers[] {0xc000, 0xbf80, 0, 0x3f80, 0x4000};
        random_source numbers(seed);
        bytes all(2 * count);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(&all[2 * i], &integers[numbers.integer(0, 4)], 2);
        return all;
    }

    static const bytes &nan_bits() {
        static const bytes nans(size_t {1} << 20, std::byte {0xff});
        return nans;
    }

private:
    static bytes bf16(uint16_t bits, size_t count) {
        bytes all(2 * count);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(&all[2 * i], &bits, 2);
        return all;
    }
};

} // namespace gradnn::test
