// The form that takes everything, compiled ahead of time: how threads share it, and its launch.
#pragma once

#include <array>

#include "gpu/interpolation/cuts.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::resample {

/// The maps of a problem's axes on the device: places and weights of walk, middle and column, the
/// steps of the walk, and where rows of weights of their own lengths begin.
using device_tables = std::array<device_buffer, 10>;
device_tables upload_tables(int device, const mapped_problem &);

template <typename Sum>
tables<Sum> tables_at(const device_tables &of, const fused_places &others) {
    const auto axis = [&](size_t a) {
        return axis_table<Sum> {of[2 * a].as<place>(), of[2 * a + 1].as<Sum>(),
                of[7 + a].as<long long>()};
    };
    return {axis(0), axis(1), axis(2), of[6].as<step<Sum>>(), others};
}

constexpr int generic_threads = 128;
/// What the kernel is compiled for: `shared` are long sums.
enum class work { plain, with_ops, shared };

/// A thread has `vector` inner elements of up to `outers` positions of the first outer axis, of
/// `together` at once, and takes `chunk` neighbouring taps of long sums at a time.
struct sharing {
    bool shared; ///< long sums, whose taps some threads share
    bool ones; ///< the columns' weights are all 1
    int vector = 1, together = 1, chunk = 1, outers = 1;
    int side = 1; ///< threads of neighbouring vectors, a power of two
    int lanes = 1, parts = 1; ///< threads of a block, and blocks, of a sum
    int sides = 1, outer_parts = 1; ///< of the vectors, of the outer axis
    int64_t places = 1, groups = 1; ///< of diff_src, of threads of a sum
};

/// Of long sums the shape alone says which thread has which taps; else the order is the same
/// whatever threads have, which are enough for a device that holds `resident` at a time.
inline sharing sharing_of(const problem_specification &p, bool shared,
        bool ones, long long resident) {
    constexpr int least_chunks = 4, most_chunks = 64, most_parts = 128;
    constexpr int several = 4, most_outers = 32; // positions
    const int widest = 16 / bytes_of(p.type);
    sharing made {shared, ones};
    // Not by pitches, which are none where there is one image.
    if (shared ? p.inner % widest == 0 && p.column.read_pitch % widest == 0
               : is_of_vectors(p, widest)) {
        made.vector = widest;
    } else {
        if (shared && p.column.read_pitch == 1
                && p.column.most_taps >= 2 * widest)
            made.chunk = widest;
        if (!ones && p.outer[0] >= several
                && (made.chunk == 1 || p.outer_read[0] % widest == 0))
            made.together = several;
    }
    const int vectors = p.inner / made.vector;
    if (shared) {
        const long long chunks = 1LL * p.walk.most_taps * p.middle.most_taps
                * ceil_div(p.column.most_taps, made.chunk);
        made.outers = made.together;
        while (made.side < vectors && made.side < (made.vector > 1 ? 4 : 32))
            made.side *= 2;
        while (made.side * made.lanes < generic_threads
                && chunks >= 2LL * least_chunks * made.lanes)
            made.lanes *= 2;
        while (made.parts < most_parts
                && chunks >= 2LL * most_chunks * made.lanes * made.parts)
            made.parts *= 2;
    } else {
        made.outers = several;
        while (made.outers < most_outers
                && elements_of(p) / made.vector >= 4 * resident * made.outers)
            made.outers *= 2;
        made.outers = least(made.outers, p.outer[0]);
    }
    made.sides = ceil_div(vectors, made.side);
    made.outer_parts = ceil_div(p.outer[0], made.outers);
    made.places
            = int64_t {p.walk.written} * p.middle.written * p.column.written;
    made.groups = made.sides * made.places * made.outer_parts * p.outer[1]
            * p.outer[2] * p.outer[3];
    return made;
}

/// Tensors at any multiple of their elements. The bits are those of all other forms, but for long
/// sums, which are added up in `sums` where blocks share them.
void launch_generic(const char *name, const problem_specification &,
        const device_tables &, const launch_stream &, const void *read,
        void *written, const fused_places &others,
        const sharing *long_sums = nullptr, std::byte *sums = nullptr);

} // namespace gradnn::gpu::resample
