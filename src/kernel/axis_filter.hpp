// What each output of an interpolation reads, as any number of inputs that follow one
// another: filters of more than two taps, and maps that are applied forwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/axis_walk.hpp"

namespace gradnn::detail {

/// Whether outputs of an axis have more taps than axis_walk gives, or are computed
/// themselves.
bool is_filtered(interpolation_mode mode, const interpolation_axis &axis);

/// The taps of outputs: the inputs nearer than the filter's radius, which is 1 for
/// linear and 2 for cubic, times the ratio where antialias widens it. Weights are made in
/// long double and rounded once, to double; one of them may be 0.
class axis_filter {
public:
    /// Of a forward axis src and dst change places here: src is what outputs read.
    /// Throws unimplemented where outputs have more weights than memory is for.
    axis_filter(interpolation_mode mode, coordinate_mode coordinates,
            const interpolation_axis &axis);

    struct taps {
        int64_t low = 0;
        std::span<const double> weights; ///< of inputs low, low + 1, ...
    };
    /// Neither `low` nor the end of the taps descends from an output to the next. The
    /// weights are there until the next call.
    taps at(int64_t output);

    /// Inputs that an output touches, clamped ones with it, at most.
    int64_t width() const { return width_; }
    const axis_walk &walk() const { return walk_; }
    /// The same coordinates on an axis of another size.
    void resize(int64_t src, int64_t dst) { walk_.resize(src, dst); }

private:
    void weigh_four(long double part, long double rest);
    /// At a distance of (k - rest / den) elements.
    long double filter(int64_t k, const axis_walk::position &) const;

    axis_walk walk_;
    bool cubic_;
    bool plain_; ///< at most two taps
    bool antialias_;
    bool exclude_outside_;
    long double slope_at_one_; ///< of the cubic filter
    /// How many times wider the filter is: a quotient of whole numbers where it is
    /// one of sizes.
    long double stretch_ = 1;
    long double stretch_den_ = 1;
    long double radius_ = 1;
    int64_t width_ = 2;
    std::vector<long double> sums_;
    std::vector<double> weights_;
};

} // namespace gradnn::detail
