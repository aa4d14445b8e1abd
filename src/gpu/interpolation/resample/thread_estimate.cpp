#include "gpu/interpolation/resample/thread_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace gradnn::gpu::resample {

namespace {

/// What 32 lanes take to load `bytes` each from these addresses: lines of the first cache, or
/// turns of the 32 banks of shared memory.
double wavefronts_of(const lanes &addresses, int bytes, bool shared) {
    double count = 0;
    const int at_once = bytes > 4 ? 128 / bytes : 32;
    for (size_t first = 0; first < 32; first += static_cast<size_t>(at_once)) {
        std::array<int64_t, 32> seen {};
        std::array<int, 32> of_bank {};
        int words = 0, lines = 0, worst = 0;
        for (int lane = 0; lane < at_once; ++lane) {
            const int64_t address
                    = addresses[first + static_cast<size_t>(lane)];
            const auto end = seen.begin() + words;
            const int64_t key = address / (shared ? std::max(4, bytes) : 128);
            if (std::find(seen.begin(), end, key) != end) continue;
            seen[static_cast<size_t>(words++)] = key;
            ++lines;
            if (!shared) continue;
            for (int word = 0; word < std::max(1, bytes / 4); ++word)
                worst = std::max(worst,
                        ++of_bank[static_cast<size_t>(
                                (address / 4 + word) % 32)]);
        }
        count += shared ? worst : lines;
    }
    return count;
}

/// Sectors of 32 bytes that 32 lanes store to, where those that are written in part count once
/// and whole ones half, as the mean of four rows so many bytes apart.
double sectors_of(const lanes &addresses, int bytes, int64_t row) {
    constexpr int sector = 32;
    double count = 0;
    lanes sorted = addresses;
    std::sort(sorted.begin(), sorted.end());
    for (int number = 0; number < 4; ++number) {
        int64_t last = -1, covered = 0;
        const auto finish = [&] {
            if (covered > 0) count += covered < sector ? 1 : 0.5;
        };
        for (const int64_t address : sorted)
            for (int64_t at = address + number * row, end = at + bytes;
                    at < end;) {
                const int64_t next = std::min(end, (at / sector + 1) * sector);
                if (at / sector != last) {
                    finish();
                    covered = 0;
                }
                last = at / sector;
                covered += next - at;
                at = next;
            }
        finish();
    }
    return count / 4;
}

} // namespace

/// Positions of the walk that are read for `strip` ones.
double steps_of(const problem_specification &p, int strip) {
    const double ratio = static_cast<double>(p.walk.read) / p.walk.written;
    const bool parts = p.walk.two && strip < p.walk.written;
    return strip * ratio + (parts ? std::max(1.0, ratio) : 0);
}

thread_estimate::thread_estimate(const specification_of_kernel &s,
        const geometry &g, const mapped_problem &of)
    : p_(s.of), c_(s.cut_by), g_(g), of_(of) {
    halves_ = bytes_of(p_.type) == 2;
    read_halves_ = bytes_of(read_type_of(p_)) == 2;
    shared_ = c_.stages > 0 || p_.reads_sums;
    unit_ = std::max(c_.vector, c_.read_vector);
    periods_ = period_of(p_.rows).rows > 0
            && (c_.ahead == 0 || rows_are_copied(p_, c_));
    rows_ = p_.middle.is_there()
            ? static_cast<double>(p_.middle.most_taps + p_.middle.least_taps)
                    / 2
            : 1;
    steps_ = p_.walk.is_there() ? steps_of(p_, c_.strip) : 1;
    column_taps_ = g_.rolled ? p_.column.most_taps : 0;
}

double thread_estimate::instructions() const {
    const double of_row = c_.columns * c_.vector;
    double taps = 0, kept = 0;
    for (int k = 0; k < c_.columns && !g_.rolled; ++k) {
        taps += g_.taps[k];
        if (!(c_.repeated && g_.fixed[k])) kept += g_.taps[k];
    }
    double checked = 0;
    for (int u = 0; u < g_.units && !g_.rolled; ++u)
        checked += g_.always_inside[u] ? 0 : 1.5;
    const int exchanged = c_.exchanged ? g_.left + g_.right : 0;
    double row = g_.units * (1 + (read_halves_ ? unit_ : 0)) + checked
            + taps * c_.vector + 2.0 * exchanged * sum_words(p_);
    // Each column has its own address.
    if (!c_.repeated && c_.vector == 1 && p_.column.is_there())
        row += c_.columns;
    if (g_.rolled)
        row = column_taps_ * (4 + c_.vector * (read_halves_ ? 2 : 1)) + 8;
    if (!p_.column.is_there()) row -= taps * c_.vector;
    if (p_.middle.is_there()) row += of_row + 4;
    double step = rows_ * row;
    double written = c_.vector > 1
            ? c_.columns * (1 + (halves_ ? c_.vector / 2.0 : 0))
            : static_cast<double>(c_.columns) / g_.write_vector
                    * (halves_ ? 2 : 1);
    written += of_row + 4;
    // Tiles keep the columns.
    const double begin = shared_ ? 18 : 60 + kept * 2 + c_.columns * 4;
    if (!p_.walk.is_there()) return begin + step + written;
    // Where rows repeat there is nothing to look up, and no sums move.
    step += of_row * (p_.walk.two ? 2 : 1) + (periods_ ? 3 : 11);
    written += periods_ ? 3 : of_row * 1.5 + 5;
    return begin + 30 + steps_ * step + c_.strip * written;
}

double thread_estimate::path() const {
    const bool shared = shared_;
    double chain = 4.0 * (g_.rolled ? column_taps_ : g_.taps[0]) + 20;
    const double load = shared ? 40 : 700;
    if (g_.rolled) chain += column_taps_ / 4 * load;
    // Rows of the middle axis are unrolled.
    double step = load + rows_ * chain;
    if (c_.ahead > 1) step = std::max(load / c_.ahead, chain);
    if (periods_ && c_.ahead == 0)
        step = load / period_of(p_.rows).rows + rows_ * chain;
    const double begin = shared ? 40 : 2000;
    return begin + steps_ * (step + (p_.walk.is_there() ? 30 : 0));
}

double thread_estimate::wavefronts() const {
    const int bytes = bytes_of(read_type_of(p_));
    double of_row = 0;
    const int units = g_.rolled ? 1 : g_.units;
    for (int u = 0; u < units; ++u)
        of_row += wavefronts_of(places(u, 0, false), unit_ * bytes, shared_);
    if (g_.rolled) of_row *= column_taps_;
    if (c_.exchanged) of_row += (g_.left + g_.right) * sum_words(p_);
    double of_store = 0;
    for (int k = 0; k < c_.columns; k += g_.write_vector)
        of_store += c_.gathers
                ? wavefronts_of(places(0, k, true), stored_bytes(), true)
                : 1;
    // Places and weights, which threads that read global memory load each time.
    double found = 0;
    for (int k = 0; k < c_.columns && c_.stages == 0 && !p_.reads_sums; ++k)
        if (!c_.repeated || !g_.fixed[k]) found += 2.0 + g_.taps[k];
    return found + steps_ * (rows_ * of_row + 1)
            + (p_.walk.is_there() ? c_.strip : 1) * of_store;
}

double thread_estimate::sectors() const {
    if (c_.gathers) return 0;
    const int64_t row = bytes_of(p_.type)
            * (p_.middle.is_there()              ? p_.middle.write_pitch
                            : p_.walk.is_there() ? p_.walk.write_pitch
                                                 : p_.outer_write[0]);
    double of_store = 0;
    for (int k = 0; k < c_.columns; k += g_.write_vector)
        of_store += sectors_of(places(0, k, true), stored_bytes(), row);
    return (p_.walk.is_there() ? c_.strip : 1) * of_store;
}

double thread_estimate::bytes_in_flight() const {
    const double ratio
            = static_cast<double>(p_.column.read) / p_.column.written;
    const double of_row = std::min<double>(g_.units * unit_,
                                  std::max(1.0, ratio * c_.columns) * c_.vector)
            * bytes_of(p_.type);
    const double middle = p_.middle.is_there()
            ? static_cast<double>(p_.middle.read) / p_.middle.written
            : 1;
    return of_row * std::max(1.0, std::min(middle, 8.0))
            * std::max(1, c_.ahead);
}

lanes thread_estimate::places(int unit, int column, bool written) const {
    lanes made {};
    const bool tiled = c_.stages > 0;
    for (int lane = 0; lane < 32; ++lane) {
        int64_t rest = tiled ? lane % g_.lanes : lane;
        int64_t at = rest % g_.vectors * c_.vector;
        rest /= g_.vectors;
        const auto tile = static_cast<int>(rest % g_.tiles);
        rest = tiled ? lane / g_.lanes : rest / g_.tiles;
        int64_t position = first_column_of(g_, c_, tile) + column * g_.spread;
        if (!written && c_.repeated)
            position = tile * g_.tile_step + g_.first_position
                    + g_.unit_position[unit];
        else if (!written)
            position = g_.unit_position[unit]
                    + first(2,
                            first_column_of(g_, c_, tile)
                                    + g_.unit_column[unit] * g_.spread);
        at += position * pitch(p_.column, written);
        if (tiled && c_.gathers) {
            at += rest % c_.planes * outer_pitch(written);
            rest /= c_.planes;
        }
        const int64_t middle = rest % p_.middle.written;
        rest /= p_.middle.written;
        at += (written ? middle : first(1, middle)) * pitch(p_.middle, written);
        const int strips = tiled ? c_.parts : g_.strips;
        const int64_t row = std::min<int64_t>(
                rest % strips * c_.strip, p_.walk.written - 1);
        at += written ? row * p_.walk.write_pitch
                      : first(0, row) * p_.walk.read_pitch;
        if (!tiled || !c_.gathers) at += rest / strips * outer_pitch(written);
        const int bytes = bytes_of(written ? p_.type : read_type_of(p_));
        made[static_cast<size_t>(lane)] = (at + (1 << 24)) * bytes;
    }
    return made;
}

} // namespace gradnn::gpu::resample
