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

/// What is summed: diff_dst as it is, or what ReLU's gradient makes of it, which is
/// written too: diff_dst where src is above 0, else 0, as in elementwise.cu. These three
/// tensors have the same strides.
template <typename Type>
struct summed {
    const Type *diff_dst;
    int64_t src = 0; ///< bytes from an element of diff_dst to that of src,
    int64_t out = 0; ///< and to that of the gradient

    static __device__ Type *moved(const Type *from, int64_t bytes) {
        return const_cast<Type *>(reinterpret_cast<const Type *>(
                reinterpret_cast<const char *>(from) + bytes));
    }
    template <bool masks>
    __device__ Type element(const Type *from) const {
        if constexpr (!masks) return *from;
        return *moved(from, out) = gradient(*moved(from, src), *from);
    }
    static __device__ Type gradient(Type src, Type diff_dst) {
        return widen(src) > 0 ? diff_dst : narrow<Type>(sum_of<Type>(0));
    }

    /// The words of a batch; of two tensors by halves, so that as many loads are on
    /// their way.
    template <bool masks, bool whole, int count>
    struct batch {
        static constexpr int half = in_flight / 2;
        const summed &of;
        const Type *places[half];
        pack<Type, count> gates[half];

        /// The word with number i, if so many are left.
        __device__ void load(pack<Type, count> (&words)[in_flight], int i,
                int left, const Type *from) {
            if (i < left) load_into<whole>(words[i], from);
            if constexpr (masks) {
                places[i % half] = from;
                if (i < left)
                    load_into<whole>(gates[i % half], moved(from, of.src));
                if (i % half < half - 1) return;
#pragma unroll
                for (int j = 0; j < half; ++j)
                    if (i - i % half + j < left)
                        write(words[i - i % half + j], gates[j], places[j]);
            }
        }
        __device__ void write(pack<Type, count> &word,
                const pack<Type, count> &gate, const Type *from) const {
            Type made[count], src[count];
            memcpy(made, &word.bits, sizeof made);
            memcpy(src, &gate.bits, sizeof src);
            Type *const to = moved(from, of.out);
#pragma unroll
            for (int e = 0; e < count; ++e) {
                made[e] = gradient(src[e], made[e]);
                if (!whole && count > 1) to[e] = made[e];
            }
            memcpy(&word.bits, made, sizeof made);
            if (whole || count == 1) word.store(to);
        }
    };
};

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
