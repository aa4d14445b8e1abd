// Sums along one axis of pieces that are held transposed: element e of as many
// pieces as a vector has lanes is one vector.
//
// Included once for each of Highway's targets, like simd.hpp.
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/interpolation/traffic.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_PASSES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_PASSES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_PASSES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_PASSES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// How the sums of a pass lie, in accumulators. A place of the axis has `count`
/// sums, which are in_step and out_step apart; places are `tap_step` apart.
struct pass_steps {
    int64_t tap_step;
    int64_t count;
    int64_t in_step;
    int64_t out_step;
};

/// Places of one run: each has `taps` of them. With `adjacent` tap_step is one
/// vector, with `dense` the sums of a place follow one another. `ahead` goes a step
/// with each place.
template <int64_t taps, bool adjacent, bool dense, typename Acc>
HWY_NOINLINE void sum_places(const column_taps::column *place, int64_t places,
        const Acc *weights, const Acc *in, const pass_steps &steps,
        gradual_traffic &ahead, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    using vector = hn::VFromD<hn::ScalableTag<Acc>>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const int64_t tap_step = adjacent ? lanes : steps.tap_step;
    const int64_t in_step = dense ? lanes : steps.in_step;
    const int64_t out_step = dense ? lanes : steps.out_step;
    const int64_t pairs = steps.count / 2;
    const bool odd = steps.count % 2 != 0;
    for (; places > 0; --places, ++place, weights += taps) {
        const Acc *from = in + place->in * tap_step;
        Acc *to = out + place->out * tap_step;
        ahead.step();
        vector weight[static_cast<size_t>(taps)];
#pragma GCC unroll 8
        for (int64_t t = 0; t < taps; ++t)
            weight[t] = hn::Set(tag, weights[t]);
        const auto sum_at = [&](const Acc *at) GRADNN_SIMD_INLINE {
            auto sum = hn::Mul(weight[0], hn::LoadU(tag, at));
#pragma GCC unroll 8
            for (int64_t t = 1; t < taps; ++t)
                sum = hn::MulAdd(
                        weight[t], hn::LoadU(tag, at + t * tap_step), sum);
            return sum;
        };
        for (int64_t k = pairs; k > 0; --k) {
            const auto first = sum_at(from);
            const auto second = sum_at(from + in_step);
            hn::StoreU(first, tag, to);
            hn::StoreU(second, tag, to + out_step);
            from += 2 * in_step;
            to += 2 * out_step;
        }
        if (odd) hn::StoreU(sum_at(from), tag, to);
    }
}

/// Places of no taps.
template <typename Acc>
HWY_NOINLINE void clear_places(const column_taps::column *place, int64_t places,
        const pass_steps &steps, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    for (int64_t i = 0; i < places; ++i)
        for (int64_t k = 0; k < steps.count; ++k)
            hn::StoreU(hn::Zero(tag), tag,
                    out + place[i].out * steps.tap_step + k * steps.out_step);
}

/// Places of one run of more taps than a chain has terms.
template <typename Acc>
HWY_NOINLINE void sum_long_places(const column_taps::column *place,
        int64_t places, int64_t taps, const Acc *weights, const Acc *in,
        const pass_steps &steps, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    for (int64_t i = 0; i < places; ++i, weights += taps)
        for (int64_t k = 0; k < steps.count; ++k) {
            const Acc *from
                    = in + place[i].in * steps.tap_step + k * steps.in_step;
            hn::VFromD<hn::ScalableTag<Acc>> sum[1];
            sum_taps<true>(tag, weights, taps, from, steps.tap_step, 0, sum);
            hn::StoreU(sum[0], tag,
                    out + place[i].out * steps.tap_step + k * steps.out_step);
        }
}

/// All places of the axis, of one place of the axes around it.
template <bool adjacent, bool dense, typename Acc>
HWY_INLINE void sum_axis(const column_taps &table, const Acc *in,
        const pass_steps &steps, gradual_traffic &ahead, Acc *out) {
    const column_taps::block &block = table.blocks.front();
    const column_taps::column *place = table.columns.data();
    const Acc *weights = table.weights<Acc>();
    in += block.dst_begin * steps.tap_step;
    for (const column_taps::run &run : table.runs) {
        const int64_t count = run.columns;
        const auto sum = [&](auto known) HWY_ATTR {
            sum_places<decltype(known)::value, adjacent, dense>(
                    place, count, weights, in, steps, ahead, out);
        };
        switch (run.taps) {
            case 0: clear_places(place, count, steps, out); break;
            case 1: sum(std::integral_constant<int64_t, 1>()); break;
            case 2: sum(std::integral_constant<int64_t, 2>()); break;
            case 3: sum(std::integral_constant<int64_t, 3>()); break;
            case 4: sum(std::integral_constant<int64_t, 4>()); break;
            case 5: sum(std::integral_constant<int64_t, 5>()); break;
            case 6: sum(std::integral_constant<int64_t, 6>()); break;
            case 7: sum(std::integral_constant<int64_t, 7>()); break;
            case 8: sum(std::integral_constant<int64_t, 8>()); break;
            default:
                sum_long_places(
                        place, count, run.taps, weights, in, steps, out);
        }
        place += count;
        weights += run.taps * count;
    }
}

/// A pass over a group's pieces, of which `outer` places of the axes around the
/// pass' one are summed.
template <typename Acc>
HWY_INLINE void sum_pass(const piece_pass &pass, int64_t outer, const Acc *in,
        gradual_traffic &ahead, Acc *out) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const int64_t step = pass.inner * lanes;
    if (pass.inner >= outer) {
        const pass_steps steps {step, pass.inner, lanes, lanes};
        for (int64_t o = 0; o < outer; ++o) {
            sum_axis<false, true>(pass.table, in, steps, ahead, out);
            in += pass.dst * step;
            out += pass.src * step;
        }
        return;
    }
    const pass_steps steps {step, outer, pass.dst * step, pass.src * step};
    for (int64_t i = 0; i < pass.inner; ++i, in += lanes, out += lanes) {
        if (pass.inner == 1)
            sum_axis<true, false>(pass.table, in, steps, ahead, out);
        else
            sum_axis<false, false>(pass.table, in, steps, ahead, out);
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
