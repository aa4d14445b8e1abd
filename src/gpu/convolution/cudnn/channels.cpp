#include "gpu/convolution/cudnn/arrangement.hpp"

#include <algorithm>

#include "gpu/convolution/facts.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::cudnn {

// 16-bit kernels read 8 channels at a time; of others cuDNN makes filled copies of its
// own, or reads them one by one. Not where more than a third would be zeros, unless both
// tensors are filled and that adds an eighth at most: cuDNN, left to it, copies the long
// one too (354 channels to 9 took it 90 us in copies of its own, of 245, on an H200).
//
// What could be read in place is copied to be filled for gradients of weights and for
// those of src with strides: H100, a39b004 with these copies, 26 convolutions in NXC,
// 0.57 to 0.95 and 0.68 to 1.08 of the time; other data 0.89 to 1.14, through windows
// of 1x1 up to 2.7 times.
channel_counts filled_channels(
        const convolution_problem &p, bool src_staged, bool dst_staged) {
    const channel_counts callers {p.src.dims[1], p.dst.dims[1]};
    const channel_counts filled {round_up(callers.src, channels_at_once),
            round_up(callers.dst, channels_at_once)};
    const bool gains = is_of_weights(p)
            || (is_to_src(p) && std::ranges::max(p.strides) > 1);
    const auto elements_of_image = [&](const channel_counts &channels) {
        return positions_of(p.src) * channels.src
                + positions_of(p.dst) * channels.dst;
    };
    const bool adds_little = filled.src != callers.src
            && filled.dst != callers.dst
            && 8 * elements_of_image(filled) <= 9 * elements_of_image(callers);
    const auto can = [&](int64_t from, int64_t to, bool staged) {
        return from == to
                || ((staged || gains) && (2 * to <= 3 * from || adds_little));
    };
    return can(callers.src, filled.src, src_staged)
                    && can(callers.dst, filled.dst, dst_staged)
            ? filled
            : callers;
}

} // namespace gradnn::gpu::cudnn
