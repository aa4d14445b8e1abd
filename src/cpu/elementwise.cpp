// relu_backward: out = a > 0 ? b : 0; add: out = a + b; zero_fill: out = 0.
//
// Rows are the last axis, cut into pieces; a thread owns a range of pieces.
// Where all operands are contiguous along it a piece is done in vectors, else
// element by element. relu_backward copies bits of b, add rounds once to the
// tensors' type. Deterministic: every element is computed by itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/elementwise.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/parallel.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

using detail::elementwise_kind;

/// Elements of a piece of a row: its result stays in cache until it is copied
/// out.
constexpr int64_t piece_elements = 2048;

template <elementwise_kind kind, typename T>
T element(T a, T b) {
    if constexpr (kind == elementwise_kind::add) {
        using acc = accumulator_of<T>;
        return convert_scalar<T>(
                convert_scalar<acc>(a) + convert_scalar<acc>(b));
    } else {
        return convert_scalar<accumulator_of<T>>(a) > 0 ? b : T {};
    }
}

// Patterns of positive numbers, +Inf included, as integers: above 0 and at most
// this.
constexpr int16_t infinity_bits(bf16) {
    return 0x7F80;
}
constexpr int16_t infinity_bits(f16) {
    return 0x7C00;
}

template <typename T>
void relu_row(const T *a, const T *b, T *out, size_t count) {
    size_t i = 0;
    if constexpr (sizeof(T) == 2) {
        const hn::ScalableTag<int16_t> d;
        const size_t lanes = hn::Lanes(d);
        for (; i + lanes <= count; i += lanes) {
            const auto va
                    = hn::LoadU(d, reinterpret_cast<const int16_t *>(a + i));
            const auto vb
                    = hn::LoadU(d, reinterpret_cast<const int16_t *>(b + i));
            const auto positive = hn::And(hn::Gt(va, hn::Zero(d)),
                    hn::Lt(va,
                            hn::Set(d,
                                    static_cast<int16_t>(
                                            infinity_bits(T {}) + 1))));
            hn::StoreU(hn::IfThenElseZero(positive, vb), d,
                    reinterpret_cast<int16_t *>(out + i));
        }
    } else {
        const hn::ScalableTag<T> d;
        const size_t lanes = hn::Lanes(d);
        for (; i + lanes <= count; i += lanes) {
            const auto positive = hn::Gt(hn::LoadU(d, a + i), hn::Zero(d));
            hn::StoreU(hn::IfThenElseZero(positive, hn::LoadU(d, b + i)), d,
                    out + i);
        }
    }
    for (; i < count; ++i)
        out[i] = element<elementwise_kind::relu_backward>(a[i], b[i]);
}

template <typename T>
void add_row(const T *a, const T *b, T *out, size_t count) {
    const hn::ScalableTag<accumulator_of<T>> d;
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        store(d, hn::Add(load(d, a + i), load(d, b + i)), out + i);
    for (; i < count; ++i)
        out[i] = element<elementwise_kind::add>(a[i], b[i]);
}

template <elementwise_kind kind, typename T>
void run_row(const T *a, const T *b, T *out, size_t count) {
    if constexpr (kind == elementwise_kind::add)
        add_row(a, b, out, count);
    else
        relu_row(a, b, out, count);
}

template <elementwise_kind kind, typename T>
void run_pieces(const detail::elementwise_problem &problem, bool stream,
        void *const *args, int64_t begin, int64_t end) {
    const auto last = static_cast<size_t>(problem.rank - 1);
    const int64_t row = problem.dims[last];
    const int64_t pieces = (row + piece_elements - 1) / piece_elements;
    const int64_t a_step = problem.a_strides[last];
    const int64_t b_step = problem.b_strides[last];
    const int64_t out_step = problem.out_strides[last];
    for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t at = piece % pieces * piece_elements;
        int64_t rest = piece / pieces;
        int64_t a_offset = at * a_step;
        int64_t b_offset = at * b_step;
        int64_t out_offset = at * out_step;
        for (size_t axis = last; axis-- > 0;) {
            const int64_t index = rest % problem.dims[axis];
            rest /= problem.dims[axis];
            a_offset += index * problem.a_strides[axis];
            b_offset += index * problem.b_strides[axis];
            out_offset += index * problem.out_strides[axis];
        }
        const auto count
                = static_cast<size_t>(std::min(piece_elements, row - at));
        if constexpr (kind == elementwise_kind::zero_fill) {
            T *out = static_cast<T *>(args[0]) + out_offset;
            if (out_step == 1)
                std::memset(out, 0, count * sizeof(T));
            else
                for (size_t i = 0; i < count; ++i)
                    out[static_cast<int64_t>(i) * out_step] = T {};
        } else {
            const T *a = static_cast<const T *>(args[0]) + a_offset;
            const T *b = static_cast<const T *>(args[1]) + b_offset;
            T *out = static_cast<T *>(args[2]) + out_offset;
            if (a_step != 1 || b_step != 1 || out_step != 1) {
                for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
                    out[i * out_step]
                            = element<kind>(a[i * a_step], b[i * b_step]);
            } else if (stream) {
                alignas(64) T stage[static_cast<size_t>(piece_elements)];
                run_row<kind>(a, b, stage, count);
                stream_copy(stage, out, count * sizeof(T));
            } else {
                run_row<kind>(a, b, out, count);
            }
        }
    }
    if (stream) hwy::FlushStream();
}

using piece_function = void (*)(const detail::elementwise_problem &, bool,
        void *const *, int64_t, int64_t);

piece_function piece_function_of(
        elementwise_kind kind, detail::data_type type) {
    piece_function found = nullptr;
    with_type(type, [&](auto t) {
        using T = decltype(t);
        switch (kind) {
            case elementwise_kind::relu_backward:
                found = run_pieces<elementwise_kind::relu_backward, T>;
                break;
            case elementwise_kind::add:
                found = run_pieces<elementwise_kind::add, T>;
                break;
            case elementwise_kind::zero_fill:
                found = run_pieces<elementwise_kind::zero_fill, T>;
                break;
        }
    });
    return found;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(piece_function_of);

namespace {

// Results of more bytes are written past the caches.
constexpr int64_t stream_bytes = 8 << 20;
// Pieces that are worth waking a thread for.
constexpr int64_t grain_pieces = 8;

class elementwise_plan : public detail::plan {
public:
    explicit elementwise_plan(const detail::elementwise_problem &problem)
        : problem_(problem),
          run_(HWY_DYNAMIC_DISPATCH(piece_function_of)(
                  problem.kind, problem.type)),
          target_(simd_target()) {
        const auto last = static_cast<size_t>(problem.rank - 1);
        const int64_t row = problem.dims[last];
        int64_t rows = 1;
        for (size_t axis = 0; axis < last; ++axis)
            rows *= problem.dims[axis];
        constexpr int64_t piece = HWY_NAMESPACE::piece_elements;
        pieces_ = rows * ((row + piece - 1) / piece);
        grain_ = std::max<int64_t>(
                grain_pieces, row < piece ? grain_pieces * piece / row : 0);
        stream_ = problem.kind != detail::elementwise_kind::zero_fill
                && rows * row * detail::size_of(problem.type) >= stream_bytes;
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &) const override {
        detail::parallel_for(pieces_, grain_, [&](int64_t begin, int64_t end) {
            run_(problem_, stream_, args.data(), begin, end);
        });
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    const detail::elementwise_problem problem_;
    const HWY_NAMESPACE::piece_function run_;
    const std::string target_;
    int64_t pieces_ = 0;
    int64_t grain_ = 1;
    bool stream_ = false;
};

} // namespace

plan_or_refusal make_elementwise(
        const detail::elementwise_problem &problem, const compile_options &) {
    return plan_or_refusal(std::make_unique<elementwise_plan>(problem));
}

} // namespace gradnn::cpu
#endif
