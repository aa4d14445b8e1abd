// The bias gradient: diff_bias[c] = sum over n and space of diff_dst.
//
// The first launch leaves partial sums in the workspace, one of two ways; a
// second (final_kernel) adds them up:
// - columns_kernel, where diff_dst is dense memory that repeats the channels
//   every `period` elements (NXC; NCX with small planes, whose period is C
//   times the plane): memory is a matrix of rows of lcm(period, vector)
//   elements, a thread owns one 16-byte column of it and walks down the rows
//   of its part, so that every element of the vector belongs to one channel
//   however odd C is.
// - rows_kernel, for all else (NCX, any strides): a warp sums runs of elements
//   along the innermost axes of one channel.
// diff_dst is read once, in contiguous pieces. Which elements a thread adds,
// and in which order, follows from the shape and the device alone; sums of
// threads and parts are added in order of their number. No atomics.
#include <algorithm>
#include <numeric>

#include "gpu/bias/columns.cuh"
#include "gpu/bias/final.cuh"
#include "gpu/bias/rows.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"

namespace gradnn::gpu::bias {

namespace {

/// Into how many parts, at most `most`, work goes that has `each` blocks (or
/// warps) a part, so that it fills what the device holds at a time, `wave`, a
/// whole number of times, with at most a tenth left empty: a small rest would run
/// alone at the end.
int64_t parts_of(int64_t each, int64_t wave, int64_t most) {
    int64_t best = 1;
    double best_share = 0;
    for (int64_t waves = 1; waves <= 8; ++waves) {
        const int64_t parts = std::min(waves * wave / each, most);
        if (parts == 0) continue;
        const double share = static_cast<double>(parts * each)
                / static_cast<double>(waves * wave);
        if (share > best_share) {
            best = parts;
            best_share = share;
        }
        if (share >= 0.9 || parts == most) break;
    }
    return best;
}

class reduce_plan final : public kernel_plan {
public:
    reduce_plan(const bias_problem &problem, int device) : problem_(problem) {
        // One wave, which leaves the final kernel room to start early. Three
        // waves took up to 14 % longer on an H200, clusters that add up their
        // sums without a final kernel up to 20 % (and 3 % less at best).
        const int64_t wave = int64_t {properties_of(device).multiprocessors}
                * (resident - 1);
        if (!plan_columns(wave)) plan_rows(wave * warps);
    }

    size_t workspace_bytes() const override {
        const size_t bytes
                = problem_.diff_dst.type == detail::data_type::f64 ? 8 : 4;
        return static_cast<size_t>(partials_) * bytes;
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        with_float_type(problem_.diff_dst.type, [&]<typename Type>() {
            auto *partials = reinterpret_cast<sum_of<Type> *>(workspace);
            const auto *from = static_cast<const Type *>(args[0]);
            partial_shape final_shape;
            final_shape.channels = problem_.diff_dst.dims[1];
            if (columns_) {
                run_columns(from, partials, stream);
                final_shape.channel_stride = run_;
                final_shape.count = partials_ / period_;
                final_shape.stride = period_;
                final_shape.run = run_;
            } else {
                run_rows(from, partials, stream);
                final_shape.channel_stride = parts_;
                final_shape.run = parts_;
            }
            if (wide())
                finish(partials, static_cast<float *>(args[1]), final_shape,
                        stream);
            else
                finish(partials, static_cast<Type *>(args[1]), final_shape,
                        stream);
        });
    }

    /// Whether diff_bias is of f32 where diff_dst is not.
    bool wide() const {
        return problem_.diff_bias_type != problem_.diff_dst.type;
    }

    // Dense memory, channels repeating: NXC (period C, runs of 1), or NCX with
    // planes too small for a warp (period C * plane, runs of a plane).
    bool plan_columns(int64_t wave) {
        const auto &dims = problem_.diff_dst.dims;
        const auto &strides = problem_.diff_dst.strides;
        const int64_t channels = dims[1];
        const int64_t space = dims[2] * dims[3] * dims[4];
        const auto dense_from
                = [&](int64_t stride, std::initializer_list<size_t> axes) {
                      for (const size_t axis : axes) {
                          if (dims[axis] != 1 && strides[axis] != stride)
                              return false;
                          stride *= dims[axis];
                      }
                      return true;
                  };
        if (channels > 1 && strides[1] == 1
                && dense_from(channels, {4, 3, 2, 0})) {
            period_ = channels;
            run_ = 1;
        } else if (space < 512 && dims[0] >= 4
                && dense_from(1, {4, 3, 2, 1, 0})) {
            period_ = channels * space;
            run_ = space;
        } else {
            return false;
        }
        elements_ = dims[0] * channels * space;
        const int64_t bytes = detail::size_of(problem_.diff_dst.type);
        const int64_t vector = 16 / bytes;
        row_elements_ = std::lcm(period_, vector);
        rows_ = ceil_div(elements_, row_elements_);
        const int64_t vectors = row_elements_ / vector;
        const int64_t column_blocks = ceil_div(vectors, threads);
        if (column_blocks > 65535) return false; // a grid's second axis
        lanes_ = static_cast<int>(std::max<int64_t>(1, threads / vectors));
        // A batch of loads a thread, since its sums are written and read; two
        // of 16 bits, whose sums are twice as long as they.
        const int64_t least = in_flight * (bytes == 2 ? 2 : 1);
        parts_ = parts_of(column_blocks, wave, ceil_div(rows_, lanes_ * least));
        partials_ = parts_ * row_elements_;
        columns_ = partials_ < int64_t {1} << 31;
        return columns_;
    }

    template <typename Type>
    void run_columns(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        const int64_t vectors = row_elements_ / elements_of_16_bytes<Type>;
        const dim3 grid(static_cast<unsigned>(parts_),
                static_cast<unsigned>(ceil_div(vectors, threads)));
        launch_early("bias (columns)", columns_kernel<Type>, grid, threads, 0,
                stream, from, partials, elements_, rows_, vectors, lanes_,
                is_aligned(from, 16));
    }

    void plan_rows(int64_t wave) {
        const auto &dims = problem_.diff_dst.dims;
        const auto &strides = problem_.diff_dst.strides;
        shape_.channel_stride = strides[1];
        int last = -1;
        for (const size_t axis :
                {size_t {4}, size_t {3}, size_t {2}, size_t {0}}) {
            if (dims[axis] == 1) continue;
            if (last >= 0
                    && strides[axis]
                            == shape_.strides[last] * shape_.dims[last]) {
                shape_.dims[last] *= dims[axis];
                continue;
            }
            ++last;
            shape_.dims[last] = dims[axis];
            shape_.strides[last] = strides[axis];
        }
        shape_.rows = shape_.dims[1] * shape_.dims[2] * shape_.dims[3];
        const int64_t length = shape_.dims[0];
        const int64_t vector = 16 / detail::size_of(problem_.diff_dst.type);
        bool alike = length % vector == 0; // all rows begin with a pack
        for (const int64_t stride : {shape_.strides[1], shape_.strides[2],
                     shape_.strides[3], shape_.channel_stride})
            alike = alike && stride % vector == 0;
        if (shape_.strides[0] == 1 && length >= vector)
            shape_.packs = (alike ? length : length - vector + 1) / vector;
        shape_.singles = length - shape_.packs * vector;
        // A batch of loads each.
        const int64_t items = shape_.packs > 0 ? shape_.packs : shape_.singles;
        const int64_t most = ceil_div(items * shape_.rows, 32 * in_flight);
        const int64_t channels = dims[1];
        parts_ = parts_of(channels, wave, most);
        partials_ = parts_ * channels;
    }

    template <typename Type>
    void run_rows(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        launch_early("bias (rows)", rows_kernel<Type>,
                ceil_div(partials_, warps), threads, 0, stream, from, partials,
                shape_, problem_.diff_dst.dims[1], parts_,
                is_aligned(from, 16));
    }

    template <typename Sum, typename Result>
    void finish(const Sum *partials, Result *diff_bias,
            const partial_shape &shape, const launch_stream &stream) const {
        // About 8 sums a thread.
        int lanes = least_lanes;
        while (lanes < final_threads && shape.count * shape.run > 8 * lanes)
            lanes *= 2;
        launch_early("bias (final)", final_kernel<Sum, Result>,
                ceil_div(shape.channels, final_threads / lanes), final_threads,
                0, stream, partials, diff_bias, problem_.diff_bias_stride,
                shape, lanes);
    }

    bias_problem problem_;
    int64_t parts_ = 1;
    int64_t partials_ = 0;
    // columns
    bool columns_ = false;
    int64_t period_ = 0;
    int64_t run_ = 1;
    int64_t elements_ = 0;
    int64_t row_elements_ = 0;
    int64_t rows_ = 0;
    int lanes_ = 1;
    // rows
    channel_shape shape_;
};

} // namespace

plan_or_refusal make(
        const bias_problem &problem, const compile_options &options) {
    return std::make_unique<reduce_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu::bias
