// Depthwise in NXC on tensor cores: what the two kernels share.
//
// Eight channels of a pixel are 16 bytes, a row of the 8x8 matrices that warps
// load from shared memory. Sixteen rows of the left matrix are eight channels,
// twice; its 32 columns are eight channels of four pixels, and what stands
// where row and column are of the same channel is all that is not zero. Of four
// neighbouring columns tensor cores take the two that a number says, so that
// such a product costs half of a full one.
#pragma once

#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/device/rounding.hpp"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::depthwise::diagonals {

/// What a lane has of the matrices: with g = lane / 4 and t = lane % 4, of the
/// left one rows (channels) g and, of words 1 and 3, g + 8; of words 0 and 1
/// one of columns 4t to 4t + 3, which are of pixel t / 2, of words 2 and 3 the
/// same 16 columns on, of pixel t / 2 + 2. So it has something where g and 4t
/// to 4t + 3 meet, in the lower half of the word if g is even.
struct lane_place {
    int channel; ///< g
    int pixel; ///< t / 2
    bool any;
    uint32_t mask; ///< of the half, if any
    /// Which two of each four columns the halves of a word are.
    uint32_t selected;

    __device__ lane_place() {
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const int t = lane % 4;
        channel = lane / 4;
        pixel = t / 2;
        any = channel / 4 == t % 2;
        mask = !any ? 0U : channel % 2 == 0 ? 0xffffU : 0xffff0000U;
        selected = channel % 4 < 2 ? 0x44444444U : 0xeeeeeeeeU;
    }
};

// From CUDA 12.5 on; what it promises of the numbers holds here, and without
// the promise Hopper is slower.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1205
#define GRADNN_SPARSE_MMA \
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col."
#else
#define GRADNN_SPARSE_MMA "mma.sp.sync.aligned.m16n8k32.row.col."
#endif

/// sums += left * right: with g and t as above the sums have rows g, g, g + 8,
/// g + 8 and columns 2t, 2t + 1, 2t, 2t + 1; word i of the right matrix has of
/// pixel i of the left one's channels 2t and 2t + 1 and column g.
template <typename Type>
__device__ __forceinline__ void multiply_diagonals(float (&sums)[4],
        const uint32_t (&left)[4], const uint32_t (&right)[4],
        uint32_t selected) {
    if constexpr (std::is_same_v<Type, __half>)
        asm(GRADNN_SPARSE_MMA "f32.f16.f16.f32 {%0, %1, %2, %3}, "
                              "{%4, %5, %6, %7}, {%8, %9, %10, %11}, "
                              "{%0, %1, %2, %3}, %12, 0;"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
                "r"(right[0]), "r"(right[1]), "r"(right[2]), "r"(right[3]),
                "r"(selected));
    else
        asm(GRADNN_SPARSE_MMA "f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                              "{%4, %5, %6, %7}, {%8, %9, %10, %11}, "
                              "{%0, %1, %2, %3}, %12, 0;"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
                "r"(right[0]), "r"(right[1]), "r"(right[2]), "r"(right[3]),
                "r"(selected));
}
#undef GRADNN_SPARSE_MMA

/// A ring of stages in shared memory: some warps copy a stage there, others use it
/// and give it back. A warp waits only for the stage that it needs. Addresses are
/// those of shared memory, of 32 bits.
template <int count>
class stage_queue {
public:
    /// `copy_warps` of a block copy stages, `warps` use them; `memory` has
    /// barriers_bytes. To be followed by __syncthreads.
    __device__ stage_queue(uint32_t memory, int copy_warps, int warps)
        : memory_(memory) {
        if (threadIdx.x != 0) return;
        for (int i = 0; i < count; ++i) {
            begin(memory_ + i * 8, copy_warps * 32);
            begin(memory_ + (count + i) * 8, warps);
        }
    }
    /// Before copies of a stage are submitted, until all are done with the one
    /// whose place it takes.
    __device__ __forceinline__ void wait_for_room(int stage) const {
        if (stage < count) return;
        wait(memory_ + (count + place(stage)) * 8, turn(stage - count));
    }
    /// After the thread has submitted its copies of a stage, or (`stored`)
    /// written them itself.
    __device__ __forceinline__ void submitted(int stage, bool stored) const {
        const uint32_t barrier = memory_ + place(stage) * 8;
        if (stored)
            arrive(barrier);
        else
            asm volatile(
                    "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                            barrier)
                    : "memory");
    }
    /// Until all of a stage is there.
    __device__ __forceinline__ void wait_for(int stage) const {
        wait(memory_ + place(stage) * 8, turn(stage));
    }
    /// By a whole warp.
    __device__ __forceinline__ void done_with(int stage) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(memory_ + (count + place(stage)) * 8);
    }

    static __device__ int place(int stage) { return stage & (count - 1); }

private:
    static_assert((count & (count - 1)) == 0);

    /// Modulo 2: that of the stages that had its place.
    static __device__ uint32_t turn(int stage) {
        return static_cast<uint32_t>(stage) / count & 1U;
    }
    static __device__ void begin(uint32_t barrier, int arrivals) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier),
                     "r"(arrivals)
                     : "memory");
    }
    static __device__ __forceinline__ void arrive(uint32_t barrier) {
        asm volatile("{\n\t"
                     ".reg .b64 state;\n\t"
                     "mbarrier.arrive.shared.b64 state, [%0];\n\t"
                     "}" ::"r"(barrier)
                     : "memory");
    }
    static __device__ __forceinline__ void wait(
            uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
#define GRADNN_MBARRIER_WAIT "mbarrier.try_wait.parity.shared.b64"
#else
#define GRADNN_MBARRIER_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
        uint32_t done = 0;
        while (done == 0)
            asm volatile("{\n\t"
                         ".reg .pred done;\n\t" GRADNN_MBARRIER_WAIT
                         " done, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, done;\n\t"
                         "}"
                         : "=r"(done)
                         : "r"(barrier), "r"(parity)
                         : "memory");
#undef GRADNN_MBARRIER_WAIT
    }

    uint32_t memory_;
};

/// Rows of pixels of some groups of eight channels, on their way from global
/// memory to shared memory, where the groups lie apart and a pixel is 16 bytes:
/// a warp's work. Neighbouring lanes have neighbouring channels, then the next
/// pixel.
template <typename Type>
class pixel_rows {
public:
    /// The tensor has `groups` of the `held` groups; in shared memory they lie
    /// `group_bytes` apart.
    __device__ pixel_rows(int pixels, int64_t pixel_stride, int held,
            int groups, int group_bytes)
        : step_(32 / held), stride_(step_ * static_cast<int>(pixel_stride)) {
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const int pixel = lane / held;
        const int group = lane - pixel * held;
        left_ = group < groups && pixel < step_ ? pixels - pixel : 0;
        global_ = pixel * static_cast<int>(pixel_stride)
                + group * group_channels;
        shared_ = group * group_bytes + pixel * 16;
    }

    /// Submits the copy of a row, at a multiple of 16 bytes as all its pixels,
    /// or of zeros.
    __device__ __forceinline__ void submit(
            uint32_t to, const Type *from, bool zeros) const {
        from += global_;
        to += shared_;
        const int bytes = zeros ? 0 : 16;
        const int64_t stride = zeros ? 0 : stride_;
        constexpr int at_once = 4;
#pragma unroll 1
        for (int left = left_; left > 0; left -= at_once * step_) {
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                asm volatile(
                        "{\n\t"
                        ".reg .pred wanted;\n\t"
                        "setp.gt.s32 wanted, %3, 0;\n\t"
                        "@wanted cp.async.cg.shared.global [%0], [%1], 16, %2;"
                        "\n\t"
                        "}" ::"r"(to + i * step_ * 16),
                        "l"(from), "r"(bytes), "r"(left - i * step_)
                        : "memory");
                from += stride;
            }
            to += at_once * step_ * 16;
        }
    }
    /// Copies a row, wherever it begins, element by element.
    __device__ void copy(uint32_t to, const Type *from, bool zeros) const {
        from += global_;
        to += shared_;
#pragma unroll 1
        for (int left = left_; left > 0; left -= step_) {
#pragma unroll 1
            for (int i = 0; i < group_channels; ++i) {
                unsigned short bits = 0;
                if (!zeros)
                    bits = reinterpret_cast<const unsigned short *>(from)[i];
                store_shared_half(to + i * 2, bits);
            }
            from += stride_;
            to += step_ * 16;
        }
    }

private:
    int step_; ///< pixels that a warp has at once
    int stride_; ///< elements from those to the next
    int left_; ///< pixels from the lane's first to the end
    int global_; ///< elements before the lane's first vector
    int shared_; ///< bytes likewise
};

/// What body.template operator()<Type, size>() returns.
template <typename Body>
auto with_constants(
        detail::data_type type, const problem_shape &shape, const Body &body) {
    return with_half_precision_type(type, [&]<typename Type>() {
        return with_chosen(
                [&]<int size>() {
                    return body.template operator()<Type, size>();
                },
                one_of<5, 7> {shape.axes[1].kernel});
    });
}

} // namespace gradnn::gpu::depthwise::diagonals
