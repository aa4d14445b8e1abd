#include <algorithm>

#include "gpu/interpolation/resample/cuts.hpp"

namespace gradnn::gpu::resample {

namespace {

/// The vectors of 16 bytes and fewer that divide the inner elements, the longest first.
std::vector<int> vectors_of(const problem_specification &p) {
    std::vector<int> made;
    for (int vector = 16 / bytes_of(read_type_of(p)); vector >= 1; vector /= 2)
        if (is_of_vectors(p, vector)) made.push_back(vector);
    // Narrower ones save registers, where there are many sums; not far narrower ones.
    if (made.size() > 2) made.resize(2);
    return made;
}

/// Elements of a load along the columns of a window.
std::vector<int> read_vectors_of(
        const problem_specification &p, int tile_step, bool one_tile) {
    std::vector<int> made;
    const int bytes = bytes_of(p.type);
    for (int vector = 16 / bytes_of(read_type_of(p)); vector >= 1; vector /= 2)
        if (vector == 1
                || (p.column.read_pitch == 1
                        && (one_tile || tile_step % vector == 0)
                        && p.column.read % vector == 0
                        && (p.reads_sums || p.alignment % (vector * bytes) == 0)
                        && pitches_divide(p, vector, false)))
            made.push_back(vector);
    if (made.size() > 2) made.resize(2);
    return made;
}

} // namespace

std::vector<cut> columns_of(const problem_specification &p) {
    std::vector<cut> made;
    for (const int vector : vectors_of(p)) {
        cut c {};
        c.vector = vector;
        c.read_vector = 1;
        for (const int columns : {1, 2, 4, 8}) {
            c.columns = columns;
            if (columns > p.column.written) break;
            // Places of its own.
            if (columns == 1) {
                made.push_back(c);
            } else if (columns <= 4 && p.column.is_there()
                    && vector * bytes_of(p.type) <= 8
                    && columns * p.column.most_taps <= 24) {
                made.push_back(c);
                // Where a warp does not have the vectors of a position.
                c.apart = p.inner / vector < 32;
                if (c.apart) made.push_back(c);
                c.apart = false;
            }
        }
        if (p.columns.written == 0) continue;
        for (int columns = p.columns.written; columns <= most_columns;
                columns += p.columns.written) {
            if (columns > p.column.written
                    || columns * vector > (vector > 1 ? 16 : 8))
                continue;
            cut window = c;
            window.columns = columns;
            window.repeated = true;
            const int step = p.columns.read * (columns / p.columns.written);
            const auto read_vectors = vector > 1
                    ? std::vector {1}
                    : read_vectors_of(p, step, columns >= p.column.written);
            for (const int read_vector : read_vectors) {
                window.read_vector = read_vector;
                made.push_back(window);
                if (read_vector == 1 || p.reads_sums) continue;
                cut exchanged = window;
                exchanged.exchanged = true;
                const geometry g = geometry_of_columns({p, exchanged});
                if (g.fits && g.left + g.right > 0) made.push_back(exchanged);
            }
        }
    }
    return made;
}

} // namespace gradnn::gpu::resample
