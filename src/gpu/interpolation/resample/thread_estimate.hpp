// What a thread of a resample kernel does, as the estimates of its time need it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "gpu/interpolation/resample/geometry.hpp"
#include "gpu/interpolation/resample/problem_specification.hpp"

namespace gradnn::gpu::resample {

/// Of a warp, addresses.
using lanes = std::array<int64_t, 32>;

/// Positions of the walk that are read for `strip` ones.
double steps_of(const problem_specification &p, int strip);

/// What a thread does, in instructions of one lane and in bytes.
class thread_estimate {
public:
    thread_estimate(const specification_of_kernel &s, const geometry &g,
            const mapped_problem &of);
    double instructions() const;
    /// Cycles from begin to end, if nothing else runs.
    double path() const;
    /// Of a warp; its lanes' addresses are those of the middle of the problem.
    double wavefronts() const;
    /// Of a warp, what the second cache takes for stores, in turns of a sector of 32 bytes
    /// that is written in part; a whole one takes half as long.
    double sectors() const;
    /// That a thread has on their way and that no neighbour has, at most.
    double bytes_in_flight() const;

private:
    /// Of a warp's lanes, the addresses of a unit that they load, or of a column that they
    /// store.
    lanes places(int unit, int column, bool written) const;
    int stored_bytes() const {
        return std::max(c_.vector, g_.write_vector) * bytes_of(p_.type);
    }
    int64_t outer_pitch(bool written) const {
        return written ? p_.outer_write[0] : p_.outer_read[0];
    }
    int64_t first(size_t axis, int64_t position) const {
        const auto &map = of_.maps[axis];
        return map.first(std::min(position, map.src - 1));
    }
    static int64_t pitch(const axis &of, bool written) {
        return written ? of.write_pitch : of.read_pitch;
    }
    const problem_specification &p_;
    const cut &c_;
    const geometry &g_;
    const mapped_problem &of_;
    bool halves_, read_halves_, shared_;
    bool periods_; ///< of rows, in which nothing is looked up
    int unit_;
    double rows_, steps_, column_taps_;
};

} // namespace gradnn::gpu::resample
