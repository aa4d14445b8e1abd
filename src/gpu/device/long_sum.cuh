// Plain sums, and sums of any number of terms that keep their digits, for the few places
// where a thread adds up more terms than plain sums can take.
#pragma once

#include <cuda_runtime.h>

namespace gradnn::gpu {

/// A sum of a few thousand terms.
template <typename Sum>
class plain_sum {
public:
    __device__ void add(Sum value) { total_ += value; }
    __device__ void add(const plain_sum &other) { total_ += other.total_; }
    __device__ Sum value() const { return total_; }

private:
    Sum total_ = 0;
};

/// Of f32 sums: in f64. Their error is 2^-53 a term.
template <typename Sum>
class long_sum : public plain_sum<double> {};

/// Of f64 sums: compensated (Knuth's two-sum). What each addition rounds away is
/// summed beside them, so that the error does not grow with the terms.
template <>
class long_sum<double> {
public:
    __device__ void add(double value) {
        const double sum = total_ + value;
        const double part = sum - total_;
        lost_ += (total_ - (sum - part)) + (value - part);
        total_ = sum;
    }
    __device__ void add(const long_sum &other) {
        add(other.total_);
        lost_ += other.lost_;
    }
    /// Where the sum is infinite, what was lost is not a number.
    __device__ double value() const {
        return isfinite(total_) ? total_ + lost_ : total_;
    }

private:
    double total_ = 0;
    double lost_ = 0;
};

} // namespace gradnn::gpu
