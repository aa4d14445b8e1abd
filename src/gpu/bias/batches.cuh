// How the kernels of the bias gradient load and add, so that much is in flight and
// no plain sum is a long one (README.md). Chains of batches are added to each other: those
// of a row and the partial sums in a long_sum, those of columns one after the other, which
// are at most some hundred, as all of the device's threads share its memory.
#pragma once

#include "gpu/device/dtype.cuh"

namespace gradnn::gpu::bias {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int in_flight = 8; ///< loads of a thread
constexpr int chain = 32; ///< batches that are added one after the other
/// Blocks that a multiprocessor can hold. It gets one less: 96 KB in flight, and
/// room for a block of the final kernel, which so waits there instead of coming
/// when all is done.
constexpr int resident = 4;

/// A pack from an address that need not be a multiple of its size. Where the
/// caller's memory lies must not decide which thread sums what, or the bits
/// would depend on it.
template <bool whole, typename Type, int count>
__device__ void load_into(pack<Type, count> &words, const Type *from) {
    if constexpr (whole || count == 1) {
        words = pack<Type, count>::load(from);
    } else {
        Type elements[count];
#pragma unroll
        for (int e = 0; e < count; ++e)
            elements[e] = from[e];
        memcpy(&words.bits, elements, sizeof elements);
    }
}

template <typename Sum, int count>
__device__ void add_to(Sum (&sums)[count], const Sum (&others)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e)
        sums[e] += others[e];
}

/// The sum of an array of a power of two, as a tree; overwrites the array.
template <typename Sum, int count>
__device__ Sum sum_tree(Sum (&values)[count]) {
#pragma unroll
    for (int half = count / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i)
            values[i] += values[i + half];
    return values[0];
}

/// Sums of `length` words from the one at `first`, as a tree.
template <int first, int length, typename Type, int count>
__device__ void add_batch(const pack<Type, count> (&words)[in_flight],
        sum_of<Type> (&sums)[count]) {
    if constexpr (length == 1) {
        words[first].unpack(sums);
    } else {
        add_batch<first, length / 2>(words, sums);
        sum_of<Type> others[count];
        add_batch<first + length / 2, length / 2>(words, others);
        add_to(sums, others);
    }
}

/// Adds `left` words, batch by batch; load(words, left) loads the next batch, or
/// what is left. keep(sums) is given the sums of every chain.
template <typename Type, int count, typename Load, typename Keep>
__device__ void add_words(int left, const Load &load, const Keep &keep) {
    while (left > 0) {
        sum_of<Type> sums[count] = {};
        const int stop = max(left - chain * in_flight, 0);
        for (; left > stop; left -= in_flight) {
            pack<Type, count> words[in_flight] = {};
            load(words, left);
            sum_of<Type> of_batch[count];
            add_batch<0, in_flight>(words, of_batch);
            add_to(sums, of_batch);
        }
        keep(sums);
    }
}

} // namespace gradnn::gpu::bias
