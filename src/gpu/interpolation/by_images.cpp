#include "gpu/interpolation/by_images.hpp"

#include <array>
#include <memory>
#include <utility>

#include "base/text.hpp"

namespace gradnn::gpu::interpolation {

namespace {

using detail::tensor_view;

bool has_whole_rows(const tensor_view &view) {
    return view.dims[4] == 1 || view.strides[4] == 1;
}

bool is_apart(const tensor_view &view) {
    return view.dims[1] != 1
            && view.strides[0] != view.dims[1] * view.strides[1];
}

class images_plan final : public detail::plan {
public:
    images_plan(std::unique_ptr<detail::plan> of_one,
            const interpolation_problem &problem)
        : of_one_(std::move(of_one)),
          images_(problem.diff_dst.dims[0]),
          steps_ {problem.diff_dst.strides[0], problem.diff_src.strides[0]} {
        for (int64_t &step : steps_)
            step *= detail::size_of(problem.diff_dst.type);
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        std::array<void *, 2> image {args[0], args[1]};
        for (int64_t left = images_; left > 0; --left) {
            of_one_->execute(image, workspace, stream);
            for (size_t index = 0; index < image.size(); ++index)
                image[index] = static_cast<std::byte *>(image[index])
                        + steps_[index];
        }
    }

    size_t workspace_bytes() const override {
        return of_one_->workspace_bytes();
    }
    std::string backend() const override {
        return detail::text(of_one_->backend(), " (image by image)");
    }
    bool deterministic() const override { return of_one_->deterministic(); }

private:
    const std::unique_ptr<detail::plan> of_one_;
    const int64_t images_;
    std::array<int64_t, 2> steps_; ///< bytes between images
};

} // namespace

bool has_images_apart(const interpolation_problem &problem) {
    const tensor_view &dst = problem.diff_dst;
    const tensor_view &src = problem.diff_src;
    return dst.dims[0] > 1 && has_whole_rows(dst) && has_whole_rows(src)
            && (is_apart(dst) || is_apart(src));
}

plan_or_refusal make_by_images(const interpolation_problem &problem,
        const compile_options &options, interpolation_maker *make) {
    plan_or_refusal whole = make(problem, options);
    if (whole.plan || !has_images_apart(problem)) return whole;
    interpolation_problem one = problem;
    one.diff_dst.dims[0] = one.diff_src.dims[0] = 1;
    plan_or_refusal of_one = make(one, options);
    if (!of_one.plan) return of_one;
    return std::make_unique<images_plan>(std::move(of_one.plan), problem);
}

} // namespace gradnn::gpu::interpolation
