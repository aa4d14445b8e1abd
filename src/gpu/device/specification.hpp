// What specifications of kernels have in common. Read by the host, and by the kernels that
// are compiled for them.
#pragma once

namespace gradnn::gpu::jit {

enum class element { f32, f64, bf16, f16 };

constexpr int bytes_of(element type) {
    return type == element::f64 ? 8 : type == element::f32 ? 4 : 2;
}

/// An op of single elements that is computed with the problem: of an element that is read or
/// written, rounded as a tensor between two ops would be, and of that of another tensor at the
/// same place.
enum class fused_op { none, add, relu_backward };

/// Bytes from what is read, or written, to the same element of the other tensors of fused ops.
struct fused_places {
    long long prologue, epilogue[2];
};

/// How many ops a problem has behind it.
template <typename Problem>
constexpr int epilogues_of(const Problem &p) {
    return (p.epilogue[0] != fused_op::none)
            + (p.epilogue[1] != fused_op::none);
}

constexpr int ceil_div(int a, int b) {
    return a / b + (a % b > 0);
}
constexpr int floor_div(int a, int b) {
    return a / b - (a % b < 0);
}
constexpr int round_up(int a, int b) {
    return ceil_div(a, b) * b;
}
constexpr int least(int a, int b) {
    return a < b ? a : b;
}
constexpr int most(int a, int b) {
    return a > b ? a : b;
}

} // namespace gradnn::gpu::jit
